-- Positions that are not drawn in order would be passed over without a word. A relay looked when it took a
-- leadership over; it looks at every pass, since the sequence may be changed under it.

CREATE OR REPLACE FUNCTION semel.outbox_pass(
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
    PERFORM FROM pg_sequence AS s WHERE s.seqrelid = 'semel.outbox_pos'::regclass
        AND s.seqcache = 1 AND s.seqincrement = 1 AND NOT s.seqcycle;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'semel: the sequence semel.outbox_pos was changed' USING ERRCODE = 'SM011',
            HINT = 'ALTER SEQUENCE semel.outbox_pos CACHE 1 INCREMENT 1 NO CYCLE, end the sessions that '
                'appended meanwhile, since they keep what they drew ahead, and replay what they appended';
    END IF;
    -- Before this transaction has an id, whatever else it tries.
    drawn := semel.outbox_drawn();
    FOR attempt IN 1 .. 8 LOOP
        SELECT c.* INTO last FROM semel.outbox_cursor AS c
        WHERE c.destination = of_destination ORDER BY c.seq DESC LIMIT 1;
        is_known := last.seq IS NOT NULL;
        EXIT WHEN last.is_open OR NOT is_known;
        next := semel.outbox_led(of_destination, of_epoch);
        EXIT WHEN next.seq IS NULL;
        IF drawn < next.from_pos THEN
            RAISE EXCEPTION 'semel: the sequence semel.outbox_pos went back from % to %', next.from_pos, drawn
                USING ERRCODE = 'SM011',
                HINT = 'set it above all positions in semel.outbox, then replay what was appended meanwhile';
        END IF;
        EXIT WHEN NOT semel.outbox_waits(next);
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
