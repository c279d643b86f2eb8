-- Proves that the server keeps the names of messages and the positions of logs unique: by an index that
-- is whole, valid and asked at once.
SELECT bool_and(EXISTS (
    SELECT FROM pg_catalog.pg_index AS x
    WHERE x.indrelid = w.relation::regclass AND x.indisunique AND x.indisvalid AND x.indimmediate
        AND x.indpred IS NULL AND x.indexprs IS NULL
        AND (
            SELECT array_agg(a.attname::text ORDER BY a.attname)
            FROM unnest(x.indkey::smallint[]) WITH ORDINALITY AS k (attnum, place)
            JOIN pg_catalog.pg_attribute AS a
                ON a.attrelid = x.indrelid AND a.attnum = k.attnum
            WHERE k.place <= x.indnkeyatts
        ) = w.columns
))
FROM (VALUES
    ('semel.inbox', ARRAY['consumer', 'message_id', 'source']),
    ('semel.inbox_position', ARRAY['consumer', 'log'])
) AS w (relation, columns);
