-- Which hosts were the first to fail, and in what; host faults that stopped no job stand in their own column.
-- needs: incidents
SELECT
    i.cluster,
    i.host,
    i.component,
    sum(CASE WHEN i.kind = 'job_interruption' THEN 1 ELSE 0 END) AS interruptions,
    sum(CASE WHEN i.kind = 'host_fault' THEN 1 ELSE 0 END) AS host_faults,
    count(DISTINCT i.fault_id) AS faults,
    min(coalesce(i.onset_at, i.interrupted_at)) AS first_at,
    max(coalesce(i.onset_at, i.interrupted_at)) AS last_at,
    sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.host IS NOT NULL AND NOT i.provisional
GROUP BY i.cluster, i.host, i.component
