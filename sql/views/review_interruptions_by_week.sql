-- Interruptions by ISO week (named by its Monday, UTC): unexpected and planned ones count, stops by the scheduler do
-- not, hardware is the part of the unexpected ones whose component is hardware.
-- needs: incidents
SELECT
    i.cluster,
    @week(i.interrupted_at) AS week,
    sum(CASE WHEN i.counts_as = 'unexpected' THEN 1 ELSE 0 END) AS unexpected,
    sum(CASE WHEN i.counts_as = 'planned' THEN 1 ELSE 0 END) AS planned,
    sum(CASE WHEN i.counts_as = 'scheduler' THEN 1 ELSE 0 END) AS scheduler_stops,
    sum(CASE WHEN i.counts_as = 'unexpected' AND i.domain = 'hardware' THEN 1 ELSE 0 END) AS hardware,
    sum(CASE WHEN i.counts_as = 'unexpected' AND i.domain = 'unknown' THEN 1 ELSE 0 END) AS unattributed,
    count(DISTINCT i.fault_id) AS faults,
    sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.kind = 'job_interruption' AND NOT i.provisional
GROUP BY i.cluster, @week(i.interrupted_at)
