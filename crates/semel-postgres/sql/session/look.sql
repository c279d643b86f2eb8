-- What the server lets this session do, and whether it keeps what it acknowledges.
SELECT
    current_setting('server_version_num')::bigint,
    current_setting('transaction_read_only') = 'on',
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
    current_setting('default_transaction_isolation') = 'read committed';
