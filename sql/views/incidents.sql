-- Incidents as people query them: the current decision of each subject, with a person's label put above it.
-- `decided_component` is what the program said; label_* is what a person said. Labels given to an id that was
-- replaced since follow it.
WITH resolved AS (
    SELECT l.cluster, coalesce(a.incident_id, l.incident_id) AS incident_id,
           l.label_id, l.component, l.note, l.who, l.labelled_at
    FROM labels l
    LEFT JOIN incident_aliases a ON a.cluster = l.cluster AND a.alias = l.incident_id
),
latest AS (
    SELECT cluster, incident_id, max(label_id) AS label_id FROM resolved GROUP BY cluster, incident_id
),
label AS (
    SELECT r.* FROM resolved r
    JOIN latest m ON m.cluster = r.cluster AND m.incident_id = r.incident_id AND m.label_id = r.label_id
)
SELECT
    d.incident_id,
    d.fault_id,
    d.kind,
    d.cluster,
    d.job_id,
    d.attempt,
    d.started_at,
    d.interrupted_at,
    d.onset_at,
    d.last_progress_at,
    d.detected_at,
    coalesce(d.resumed_at, (
        SELECT min(n.started_at) FROM job_runs n
        WHERE n.cluster = d.cluster AND n.job_id = d.job_id AND n.started_at >= d.interrupted_at
          AND n.run_key <> d.run_key
    )) AS resumed_at,
    d.still_running,
    d.time_uncertainty_s,
    d.outcome,
    c.component,
    c.llama3_row,
    d.cause,
    (c.component = 'maintenance.planned') AS planned,
    CASE WHEN d.kind = 'host_fault' THEN NULL ELSE c.counts_as END AS counts_as,
    d.confidence,
    CASE WHEN label.label_id IS NULL THEN d.decided_by ELSE 'label' END AS decided_by,
    coalesce(d.first_host, nullif(d.subject_host, '')) AS host,
    d.first_gpu AS gpu,
    nullif(d.gpu_uuid, '') AS gpu_uuid,
    nullif(d.gpu_serial, '') AS gpu_serial,
    nullif(d.device, '') AS device,
    d.first_rank AS rank,
    coalesce(d.rack, h.rack) AS rack,
    coalesce(nullif(d.driver_version, ''), h.driver_version) AS driver_version,
    d.account,
    d.n_hosts,
    d.n_gpus,
    d.lost_gpu_seconds,
    d.summary,
    d.rules_version,
    d.model_version,
    d.revision,
    d.provisional,
    d.subject_key,
    d.run_key,
    d.component AS decided_component,
    c.domain,
    label.note AS label_note,
    label.who AS label_who,
    label.labelled_at
FROM decisions d
LEFT JOIN label ON label.cluster = d.cluster AND label.incident_id = d.incident_id
JOIN components c ON c.component = coalesce(label.component, d.component)
LEFT JOIN hosts h ON h.cluster = d.cluster AND h.host = coalesce(d.first_host, nullif(d.subject_host, ''))
WHERE d.incident
