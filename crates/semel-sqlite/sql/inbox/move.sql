-- Moves a consumer's position in a log forward, unless it stands behind `from` already, such as by
-- another owner's hand.
-- ?1 consumer, ?2 log, ?3 from, ?4 to: the first offset that is not handled, ?5 now
INSERT INTO semel_inbox_position (consumer, log, next, moved_at_us)
VALUES (?1, ?2, ?4, ?5)
ON CONFLICT (consumer, log) DO UPDATE SET next = ?4, moved_at_us = ?5
WHERE next <= ?3;
