-- Clusters side by side: interruptions, faults, cost, and the share without a named cause.
-- needs: incidents
SELECT
    i.cluster,
    sum(CASE WHEN i.counts_as = 'unexpected' THEN 1 ELSE 0 END) AS unexpected,
    sum(CASE WHEN i.counts_as = 'planned' THEN 1 ELSE 0 END) AS planned,
    sum(CASE WHEN i.counts_as = 'scheduler' THEN 1 ELSE 0 END) AS scheduler_stops,
    sum(CASE WHEN i.counts_as = 'unexpected' AND i.domain = 'unknown' THEN 1 ELSE 0 END) AS unattributed,
    count(DISTINCT i.fault_id) AS faults,
    sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours,
    min(i.interrupted_at) AS first_at,
    max(i.interrupted_at) AS last_at
FROM incidents i
WHERE i.kind = 'job_interruption' AND NOT i.provisional
GROUP BY i.cluster
