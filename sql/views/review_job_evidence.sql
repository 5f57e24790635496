-- What each answer rests on: one row a piece of evidence, in the order in which the answer gives it.
-- needs: incidents
SELECT
    i.cluster,
    i.job_id,
    i.attempt,
    i.incident_id,
    i.component AS decided,
    e.seq,
    e.role,
    e.time,
    nullif(e.host, '') AS host,
    nullif(e.device, '') AS device,
    e.rank,
    e.signal,
    e.count,
    e.text,
    e.source,
    e.line,
    e.offset AS byte_offset
FROM evidence e
JOIN incidents i ON i.cluster = e.cluster AND i.subject_key = e.subject_key
