-- Retention of the outbox: whole partitions go, once every destination has all that is in them.

-- The partitions in order. The last has no end.
CREATE FUNCTION semel.outbox_partitions()
RETURNS TABLE (name text, from_pos bigint, until_pos bigint)
LANGUAGE sql VOLATILE
AS $$
    SELECT c.relname::text, b.first::bigint, b.behind::bigint
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL (
        SELECT
            substring(e.bound FROM $r$FROM \('(-?\d+)'\)$r$) AS first,
            substring(e.bound FROM $r$TO \('(-?\d+)'\)$r$) AS behind
        FROM pg_get_expr(c.relpartbound, c.oid) AS e (bound)
    ) AS b
    WHERE i.inhparent = 'semel.outbox'::regclass
    ORDER BY 2
$$;

-- Says why a partition cannot be dropped: something in it is younger than asked, or a destination does
-- not have all of it. NULL: it can. Whether that still holds, only a caller knows whose lock keeps
-- everybody from appending.
CREATE FUNCTION semel.outbox_kept_by(partition_name text, keep_us bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    last_pos bigint;
    last_at_us bigint;
    generation integer;
    one semel.outbox_cursor;
    lacks boolean;
    any_led boolean := false;
BEGIN
    EXECUTE format('SELECT o.pos, o.at_us FROM semel.%I AS o ORDER BY o.pos DESC LIMIT 1', partition_name)
    INTO last_pos, last_at_us;
    IF last_pos IS NULL THEN
        RETURN NULL;
    ELSIF last_at_us > semel.now_us() - keep_us THEN
        RETURN '';
    END IF;
    SELECT h.generation INTO generation FROM semel.outbox_home AS h;
    FOR one IN SELECT l.* FROM semel.outbox_lasts() AS l LOOP
        any_led := true;
        lacks := one.generation <> generation
            OR one.old_upto IS NOT NULL AND one.settled < least(last_pos, one.base_pos);
        IF NOT lacks THEN
            EXECUTE format(
                'SELECT EXISTS (SELECT FROM semel.%1$I AS o WHERE o.xid >= $1 AND o.pos > $3)
                OR EXISTS (SELECT FROM semel.%1$I AS o WHERE o.xid = ANY ($2) AND o.pos > $3)',
                partition_name
            ) INTO lacks USING pg_snapshot_xmax(one.from_snapshot),
                ARRAY(SELECT pg_snapshot_xip(one.from_snapshot)), one.base_pos;
        END IF;
        IF lacks THEN
            RETURN format('the destination %s does not have all of it yet', one.destination);
        END IF;
    END LOOP;
    RETURN CASE WHEN NOT any_led THEN 'no destination was ever led' END;
END
$$;

-- The last row of each destination's cursor.
CREATE FUNCTION semel.outbox_lasts() RETURNS SETOF semel.outbox_cursor
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    one semel.outbox_cursor;
BEGIN
    -- From name to name by the key, past all rows but the last of each.
    SELECT c.* INTO one FROM semel.outbox_cursor AS c
    ORDER BY c.destination DESC, c.seq DESC LIMIT 1;
    WHILE one.seq IS NOT NULL LOOP
        RETURN NEXT one;
        SELECT c.* INTO one FROM semel.outbox_cursor AS c
        WHERE c.destination < one.destination ORDER BY c.destination DESC, c.seq DESC LIMIT 1;
    END LOOP;
END
$$;

-- Drops one partition that every destination has and whose events are older than asked, and closes the
-- last one once it holds an eighth of that time. It waits 100 ms at most for whoever is appending, then
-- gives up, by SQLSTATE 55P03; nobody who appends waits longer for it. `held_up` says what keeps the
-- oldest partition, if something does.
CREATE FUNCTION semel.retain_outbox(
    keep_for interval, OUT dropped bigint, OUT more boolean, OUT held_up text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    keep_us bigint := semel.span_us(keep_for, 'keep_for');
    part record;
    kept text;
    goes text;
    tail record;
    first_at_us bigint;
    closes boolean;
    drawn bigint;
BEGIN
    PERFORM semel.outbox_admit();
    drawn := semel.outbox_go_on();
    dropped := 0;
    more := false;
    -- Without the lock first: mostly there is nothing to do.
    FOR part IN SELECT p.* FROM semel.outbox_partitions() AS p LOOP
        IF part.until_pos IS NULL THEN
            tail := part;
        ELSIF part.until_pos > drawn + 1 THEN
            NULL; -- positions may still be drawn in it
        ELSIF goes IS NOT NULL AND semel.outbox_kept_by(part.name, keep_us) IS NULL THEN
            more := true;
        ELSIF goes IS NULL AND held_up IS NULL THEN
            kept := semel.outbox_kept_by(part.name, keep_us);
            IF kept IS NULL THEN
                goes := part.name;
            END IF;
            held_up := nullif(kept, '');
        END IF;
    END LOOP;
    EXECUTE format('SELECT o.at_us FROM semel.%I AS o ORDER BY o.pos LIMIT 1', tail.name)
    INTO first_at_us;
    closes := first_at_us <= semel.now_us() - keep_us / 8;
    IF goes IS NULL AND closes IS NOT TRUE THEN
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY semel.outbox IN ACCESS EXCLUSIVE MODE;
    -- Nobody appends now, or has appended and not ended. What follows sees all that is committed.
    IF goes IS NOT NULL AND semel.outbox_kept_by(goes, keep_us) IS NULL THEN
        EXECUTE format('LOCK TABLE semel.%I IN ACCESS EXCLUSIVE MODE NOWAIT', goes);
        EXECUTE format('DROP TABLE semel.%I', goes);
        dropped := 1;
    END IF;
    IF closes THEN
        PERFORM semel.outbox_close(tail.name, tail.from_pos);
        more := true;
    END IF;
END
$$;

-- Has positions drawn in the last partition, once that is committed: a sequence is not undone with a
-- transaction. Returns the last position drawn.
CREATE FUNCTION semel.outbox_go_on() RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    tail_from bigint;
BEGIN
    SELECT max(p.from_pos) INTO tail_from FROM semel.outbox_partitions() AS p;
    IF semel.outbox_drawn() < tail_from - 1 THEN
        -- One at a time, so that nobody sets it back.
        PERFORM FROM semel.outbox_home AS h FOR UPDATE;
        SELECT max(p.from_pos) INTO tail_from FROM semel.outbox_partitions() AS p;
        IF semel.outbox_drawn() < tail_from - 1 THEN
            PERFORM setval('semel.outbox_pos', tail_from, false);
        END IF;
    END IF;
    RETURN semel.outbox_drawn();
END
$$;

-- Closes the last partition where its bound says, without reading it, and makes the next one behind. The
-- caller holds the lock of the table.
CREATE FUNCTION semel.outbox_close(tail_name text, tail_from bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    stride bigint := 1099511627776;
    next_from bigint := tail_from + stride;
BEGIN
    EXECUTE format('LOCK TABLE semel.%I IN ACCESS EXCLUSIVE MODE NOWAIT', tail_name);
    EXECUTE format('ALTER TABLE semel.outbox DETACH PARTITION semel.%I', tail_name);
    EXECUTE format(
        'ALTER TABLE semel.outbox ATTACH PARTITION semel.%I FOR VALUES FROM (%s) TO (%s)',
        tail_name, tail_from, next_from
    );
    EXECUTE format(
        'CREATE TABLE semel.%I PARTITION OF semel.outbox (
            CONSTRAINT outbox_range CHECK (pos >= %s AND pos < %s)
        ) FOR VALUES FROM (%s) TO (MAXVALUE)',
        'outbox_p' || next_from / stride, next_from, next_from + stride, next_from
    );
END
$$;

REVOKE ALL ON FUNCTION
    semel.outbox_partitions, semel.outbox_kept_by, semel.outbox_lasts, semel.retain_outbox,
    semel.outbox_go_on, semel.outbox_close
FROM PUBLIC;
