-- Unexpected interruptions by row of Table 5 (arXiv 2407.21783); components without a row stand under their own name.
-- needs: incidents
SELECT
    i.cluster,
    coalesce(i.llama3_row, i.component) AS llama3_row,
    count(*) AS count,
    count(DISTINCT i.fault_id) AS faults,
    sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.counts_as = 'unexpected' AND NOT i.provisional
GROUP BY i.cluster, coalesce(i.llama3_row, i.component)
