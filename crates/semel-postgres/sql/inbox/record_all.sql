-- Keeps what the runs of messages recorded.
-- $1 consumer, $2 sources, $3 ids, $4 answers, $5 ids of events, each an array in text
UPDATE semel.inbox AS i
SET answer = m.answer, events = nullif(m.events, '{}')::uuid[]
FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[])
    AS m (source, message_id, answer, events)
WHERE i.consumer = $1 AND i.source = m.source AND i.message_id = m.message_id;
