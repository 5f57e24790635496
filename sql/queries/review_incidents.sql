-- title: Review: incidents of a period as the review counts them
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT i.cluster, i.incident_id, i.fault_id, i.kind, i.job_id, i.attempt, i.run_key, i.interrupted_at, i.onset_at,
       i.last_progress_at, i.detected_at, i.resumed_at, i.component, i.decided_component, i.llama3_row, i.cause, i.domain,
       i.counts_as, i.confidence, i.decided_by, i.host, i.gpu, i.gpu_uuid, i.gpu_serial, i.rack, i.n_hosts, i.n_gpus,
       i.lost_gpu_seconds, i.summary, i.outcome, i.label_who, i.rules_version, i.model_version, i.provisional
FROM incidents i
WHERE (:cluster IS NULL OR i.cluster = :cluster)
  AND (:since IS NULL OR coalesce(i.interrupted_at, i.onset_at) >= :since)
  AND (:until IS NULL OR coalesce(i.interrupted_at, i.onset_at) < :until)
ORDER BY coalesce(i.interrupted_at, i.onset_at) NULLS LAST, i.incident_id
