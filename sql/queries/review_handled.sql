-- title: Review: interruptions handled without a person, and seconds to detect and recover
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT r.incident_id, r.counts_as, r.confidence, r.idle_s, r.detection_s, r.diagnosis_s, r.recovery_s, r.handled
FROM review_recovery r
WHERE (:cluster IS NULL OR r.cluster = :cluster)
  AND (:since IS NULL OR r.interrupted_at >= :since)
  AND (:until IS NULL OR r.interrupted_at < :until)
ORDER BY r.interrupted_at NULLS LAST, r.incident_id
