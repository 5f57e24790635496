-- title: Review: hosts of the fleet and whether their logs arrived
-- param cluster: text = -- only this cluster
SELECT f.cluster, f.host, f.rack, f.kernel_log, f.kinds_of_logs, f.last_log_at
FROM review_fleet f
WHERE (:cluster IS NULL OR f.cluster = :cluster)
ORDER BY f.cluster, f.host
