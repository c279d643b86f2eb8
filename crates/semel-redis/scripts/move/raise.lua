-- Raises the floor of a part's fences, which never falls.
-- KEYS: floor
-- ARGV: the floor
raise(KEYS[1], redis.call('GET', KEYS[1]), ARGV[1])
return { told, 1 }
