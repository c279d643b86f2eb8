-- Remembers a message in the transaction of its effect. No row comes back if it is remembered already;
-- whoever has it in another transaction is waited for.
-- $1 consumer, $2 source, $3 id, $4 fingerprint, $5 for how long it is remembered,
-- $6 milliseconds until an idle transaction ends
INSERT INTO semel.inbox (
    consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
) VALUES ($1, $2, $3, $4, 'done', semel.now_us(), semel.now_us() + $5)
ON CONFLICT (consumer, source, message_id) DO NOTHING
RETURNING
    received_at_us, current_setting('synchronous_commit') = 'off',
    CASE
        WHEN current_setting('idle_in_transaction_session_timeout') = '0'
            OR current_setting('idle_in_transaction_session_timeout')::interval
                > $6 * interval '1 millisecond'
            THEN set_config('idle_in_transaction_session_timeout', $6::text, true) IS NOT NULL
    END;
