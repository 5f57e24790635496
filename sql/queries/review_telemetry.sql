-- title: Review: telemetry by hour in a period
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT t.metric, t.hour_at, t.hosts, t.series, t.samples, t.mean, t.low, t.high
FROM review_telemetry t
WHERE (:cluster IS NULL OR t.cluster = :cluster)
  AND (:since IS NULL OR t.hour_at >= :since)
  AND (:until IS NULL OR t.hour_at < :until)
ORDER BY t.cluster, t.metric, t.hour_at
