-- Takes over an outbox table that another relay reads, such as Debezium's event router, and gives it back.

-- How the columns of such a table become those of semel.outbox. Bytes stay as they are, anything else is
-- told as the text that the server shows. An id that is no UUID becomes the UUID of its digest: the same
-- for every copy.
CREATE FUNCTION semel.import_columns(
    source regclass, prefix text, id_column text, aggregatetype_column text, aggregateid_column text,
    type_column text, payload_column text, headers_column text
) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    wanted record;
    of_type text;
    listed text := '';
    said text;
BEGIN
    FOR wanted IN
        SELECT w.part, w.name FROM unnest(
            ARRAY['id', 'aggregatetype', 'aggregateid', 'type', 'payload', 'headers'],
            ARRAY[
                id_column, aggregatetype_column, aggregateid_column, type_column, payload_column,
                headers_column
            ]
        ) WITH ORDINALITY AS w (part, name, place)
        ORDER BY w.place
    LOOP
        SELECT format_type(a.atttypid, NULL) INTO of_type FROM pg_attribute AS a
        WHERE a.attrelid = source AND a.attname = wanted.name AND a.attnum > 0 AND NOT a.attisdropped;
        IF of_type IS NULL AND wanted.name IS NOT NULL THEN
            RAISE EXCEPTION 'semel: the table % has no column % for the %', source, wanted.name, wanted.part
                USING ERRCODE = 'SM007',
                    HINT = 'name the column, as in ' || wanted.part || '_column => ''event_' || wanted.part
                        || '''';
        END IF;
        said := CASE WHEN wanted.name IS NOT NULL THEN format('%s.%I', prefix, wanted.name) END;
        listed := listed || CASE
            WHEN wanted.name IS NULL THEN 'NULL'
            WHEN wanted.part = 'id' AND of_type <> 'uuid' THEN format(
                'CASE WHEN %1$s::text ~* ''^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'' '
                'THEN %1$s::text ELSE md5(%1$s::text) END::uuid', said)
            WHEN wanted.part = 'payload' AND of_type <> 'bytea' THEN
                format('convert_to(%s::text, ''UTF8'')', said)
            WHEN wanted.part = 'headers' THEN format('%s::jsonb', said)
            WHEN wanted.part IN ('id', 'payload') THEN said
            ELSE format('%s::text', said)
        END || ', ';
    END LOOP;
    RETURN rtrim(listed, ', ');
END
$$;

-- From now on every row that is inserted into `source` is an event in semel.outbox too, in the same
-- transaction: those who insert notice nothing. With `existing`, what is in it already becomes events
-- first, in the order of the column `order_by`. Waits at most 2 s for transactions that have inserted
-- and are still open. Returns the place in the log behind which everything is in semel.outbox: another
-- relay has to go on until it has confirmed that place, and no further.
CREATE FUNCTION semel.import_outbox(
    source regclass,
    existing boolean DEFAULT false,
    order_by text DEFAULT NULL,
    id_column text DEFAULT 'id',
    aggregatetype_column text DEFAULT 'aggregatetype',
    aggregateid_column text DEFAULT 'aggregateid',
    type_column text DEFAULT 'type',
    payload_column text DEFAULT 'payload',
    headers_column text DEFAULT NULL
) RETURNS TABLE (copied bigint, switched_at pg_lsn)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    into_outbox text := 'INSERT INTO semel.outbox '
        '(id, aggregatetype, aggregateid, type, payload, headers) ';
    named text := 'imported_' || source::oid;
BEGIN
    IF source = 'semel.outbox'::regclass THEN
        RAISE EXCEPTION 'semel: % is the outbox itself', source USING ERRCODE = 'SM007',
            HINT = 'name the table that is to be taken over';
    END IF;
    -- Against two who import at once, and so that every row is on one side of the switch.
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', source);
    IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = source AND t.tgname = 'semel_import') THEN
        RAISE EXCEPTION 'semel: % is taken over already', source USING ERRCODE = 'SM007',
            HINT = 'call semel.end_import first to do it anew';
    END IF;
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION semel.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
        'SET search_path = pg_catalog, pg_temp AS $t$ BEGIN %s VALUES (%s); RETURN NULL; END $t$',
        named, into_outbox, semel.import_columns(
            source, 'NEW', id_column, aggregatetype_column, aggregateid_column, type_column,
            payload_column, headers_column));
    EXECUTE format('REVOKE ALL ON FUNCTION semel.%I() FROM PUBLIC', named);
    EXECUTE format(
        'CREATE TRIGGER semel_import AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION semel.%I()',
        source, named);
    copied := 0;
    IF existing THEN
        EXECUTE into_outbox || format('SELECT %s FROM %s AS s', semel.import_columns(
            source, 's', id_column, aggregatetype_column, aggregateid_column, type_column,
            payload_column, headers_column), source)
            || CASE WHEN order_by IS NULL THEN '' ELSE format(' ORDER BY s.%I', order_by) END;
        GET DIAGNOSTICS copied = ROW_COUNT;
    END IF;
    switched_at := pg_current_wal_insert_lsn();
    -- Kept where it ends with the import.
    EXECUTE format('COMMENT ON TRIGGER semel_import ON %s IS %L', source, switched_at);
    RETURN NEXT;
END
$$;

-- Tells since which place in the log `source` is taken over (NULL: it is not), and whether a replication
-- slot has confirmed that place, so that whoever reads the slot is not needed any more (NULL: there is no
-- such slot, or none was named).
CREATE FUNCTION semel.import_state(source regclass, slot text DEFAULT NULL)
RETURNS TABLE (switched_at pg_lsn, is_confirmed boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT i.at, (SELECT s.confirmed_flush_lsn >= i.at FROM pg_replication_slots AS s WHERE s.slot_name = slot)
    FROM (SELECT) AS one
    LEFT JOIN (
        SELECT obj_description(t.oid, 'pg_trigger')::pg_lsn AS at
        FROM pg_trigger AS t WHERE t.tgrelid = source AND t.tgname = 'semel_import'
    ) AS i ON true
$$;

-- Rows of `source` are no longer events. Says whether they were.
CREATE FUNCTION semel.end_import(source regclass) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = source AND t.tgname = 'semel_import') THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TRIGGER semel_import ON %s', source);
    EXECUTE format('DROP FUNCTION semel.%I()', 'imported_' || source::oid);
    RETURN true;
END
$$;

-- Makes the publication that relays read slots by, if it is missing: of each event its position alone, as
-- of one table whatever the partition.
CREATE FUNCTION semel.publish_positions(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_publication AS p WHERE p.pubname = name) THEN
        RETURN false;
    END IF;
    EXECUTE format(
        'CREATE PUBLICATION %I FOR TABLE semel.outbox%s '
        'WITH (publish = ''insert'', publish_via_partition_root = true)',
        name,
        -- Before PostgreSQL 15 a publication has all columns.
        CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN ' (pos)' ELSE '' END);
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION
    semel.import_columns, semel.import_outbox, semel.import_state, semel.end_import,
    semel.publish_positions
FROM PUBLIC;
