-- title: Review: which logs of each host arrived
-- param cluster: text = -- only this cluster
SELECT seen.*
FROM review_coverage seen
WHERE (:cluster IS NULL OR seen.cluster = :cluster)
ORDER BY seen.cluster, seen.host, seen.what
