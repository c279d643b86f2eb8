-- A row that cannot be an event fails no producer, what is in a table already becomes events also later, and
-- a replication slot that was made after the switch is known as such.

-- Headers as they are told; what is no JSON becomes a string, which no event may have as its headers: the
-- relay parks it and says so.
CREATE FUNCTION semel.import_headers(headers text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN headers::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN to_jsonb(headers);
END
$$;

CREATE OR REPLACE FUNCTION semel.import_columns(
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
            WHEN wanted.part = 'headers' AND of_type <> 'jsonb' THEN
                format('semel.import_headers(%s::text)', said)
            WHEN wanted.part IN ('id', 'payload', 'headers') THEN said
            ELSE format('%s::text', said)
        END || ', ';
    END LOOP;
    RETURN rtrim(listed, ', ');
END
$$;

-- What the trigger of a table does. The columns are read in a block of their own, which writes nothing and
-- so costs no transaction id: what fails there, such as a column that was renamed since, fails no producer.
-- The whole row is then an event of no aggregate, which every destination parks, with what was wrong. What
-- is NULL and may not be stays empty, and is parked too; an id that is NULL is made.
CREATE FUNCTION semel.import_body(listed text) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT format('
DECLARE
    of_id uuid;
    of_aggregatetype text;
    of_aggregateid text;
    of_type text;
    of_payload bytea;
    of_headers jsonb;
BEGIN
    BEGIN
        SELECT %s
        INTO of_id, of_aggregatetype, of_aggregateid, of_type, of_payload, of_headers;
    EXCEPTION WHEN OTHERS THEN
        of_id := md5(row_to_json(NEW)::text)::uuid;
        of_aggregatetype := NULL;
        of_payload := convert_to(row_to_json(NEW)::text, ''UTF8'');
        of_headers := to_jsonb(''import: '' || left(SQLERRM, 200));
    END;
    INSERT INTO semel.outbox (id, aggregatetype, aggregateid, type, payload, headers)
    VALUES (
        coalesce(of_id, semel.event_id()), coalesce(of_aggregatetype, ''''),
        coalesce(of_aggregateid, ''''), coalesce(of_type, ''''), of_payload, of_headers
    );
    RETURN NULL;
END', listed)
$$;

-- Makes the function of a table's trigger.
CREATE FUNCTION semel.import_with(name text, body text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION semel.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
        'SET search_path = pg_catalog, pg_temp AS %L', name, body);
    EXECUTE format('REVOKE ALL ON FUNCTION semel.%I() FROM PUBLIC', name);
END
$$;

-- How many transactions a slot has told, as far as the server counts that: one that was made anew begins
-- again, and so does every one after a crash.
CREATE FUNCTION semel.import_counted(slot text) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('server_version_num')::integer < 140000 THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT s.total_txns FROM pg_stat_replication_slots AS s WHERE s.slot_name = slot);
END
$$;

-- As before. Where `source` is taken over already, `existing` makes events of those rows that are none yet,
-- by their ids: what was in it before the switch. They lie behind what came since.
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
    named text := 'imported_' || source::oid;
    body text;
    body_now text;
    slots jsonb;
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
        switched_at := pg_current_wal_insert_lsn();
        SELECT coalesce(jsonb_object_agg(s.slot_name::text, coalesce(semel.import_counted(s.slot_name), 0)), '{}')
        INTO slots
        FROM pg_replication_slots AS s
        WHERE s.slot_type = 'logical' AND s.database = current_database();
        -- Kept where it ends with the import: the place, and which slots were there.
        EXECUTE format('COMMENT ON TRIGGER semel_import ON %s IS %L', source, switched_at || ' ' || slots);
    END IF;
    RETURN NEXT;
END
$$;

-- Makes events of those rows of `source` that are none, and says of how many. It is not asked of rows
-- without an id: nobody could tell whether they are events already.
CREATE FUNCTION semel.import_existing(source regclass, order_by text, id_column text, listed text)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rows bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s AS s WHERE s.%I IS NULL', source, id_column) INTO rows;
    IF rows > 0 THEN
        RAISE EXCEPTION 'semel: % rows of % have no id, so that nobody can tell whether they are events',
            rows, source USING ERRCODE = '55000', HINT = 'give each an id of its own first, or delete them';
    END IF;
    EXECUTE format(
        'INSERT INTO semel.outbox (id, aggregatetype, aggregateid, type, payload, headers) '
        'SELECT v.id, coalesce(v.aggregatetype, ''''), coalesce(v.aggregateid, ''''), '
        'coalesce(v.type, ''''), v.payload, v.headers::jsonb '
        'FROM %s AS s CROSS JOIN LATERAL (SELECT %s) '
        'AS v (id, aggregatetype, aggregateid, type, payload, headers) '
        'WHERE NOT EXISTS (SELECT FROM semel.outbox AS o WHERE o.id = v.id) '
        'AND NOT EXISTS (SELECT FROM semel.outbox_parked AS p WHERE p.id = v.id)', source, listed)
        || CASE WHEN order_by IS NULL THEN '' ELSE format(' ORDER BY s.%I', order_by) END;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN rows;
END
$$;

-- Tells what a replication slot has of what was in `source` before the switch: `confirmed` it has all,
-- `behind` not yet, `lost` it never will, for the server has dropped what it had not read; `new` it never had
-- it, for it was made after the switch; `none` there is no such slot in this database.
CREATE FUNCTION semel.import_slot(source regclass, slot text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    noted text;
    had jsonb;
    status text;
    confirmed pg_lsn;
BEGIN
    IF slot IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT s.wal_status, s.confirmed_flush_lsn INTO status, confirmed
    FROM pg_replication_slots AS s
    WHERE s.slot_name = slot AND s.slot_type = 'logical' AND s.database = current_database();
    IF NOT FOUND THEN
        RETURN 'none';
    END IF;
    SELECT obj_description(t.oid, 'pg_trigger') INTO noted
    FROM pg_trigger AS t WHERE t.tgrelid = source AND t.tgname = 'semel_import';
    -- An import from before this was noted tells the place alone.
    had := substring(noted FROM ' (.*)$')::jsonb;
    RETURN CASE
        WHEN had IS NOT NULL AND NOT had ? slot OR semel.import_counted(slot) < (had ->> slot)::bigint
            THEN 'new'
        WHEN confirmed >= split_part(noted, ' ', 1)::pg_lsn THEN 'confirmed'
        WHEN status = 'lost' THEN 'lost'
        ELSE 'behind'
    END;
END
$$;

-- As before, for versions of Semel that do not ask import_slot: is_confirmed is NULL without a slot.
CREATE OR REPLACE FUNCTION semel.import_state(source regclass, slot text DEFAULT NULL)
RETURNS TABLE (switched_at pg_lsn, is_confirmed boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT i.at, CASE WHEN s.has <> 'none' AND i.at IS NOT NULL THEN s.has = 'confirmed' END
    FROM (SELECT semel.import_slot(source, slot) AS has) AS s
    LEFT JOIN (
        SELECT split_part(obj_description(t.oid, 'pg_trigger'), ' ', 1)::pg_lsn AS at
        FROM pg_trigger AS t WHERE t.tgrelid = source AND t.tgname = 'semel_import'
    ) AS i ON true
$$;

-- Tables that are taken over already get the new trigger too.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT p.proname, substring(p.prosrc FROM 'VALUES \((.*)\); RETURN NULL; END') AS listed
        FROM pg_proc AS p
        WHERE p.pronamespace = trim(trailing '.' FROM 'semel.')::regnamespace
            AND p.proname ~ '^imported_[0-9]+$' AND pg_has_role(p.proowner, 'USAGE')
    LOOP
        IF one.listed IS NOT NULL THEN
            PERFORM semel.import_with(one.proname, semel.import_body(one.listed));
        END IF;
    END LOOP;
END
$$;

REVOKE ALL ON FUNCTION
    semel.import_headers, semel.import_body, semel.import_with, semel.import_counted,
    semel.import_existing, semel.import_slot
FROM PUBLIC;
