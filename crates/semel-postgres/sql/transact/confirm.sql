-- Where commits wait for standbys, has this transaction's do so too, although it changes nothing: what it
-- saw is on them then.
SELECT
    CASE
        WHEN current_setting('synchronous_standby_names') <> ''
            THEN pg_logical_emit_message(true, 'semel', '')::text
    END;
