-- Swings of power within 1 to 10 s by host and hour, where samples are 10 s apart or less: how many changes were looked
-- at, their usual size, and the swings. `swings` holds [microseconds since 1970, seconds, watts of all GPUs, GPUs].
SELECT
    p.cluster,
    p.host,
    p.hour_at,
    p.devices,
    p.n AS changes,
    p.typical_w,
    p.n_swings,
    p.largest_w,
    p.swings
FROM power_hourly p
