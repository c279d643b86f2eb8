-- Remembers messages in the transaction of their effects: sorted, so that no two batches wait for each
-- other. The last column names those that are new, unless all are: a line each, source and id.
-- $1 consumer, $2 sources, $3 ids, $4 fingerprints, $5 for how long they are
-- remembered, $6 milliseconds until an idle transaction ends
WITH put AS (
    INSERT INTO semel.inbox (
        consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
    )
    SELECT $1, m.source, m.message_id, m.fingerprint, 'done', t.now_us, t.now_us + $5
    FROM unnest($2::text[], $3::text[], $4::bytea[]) AS m (source, message_id, fingerprint)
    CROSS JOIN (SELECT semel.now_us() AS now_us OFFSET 0) AS t
    ON CONFLICT (consumer, source, message_id) DO NOTHING
    RETURNING source, message_id, received_at_us
)
SELECT
    coalesce(min(received_at_us), 0), current_setting('synchronous_commit') = 'off',
    CASE
        WHEN count(*) < cardinality($3::text[])
            THEN coalesce(string_agg(source || chr(9) || message_id, chr(10)), '')
    END,
    CASE
        WHEN current_setting('idle_in_transaction_session_timeout') = '0'
            OR current_setting('idle_in_transaction_session_timeout')::interval
                > $6 * interval '1 millisecond'
            THEN set_config('idle_in_transaction_session_timeout', $6::text, true) IS NOT NULL
    END
FROM put;
