-- Interruptions by hour of the day (UTC): with a few hundred events only a swing of more than +-15 % shows.
-- needs: incidents
SELECT
    i.cluster,
    @hour(i.interrupted_at) AS hour,
    sum(CASE WHEN i.counts_as = 'unexpected' THEN 1 ELSE 0 END) AS unexpected,
    sum(CASE WHEN i.counts_as = 'unexpected' AND i.domain = 'hardware' THEN 1 ELSE 0 END) AS hardware,
    sum(CASE WHEN i.counts_as = 'planned' THEN 1 ELSE 0 END) AS planned
FROM incidents i
WHERE i.kind = 'job_interruption' AND NOT i.provisional AND i.interrupted_at IS NOT NULL
GROUP BY i.cluster, @hour(i.interrupted_at)
