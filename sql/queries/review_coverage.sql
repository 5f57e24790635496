-- title: Review: which logs of each host arrived
-- param cluster: text = -- only this cluster
SELECT v.*
FROM review_coverage v
WHERE (:cluster IS NULL OR v.cluster = :cluster)
ORDER BY v.cluster, host,what
