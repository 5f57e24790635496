-- title: Incidents, newest first
-- param cluster: text = -- only this cluster
-- param since: time = -- interrupted at or after, ISO-8601
-- param until: time = -- interrupted before, ISO-8601
-- param component: text = -- only this component, or * at its end for a family (gpu.*)
-- param limit: int = 50 -- at most so many
SELECT i.incident_id, i.cluster, i.job_id, i.attempt, i.kind, i.interrupted_at, i.component, i.cause, i.confidence,
       i.decided_by, i.host, i.summary
FROM incidents i
WHERE (:cluster IS NULL OR i.cluster = :cluster)
  AND (:since IS NULL OR coalesce(i.interrupted_at, i.onset_at) >= :since)
  AND (:until IS NULL OR coalesce(i.interrupted_at, i.onset_at) < :until)
  AND (:component IS NULL OR i.component = :component
       OR (substr(:component, length(:component), 1) = '*'
           AND substr(i.component, 1, length(:component) - 1) = substr(:component, 1, length(:component) - 1)))
ORDER BY coalesce(i.interrupted_at, i.onset_at) DESC NULLS LAST, i.incident_id
LIMIT :limit
