-- Seconds from the root evidence until the interruption was detected and until the job ran again, and whether it was
-- handled without a person: a named component, an action, no label.
-- needs: incidents
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
    @epoch(i.resumed_at) - @epoch(i.onset_at) AS recovery_s,
    i.lost_gpu_seconds / 3600.0 AS lost_gpu_hours,
    (i.domain <> 'unknown' AND i.label_who IS NULL AND EXISTS (
        SELECT 1 FROM actions a WHERE a.cluster = i.cluster AND a.incident_id = i.incident_id AND a.state <> 'withdrawn'
    )) AS handled
FROM incidents i
WHERE i.kind = 'job_interruption'
