-- Keeps what the run of a message recorded.
-- $1 consumer, $2 source, $3 id, $4 answer, $5 ids of events, as an array in text
UPDATE semel.inbox
SET answer = $4, events = $5::text::uuid[]
WHERE consumer = $1 AND source = $2 AND message_id = $3;
