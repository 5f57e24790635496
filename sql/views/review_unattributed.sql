-- Interruptions for which no cause could be named: what collecting more logs would be worth, dearest first.
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
    i.summary
FROM incidents i
WHERE i.kind = 'job_interruption' AND i.domain = 'unknown'
