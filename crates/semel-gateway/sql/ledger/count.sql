-- Counts the charges of each intent.
SELECT intent, count(*), min(id) FROM charge GROUP BY intent
