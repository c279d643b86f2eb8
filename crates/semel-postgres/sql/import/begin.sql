-- Takes over a table of another outbox, and names the columns that may be NULL though no event can do without.
-- $1 the table, $2 whether what is in it already becomes events, $3 the column that orders that (NULL:
-- none); the columns of $4 ids, $5 types and $6 ids of aggregates, $7 types, $8 payloads, $9 headers
-- (NULL: none)
SELECT i.copied, i.switched_at::text, (
    SELECT string_agg(a.attname, E'\n' ORDER BY a.attnum) FROM pg_attribute AS a
    WHERE a.attrelid = $1::text::regclass AND a.attname IN ($5, $6, $7) AND NOT a.attnotnull
)
FROM semel.import_outbox($1::text::regclass, $2, $3, $4, $5, $6, $7, $8, $9) AS i;
