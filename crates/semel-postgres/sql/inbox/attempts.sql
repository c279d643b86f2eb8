-- Reads how often messages were run, and the time.
-- $1 consumer, $2 sources, $3 ids
SELECT m.source, m.message_id, coalesce(a.count, 0), coalesce(a.first_at_us, t.now_us), t.now_us
FROM unnest($2::text[], $3::text[]) AS m (source, message_id)
CROSS JOIN (SELECT semel.now_us() AS now_us OFFSET 0) AS t
LEFT JOIN semel.inbox_attempt AS a
    ON a.consumer = $1 AND a.source = m.source AND a.message_id = m.message_id;
