-- Job runs with their length and what became of them: the inputs of MTTF, ETTR and node failure rate.
-- `hours` is elapsed time by the scheduler's record, else by the log; `node_days` = hours x hosts / 24.
-- needs: incidents
WITH bounds AS (
    SELECT
        r.cluster, r.run_key, r.job_id, r.attempt, r.state, r.success, r.planned_end, r.n_gpus, r.n_nodes, r.account,
        coalesce(r.started_at, r.log_started_at) AS begun_at,
        coalesce(r.ended_at, r.log_ended_at) AS over_at
    FROM job_runs r
),
lengths AS (
    SELECT b.*, (@epoch(b.over_at) - @epoch(b.begun_at)) / 3600.0 AS hours FROM bounds b
)
SELECT
    l.cluster,
    l.run_key,
    l.job_id,
    l.attempt,
    l.account,
    nullif(l.state, '') AS state,
    l.success,
    l.begun_at AS started_at,
    l.over_at AS ended_at,
    l.n_gpus,
    l.n_nodes AS n_hosts,
    l.hours,
    l.hours * l.n_gpus AS gpu_hours,
    l.hours * l.n_nodes / 24.0 AS node_days,
    i.incident_id,
    i.component,
    i.counts_as
FROM lengths l
LEFT JOIN incidents i ON i.cluster = l.cluster AND i.run_key = l.run_key AND i.kind = 'job_interruption'
    AND NOT i.provisional
