-- What the server lets this session do, and whether it keeps what it acknowledges.
--
-- Where commits wait for standbys, this is one that does. A primary that was cut off from them and
-- started again shows what it committed and nobody was told: it does not get past this, and all that
-- one that does shows here is on the standbys too.
SELECT
    current_setting('server_version_num')::bigint,
    current_setting('transaction_read_only') = 'on',
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
    current_setting('default_transaction_isolation') = 'read committed',
    CASE
        WHEN
            current_setting('transaction_read_only') = 'on'
            OR current_setting('synchronous_standby_names') = ''
            THEN NULL
        WHEN
            current_setting('synchronous_commit') = 'off'
            AND set_config('synchronous_commit', 'on', true) IS NULL
            THEN NULL
        -- Nothing but the commit waits for anybody, and only if the transaction wrote.
        ELSE pg_logical_emit_message(true, 'semel', '')
    END;
