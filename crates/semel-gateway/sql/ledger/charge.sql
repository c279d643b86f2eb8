-- Charges. ?1 the intent, ?2 the amount.
INSERT INTO charge (intent, amount) VALUES (?1, ?2) RETURNING id
