-- Hosts on which the same component failed again within 28 days of the time before. A fault that stopped many jobs
-- is one failure; GPUs are told apart by serial where it is known.
-- needs: incidents
WITH failures AS (
    SELECT
        i.cluster, i.host, i.component, i.fault_id, max(i.gpu_serial) AS gpu_serial,
        min(coalesce(i.onset_at, i.interrupted_at)) AS at
    FROM incidents i
    WHERE i.host IS NOT NULL AND NOT i.provisional AND i.domain IN ('hardware', 'software') AND i.component <> 'software.bug'
    GROUP BY i.cluster, i.host, i.component, i.fault_id
),
gaps AS (
    SELECT f.*, lag(f.at) OVER (PARTITION BY f.cluster, f.host, f.component ORDER BY f.at, f.fault_id) AS before_at
    FROM failures f
    WHERE f.at IS NOT NULL
)
SELECT
    g.cluster,
    g.host,
    g.component,
    count(*) AS failures,
    sum(CASE WHEN @epoch(g.at) - @epoch(g.before_at) <= 2419200 THEN 1 ELSE 0 END) AS repeats,
    min(g.at) AS first_at,
    max(g.at) AS last_at,
    max(g.gpu_serial) AS gpu_serial
FROM gaps g
GROUP BY g.cluster, g.host, g.component
HAVING sum(CASE WHEN @epoch(g.at) - @epoch(g.before_at) <= 2419200 THEN 1 ELSE 0 END) > 0
