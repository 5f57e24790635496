-- Interruptions for which no cause could be named: what collecting more logs would be worth, and which logs were not
-- seen ([{host, what, from, to, get}]).
-- needs: incidents
SELECT
    i.cluster,
    i.incident_id,
    i.job_id,
    i.attempt,
    i.interrupted_at,
    i.component,
    i.outcome,
    i.confidence,
    i.n_hosts,
    i.n_gpus,
    i.lost_gpu_seconds / 3600.0 AS lost_gpu_hours,
    i.summary,
    d.not_seen
FROM incidents i
JOIN decisions d ON d.cluster = i.cluster AND d.subject_key = i.subject_key
WHERE i.kind = 'job_interruption' AND i.domain = 'unknown' AND NOT i.provisional
