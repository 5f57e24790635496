-- title: Which logs of which hosts arrived, and for which time
-- param cluster: text = -- only this cluster
-- param host: text = -- only this host
SELECT seen.cluster, seen.host, seen.what, seen.sources, seen.from_at, seen.to_at
FROM review_coverage seen
WHERE (:cluster IS NULL OR seen.cluster = :cluster) AND (:host IS NULL OR seen.host = :host)
ORDER BY seen.cluster, seen.host NULLS LAST, seen.what
