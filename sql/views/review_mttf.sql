-- MTTF by ISO week of a run's end with a 95 % interval of the Poisson count (Byar's approximation, within 1 % from 1
-- failure on; the review has the exact one), and its change against the week before.
-- needs: review_mttf_inputs
WITH counts AS (
    SELECT
        m.cluster, m.week, m.runs, m.job_hours, m.unexpected, m.planned,
        nullif(1.0 * m.unexpected, 0) AS n, m.unexpected + 1.0 AS n1
    FROM review_mttf_inputs m
),
limits AS (
    SELECT
        c.*,
        n * (1 - 1 / (9 * n) - 1.96 / (3 * sqrt(n))) * (1 - 1 / (9 * n) - 1.96 / (3 * sqrt(n)))
            * (1 - 1 / (9 * n) - 1.96 / (3 * sqrt(n))) AS low_n,
        n1 * (1 - 1 / (9 * n1) + 1.96 / (3 * sqrt(n1))) * (1 - 1 / (9 * n1) + 1.96 / (3 * sqrt(n1)))
            * (1 - 1 / (9 * n1) + 1.96 / (3 * sqrt(n1))) AS high_n
    FROM counts c
)
SELECT
    l.cluster,
    l.week,
    l.runs,
    l.job_hours,
    l.unexpected,
    l.planned,
    l.job_hours / l.n AS mttf_hours,
    l.job_hours / l.high_n AS mttf_low,
    l.job_hours / l.low_n AS mttf_high,
    l.job_hours / l.n - lag(l.job_hours / l.n) OVER (PARTITION BY l.cluster ORDER BY l.week) AS change_hours
FROM limits l
