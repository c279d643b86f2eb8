-- What a relay asks: to lead a destination, for a pass, to settle, to drop what everybody has. Each call
-- is a transaction of its own, reads the last row of the cursor, and adds the next one at most.

-- The last position that was drawn. It is read without a snapshot: what is read first is drawn first.
CREATE FUNCTION semel.outbox_drawn() RETURNS bigint
LANGUAGE sql VOLATILE
AS $$ SELECT s.last_value - CASE WHEN s.is_called THEN 0 ELSE 1 END FROM semel.outbox_pos AS s $$;

-- Refuses a standby: what it shows as committed says nothing of what is still open.
CREATE FUNCTION semel.outbox_admit() RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'semel: a standby cannot tell what is committed'
            USING ERRCODE = '25006', HINT = 'connect to the primary';
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'semel: a relay works in READ COMMITTED transactions'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    RETURN semel.commits_durably();
END
$$;

-- Adds the next row of a cursor, unless somebody else did: then nothing is written. Old rows go in
-- strides, so that nobody searches among those that are gone and cannot be forgotten yet.
CREATE FUNCTION semel.outbox_move(next semel.outbox_cursor) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    INSERT INTO semel.outbox_cursor SELECT (next).* ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF next.seq % 64 = 0 THEN
        DELETE FROM semel.outbox_cursor AS c
        WHERE c.destination = next.destination AND c.seq BETWEEN next.seq - 192 AND next.seq - 64;
    END IF;
    RETURN true;
END
$$;

-- Finds out whether the table came with a dump into another cluster, where the transaction ids in it
-- mean nothing. Then all that is in it now is behind a line: nobody appends while the line is drawn.
CREATE FUNCTION semel.outbox_settled_in() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    here bigint;
BEGIN
    PERFORM FROM pg_sequence AS s WHERE s.seqrelid = 'semel.outbox_pos'::regclass
        AND s.seqcache = 1 AND s.seqincrement = 1 AND NOT s.seqcycle;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'semel: the sequence semel.outbox_pos was changed' USING ERRCODE = 'SM011',
            HINT = 'ALTER SEQUENCE semel.outbox_pos CACHE 1 INCREMENT 1 NO CYCLE: else positions are not '
                'drawn in order, and events are lost';
    END IF;
    SELECT c.system_identifier INTO here FROM pg_control_system() AS c;
    PERFORM FROM semel.outbox_home AS h WHERE h.system_id = here;
    IF FOUND THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY semel.outbox IN SHARE MODE;
    UPDATE semel.outbox_home AS h
    SET generation = h.generation + 1, system_id = here, base_pos = semel.outbox_drawn()
    WHERE h.system_id <> here;
    RETURN FOUND;
END
$$;

-- The cursor of a destination that nobody ever led.
CREATE FUNCTION semel.outbox_begun(
    destination text, home semel.outbox_home, begins_now boolean, drawn bigint
)
RETURNS semel.outbox_cursor
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    made semel.outbox_cursor;
BEGIN
    made.destination := destination;
    made.seq := 0;
    made.epoch := 0;
    made.generation := home.generation;
    made.base_pos := home.base_pos;
    made.pass := 0;
    made.is_open := false;
    made.settled := 0;
    IF begins_now THEN
        -- Nobody was appending when the base was drawn.
        made.from_pos := greatest(drawn, home.base_pos);
        made.from_next := pg_current_xact_id();
        -- A new statement: the snapshot is taken after both.
        SELECT pg_current_snapshot(), semel.outbox_drawn() INTO made.from_snapshot, made.upto_pos;
    ELSE
        made.from_pos := home.base_pos;
        made.from_next := '3';
        made.from_snapshot := '3:3:'; -- shows nothing: the first transaction id is 3
        made.upto_pos := 0;
        IF home.base_pos > 0 THEN
            made.floor_pos := 0;
            made.old_from := made.from_snapshot;
            made.old_to := made.from_snapshot;
            made.old_settled := 0;
            made.old_upto := 0;
        END IF;
    END IF;
    made.to_pos := made.from_pos;
    made.to_next := made.from_next;
    RETURN made;
END
$$;

