-- Rewrites a lease that was renewed in the future.
-- $1 token, $2 fence, $3 renewed at, $4 lease
INSERT INTO semel.lease (token, fence, renewed_at_us, lease_us)
VALUES ($1, $2, $3, $4)
ON CONFLICT (token) DO UPDATE SET
    fence = excluded.fence, renewed_at_us = excluded.renewed_at_us, lease_us = excluded.lease_us;
