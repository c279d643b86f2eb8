-- Parks a message with a copy, remembers its name for ever and forgets its attempts. The answer is
-- false if it was handled or left out meanwhile, or its position was passed: then nothing is written. An
-- effect that another transaction is at is waited for.
-- $1 consumer, $2 source, $3 id, $4 fingerprint, $5 attempts, $6 why, $7 payload, $8 key,
-- $9 names of headers, $10 values of headers, $11 log, $12 offset, $13 sent at, $14 whether the position moves
WITH moved AS (
    INSERT INTO semel.inbox_position AS p (consumer, log, next, moved_at_us)
    SELECT $1, $11, $12 + 1, semel.now_us()
    WHERE $14
    ON CONFLICT (consumer, log) DO UPDATE
    SET next = excluded.next, moved_at_us = excluded.moved_at_us
    WHERE p.next <= $12
    RETURNING 1
), known AS (
    INSERT INTO semel.inbox AS i (
        consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
    )
    SELECT $1, $2, $3, $4, 'parked', semel.now_us(), NULL
    WHERE NOT $14 OR EXISTS (SELECT FROM moved)
    ON CONFLICT (consumer, source, message_id) DO UPDATE
    SET received_at_us = i.received_at_us
    WHERE i.standing = 'parked'
    RETURNING 1
), parked AS (
    INSERT INTO semel.inbox_parked AS p (
        consumer, source, message_id, state, attempts, why, parked_at_us, payload, key,
        header_names, header_values, log, log_offset, sent_at_us
    )
    SELECT $1, $2, $3, 'failed', $5, $6, semel.now_us(), $7, $8, $9::text[], $10::bytea[], $11,
        $12, $13
    FROM known
    ON CONFLICT (consumer, source, message_id) DO UPDATE
    SET state = excluded.state, attempts = excluded.attempts, why = excluded.why,
        parked_at_us = excluded.parked_at_us
), forgotten AS (
    DELETE FROM semel.inbox_attempt AS a
    USING known
    WHERE a.consumer = $1 AND a.source = $2 AND a.message_id = $3
)
SELECT EXISTS (SELECT FROM known);
