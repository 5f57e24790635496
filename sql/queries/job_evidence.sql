-- title: Evidence of a job's interruptions
-- param job: text -- id of the job
-- param cluster: text = -- only this cluster
SELECT e.attempt, e.incident_id, e.decided, e.role, e.time, e.host, e.device, e.rank, e.signal, e.count, e.source,
       e.line, e.text
FROM review_job_evidence e
WHERE e.job_id = :job AND (:cluster IS NULL OR e.cluster = :cluster)
ORDER BY e.cluster, e.attempt, e.incident_id, e.seq
