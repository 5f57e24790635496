-- title: Review: lines about checkpoints in a period
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param until: time = -- before, ISO-8601
SELECT m.cluster, m.source_id, m.mark, m.at, m.borrowed, m.byte_offset, m.fields
FROM review_checkpoint_marks m
WHERE (:cluster IS NULL OR m.cluster = :cluster)
  AND (:since IS NULL OR m.at >= :since)
  AND (:until IS NULL OR m.at < :until)
ORDER BY m.cluster, m.source_id, m.byte_offset, m.mark
