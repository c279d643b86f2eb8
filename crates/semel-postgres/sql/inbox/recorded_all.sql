-- Reads what is remembered of messages.
-- $1 consumer, $2 sources, $3 ids
SELECT i.fingerprint, i.standing, i.answer, i.events::text, i.received_at_us, i.source, i.message_id
FROM unnest($2::text[], $3::text[]) AS m (source, message_id)
JOIN semel.inbox AS i
    ON i.consumer = $1 AND i.source = m.source AND i.message_id = m.message_id;
