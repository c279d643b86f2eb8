-- A replication slot that was dropped and made anew is told from the one that was there at the switch by what
-- only that one can show, not by how much it has told: a new one has soon told as much.

-- Gives the statistics of a slot the time of a reset, if they have none: a slot that is made anew begins without
-- one, whatever its name. Only a role that may reset them can (a superuser, or by GRANT EXECUTE), and only
-- servers from 14 on count.
CREATE FUNCTION semel.import_mark(slot text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    marks text := 'SELECT pg_stat_reset_replication_slot(s.slot_name) FROM pg_stat_replication_slots AS s '
        'WHERE s.slot_name = $1 AND s.stats_reset IS NULL';
BEGIN
    IF current_setting('server_version_num')::integer >= 140000
        AND has_function_privilege('pg_stat_reset_replication_slot(text)', 'EXECUTE')
    THEN
        EXECUTE marks USING slot;
    END IF;
EXCEPTION WHEN invalid_parameter_value OR undefined_object OR insufficient_privilege THEN
    -- It was dropped meanwhile.
    NULL;
END
$$;

-- What tells a slot from another one of its name, and how far it is; nothing if it is not there. First the slot,
-- then its statistics: those of a slot that was dropped in between never come back.
CREATE FUNCTION semel.import_seen(slot text, OUT confirmed pg_lsn, OUT status text, OUT seen jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    reader integer;
    told bigint;
    reset timestamptz;
BEGIN
    SELECT s.confirmed_flush_lsn, s.wal_status, s.active_pid INTO confirmed, status, reader
    FROM pg_replication_slots AS s
    WHERE s.slot_name = slot AND s.slot_type = 'logical' AND s.database = current_database();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- A transaction would be told again what it was told before.
    PERFORM pg_stat_clear_snapshot();
    IF current_setting('server_version_num')::integer >= 140000 THEN
        SELECT s.total_txns, s.stats_reset INTO told, reset
        FROM pg_stat_replication_slots AS s WHERE s.slot_name = slot;
    END IF;
    seen := jsonb_build_object(
        'told', told,
        'reset', semel.import_us(reset),
        'reader', reader,
        -- Hidden from most roles; the process and the server's start are not.
        'reading', (SELECT semel.import_us(a.backend_start) FROM pg_stat_activity AS a WHERE a.pid = reader)
    );
END
$$;

-- A time as a number, which looks the same in every session.
CREATE FUNCTION semel.import_us(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT (extract(epoch FROM at) * 1000000)::bigint $$;

-- Since when this server runs, and since when it has kept statistics: it drops them when it crashes.
CREATE FUNCTION semel.import_server() RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
        'started', semel.import_us(pg_postmaster_start_time()),
        'counts', (SELECT semel.import_us(b.stats_reset) FROM pg_stat_bgwriter AS b)
    )
$$;

-- What an import notes: every slot of the database that could be the one that is waited for, and the server.
CREATE FUNCTION semel.import_noted() RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one name;
    seen jsonb;
    slots jsonb := '{}';
BEGIN
    FOR one IN
        SELECT s.slot_name FROM pg_replication_slots AS s
        WHERE s.slot_type = 'logical' AND s.database = current_database() AND NOT s.temporary
    LOOP
        -- A relay's own slots are compared with the table.
        IF NOT starts_with(one::text, 'semel_') THEN
            PERFORM semel.import_mark(one::text);
        END IF;
        seen := (semel.import_seen(one::text)).seen;
        IF seen IS NOT NULL THEN
            slots := slots || jsonb_build_object(one::text, seen);
        END IF;
    END LOOP;
    RETURN semel.import_server() || jsonb_build_object('slots', slots);
END
$$;

-- Tells whether the slot that is seen is the one that was noted: NULL if nothing shows it. It is the same one if
-- the connection that read it reads it still, for a slot cannot be dropped under its reader, or if its statistics
-- bear the reset that they had. It is another one if that reset is gone, or it has told less, though the
-- server has lost no statistics since.
CREATE FUNCTION semel.import_same(noted jsonb, slot text, seen jsonb) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN n.had ->> 'reset' = seen ->> 'reset' THEN true
        WHEN n.had ->> 'reader' = seen ->> 'reader' AND noted ->> 'started' = n.server ->> 'started'
            AND coalesce(n.had ->> 'reading' = seen ->> 'reading', true) THEN true
        WHEN noted ->> 'counts' = n.server ->> 'counts' AND seen ->> 'reset' IS NULL AND (
            n.had ->> 'reset' IS NOT NULL OR (n.had ->> 'told')::bigint > (seen ->> 'told')::bigint
        ) THEN false
    END
    FROM (SELECT noted -> 'slots' -> slot AS had, semel.import_server() AS server) AS n
$$;

-- As before; what is noted of the slots is noted before the place of the switch is taken, so that a slot that is
-- noted was there.
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

-- Tells what a replication slot has of what was in `source` before the switch: `confirmed` it has all,
-- `behind` not yet, `lost` it never will, for the server has dropped what it had not read; `new` it never had
-- it, for it was made after the switch; `unproven` it has all if it is the slot that was there, which nothing
-- shows; `none` there is no such slot in this database.
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
    IF now_is.seen IS NULL THEN
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

DROP FUNCTION semel.import_counted(text);

REVOKE ALL ON FUNCTION
    semel.import_mark, semel.import_noted, semel.import_same, semel.import_seen, semel.import_server,
    semel.import_us
FROM PUBLIC;

-- Names in the audit all that goes with a row that is to be dropped, by the word that was said of that one. It is
-- asked before they go.
CREATE FUNCTION semel.outbox_note_behind(of_destination text, left_out bigint[]) RETURNS void
LANGUAGE sql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
    WITH head AS MATERIALIZED (
        SELECT p.seq, p.id, p.aggregatetype, p.aggregateid, said.actor, said.note
        FROM semel.outbox_parked AS p
        LEFT JOIN LATERAL (
            SELECT a.actor, a.note FROM semel.outbox_audit AS a
            WHERE a.destination = of_destination AND a.event = p.id AND a.kind = 'drop'
            ORDER BY a.row_id DESC LIMIT 1
        ) AS said ON true
        WHERE p.seq = ANY (left_out) AND p.destination = of_destination AND p.state = 'drop'
    )
    INSERT INTO semel.outbox_audit (destination, at_us, kind, event, rows, actor, note)
    SELECT
        of_destination, semel.now_us(), 'drop', b.id, 1, coalesce(h.actor, ''),
        'behind ' || h.id || coalesce(': ' || h.note, '')
    FROM head AS h JOIN semel.outbox_parked AS b
        ON b.destination = of_destination AND b.aggregatetype = h.aggregatetype
        AND b.aggregateid = h.aggregateid AND b.seq <> h.seq
    ORDER BY b.seq
$$;

-- As before; the audit names every event that was left out, not only the first of a lane that was dropped.
CREATE OR REPLACE FUNCTION semel.outbox_settle(
    of_destination text, of_epoch bigint, of_pass bigint, upto bigint, ends boolean,
    park_pos bigint[], park_state text[], park_attempts bigint[], park_why text[],
    sent bigint[], left_out bigint[], failed bigint[], failed_attempts bigint[], failed_why text[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    next semel.outbox_cursor;
BEGIN
    PERFORM semel.outbox_admit();
    FOR attempt IN 1 .. 9 LOOP
        IF attempt = 9 THEN
            RAISE EXCEPTION 'semel: others move the cursor of % all the time', of_destination
                USING ERRCODE = '40001';
        END IF;
        next := semel.outbox_led(of_destination, of_epoch);
        IF next.seq IS NULL OR of_pass <> next.pass THEN
            RETURN false;
        ELSIF of_pass IS NOT NULL AND NOT next.is_open THEN
            RETURN ends;
        END IF;
        next.seq := next.seq + 1;
        IF of_pass IS NOT NULL THEN
            next.settled := greatest(next.settled, upto);
        END IF;
        IF ends THEN
            next.is_open := false;
            next.from_snapshot := next.to_snapshot;
            next.from_pos := next.to_pos;
            next.from_next := next.to_next;
            next.to_snapshot := NULL;
            next.to_lsn := NULL;
            next.floor_pos := NULL;
            next.old_from := NULL;
            next.old_to := NULL;
            next.old_settled := NULL;
            next.old_upto := NULL;
        END IF;
        EXIT WHEN semel.outbox_move(next);
    END LOOP;
    IF cardinality(sent) + cardinality(left_out) + cardinality(failed) > 0 THEN
        PERFORM semel.outbox_note_behind(of_destination, left_out);
        PERFORM semel.outbox_unpark(
            of_destination, sent, left_out, failed, failed_attempts, failed_why
        );
    END IF;
    IF cardinality(park_pos) > 0 THEN
        PERFORM semel.outbox_park(next, park_pos, park_state, park_attempts, park_why);
    END IF;
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION semel.outbox_note_behind FROM PUBLIC;
