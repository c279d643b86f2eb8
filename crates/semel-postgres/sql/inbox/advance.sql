-- Moves a consumer's position in a log forward, as move does, if the log is known: in place, without
-- looking whether a row is to be made. No row comes back if it is not, or stands behind `from` already.
-- $1 consumer, $2 log, $3 from, $4 to: the first offset that is not handled,
-- $5 milliseconds until an idle transaction ends
UPDATE semel.inbox_position
SET next = $4, moved_at_us = semel.now_us()
WHERE consumer = $1 AND log = $2 AND next <= $3
RETURNING
    moved_at_us, current_setting('synchronous_commit') = 'off',
    CASE
        WHEN current_setting('idle_in_transaction_session_timeout') = '0'
            OR current_setting('idle_in_transaction_session_timeout')::interval
                > $5 * interval '1 millisecond'
            THEN set_config('idle_in_transaction_session_timeout', $5::text, true) IS NOT NULL
    END;
