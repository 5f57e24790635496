-- Inputs of MTTF and node failure rate by ISO week of a run's end: MTTF (h) = job_hours / unexpected; failures per
-- 1,000 node-days = 1000 x hardware / node_days. A run that spans weeks stands in the week of its end.
-- needs: review_runs, incidents
SELECT
    r.cluster,
    @week(r.ended_at) AS week,
    count(*) AS runs,
    sum(r.hours) AS job_hours,
    sum(r.gpu_hours) AS gpu_hours,
    sum(r.node_days) AS node_days,
    sum(CASE WHEN r.counts_as = 'unexpected' THEN 1 ELSE 0 END) AS unexpected,
    sum(CASE WHEN r.counts_as = 'planned' THEN 1 ELSE 0 END) AS planned,
    sum(CASE WHEN r.counts_as = 'unexpected' AND c.domain = 'hardware' THEN 1 ELSE 0 END) AS hardware
FROM review_runs r
LEFT JOIN components c ON c.component = r.component
WHERE r.ended_at IS NOT NULL
GROUP BY r.cluster, @week(r.ended_at)
