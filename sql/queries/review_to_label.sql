-- title: Review: incidents most worth a person's look in a period
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
-- param limit: int = 20 -- at most so many
SELECT l.incident_id, l.job_id, l.interrupted_at, l.component, l.confidence, l.lost_gpu_hours, l.worth, l.summary
FROM review_to_label l
WHERE (:cluster IS NULL OR l.cluster = :cluster)
  AND (:since IS NULL OR l.interrupted_at >= :since)
  AND (:until IS NULL OR l.interrupted_at < :until)
ORDER BY l.worth DESC, l.incident_id
LIMIT :limit
