-- Takes a parked message back, in the transaction of its effect. No row comes back if somebody else had
-- it meanwhile. It stays remembered for ever, and its copy until its attempts are counted no longer: so
-- that what it recorded is sent, whoever is gone before.
-- $1 consumer, $2 source, $3 id, $4 milliseconds until an idle transaction ends
UPDATE semel.inbox
SET standing = 'done', received_at_us = semel.now_us()
WHERE consumer = $1 AND source = $2 AND message_id = $3 AND standing = 'parked'
RETURNING
    received_at_us, current_setting('synchronous_commit') = 'off',
    CASE
        WHEN current_setting('idle_in_transaction_session_timeout') = '0'
            OR current_setting('idle_in_transaction_session_timeout')::interval
                > $4 * interval '1 millisecond'
            THEN set_config('idle_in_transaction_session_timeout', $4::text, true) IS NOT NULL
    END;
