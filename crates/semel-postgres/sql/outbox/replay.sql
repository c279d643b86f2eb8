-- Parks events again that a destination had, so that each is sent once more in the order of its lane, and
-- keeps who said it. What was left out stays so unless it is asked for; the third column says of how much.
-- The last is the position behind which to go on, if there may be more.
-- As list.sql has it: $1 behind which position, $2 id, $3 and $4 aggregate, $5 tenant, $6 operation, $7
-- key, $8 facet, $9 from, $10 before, $11 how many; $12 destination, $13 actor, $14 note, $15 whether what
-- was left out goes too
WITH led AS (
    SELECT c.*
    FROM semel.outbox_cursor AS c
    WHERE c.destination = $12
    ORDER BY c.seq DESC
    LIMIT 1
), named AS (
    SELECT
        o.pos, l.generation,
        EXISTS (
            SELECT FROM semel.outbox_left_out AS n WHERE n.pos = o.pos AND n.destination = $12
        ) AS is_left_out
    FROM semel.outbox AS o
    CROSS JOIN led AS l
    WHERE o.pos > $1
        AND ($2::text IS NULL OR o.id = $2::text::uuid)
        AND ($3::text IS NULL OR o.aggregatetype = $3 AND o.aggregateid = $4)
        AND ($5::text IS NULL OR o.tenant = $5)
        AND ($6::text IS NULL OR o.operation = $6)
        AND ($7::text IS NULL OR o.key = $7 AND coalesce(o.facet, '') = $8)
        AND ($9::bigint IS NULL OR o.at_us >= $9)
        AND ($10::bigint IS NULL OR o.at_us < $10)
        AND semel.outbox_has(
            o.xid, o.pos, l.base_pos, l.from_snapshot, l.to_snapshot, l.is_open, l.settled,
            l.floor_pos, l.old_from, l.old_to, l.old_settled, l.old_upto
        )
        AND NOT EXISTS (
            SELECT FROM semel.outbox_parked AS p
            WHERE p.destination = $12 AND p.generation = l.generation AND p.id = o.id
        )
    ORDER BY o.pos
    LIMIT $11
), parked AS (
    INSERT INTO semel.outbox_parked (
        destination, generation, state, attempts, why, parked_at_us, pos, id, aggregatetype,
        aggregateid, type, payload, headers, aggregate_version, trace, cause, tenant, operation, key,
        facet, at_us
    )
    SELECT
        $12, n.generation, 'behind', 0, '', semel.now_us(), e.pos, e.id, e.aggregatetype,
        e.aggregateid, e.type, e.payload, e.headers, e.aggregate_version, e.trace, e.cause, e.tenant,
        e.operation, e.key, e.facet, e.at_us
    FROM named AS n
    -- One look by the key for each, however many rows the table has.
    CROSS JOIN LATERAL (
        SELECT o.* FROM semel.outbox AS o WHERE o.pos = n.pos ORDER BY o.pos LIMIT 1
    ) AS e
    WHERE $15 OR NOT n.is_left_out
    ORDER BY n.pos
    ON CONFLICT DO NOTHING
    RETURNING id
), back AS (
    DELETE FROM semel.outbox_left_out AS b
    WHERE $15 AND b.destination = $12
        AND b.pos = ANY (ARRAY(SELECT n.pos FROM named AS n WHERE n.is_left_out))
), noted AS (
    INSERT INTO semel.outbox_audit (destination, at_us, kind, event, rows, actor, note)
    SELECT $12, semel.now_us(), 'replay', $2::text::uuid, (SELECT count(*) FROM parked), $13, $14
    FROM led
)
SELECT
    (SELECT count(*) FROM led), (SELECT count(*) FROM parked),
    (SELECT count(*) FROM named AS n WHERE n.is_left_out AND NOT $15),
    (SELECT CASE WHEN count(*) >= $11 THEN max(n.pos) END FROM named AS n);
