-- Which ruleset and model made the current answers: more than one says that `faultbeam reattribute` is due.
SELECT
    d.cluster,
    d.rules_version,
    nullif(d.model_version, '') AS model_version,
    d.decided_by,
    count(*) AS answers
FROM decisions d
WHERE d.incident
GROUP BY d.cluster, d.rules_version, nullif(d.model_version, ''), d.decided_by
