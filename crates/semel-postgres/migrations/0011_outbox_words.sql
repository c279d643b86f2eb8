-- What a leader says that it has done, and what operators ask about destinations and say to them.

-- Writes what a leader has done, or nothing: false if another leads or the pass is another. Said again
-- after a lost answer, it changes nothing more. Parked rows are copied from the table by their positions,
-- which cannot be dropped before this.
CREATE FUNCTION semel.outbox_settle(
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

-- Writes what became of parked rows. One that is to be dropped takes along what is behind it by now.
CREATE FUNCTION semel.outbox_unpark(
    of_destination text, sent bigint[], left_out bigint[], failed bigint[],
    failed_attempts bigint[], failed_why text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    DELETE FROM semel.outbox_parked AS p
    USING semel.outbox_parked AS head
    WHERE head.seq = ANY (left_out) AND head.destination = of_destination AND head.state = 'drop'
        AND p.destination = head.destination AND p.aggregatetype = head.aggregatetype
        AND p.aggregateid = head.aggregateid;
    DELETE FROM semel.outbox_parked AS p
    WHERE p.seq = ANY (sent || left_out) AND p.destination = of_destination;
    UPDATE semel.outbox_parked AS p
    SET state = 'failed', attempts = f.attempts, why = f.why
    FROM unnest(failed, failed_attempts, failed_why) AS f (seq, attempts, why)
    WHERE p.seq = f.seq AND p.destination = of_destination;
END
$$;

-- Parks rows in the order given; one that is parked already stays as it is.
CREATE FUNCTION semel.outbox_park(
    cursor_row semel.outbox_cursor, park_pos bigint[], park_state text[], park_attempts bigint[],
    park_why text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    missing bigint;
BEGIN
    SELECT a.pos INTO missing FROM unnest(park_pos) AS a (pos)
    WHERE NOT EXISTS (SELECT FROM semel.outbox AS o WHERE o.pos = a.pos)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'semel: no event lies at position %', missing USING ERRCODE = 'SM007';
    END IF;
    INSERT INTO semel.outbox_parked (
        destination, generation, state, attempts, why, parked_at_us, pos, id, aggregatetype,
        aggregateid, type, payload, headers, aggregate_version, trace, cause, tenant, operation, key,
        facet, at_us
    )
    SELECT
        cursor_row.destination, cursor_row.generation, a.state, a.attempts, a.why, semel.now_us(),
        o.pos, o.id, o.aggregatetype, o.aggregateid, o.type, o.payload, o.headers,
        o.aggregate_version, o.trace, o.cause, o.tenant, o.operation, o.key, o.facet, o.at_us
    FROM unnest(park_pos, park_state, park_attempts, park_why) WITH ORDINALITY
        AS a (pos, state, attempts, why, nr)
    JOIN semel.outbox AS o ON o.pos = a.pos
    ORDER BY a.nr
    ON CONFLICT DO NOTHING;
END
$$;

-- Says whether a destination has an event: it was confirmed or parked.
CREATE FUNCTION semel.outbox_has(
    xid xid8, pos bigint, base_pos bigint, from_snapshot pg_snapshot, to_snapshot pg_snapshot,
    is_open boolean, settled bigint, floor_pos bigint, old_from pg_snapshot, old_to pg_snapshot,
    old_settled bigint, old_upto bigint
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN pos > base_pos THEN pg_visible_in_snapshot(xid, from_snapshot)
            OR is_open AND pos <= settled AND pg_visible_in_snapshot(xid, to_snapshot)
        WHEN old_upto IS NULL OR pos <= floor_pos OR is_open AND pos <= settled THEN true
        WHEN pos > old_upto THEN false
        ELSE pg_visible_in_snapshot(xid, CASE WHEN pos <= old_settled THEN old_to ELSE old_from END)
    END
$$;

-- How many events a destination lacks, counted up to a bound, and when the oldest was appended.
CREATE FUNCTION semel.outbox_waiting(
    c semel.outbox_cursor, up_to bigint, OUT oldest_us bigint, OUT waiting bigint
)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    SELECT min(w.at_us), count(*) INTO oldest_us, waiting FROM (
        (
            SELECT o.at_us FROM semel.outbox AS o
            WHERE c.old_upto IS NOT NULL AND o.pos > c.floor_pos AND o.pos <= c.base_pos
                AND NOT semel.outbox_has(
                    o.xid, o.pos, c.base_pos, c.from_snapshot, c.to_snapshot, c.is_open, c.settled,
                    c.floor_pos, c.old_from, c.old_to, c.old_settled, c.old_upto
                )
            ORDER BY o.pos LIMIT up_to
        )
        UNION ALL
        (
            SELECT o.at_us FROM unnest(semel.outbox_late(c, pg_current_snapshot())) AS x (xid)
            CROSS JOIN LATERAL (
                SELECT o.at_us, o.xid, o.pos FROM semel.outbox AS o
                WHERE o.xid = x.xid AND o.pos > c.base_pos AND o.pos <= c.from_pos
                ORDER BY o.pos LIMIT up_to
            ) AS o
            WHERE NOT (c.is_open AND o.pos <= c.settled AND pg_visible_in_snapshot(o.xid, c.to_snapshot))
            LIMIT up_to
        )
        UNION ALL
        (
            SELECT o.at_us FROM semel.outbox AS o
            WHERE o.pos > c.from_pos AND NOT pg_visible_in_snapshot(o.xid, c.from_snapshot)
                AND NOT (
                    c.is_open AND o.pos <= c.settled AND pg_visible_in_snapshot(o.xid, c.to_snapshot)
                )
            ORDER BY o.pos LIMIT up_to
        )
        LIMIT up_to
    ) AS w;
END
$$;

-- Forgets a destination, with all that is parked for it. False: there was none.
CREATE FUNCTION semel.outbox_forget(of_destination text, by_actor text, by_note text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    last semel.outbox_cursor;
    gone bigint;
BEGIN
    PERFORM semel.outbox_admit();
    SELECT c.* INTO last FROM semel.outbox_cursor AS c
    WHERE c.destination = of_destination ORDER BY c.seq DESC LIMIT 1;
    IF last.seq IS NULL THEN
        RETURN false;
    ELSIF last.lease_us > 0 AND semel.now_us() - last.renewed_at_us < last.lease_us THEN
        RAISE EXCEPTION 'semel: % is led by %', of_destination, last.owner
            USING ERRCODE = 'SM010', HINT = 'stop its relay first';
    END IF;
    -- So that nobody takes it over meanwhile.
    last.seq := last.seq + 1;
    IF NOT semel.outbox_move(last) THEN
        RAISE EXCEPTION 'semel: somebody else moved the cursor of %', of_destination
            USING ERRCODE = '40001';
    END IF;
    DELETE FROM semel.outbox_cursor AS c WHERE c.destination = of_destination;
    DELETE FROM semel.outbox_parked AS p WHERE p.destination = of_destination;
    GET DIAGNOSTICS gone = ROW_COUNT;
    INSERT INTO semel.outbox_audit (destination, at_us, kind, rows, actor, note)
    VALUES (of_destination, semel.now_us(), 'forget', gone, by_actor, by_note);
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION
    semel.outbox_settle, semel.outbox_unpark, semel.outbox_park, semel.outbox_has,
    semel.outbox_waiting, semel.outbox_forget
FROM PUBLIC;
