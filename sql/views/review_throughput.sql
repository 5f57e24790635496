-- Sampled training progress by 64 KiB of log: steps and seconds a step. `points` holds [byte, step, microseconds of the
-- printed stamp]; first_at - first_us carries them to UTC.
SELECT
    p.cluster,
    p.source_id,
    p.run_key,
    p.cell,
    p.first_at,
    p.last_at,
    p.first_step,
    p.last_step,
    p.step_s,
    p.series,
    p.first_us,
    p.first_borrowed,
    p.points
FROM training_progress p
WHERE p.first_at IS NOT NULL
