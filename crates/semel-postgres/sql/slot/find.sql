-- Tells of a replication slot, if it is there, and whether the publication is.
-- $1 name of the slot, $2 name of the publication
SELECT
    EXISTS (SELECT FROM pg_publication AS p WHERE p.pubname = $2),
    (
        SELECT coalesce(s.wal_status, 'lost') <> 'lost' FROM pg_replication_slots AS s
        WHERE s.slot_name = $1 AND s.database = current_database()
    ),
    current_setting('wal_level') = 'logical';
