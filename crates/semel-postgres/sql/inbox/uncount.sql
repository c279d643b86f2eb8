-- Counts attempts no longer: not the last one ($4), or none of them; then the copy of a message that was
-- parked and is done goes too. A row that somebody else holds is left as it is, since nobody shall wait
-- for a count.
-- $1 consumer, $2 sources, $3 ids, $4 whether only the last one is given back
WITH held AS (
    SELECT a.source, a.message_id, $4 AND a.count > 1 AS stays
    FROM semel.inbox_attempt AS a
    JOIN unnest($2::text[], $3::text[]) AS m (source, message_id)
        ON a.source = m.source AND a.message_id = m.message_id
    WHERE a.consumer = $1
    ORDER BY a.source, a.message_id
    FOR UPDATE OF a SKIP LOCKED
), lowered AS (
    UPDATE semel.inbox_attempt AS a
    SET count = a.count - 1
    FROM held AS h
    WHERE a.consumer = $1 AND a.source = h.source AND a.message_id = h.message_id AND h.stays
), uncounted AS (
    DELETE FROM semel.inbox_attempt AS a
    USING held AS h
    WHERE a.consumer = $1 AND a.source = h.source AND a.message_id = h.message_id AND NOT h.stays
)
DELETE FROM semel.inbox_parked AS p
USING unnest($2::text[], $3::text[]) AS m (source, message_id)
WHERE NOT $4 AND p.consumer = $1 AND p.source = m.source AND p.message_id = m.message_id
    AND EXISTS (
        SELECT FROM semel.inbox AS i
        WHERE i.consumer = p.consumer AND i.source = p.source AND i.message_id = p.message_id
            AND i.standing = 'done'
    );
