-- title: Incidents most worth a person's look
-- param cluster: text = -- only this cluster
-- param limit: int = 20 -- at most so many
SELECT t.incident_id, t.cluster, t.job_id, t.interrupted_at, t.component, t.confidence, t.lost_gpu_hours, t.worth,
       t.summary
FROM review_to_label t
WHERE (:cluster IS NULL OR t.cluster = :cluster)
ORDER BY t.worth DESC, t.confidence, t.incident_id
LIMIT :limit
