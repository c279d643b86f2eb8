-- Says what is to become of parked rows that wait for an operator's word or are the first of their lane,
-- and keeps who said it.
-- $1 destination, $2 places, $3 the state: retry, skip or drop, $4 actor, $5 note
WITH marked AS (
    UPDATE semel.outbox_parked AS p
    SET state = $3
    WHERE p.destination = $1 AND p.seq = ANY ($2)
        AND (
            p.state IN ('failed', 'retry', 'skip', 'drop')
            OR NOT EXISTS (
                SELECT FROM semel.outbox_parked AS b
                WHERE b.destination = p.destination AND b.aggregatetype = p.aggregatetype
                    AND b.aggregateid = p.aggregateid AND b.seq < p.seq
            )
        )
    RETURNING p.seq, p.id
), noted AS (
    INSERT INTO semel.outbox_audit (destination, at_us, kind, event, rows, actor, note)
    SELECT $1, semel.now_us(), $3, m.id, 1, $4, $5 FROM marked AS m ORDER BY m.seq
)
SELECT count(*) FROM marked;
