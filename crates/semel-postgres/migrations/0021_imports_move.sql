-- What a take-over consists of survives a dump. The function of its trigger is named by chance, not by the number
-- of the table, which is another one in the cluster that the dump is restored into, and may be another table's
-- there; whoever ends a take-over asks the trigger for its function, whatever that is called. And places in the
-- log are compared in the cluster alone where they were noted.

-- Since when this server runs, since when it has kept statistics, which it drops when it crashes, and which
-- cluster it is.
CREATE OR REPLACE FUNCTION semel.import_server() RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
        'started', semel.import_us(pg_postmaster_start_time()),
        'counts', (SELECT semel.import_us(b.stats_reset) FROM pg_stat_bgwriter AS b),
        'system', (SELECT c.system_identifier::text FROM pg_control_system() AS c)
    )
$$;

-- Says whether a switch was noted in another cluster than this one. One that was noted before this was is of
-- here if no relay found that the tables came with a dump, and none will.
CREATE FUNCTION semel.import_moved(noted jsonb) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN jsonb_typeof(noted -> 'system') = 'string' THEN noted ->> 'system' <> c.system_identifier::text
        ELSE h.system_id <> c.system_identifier OR h.generation > 1
    END
    FROM pg_control_system() AS c CROSS JOIN semel.outbox_home AS h
$$;

-- As before; the function has a name that no other has or gets.
CREATE OR REPLACE FUNCTION semel.import_outbox(
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
    -- Not by the number of the table, which is another one after a dump and may be another table's then.
    named text := 'imported_' || replace(gen_random_uuid()::text, '-', '');
    body text;
    body_now text;
    noted jsonb;
BEGIN
    IF source = 'semel.outbox'::regclass THEN
        RAISE EXCEPTION 'semel: % is the outbox itself', source USING ERRCODE = 'SM007',
            HINT = 'name the table that is to be taken over';
    END IF;
    -- Against two who import at once, and so that every row is on one side of the switch.
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', source);
    body := semel.import_body(semel.import_columns(
        source, 'NEW', id_column, aggregatetype_column, aggregateid_column, type_column, payload_column,
        headers_column));
    SELECT split_part(obj_description(t.oid, 'pg_trigger'), ' ', 1)::pg_lsn, p.prosrc
    INTO switched_at, body_now
    FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
    WHERE t.tgrelid = source AND t.tgname = 'semel_import';
    IF body_now IS NULL THEN
        PERFORM semel.import_with(named, body);
        EXECUTE format(
            'CREATE TRIGGER semel_import AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION semel.%I()',
            source, named);
    ELSIF NOT existing THEN
        RAISE EXCEPTION 'semel: % is taken over already', source USING ERRCODE = 'SM007',
            HINT = 'call semel.end_import first to do it anew';
    ELSIF body_now <> body THEN
        RAISE EXCEPTION 'semel: % is taken over already, by other columns', source USING ERRCODE = 'SM007',
            HINT = 'name the columns that were named then, or call semel.end_import first to do it anew';
    END IF;
    copied := 0;
    IF existing THEN
        copied := semel.import_existing(source, order_by, id_column, semel.import_columns(
            source, 's', id_column, aggregatetype_column, aggregateid_column, type_column,
            payload_column, headers_column));
    END IF;
    IF switched_at IS NULL THEN
        noted := semel.import_noted();
        switched_at := pg_current_wal_insert_lsn();
        -- Kept where it ends with the import: the place, and which slots were there.
        EXECUTE format('COMMENT ON TRIGGER semel_import ON %s IS %L', source, switched_at || ' ' || noted);
    END IF;
    RETURN NEXT;
END
$$;

-- Rows of `source` are no longer events. Says whether they were.
CREATE OR REPLACE FUNCTION semel.end_import(source regclass) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    calls oid;
    named name;
BEGIN
    SELECT p.oid, p.proname INTO calls, named
    FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
    WHERE t.tgrelid = source AND t.tgname = 'semel_import';
    IF calls IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TRIGGER semel_import ON %s', source);
    -- Two tables may have one function, where it was named by a number that came again.
    IF NOT EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgfoid = calls) THEN
        EXECUTE format('DROP FUNCTION semel.%I()', named);
    END IF;
    RETURN true;
END
$$;

-- As before; `moved` nothing can be told, for the switch was noted in the cluster that the tables came from.
CREATE OR REPLACE FUNCTION semel.import_slot(source regclass, slot text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    said text;
    noted jsonb;
    had jsonb;
    now_is record;
    is_same boolean;
BEGIN
    IF slot IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT obj_description(t.oid, 'pg_trigger') INTO said
    FROM pg_trigger AS t WHERE t.tgrelid = source AND t.tgname = 'semel_import';
    noted := substring(said FROM ' (.*)$')::jsonb;
    -- An import of an older version noted the slots by name alone, with a number; one before that, none.
    had := CASE jsonb_typeof(noted -> 'slots') WHEN 'object' THEN noted -> 'slots' ELSE noted END;
    now_is := semel.import_seen(slot);
    IF said IS NOT NULL AND semel.import_moved(noted) THEN
        RETURN 'moved';
    ELSIF now_is.seen IS NULL THEN
        RETURN 'none';
    ELSIF had IS NOT NULL AND NOT had ? slot THEN
        RETURN 'new';
    ELSIF now_is.confirmed >= split_part(said, ' ', 1)::pg_lsn THEN
        is_same := semel.import_same(noted, slot, now_is.seen);
        RETURN CASE WHEN is_same THEN 'confirmed' WHEN NOT is_same THEN 'new' ELSE 'unproven' END;
    END IF;
    -- A slot that is made begins behind all that was written by then: this one was there.
    RETURN CASE WHEN now_is.status = 'lost' THEN 'lost' ELSE 'behind' END;
END
$$;

REVOKE ALL ON FUNCTION semel.import_moved FROM PUBLIC;
