-- Lists what operators said, the newest first.
-- $1 destination (NULL: any), $2 how many
SELECT a.destination, a.at_us, a.kind, uuid_send(a.event), a.rows, a.actor, a.note
FROM semel.outbox_audit AS a
WHERE $1::text IS NULL OR a.destination = $1
ORDER BY a.row_id DESC
LIMIT $2;
