-- The last position that was ever given away, as far as anything is left that tells.
SELECT max(
    coalesce((SELECT max(pos) FROM semel_outbox), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'semel_outbox'), 0)
);
