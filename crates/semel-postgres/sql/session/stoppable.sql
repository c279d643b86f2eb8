-- Whether a statement of this role may be cancelled: none waits for a standby for so long already. To end
-- that wait is to commit without the standby.
-- $1 how long, in milliseconds
SELECT NOT EXISTS (
    SELECT
    FROM pg_stat_activity AS a
    WHERE a.usename = session_user AND a.wait_event = 'SyncRep'
        AND a.query_start < clock_timestamp() - $1 * interval '1 millisecond'
);
