-- Telemetry of all devices by hour: mean, least and most of each metric (temperature, power, clocks).
SELECT
    t.cluster,
    t.metric,
    t.hour_at,
    count(DISTINCT t.host) AS hosts,
    count(*) AS series,
    sum(t.n) AS samples,
    sum(t.total) / sum(t.n) AS mean,
    min(t.low) AS low,
    max(t.high) AS high
FROM telemetry_hourly t
WHERE t.n > 0
GROUP BY t.cluster, t.metric, t.hour_at
