-- title: Review: attempts of jobs that overlap a period, with what became of their training
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT a.*
FROM review_attempts a
WHERE (:cluster IS NULL OR a.cluster = :cluster)
  AND a.started_at IS NOT NULL
  AND (:since IS NULL OR a.ended_at IS NULL OR a.ended_at >= :since)
  AND (:until IS NULL OR a.started_at < :until)
ORDER BY a.cluster, a.started_at, a.attempt, a.run_key
