-- Incidents by GPU: by serial or UUID where the logs give one, else by host and index. A part that moves keeps its row.
-- needs: incidents
SELECT
    i.cluster,
    coalesce(i.gpu_serial, i.gpu_uuid, i.host || ' gpu ' || CAST(i.gpu AS TEXT)) AS part,
    min(i.host) AS host,
    min(i.gpu) AS gpu,
    count(*) AS incidents,
    count(DISTINCT i.fault_id) AS faults,
    count(DISTINCT i.component) AS components,
    min(coalesce(i.onset_at, i.interrupted_at)) AS first_at,
    max(coalesce(i.onset_at, i.interrupted_at)) AS last_at
FROM incidents i
WHERE NOT i.provisional AND (i.gpu IS NOT NULL OR i.gpu_serial IS NOT NULL OR i.gpu_uuid IS NOT NULL)
GROUP BY i.cluster, coalesce(i.gpu_serial, i.gpu_uuid, i.host || ' gpu ' || CAST(i.gpu AS TEXT))
