-- title: Review: false alarms on successful runs
-- param cluster: text = -- only this cluster
SELECT v.*
FROM review_false_alarms v
WHERE (:cluster IS NULL OR v.cluster = :cluster)
ORDER BY v.cluster
