-- title: Parts of inputs that could not be used
-- param cluster: text = -- only this cluster
-- param limit: int = 200 -- at most so many
SELECT q.cluster, q.path, q.offset AS byte_offset, q.length, q.reason
FROM quarantine q
WHERE (:cluster IS NULL OR q.cluster = :cluster)
ORDER BY q.cluster, q.path, q.offset, q.length, q.reason
LIMIT :limit
