-- Lines of training logs about checkpoints: begun, saved, how long, loaded. The stamp of a line without one is that of
-- the line before (`borrowed`). What each line says (step, path, seconds) is in `fields`.
SELECT
    s.cluster,
    s.source_id,
    s.rule AS mark,
    s.first_at AS at,
    s.first_borrowed AS borrowed,
    s.first_offset AS byte_offset,
    s.fields
FROM signals s
WHERE s.rule IN ('mark_ckpt_begin', 'mark_ckpt_saved', 'mark_ckpt_seconds', 'mark_ckpt_load')
