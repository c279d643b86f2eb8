-- Lists the lanes of a destination that have parked rows, in their order: from one to the next by the
-- index, past what waits in each.
-- $1 destination, $2 and $3 the lane behind which to begin (type empty: with the first), $4 how many
WITH RECURSIVE lane AS (
    (
        SELECT p.aggregatetype, p.aggregateid, 1 AS nr
        FROM semel.outbox_parked AS p
        WHERE p.destination = $1 AND (p.aggregatetype, p.aggregateid) > ($2, $3)
        ORDER BY p.aggregatetype, p.aggregateid
        LIMIT 1
    )
    UNION ALL
    SELECT n.aggregatetype, n.aggregateid, l.nr + 1
    FROM lane AS l
    CROSS JOIN LATERAL (
        SELECT p.aggregatetype, p.aggregateid
        FROM semel.outbox_parked AS p
        WHERE p.destination = $1
            AND (p.aggregatetype, p.aggregateid) > (l.aggregatetype, l.aggregateid)
        ORDER BY p.aggregatetype, p.aggregateid
        LIMIT 1
    ) AS n
    WHERE l.nr < $4
)
SELECT l.aggregatetype, l.aggregateid FROM lane AS l ORDER BY 1, 2;
