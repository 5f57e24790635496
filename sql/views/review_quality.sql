-- Where people looked: what they said against what the program had said, by class.
-- needs: incidents
SELECT
    i.cluster,
    i.component AS labelled,
    i.decided_component AS decided,
    count(*) AS count,
    sum(CASE WHEN i.component = i.decided_component THEN 1 ELSE 0 END) AS agreed
FROM incidents i
WHERE i.decided_by = 'label'
GROUP BY i.cluster, i.component, i.decided_component
