-- title: Review: swings of power within seconds, by host and hour of a period
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT p.cluster, p.host, p.hour_at, p.devices, p.changes, p.typical_w, p.n_swings, p.largest_w, p.swings
FROM review_power p
WHERE (:cluster IS NULL OR p.cluster = :cluster)
  AND (:since IS NULL OR p.hour_at >= :since)
  AND (:until IS NULL OR p.hour_at < :until)
ORDER BY p.cluster, p.host, p.hour_at
