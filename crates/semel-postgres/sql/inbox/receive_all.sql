-- Remembers messages in the transaction of their effects: sorted, so that no two batches wait for each
-- other. The third column names those that are new, unless all are: a line each, source and id.
-- $1 consumer, $2 sources, $3 ids, $4 fingerprints, $5 for how long they are
-- remembered, $6 milliseconds until an idle transaction ends
SELECT
    r.received_at_us, current_setting('synchronous_commit') = 'off', r.new,
    CASE
        WHEN current_setting('idle_in_transaction_session_timeout') = '0'
            OR current_setting('idle_in_transaction_session_timeout')::interval
                > $6 * interval '1 millisecond'
            THEN set_config('idle_in_transaction_session_timeout', $6::text, true) IS NOT NULL
    END
FROM semel.receive_batch($1, $2::text[], $3::text[], $4::bytea[], $5) AS r;
