-- What keeps a partition that could be dropped names the destination, the partition, and since when.

-- Says what keeps a partition: nothing ('') if it is too young, NULL if it may go.
CREATE OR REPLACE FUNCTION semel.outbox_kept_by(partition_name text, keep_us bigint) RETURNS text
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
            RETURN format(
                'the destination %s does not have all of the partition %s yet, which could have gone since %s',
                one.destination, partition_name, to_char(
                    to_timestamp((last_at_us + keep_us) / 1000000) AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS"Z"'
                )
            );
        END IF;
    END LOOP;
    RETURN CASE WHEN NOT any_led THEN
        format('no destination was ever led, and the partition %s could go', partition_name)
    END;
END
$$;
