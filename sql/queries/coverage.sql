-- title: Which logs of which hosts arrived, and for which time
-- param cluster: text = -- only this cluster
-- param host: text = -- only this host
SELECT v.cluster, v.host, v.what, v.sources, v.from_at, v.to_at
FROM review_coverage v
WHERE (:cluster IS NULL OR v.cluster = :cluster) AND (:host IS NULL OR v.host = :host)
ORDER BY v.cluster, v.host NULLS LAST, v.what
