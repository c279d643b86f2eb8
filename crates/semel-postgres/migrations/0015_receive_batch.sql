-- Receives a batch of messages in the transaction of their effects: what of it is known is nearly always
-- nothing, and then rows go in without being looked for first. `new` names those that are new, unless all
-- are: a line each, source and id.
CREATE FUNCTION semel.receive_batch(
    consumer text,
    sources text[],
    message_ids text[],
    fingerprints bytea[],
    remember_us bigint,
    OUT received_at_us bigint,
    OUT new text
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    received_at_us := semel.now_us();
    BEGIN
        INSERT INTO semel.inbox (
            consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
        )
        SELECT receive_batch.consumer, m.source, m.message_id, m.fingerprint, 'done',
            receive_batch.received_at_us, receive_batch.received_at_us + remember_us
        FROM unnest(sources, message_ids, fingerprints) AS m (source, message_id, fingerprint);
        RETURN;
    EXCEPTION WHEN unique_violation THEN
        -- Undone as far as it went, and nothing of it is in the server's log.
        new := '';
    END;
    WITH put AS (
        INSERT INTO semel.inbox (
            consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
        )
        SELECT receive_batch.consumer, m.source, m.message_id, m.fingerprint, 'done',
            receive_batch.received_at_us, receive_batch.received_at_us + remember_us
        FROM unnest(sources, message_ids, fingerprints) AS m (source, message_id, fingerprint)
        ON CONFLICT (consumer, source, message_id) DO NOTHING
        RETURNING source, message_id
    )
    SELECT coalesce(string_agg(p.source || chr(9) || p.message_id, chr(10)), '') INTO new
    FROM put AS p;
END
$$;

REVOKE ALL ON FUNCTION semel.receive_batch FROM PUBLIC;
