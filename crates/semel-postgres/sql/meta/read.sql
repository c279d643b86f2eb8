-- Reads the oldest version of the schema whose users can work with this one, the secret of the locks,
-- the floor of the fences, and the time.
SELECT oldest, lock_secret, floor, semel.now_us() FROM semel.meta;
