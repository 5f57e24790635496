-- title: Review: rulesets and models behind the answers
-- param cluster: text = -- only this cluster
SELECT v.*
FROM review_versions v
WHERE (:cluster IS NULL OR v.cluster = :cluster)
ORDER BY v.cluster, rules_version,model_version,decided_by
