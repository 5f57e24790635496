-- title: Interruptions by component, with their rows of Table 5
-- param cluster: text = -- only this cluster
-- param since: time = -- interrupted at or after, ISO-8601
-- param until: time = -- interrupted before, ISO-8601
SELECT i.component, i.llama3_row, i.counts_as, count(*) AS count,
       100.0 * count(*) / sum(count(*)) OVER (PARTITION BY i.counts_as) AS percent,
       count(DISTINCT i.fault_id) AS faults, sum(i.lost_gpu_seconds) / 3600.0 AS lost_gpu_hours
FROM incidents i
WHERE i.kind = 'job_interruption' AND NOT i.provisional
  AND (:cluster IS NULL OR i.cluster = :cluster)
  AND (:since IS NULL OR coalesce(i.interrupted_at, i.onset_at) >= :since)
  AND (:until IS NULL OR coalesce(i.interrupted_at, i.onset_at) < :until)
GROUP BY i.component, i.llama3_row, i.counts_as
ORDER BY i.counts_as DESC, count(*) DESC, i.component
