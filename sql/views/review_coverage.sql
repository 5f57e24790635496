-- Which logs of each host arrived, and for which time. Logs of hosts that nothing names have no host.
SELECT
    v.cluster,
    nullif(v.host, '') AS host,
    v.what,
    count(*) AS sources,
    min(v.from_at) AS from_at,
    max(v.to_at) AS to_at
FROM coverage v
GROUP BY v.cluster, v.host, v.what
