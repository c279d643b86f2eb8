-- Proves that SQLite keeps the names of messages and the positions of logs unique.
SELECT count(*)
FROM (
    SELECT 'semel_inbox' AS relation, 'consumer,message_id,source' AS columns
    UNION ALL
    SELECT 'semel_inbox_position', 'consumer,log'
) AS wanted
WHERE EXISTS (
    SELECT 1
    FROM pragma_index_list(wanted.relation) AS x
    WHERE
        x."unique" = 1 AND x.partial = 0
        AND wanted.columns = (
            SELECT group_concat(c.name, ',')
            FROM (
                SELECT name FROM pragma_index_info(x.name) ORDER BY name
            ) AS c
        )
);
