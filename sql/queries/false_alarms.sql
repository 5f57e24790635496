-- title: Successful runs with a critical signal in their window, or called interrupted
-- param cluster: text = -- only this cluster
SELECT f.cluster, f.successful_runs, f.with_critical_signal,
       100.0 * f.with_critical_signal / f.successful_runs AS percent, f.called_interrupted
FROM review_false_alarms f
WHERE (:cluster IS NULL OR f.cluster = :cluster)
ORDER BY f.cluster
