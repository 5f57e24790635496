-- title: All that is known of one host: signals, evidence of incidents, health events, in order of time
-- param host: text -- name of the host
-- param cluster: text = -- only this cluster
-- param since: time = -- at or after, ISO-8601
-- param limit: int = 500 -- at most so many
WITH clusters AS (
    -- every index begins with the cluster: naming them all lets the host be looked up
    SELECT DISTINCT i.cluster FROM ingests i WHERE :cluster IS NULL OR i.cluster = :cluster
)
SELECT h.at, h.what, h.signal, h.component, h.device, h.count, h.incident_id, h.text
FROM (
    SELECT s.cluster, s.host, s.first_at AS at, 'signal' AS what, coalesce(s.signal, s.rule) AS signal, s.component,
           s.device, s.count, NULL AS incident_id, s.text, s.signal_id AS tie
    FROM signals s
    WHERE s.cluster IN (SELECT c.cluster FROM clusters c) AND s.host = :host
    UNION ALL
    SELECT e.cluster, e.host, e.time, 'evidence: ' || e.role, e.signal, e.component, nullif(e.device, ''), e.count,
           e.incident_id, e.text, e.evidence_id
    FROM evidence e
    WHERE e.cluster IN (SELECT c.cluster FROM clusters c) AND e.host = :host
    UNION ALL
    SELECT e.cluster, e.host, e.time, 'health event', e.signal, e.component, nullif(e.device, ''), e.count, NULL,
           e.text, e.evidence_id
    FROM health_events e
    WHERE e.cluster IN (SELECT c.cluster FROM clusters c) AND e.host = :host
) h
WHERE (:since IS NULL OR h.at >= :since)
ORDER BY h.at NULLS LAST, h.what, h.tie, h.incident_id NULLS LAST
LIMIT :limit
