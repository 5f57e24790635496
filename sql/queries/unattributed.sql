-- title: Interruptions without a named cause, dearest first
-- param cluster: text = -- only this cluster
-- param since: time = -- interrupted at or after, ISO-8601
-- param until: time = -- interrupted before, ISO-8601
SELECT u.incident_id, u.cluster, u.job_id, u.attempt, u.interrupted_at, u.component, u.outcome, u.confidence,
       u.n_hosts, u.lost_gpu_hours, u.summary
FROM review_unattributed u
WHERE (:cluster IS NULL OR u.cluster = :cluster)
  AND (:since IS NULL OR u.interrupted_at >= :since)
  AND (:until IS NULL OR u.interrupted_at < :until)
ORDER BY u.lost_gpu_hours DESC NULLS LAST, u.interrupted_at DESC NULLS LAST, u.incident_id
