-- Which logs of each host arrived, and for which time. A host without a row sent none.
SELECT
    v.cluster,
    v.host,
    v.what,
    count(*) AS sources,
    min(v.from_at) AS from_at,
    max(v.to_at) AS to_at
FROM coverage v
GROUP BY v.cluster, v.host, v.what
