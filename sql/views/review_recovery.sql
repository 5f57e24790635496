-- Seconds from the root evidence until the interruption was detected, from the interruption until its row was first
-- written (diagnosis), from the root evidence until the job ran again, and whether it was handled without a person: a
-- named component, an action, no label.
-- needs: incidents
WITH written AS (
    SELECT v.cluster, v.incident_id, min(v.changed_at) AS written_at
    FROM incident_revisions v
    WHERE v.what = 'new'
    GROUP BY v.cluster, v.incident_id
)
SELECT
    i.cluster,
    i.incident_id,
    i.job_id,
    i.counts_as,
    i.component,
    i.confidence,
    i.interrupted_at,
    @epoch(i.interrupted_at) - @epoch(i.last_progress_at) AS idle_s,
    @epoch(i.detected_at) - @epoch(i.onset_at) AS detection_s,
    @epoch(w.written_at) - @epoch(i.interrupted_at) AS diagnosis_s,
    @epoch(i.resumed_at) - @epoch(i.onset_at) AS recovery_s,
    i.lost_gpu_seconds / 3600.0 AS lost_gpu_hours,
    (i.domain <> 'unknown' AND i.label_who IS NULL AND EXISTS (
        SELECT 1 FROM actions a WHERE a.cluster = i.cluster AND a.incident_id = i.incident_id AND a.state <> 'withdrawn'
    )) AS handled
FROM incidents i
LEFT JOIN written w ON w.cluster = i.cluster AND w.incident_id = i.incident_id
WHERE i.kind = 'job_interruption' AND NOT i.provisional
