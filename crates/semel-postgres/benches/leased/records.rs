//! Records that are there before.

use semel_testkit::servers::Postgres;

/// Inserts finished records whose memory is over.
pub(crate) async fn expired(server: &Postgres, schema: &str, count: u32, turn: usize) {
    insert(server, schema, count, &format!("expired-{turn}"), "-1").await;
}

/// Inserts finished records that are kept for a day.
pub(crate) async fn kept(server: &Postgres, schema: &str, count: u32) {
    insert(server, schema, count, "kept", "86400000000").await;
}

async fn insert(server: &Postgres, schema: &str, count: u32, name: &str, until: &str) {
    let statement = format!(
        "INSERT INTO {schema}.record (
            tenant, operation, key, state, token, fence, plan, digest, renewed_at_us, lease_us,
            created_at_us, claimed_at_us, settled_at_us, replay_until_us, remember_until_us,
            sweep_at_us, outcome
        )
        SELECT
            'acme', 'payments.create', md5(n::text) || '-{name}-' || n, 'done',
            decode(md5(n::text), 'hex'), n, '\\x0000000000000000', sha256(n::text::bytea), now_us,
            30000000, now_us, now_us, now_us, now_us + {until}, now_us + {until}, now_us + {until},
            convert_to(repeat('x', 260), 'UTF8')
        FROM generate_series(1, {count}) AS n, (SELECT {schema}.now_us() AS now_us) AS t;
        VACUUM ANALYZE {schema}.record;
        CHECKPOINT;"
    );
    server.run_sql(&statement).await;
}
