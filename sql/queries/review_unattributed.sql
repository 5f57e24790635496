-- title: Review: interruptions without a named cause in a period, and what was not seen
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT u.incident_id, u.job_id, u.interrupted_at, u.component, u.outcome, u.lost_gpu_hours, u.not_seen, u.summary
FROM review_unattributed u
WHERE (:cluster IS NULL OR u.cluster = :cluster)
  AND (:since IS NULL OR u.interrupted_at >= :since)
  AND (:until IS NULL OR u.interrupted_at < :until)
ORDER BY u.interrupted_at, u.incident_id
