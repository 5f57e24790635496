-- title: How the answer for an incident changed
-- param incident: text -- id of the incident
SELECT v.what, v.component, v.cause, v.confidence, v.decided_by, v.rules_version, v.model_version, v.revision,
       v.changed_at
FROM incident_revisions v
WHERE v.incident_id = :incident
   OR v.incident_id IN (SELECT a.incident_id FROM incident_aliases a WHERE a.alias = :incident)
   OR v.incident_id IN (SELECT a.alias FROM incident_aliases a WHERE a.incident_id = :incident)
ORDER BY v.revision_id
