-- The demo's ledger: every row is one charge. `dedup` is the key, for the endpoint that honours keys.
CREATE TABLE IF NOT EXISTS charge (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  intent TEXT NOT NULL,
  amount TEXT NOT NULL,
  dedup TEXT UNIQUE
) STRICT
