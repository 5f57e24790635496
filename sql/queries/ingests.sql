-- title: Loads, newest first
-- param cluster: text = -- only this cluster
-- param limit: int = 20 -- at most so many
SELECT g.ingest_id, g.cluster, g.started_at, g.finished_at
FROM ingests g
WHERE (:cluster IS NULL OR g.cluster = :cluster)
ORDER BY g.ingest_id DESC
LIMIT :limit
