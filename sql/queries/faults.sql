-- title: Faults that stopped more than one job
-- param cluster: text = -- only this cluster
-- param least: int = 2 -- interruptions at least
SELECT f.cluster, f.fault_id, f.component, f.cause, f.host, f.onset_at, f.n_interruptions
FROM fault f
WHERE (:cluster IS NULL OR f.cluster = :cluster) AND f.n_interruptions >= :least
ORDER BY f.n_interruptions DESC, f.cluster, f.fault_id
