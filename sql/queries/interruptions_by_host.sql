-- title: Interruptions and host faults by the host that failed first
-- param cluster: text = -- only this cluster
-- param since: time = -- interrupted at or after, ISO-8601
-- param until: time = -- interrupted before, ISO-8601
-- param limit: int = 50 -- at most so many
SELECT i.host, count(*) AS incidents, count(DISTINCT i.fault_id) AS faults,
       sum(CASE WHEN i.kind = 'job_interruption' THEN 1 ELSE 0 END) AS interruptions,
       count(DISTINCT i.component) AS components, min(i.component) AS component,
       max(coalesce(i.onset_at, i.interrupted_at)) AS last_at, sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.host IS NOT NULL
  AND (:cluster IS NULL OR i.cluster = :cluster)
  AND (:since IS NULL OR coalesce(i.interrupted_at, i.onset_at) >= :since)
  AND (:until IS NULL OR coalesce(i.interrupted_at, i.onset_at) < :until)
GROUP BY i.host
ORDER BY count(DISTINCT i.fault_id) DESC, count(*) DESC, i.host
LIMIT :limit
