-- title: Interruptions by ISO week
-- param cluster: text = -- only this cluster
SELECT w.cluster, w.week, w.unexpected, w.planned, w.scheduler_stops, w.hardware, w.unattributed, w.faults,
       w.lost_gpu_hours
FROM review_interruptions_by_week w
WHERE (:cluster IS NULL OR w.cluster = :cluster)
ORDER BY w.cluster, w.week NULLS LAST