-- The cursor of a destination that was led in the cluster that the dump came from. What it had there is
-- judged by the snapshots of there; all behind the last position that was drawn there before its last
-- snapshot it cannot have had. In this cluster it has nothing.
CREATE FUNCTION semel.outbox_moved_in(last semel.outbox_cursor, home semel.outbox_home)
RETURNS semel.outbox_cursor
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    made semel.outbox_cursor := last;
BEGIN
    IF last.old_upto IS NOT NULL AND last.settled < last.base_pos THEN
        made.floor_pos := greatest(last.floor_pos, last.settled);
    ELSE
        made.floor_pos := last.base_pos;
        made.old_from := last.from_snapshot;
        made.old_to := CASE WHEN last.is_open THEN last.to_snapshot ELSE last.from_snapshot END;
        made.old_settled := CASE WHEN last.is_open THEN last.settled ELSE 0 END;
        made.old_upto := last.upto_pos;
    END IF;
    made.generation := home.generation;
    made.base_pos := home.base_pos;
    made.is_open := false;
    made.settled := 0;
    made.from_snapshot := '3:3:';
    made.from_pos := home.base_pos;
    made.from_next := '3';
    made.to_snapshot := NULL;
    made.to_pos := home.base_pos;
    made.to_next := '3';
    made.to_lsn := NULL;
    RETURN made;
END
$$;

