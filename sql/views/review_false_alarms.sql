-- False alarm control: runs that reached their own end, and how many of them had a critical signal in their window or
-- were even called interrupted. The first share should stay under 1 %, the second at 0.
-- needs: incidents
WITH good AS (
    SELECT r.cluster, r.run_key FROM job_runs r WHERE r.success
)
SELECT
    g.cluster,
    count(*) AS successful_runs,
    sum(CASE WHEN EXISTS (
        SELECT 1 FROM decisions d
        JOIN health_events e ON e.cluster = d.cluster AND e.subject_key = d.subject_key
        WHERE d.cluster = g.cluster AND d.run_key = g.run_key AND (e.fatal = 'y' OR e.severity = 'critical')
    ) THEN 1 ELSE 0 END) AS with_critical_signal,
    sum(CASE WHEN EXISTS (
        SELECT 1 FROM incidents i WHERE i.cluster = g.cluster AND i.run_key = g.run_key
    ) THEN 1 ELSE 0 END) AS called_interrupted
FROM good g
GROUP BY g.cluster
