-- Forgets messages whose time is over.
-- ?1 now, ?2 how many at most
DELETE FROM semel_inbox
WHERE row_id IN (
    SELECT row_id FROM semel_inbox
    WHERE remember_until_us <= ?1
    ORDER BY remember_until_us
    LIMIT ?2
);
