-- Writes a row of the audit.
-- KEYS: audit
-- ARGV: the row, how many are kept
note(KEYS[1], ARGV[1], ARGV[2])
return { told, 1 }
