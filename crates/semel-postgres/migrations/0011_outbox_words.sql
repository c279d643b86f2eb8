-- What operators ask about destinations, and say to them.

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
            SELECT o.at_us FROM semel.outbox_late(c, pg_current_snapshot()) AS x (xid)
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

REVOKE ALL ON FUNCTION semel.outbox_has, semel.outbox_waiting, semel.outbox_forget FROM PUBLIC;
