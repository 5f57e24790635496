-- Incidents most worth a person's look: what they cost times how unsure the answer is. Those with a label are done.
-- needs: incidents
SELECT
    i.cluster,
    i.incident_id,
    i.job_id,
    i.interrupted_at,
    i.component,
    i.confidence,
    i.lost_gpu_seconds / 3600.0 AS lost_gpu_hours,
    coalesce(i.lost_gpu_seconds, 0) / 3600.0 * (1 - i.confidence) AS worth,
    i.summary
FROM incidents i
WHERE i.kind = 'job_interruption' AND i.decided_by <> 'label' AND NOT i.provisional