-- Takes the leadership if nobody holds it: by one row, however much waits. An epoch is above the last one
-- and not below the time, so that one which a lost standby had never comes again.
CREATE FUNCTION semel.outbox_lead(
    of_destination text, by_owner text, for_us bigint, begins_now boolean,
    OUT leads boolean, OUT epoch bigint, OUT generation integer, OUT owner text, OUT ends_in_us bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    home semel.outbox_home;
    last semel.outbox_cursor;
    next semel.outbox_cursor;
    now_us bigint;
    drawn bigint;
BEGIN
    PERFORM semel.outbox_admit();
    -- Before this transaction has an id.
    drawn := semel.outbox_drawn();
    PERFORM semel.outbox_settled_in();
    SELECT h.* INTO home FROM semel.outbox_home AS h;
    FOR attempt IN 1 .. 8 LOOP
        SELECT c.* INTO last FROM semel.outbox_cursor AS c
        WHERE c.destination = of_destination ORDER BY c.seq DESC LIMIT 1;
        now_us := semel.now_us();
        leads := last.seq IS NULL OR last.lease_us = 0 OR now_us - last.renewed_at_us >= last.lease_us;
        IF last.seq IS NULL THEN
            next := semel.outbox_begun(of_destination, home, begins_now, drawn);
        ELSIF last.generation <> home.generation THEN
            next := semel.outbox_moved_in(last, home);
        ELSE
            next := last;
        END IF;
        next.seq := next.seq + 1;
        IF leads THEN
            next.epoch := greatest(next.epoch + 1, now_us);
            next.owner := by_owner;
            next.lease_us := for_us;
        END IF;
        next.renewed_at_us := now_us;
        -- A lease that was renewed in the future, by the clock of a server that is gone, begins now.
        IF NOT leads AND last.renewed_at_us <= now_us THEN
            next.renewed_at_us := last.renewed_at_us;
            EXIT;
        END IF;
        EXIT WHEN semel.outbox_move(next);
        IF attempt = 8 THEN
            RAISE EXCEPTION 'semel: others move the cursor of % all the time', of_destination
                USING ERRCODE = '40001';
        END IF;
    END LOOP;
    epoch := next.epoch;
    generation := next.generation;
    owner := next.owner;
    ends_in_us := greatest(0, next.renewed_at_us + next.lease_us - now_us);
END
$$;

-- The last row of a destination, if this epoch leads it and the table is where it was.
CREATE FUNCTION semel.outbox_led(of_destination text, of_epoch bigint) RETURNS semel.outbox_cursor
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    last semel.outbox_cursor;
    here bigint;
BEGIN
    SELECT c.* INTO last FROM semel.outbox_cursor AS c
    WHERE c.destination = of_destination ORDER BY c.seq DESC LIMIT 1;
    SELECT c.system_identifier INTO here FROM pg_control_system() AS c;
    PERFORM FROM semel.outbox_home AS h WHERE h.system_id = here AND h.generation = last.generation;
    IF NOT FOUND OR last.epoch IS DISTINCT FROM of_epoch THEN
        last := NULL;
    END IF;
    RETURN last;
END
$$;

-- Renews a leadership, or gives it up: for no time at all. False: it is another's by now.
CREATE FUNCTION semel.outbox_renew(of_destination text, of_epoch bigint, for_us bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    next semel.outbox_cursor;
BEGIN
    PERFORM semel.outbox_admit();
    FOR attempt IN 1 .. 8 LOOP
        next := semel.outbox_led(of_destination, of_epoch);
        IF next.seq IS NULL OR next.lease_us = 0 THEN
            RETURN false;
        END IF;
        next.seq := next.seq + 1;
        next.renewed_at_us := semel.now_us();
        next.lease_us := for_us;
        IF semel.outbox_move(next) THEN
            RETURN true;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'semel: others move the cursor of % all the time', of_destination
        USING ERRCODE = '40001';
END
$$;

-- Says whether something is committed that the destination does not have. Nothing is written.
CREATE FUNCTION semel.outbox_waits(last semel.outbox_cursor) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    found_pos bigint;
    late xid8[];
BEGIN
    IF last.old_upto IS NOT NULL THEN
        RETURN true;
    END IF;
    SELECT o.pos INTO found_pos FROM semel.outbox AS o
    WHERE o.pos > last.from_pos AND NOT pg_visible_in_snapshot(o.xid, last.from_snapshot)
    ORDER BY o.pos LIMIT 1;
    IF found_pos IS NOT NULL THEN
        RETURN true;
    END IF;
    late := semel.outbox_late(last, pg_current_snapshot());
    RETURN cardinality(late) > 0 AND EXISTS (
        SELECT FROM unnest(late) AS l (xid)
        CROSS JOIN LATERAL (
            SELECT FROM semel.outbox AS o
            WHERE o.xid = l.xid AND o.pos > last.base_pos AND o.pos <= last.from_pos
            LIMIT 1
        ) AS o
    );
END
$$;

-- The transactions that the last snapshot does not show and another does, and that may have drawn a
-- position before the last snapshot was taken: those that it lists as open; and those that had an id
-- already which it does not list, since all it says of ids above the last that had ended is that.
CREATE FUNCTION semel.outbox_late(last semel.outbox_cursor, shows pg_snapshot) RETURNS xid8[]
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    next_xid xid8 := pg_snapshot_xmax(last.from_snapshot);
    late xid8[];
BEGIN
    late := ARRAY(
        SELECT x.xid FROM pg_snapshot_xip(last.from_snapshot) AS x (xid)
        WHERE pg_visible_in_snapshot(x.xid, shows)
    );
    -- From id to id by the index.
    WHILE next_xid < last.from_next LOOP
        SELECT o.xid INTO next_xid FROM semel.outbox AS o
        WHERE o.xid >= next_xid AND o.xid < last.from_next
        ORDER BY o.xid, o.pos LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF pg_visible_in_snapshot(next_xid, shows) THEN
            late := late || next_xid;
        END IF;
        next_xid := (next_xid::text::numeric + 1)::text::xid8;
    END LOOP;
    RETURN late;
END
$$;

-- Tells what to read; opens the next pass if none is open, this epoch leads and something waits. Whoever
-- calls it commits before it reads by the answer: a snapshot that a crash forgets would cover
-- transaction ids that are then handed out again. With `flushed`, nothing is told before some standby
-- has flushed all that the pass shows.
CREATE FUNCTION semel.outbox_pass(
    of_destination text, of_epoch bigint, flushed boolean,
    OUT is_known boolean, OUT pass bigint, OUT settled bigint, OUT from_pos bigint,
    OUT upto_pos bigint, OUT base_pos bigint, OUT from_snapshot text, OUT to_snapshot text,
    OUT late text, OUT floor_pos bigint, OUT old_from text, OUT old_to text, OUT old_settled bigint,
    OUT old_upto bigint, OUT now_us bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    last semel.outbox_cursor;
    next semel.outbox_cursor;
    drawn bigint;
BEGIN
    PERFORM semel.outbox_admit();
    -- Before this transaction has an id, whatever else it tries.
    drawn := semel.outbox_drawn();
    FOR attempt IN 1 .. 8 LOOP
        SELECT c.* INTO last FROM semel.outbox_cursor AS c
        WHERE c.destination = of_destination ORDER BY c.seq DESC LIMIT 1;
        is_known := last.seq IS NOT NULL;
        EXIT WHEN last.is_open OR NOT is_known;
        next := semel.outbox_led(of_destination, of_epoch);
        EXIT WHEN next.seq IS NULL OR NOT semel.outbox_waits(next);
        next.seq := next.seq + 1;
        next.pass := next.pass + 1;
        next.is_open := true;
        next.settled := 0;
        next.to_pos := drawn;
        -- Whoever drew a position up to that one has a smaller id than this.
        next.to_next := pg_current_xact_id();
        -- In this order: the snapshot was taken when the statement began.
        SELECT pg_current_snapshot(), semel.outbox_drawn(), pg_current_wal_insert_lsn()
        INTO next.to_snapshot, next.upto_pos, next.to_lsn;
        last := next;
        EXIT WHEN semel.outbox_move(next);
        last.is_open := false;
    END LOOP;
    now_us := semel.now_us();
    IF NOT coalesce(last.is_open, false) OR flushed AND NOT semel.outbox_flushed(last.to_lsn) THEN
        RETURN;
    END IF;
    pass := last.pass;
    settled := last.settled;
    from_pos := last.from_pos;
    upto_pos := last.upto_pos;
    base_pos := last.base_pos;
    from_snapshot := last.from_snapshot;
    to_snapshot := last.to_snapshot;
    late := semel.outbox_late(last, last.to_snapshot);
    floor_pos := last.floor_pos;
    old_from := last.old_from;
    old_to := last.old_to;
    old_settled := last.old_settled;
    old_upto := last.old_upto;
END
$$;

-- Reads what a pass shows behind a position, in order. This and the next two are functions for the sake
-- of their settings: a table that was never analyzed is thought to be empty, and would be read whole.
CREATE FUNCTION semel.outbox_window(
    behind bigint, upto bigint, from_snapshot pg_snapshot, to_snapshot pg_snapshot, rows_max bigint
) RETURNS SETOF semel.outbox_read
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT e.*
    FROM semel.outbox_read AS e
    WHERE e.pos > behind AND e.pos <= upto
        AND pg_visible_in_snapshot(e.xid, to_snapshot)
        AND NOT pg_visible_in_snapshot(e.xid, from_snapshot)
    ORDER BY e.pos
    LIMIT rows_max;
END
$$;

-- Reads what transactions appended that were open when the pass before began and have ended when this
-- one did, for each in order: their positions are old.
CREATE FUNCTION semel.outbox_window_late(behind bigint, upto bigint, late xid8[], rows_max bigint)
RETURNS SETOF semel.outbox_read
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT e.*
    FROM unnest(late) AS x (xid)
    CROSS JOIN LATERAL (
        SELECT e.*
        FROM semel.outbox_read AS e
        WHERE e.xid = x.xid AND e.pos > behind AND e.pos <= upto
        ORDER BY e.xid, e.pos
        LIMIT rows_max
    ) AS e;
END
$$;

-- Reads what came with a dump and the destination did not have in the cluster that it came from. All of
-- it is committed here; the snapshots are of there.
CREATE FUNCTION semel.outbox_window_old(
    behind bigint, upto bigint, old_from pg_snapshot, old_to pg_snapshot, old_settled bigint,
    old_upto bigint, rows_max bigint
) RETURNS SETOF semel.outbox_read
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT e.*
    FROM semel.outbox_read AS e
    WHERE e.pos > behind AND e.pos <= upto
        AND (e.pos > old_upto OR NOT pg_visible_in_snapshot(
            e.xid, CASE WHEN e.pos <= old_settled THEN old_to ELSE old_from END
        ))
    ORDER BY e.pos
    LIMIT rows_max;
END
$$;

-- Says whether some standby has flushed what lies before a place in the log.
CREATE FUNCTION semel.outbox_flushed(lsn pg_lsn) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM pg_stat_replication AS r WHERE r.flush_lsn >= lsn AND r.state = 'streaming';
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM pg_stat_replication AS r WHERE r.state IS NULL;
    IF FOUND THEN
        RAISE EXCEPTION 'semel: the owner of the schema may not see what standbys have flushed'
            USING ERRCODE = '42501', HINT = 'GRANT pg_read_all_stats to the owner of the schema';
    END IF;
    RETURN false;
END
$$;

REVOKE ALL ON FUNCTION
    semel.outbox_drawn, semel.outbox_admit, semel.outbox_move, semel.outbox_settled_in,
    semel.outbox_begun, semel.outbox_moved_in, semel.outbox_lead, semel.outbox_led,
    semel.outbox_renew, semel.outbox_waits, semel.outbox_late, semel.outbox_pass, semel.outbox_flushed,
    semel.outbox_window, semel.outbox_window_late, semel.outbox_window_old
FROM PUBLIC;
