-- How often each component interrupted a job, with its row of Table 5 (arXiv 2407.21783), the faults behind the
-- interruptions, and what they cost. Percentages are computed by whoever asks, over the period asked for.
-- needs: incidents
SELECT
    i.cluster,
    i.component,
    i.llama3_row,
    i.counts_as,
    i.domain,
    count(*) AS count,
    count(DISTINCT i.fault_id) AS faults,
    count(DISTINCT i.host) AS hosts,
    sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.kind = 'job_interruption' AND NOT i.provisional
GROUP BY i.cluster, i.component, i.llama3_row, i.counts_as, i.domain
