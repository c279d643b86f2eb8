-- The position up to which every destination has settled, and whose that is; no row without one.
SELECT settled, destination FROM semel_destination ORDER BY settled LIMIT 1;
