-- Start-up of attempts: seconds since the attempt of the same task before (queue, up to a day), and from the start until
-- the first step began. Attempts whose first step line carries no stamp of its own have no start-up: when it was is not known.
-- needs: review_attempts
WITH first_cells AS (
    SELECT
        p.cluster, p.run_key, p.first_at, p.first_borrowed,
        row_number() OVER (PARTITION BY p.cluster, p.run_key ORDER BY p.cell, p.source_id) AS place
    FROM training_progress p
    WHERE p.run_key IS NOT NULL
),
attempts AS (
    SELECT
        a.cluster, a.run_key, a.job_id, a.attempt, a.name, a.user_name, a.account, a.started_at, a.ended_at, a.step_s,
        a.n_gpus,
        lag(a.ended_at) OVER (
            PARTITION BY a.cluster, a.user_name, a.account, coalesce(a.name, a.job_id, a.run_key)
            ORDER BY a.started_at, a.ended_at, a.run_key
        ) AS before_at
    FROM review_attempts a
    WHERE a.started_at IS NOT NULL
),
seconds AS (
    SELECT
        t.*, f.first_at,
        @epoch(t.started_at) - @epoch(t.before_at) AS waited_s,
        @epoch(f.first_at) - coalesce(t.step_s, 0) - @epoch(t.started_at) AS until_s
    FROM attempts t
    LEFT JOIN first_cells f
        ON f.cluster = t.cluster AND f.run_key = t.run_key AND f.place = 1 AND NOT f.first_borrowed
)
SELECT
    s.cluster,
    s.run_key,
    s.job_id,
    s.attempt,
    s.name,
    s.started_at,
    s.first_at AS first_step_at,
    CASE WHEN s.waited_s BETWEEN 0 AND 86400 THEN s.waited_s END AS queue_s,
    CASE WHEN s.until_s >= 0 THEN s.until_s END AS startup_s,
    s.n_gpus
FROM seconds s
