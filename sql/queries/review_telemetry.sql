-- title: Review: telemetry by hour in a period
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT h.metric, h.hour_at, h.hosts, h.series, h.samples, h.mean, h.low, h.high
FROM review_telemetry h
WHERE (:cluster IS NULL OR h.cluster = :cluster)
  AND (:since IS NULL OR h.hour_at >= :since)
  AND (:until IS NULL OR h.hour_at < :until)
ORDER BY h.cluster, h.metric, h.hour_at
