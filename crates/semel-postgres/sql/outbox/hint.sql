-- Hints that something was committed. In a transaction of its own, after theirs: a notification makes
-- commits wait for each other, and fails them when nobody reads the queue.
NOTIFY "semel";
