-- What became of the steps of each attempt: a step was kept where no later attempt of the task began at or before it.
-- useful_s = steps kept x median seconds a step; effective training time = sum(useful_s) / elapsed time. Saves behind the
-- last printed step, and steps after the last save of an unfinished task, are the review's to add (docs/review.md).
-- needs: review_attempts
WITH later AS (
    SELECT
        a.*,
        min(a.first_step) OVER (
            PARTITION BY a.cluster, a.user_name, a.account, coalesce(a.name, a.job_id, a.run_key)
            ORDER BY a.started_at, a.ended_at, a.run_key ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS redone_from
    FROM review_attempts a
    WHERE a.started_at IS NOT NULL
),
kept AS (
    SELECT
        l.*,
        l.last_step - l.first_step + 1 AS steps,
        CASE
            WHEN l.redone_from IS NULL OR l.redone_from > l.last_step THEN l.last_step - l.first_step + 1
            WHEN l.redone_from <= l.first_step THEN 0
            ELSE l.redone_from - l.first_step
        END AS steps_kept
    FROM later l
)
SELECT
    k.cluster,
    k.run_key,
    k.job_id,
    k.attempt,
    k.name,
    k.started_at,
    k.ended_at,
    k.counts_as,
    k.component,
    k.n_gpus,
    k.first_step,
    k.last_step,
    k.steps,
    k.steps_kept,
    k.steps - k.steps_kept AS steps_lost,
    k.step_s,
    k.steps_kept * k.step_s AS useful_s,
    @epoch(k.ended_at) - @epoch(k.started_at) AS elapsed_s
FROM kept k
