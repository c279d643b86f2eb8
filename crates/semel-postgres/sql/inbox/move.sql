-- Moves a consumer's position in a log forward, in the transaction of the effect. No row comes back if it
-- stands behind `from` already, such as by another owner's hand; an owner that is at it is waited for.
-- $1 consumer, $2 log, $3 from, $4 to: the first offset that is not handled,
-- $5 milliseconds until an idle transaction ends
INSERT INTO semel.inbox_position AS p (consumer, log, next, moved_at_us)
VALUES ($1, $2, $4, semel.now_us())
ON CONFLICT (consumer, log) DO UPDATE
SET next = excluded.next, moved_at_us = excluded.moved_at_us
WHERE p.next <= $3
RETURNING
    moved_at_us, current_setting('synchronous_commit') = 'off',
    CASE
        WHEN current_setting('idle_in_transaction_session_timeout') = '0'
            OR current_setting('idle_in_transaction_session_timeout')::interval
                > $5 * interval '1 millisecond'
            THEN set_config('idle_in_transaction_session_timeout', $5::text, true) IS NOT NULL
    END;
