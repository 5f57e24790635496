-- Unexpected interruptions by rack of the host that failed first; racks come from host names or records.
-- needs: incidents
SELECT
    i.cluster,
    i.rack,
    count(*) AS interruptions,
    count(DISTINCT i.fault_id) AS faults,
    count(DISTINCT i.host) AS hosts,
    sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.counts_as = 'unexpected' AND NOT i.provisional
GROUP BY i.cluster, i.rack
