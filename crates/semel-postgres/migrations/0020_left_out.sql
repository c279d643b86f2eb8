-- What operators had left out is kept in mind for as long as its event is kept, so that a replay of what a
-- destination had does not bring it back. (What was left out before this is not known.)

CREATE TABLE semel.outbox_left_out (
    pos bigint NOT NULL,
    destination text COLLATE "C" NOT NULL,
    PRIMARY KEY (pos, destination)
);

-- As before; what is left out is noted.
CREATE OR REPLACE FUNCTION semel.outbox_unpark(
    of_destination text, sent bigint[], left_out bigint[], failed bigint[],
    failed_attempts bigint[], failed_why text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    WITH gone AS (
        DELETE FROM semel.outbox_parked AS p
        USING semel.outbox_parked AS head
        WHERE head.seq = ANY (left_out) AND head.destination = of_destination AND head.state = 'drop'
            AND p.destination = head.destination AND p.aggregatetype = head.aggregatetype
            AND p.aggregateid = head.aggregateid
        RETURNING p.pos
    )
    INSERT INTO semel.outbox_left_out (pos, destination)
    SELECT g.pos, of_destination FROM gone AS g
    ON CONFLICT DO NOTHING;
    WITH gone AS (
        DELETE FROM semel.outbox_parked AS p
        WHERE p.seq = ANY (left_out) AND p.destination = of_destination
        RETURNING p.pos
    )
    INSERT INTO semel.outbox_left_out (pos, destination)
    SELECT g.pos, of_destination FROM gone AS g
    ON CONFLICT DO NOTHING;
    DELETE FROM semel.outbox_parked AS p
    WHERE p.seq = ANY (sent) AND p.destination = of_destination;
    UPDATE semel.outbox_parked AS p
    SET state = 'failed', attempts = f.attempts, why = f.why
    FROM unnest(failed, failed_attempts, failed_why) AS f (seq, attempts, why)
    WHERE p.seq = f.seq AND p.destination = of_destination;
END
$$;

-- As before; nothing is left out of a destination that begins anew.
CREATE OR REPLACE FUNCTION semel.outbox_forget(of_destination text, by_actor text, by_note text)
RETURNS boolean
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
    DELETE FROM semel.outbox_left_out AS l WHERE l.destination = of_destination;
    DELETE FROM semel.outbox_parked AS p WHERE p.destination = of_destination;
    GET DIAGNOSTICS gone = ROW_COUNT;
    INSERT INTO semel.outbox_audit (destination, at_us, kind, rows, actor, note)
    VALUES (of_destination, semel.now_us(), 'forget', gone, by_actor, by_note);
    RETURN true;
END
$$;

-- Forgets what was left out whose events are gone, at most so much at once; says whether there may be more.

CREATE FUNCTION semel.outbox_trim_left_out(rows_max bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    first_pos bigint;
    gone bigint;
BEGIN
    SELECT o.pos INTO first_pos FROM semel.outbox AS o ORDER BY o.pos LIMIT 1;
    DELETE FROM semel.outbox_left_out AS l
    WHERE (l.pos, l.destination) IN (
        SELECT d.pos, d.destination FROM semel.outbox_left_out AS d
        WHERE first_pos IS NULL OR d.pos < first_pos
        ORDER BY d.pos
        LIMIT rows_max
    );
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone >= rows_max;
END
$$;

REVOKE ALL ON FUNCTION semel.outbox_trim_left_out FROM PUBLIC;
