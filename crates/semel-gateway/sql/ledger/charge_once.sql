-- Charges unless the key was charged before. ?1 the intent, ?2 the amount, ?3 the key.
INSERT INTO charge (intent, amount, dedup) VALUES (?1, ?2, ?3) ON CONFLICT (dedup) DO NOTHING
