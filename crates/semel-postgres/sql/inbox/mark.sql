-- Writes down what an operator said of a parked message, with a row of the audit. The name is locked
-- before the copy, as whoever runs the message again does.
-- $1 consumer, $2 source, $3 id, $4 drop, retry or skip, $5 who, $6 why
WITH known AS (
    UPDATE semel.inbox AS i
    SET standing = CASE WHEN $4 = 'retry' THEN 'parked' ELSE 'left-out' END
    WHERE i.consumer = $1 AND i.source = $2 AND i.message_id = $3
        AND i.standing IN ('parked', 'left-out')
        AND EXISTS (
            SELECT FROM semel.inbox_parked AS p
            WHERE p.consumer = $1 AND p.source = $2 AND p.message_id = $3
        )
    RETURNING 1
), stays AS (
    UPDATE semel.inbox_parked AS p
    SET state = CASE WHEN $4 = 'retry' THEN 'retry' ELSE 'skipped' END
    FROM known
    WHERE p.consumer = $1 AND p.source = $2 AND p.message_id = $3 AND $4 <> 'drop'
), goes AS (
    DELETE FROM semel.inbox_parked AS p
    USING known
    WHERE p.consumer = $1 AND p.source = $2 AND p.message_id = $3 AND $4 = 'drop'
), noted AS (
    INSERT INTO semel.inbox_audit (at_us, kind, consumer, source, message_id, actor, note)
    SELECT semel.now_us(), $4, $1, $2, $3, $5, $6
    FROM known
)
SELECT EXISTS (SELECT FROM known);
