-- Reads what claims inside transactions need to know of a schema, by the application's own connection.
SELECT
    m.oldest,
    m.lock_secret,
    (SELECT max(g.version) FROM semel.migration AS g)
FROM semel.meta AS m;
