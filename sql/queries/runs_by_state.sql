-- title: Job runs by the scheduler's state
-- param cluster: text = -- only this cluster
-- param since: time = -- ended at or after, ISO-8601
-- param until: time = -- ended before, ISO-8601
SELECT r.cluster, coalesce(r.state, '(none)') AS state, count(*) AS runs,
       sum(CASE WHEN r.success THEN 1 ELSE 0 END) AS successful, count(r.incident_id) AS interrupted,
       sum(r.hours) AS hours, sum(r.gpu_hours) AS gpu_hours
FROM review_runs r
WHERE (:cluster IS NULL OR r.cluster = :cluster)
  AND (:since IS NULL OR r.ended_at >= :since)
  AND (:until IS NULL OR r.ended_at < :until)
GROUP BY r.cluster, coalesce(r.state, '(none)')
ORDER BY r.cluster, count(*) DESC, coalesce(r.state, '(none)')
