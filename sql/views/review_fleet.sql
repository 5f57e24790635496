-- Hosts known from any log or record, and whether their kernel log, BMC log or other logs ever arrived.
SELECT
    h.cluster,
    h.host,
    h.rack,
    h.n_gpus,
    h.driver_version,
    count(DISTINCT c.what) AS kinds_of_logs,
    max(CASE WHEN c.what = 'kernel log' THEN 1 ELSE 0 END) AS kernel_log,
    max(c.to_at) AS last_log_at
FROM hosts h
LEFT JOIN coverage c ON c.cluster = h.cluster AND c.host = h.host
GROUP BY h.cluster, h.host, h.rack, h.n_gpus, h.driver_version
