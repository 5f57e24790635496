-- title: Hosts on which the same component failed again within 28 days
-- param cluster: text = -- only this cluster
-- param least: int = 1 -- repeats at least
SELECT o.cluster, o.host, o.component, o.failures, o.repeats, o.first_at, o.last_at, o.gpu_serial
FROM review_repeat_offenders o
WHERE (:cluster IS NULL OR o.cluster = :cluster) AND o.repeats >= :least
ORDER BY o.repeats DESC, o.failures DESC, o.cluster, o.host, o.component
