-- Lists lanes of a destination that have parked rows, in the order of lanes.
-- ?1 destination, ?2 type of the aggregate, ?3 its id: only behind this lane; ?4 how many at most
SELECT aggregatetype, aggregateid
FROM semel_parked
WHERE destination = ?1 AND head = 1 AND (aggregatetype, aggregateid) > (?2, ?3)
ORDER BY aggregatetype, aggregateid
LIMIT ?4;
