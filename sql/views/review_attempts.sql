-- Attempts of jobs with what their logs show of training: steps, the first useful step, where the next one resumed.
-- Start, end and sizes by the scheduler's record, else by the log. Inputs of start-up, effective time and lost work.
-- needs: incidents
SELECT
    r.cluster,
    r.run_key,
    r.job_id,
    r.attempt,
    r.name,
    r."user" AS user_name,
    r.account,
    coalesce(r.started_at, r.log_started_at) AS started_at,
    coalesce(r.ended_at, r.log_ended_at, r.last_progress_at) AS ended_at,
    r.log_started_at,
    r.n_nodes AS n_hosts,
    r.n_gpus,
    r.state,
    r.success,
    r.still_running,
    r.first_step,
    r.last_step,
    r.last_progress_at,
    r.step_s,
    r.resume_step,
    r.resume_at,
    r.extra,
    r.more,
    i.incident_id,
    i.component,
    i.counts_as,
    i.onset_at
FROM job_runs r
LEFT JOIN incidents i ON i.cluster = r.cluster AND i.run_key = r.run_key AND i.kind = 'job_interruption'
    AND NOT i.provisional
