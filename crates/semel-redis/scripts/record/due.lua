-- Lists names with which the sweep has something to do.
-- KEYS: due
-- ARGV: how many at most
return { told, redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', told, 'LIMIT', 0, ARGV[1]) }
