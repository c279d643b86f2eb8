-- What a relay asks that takes the order of commits from a replication slot. The plans are pinned as those
-- of outbox_window are: a table that was never analyzed would be read whole.

-- The positions of a pass behind what is settled, in no order, at most so many.
CREATE FUNCTION semel.outbox_members(
    settled bigint, from_pos bigint, upto bigint, base_pos bigint, from_snapshot pg_snapshot,
    to_snapshot pg_snapshot, late xid8[], rows_max bigint
) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT e.pos
    FROM unnest(late) AS x (xid)
    CROSS JOIN LATERAL (
        SELECT o.pos
        FROM semel.outbox AS o
        WHERE o.xid = x.xid AND o.pos > greatest(settled, base_pos) AND o.pos <= from_pos
        ORDER BY o.xid, o.pos
        LIMIT rows_max
    ) AS e
    LIMIT rows_max;
    RETURN QUERY
    SELECT o.pos
    FROM semel.outbox AS o
    WHERE o.pos > greatest(settled, from_pos, base_pos) AND o.pos <= upto
        AND pg_visible_in_snapshot(o.xid, to_snapshot)
        AND NOT pg_visible_in_snapshot(o.xid, from_snapshot)
    ORDER BY o.pos
    LIMIT rows_max;
END
$$;

-- Those of some positions whose transactions a snapshot does not show. One behind `from_pos` that is not
-- in the table yet is of a transaction whose commit is in the log and nobody sees; one before it may have
-- been dropped since.
CREATE FUNCTION semel.outbox_unseen(positions bigint[], shows pg_snapshot, from_pos bigint)
RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT p.pos
    FROM unnest(positions) AS p (pos)
    LEFT JOIN LATERAL (
        SELECT o.xid FROM semel.outbox AS o WHERE o.pos = p.pos ORDER BY o.pos LIMIT 1
    ) AS e ON true
    WHERE CASE
        WHEN e.xid IS NULL THEN p.pos > from_pos
        ELSE NOT pg_visible_in_snapshot(e.xid, shows)
    END;
END
$$;

-- The events at some positions.
CREATE FUNCTION semel.outbox_at(positions bigint[]) RETURNS SETOF semel.outbox_read
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT e.*
    FROM unnest(positions) AS p (pos)
    CROSS JOIN LATERAL (
        SELECT r.* FROM semel.outbox_read AS r WHERE r.pos = p.pos ORDER BY r.pos LIMIT 1
    ) AS e;
END
$$;

REVOKE ALL ON FUNCTION semel.outbox_members, semel.outbox_unseen, semel.outbox_at FROM PUBLIC;
