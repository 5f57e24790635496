-- Incidents of a stream whose answer is not final yet: their logs may still be coming. Figures leave them out.
-- needs: incidents
SELECT
    i.cluster,
    i.incident_id,
    i.kind,
    i.job_id,
    i.interrupted_at,
    i.detected_at,
    i.component,
    i.confidence,
    i.host,
    i.summary
FROM incidents i
WHERE i.provisional
