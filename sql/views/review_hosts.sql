-- What counts against a host: distinct kinds of faults seen, jobs of many hosts that it stopped, jobs of its own that it
-- stopped, faults that stopped nothing. Inputs of the lemon score; thresholds come from the fleet's distribution.
-- needs: incidents
SELECT
    i.cluster,
    i.host,
    min(i.rack) AS rack,
    count(DISTINCT i.cause) AS causes,
    count(DISTINCT i.fault_id) AS faults,
    count(DISTINCT CASE WHEN i.kind = 'job_interruption' AND coalesce(i.n_hosts, 1) > 1 THEN i.fault_id END) AS multi_host,
    count(DISTINCT CASE WHEN i.kind = 'job_interruption' AND coalesce(i.n_hosts, 1) = 1 THEN i.fault_id END) AS single_host,
    count(DISTINCT CASE WHEN i.kind = 'host_fault' THEN i.fault_id END) AS host_faults,
    min(coalesce(i.onset_at, i.interrupted_at)) AS first_at,
    max(coalesce(i.onset_at, i.interrupted_at)) AS last_at,
    sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.host IS NOT NULL AND NOT i.provisional AND i.domain IN ('hardware', 'software') AND i.component <> 'software.bug'
GROUP BY i.cluster, i.host
