-- title: Review: sampled training progress in a period
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT p.cluster, p.source_id, p.run_key, p.cell, p.first_at, p.last_at, p.step_s, p.first_us, p.first_borrowed, p.points
FROM review_throughput p
WHERE (:cluster IS NULL OR p.cluster = :cluster)
  AND (:since IS NULL OR p.last_at >= :since)
  AND (:until IS NULL OR p.first_at < :until)
ORDER BY p.cluster, p.source_id, p.cell
