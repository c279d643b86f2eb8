-- Names what a schema lacks that its promises rest on: keys of tables, and triggers that look before a commit.
SELECT 'the primary key of ' || c.relname
FROM pg_class AS c
WHERE c.relnamespace = '"semel"'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND NOT EXISTS (
        SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid
    )
UNION ALL
SELECT 'the unique key of outbox_parked'
WHERE NOT EXISTS (
    SELECT FROM pg_index AS i
    WHERE i.indrelid = to_regclass('semel.outbox_parked') AND i.indisunique AND i.indisvalid
        AND NOT i.indisprimary
)
UNION ALL
SELECT 'the trigger ' || w.trigger || ' of ' || w.relation
FROM (
    VALUES ('completed_before_commit', 'record'), ('received_before_commit', 'inbox')
) AS w (trigger, relation)
WHERE NOT EXISTS (
    SELECT FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.relnamespace = '"semel"'::regnamespace AND c.relname = w.relation
        AND t.tgname = w.trigger AND t.tgenabled IN ('A', 'O')
);
