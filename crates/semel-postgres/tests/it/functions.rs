//! What the functions promise to an application in any language.

use std::time::Duration;

use semel::{
    Fence, Fingerprint, Key, Operation, Outcome, Permit, Scope, Tenant, Token, codec,
    fingerprint::Plan, permit,
};
use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, Postgres};

use crate::{
    caller::{Caller, PAY, claim, complete},
    fixture::Fixture,
    words,
};

/// Says how a claim is decided, in a transaction that is rolled back.
async fn decision(caller: &Caller, key: &str) -> String {
    let decision = caller.cell(&format!("BEGIN; SELECT decision FROM {}", claim(key))).await;
    caller.ok("ROLLBACK").await;
    decision
}

#[tokio::test]
async fn a_claim_is_run_once_and_its_outcome_is_replayed_byte_for_byte() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        let permit = caller.begin("k").await;
        let all: String = (0..=255_u8).map(|byte| format!("{byte:02x}")).collect();
        let headers =
            r#"[["Content-Type", "image/x"], ["Link", "</a>"], ["link", "</é>; a=\"b\""]]"#;
        let complete = format!(
            "SELECT semel.complete('{permit}', 'acme', 'payments.create', 201, '{headers}',
                '\\x{all}', 'payment', 'pay_7')"
        );
        assert_eq!(caller.cell(&format!("{PAY}; {complete}")).await, "stored");
        caller.ok("COMMIT").await;
        let columns = "decision, state, status, headers, encode(body, 'hex'), body_kept,
            pointer_kind, pointer_id, permit";
        let told = caller.ok(&format!("BEGIN; SELECT {columns} FROM {}", claim("k"))).await;
        let told: Vec<_> = told[0].iter().map(Option::as_deref).collect();
        let headers =
            r#"[["content-type", "image/x"], ["link", "</a>"], ["link", "</é>; a=\"b\""]]"#;
        let expected = ["replay", "done", "201", headers, &all, "t", "payment", "pay_7"];
        assert_eq!(told[..8], expected.map(Some));
        assert_eq!(told[8], None, "a replay gives no permit");
        caller.ok("ROLLBACK").await;
        assert_eq!(caller.payments().await, "1");
    }
}

#[tokio::test]
async fn an_outcome_is_kept_in_the_bytes_of_the_codec() {
    let fixture = Fixture::new(Major::V15).await;
    let caller = Caller::new(&fixture).await;
    for (number, (arguments, outcome)) in [
        ("204", Outcome::new(204, "")),
        ("200, body => NULL", Outcome::new(200, "")),
        ("200, body => 'abc', body_kept => false", Outcome::without_body(200)),
        (
            r#"0, '[["A", "é"], ["b", ""]]', 'xyz', 'k', 'ü'"#,
            Outcome::new(0, "xyz").header("a", vec![0xe9]).header("b", "").pointer("k", "ü"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{number}");
        let permit = caller.begin(&key).await;
        let call = format!(
            "SELECT semel.complete('{permit}', 'acme', 'payments.create', {arguments}); COMMIT"
        );
        caller.ok(&call).await;
        let sql = fixture.sql("SELECT outcome FROM semel.record WHERE key = $1");
        let kept: Vec<u8> = caller.client.query_one(&sql, &[&key]).await.unwrap().get(0);
        assert_eq!(kept, codec::encode(&outcome), "{arguments}");
    }
}

#[tokio::test]
async fn an_outcome_of_any_bytes_is_read() {
    let fixture = Fixture::new(Major::V17).await;
    let caller = Caller::new(&fixture).await;
    let all: Vec<u8> = (0..=255).collect();
    let outcome = Outcome::new(302, all.clone()).header("location", all.clone());
    let sql = fixture.sql("SELECT status, headers -> 0 ->> 1, body FROM semel.read_outcome($1)");
    let read = async |bytes: Vec<u8>| caller.client.query_one(&sql, &[&bytes]).await;
    let row = read(codec::encode(&outcome)).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, Vec<u8>>(2)), (302, all.clone()));
    // A zero byte is none of HTTP's, and JSON cannot hold it.
    let latin: String = all.iter().map(|byte| char::from((*byte).max(1))).collect();
    assert_eq!(row.get::<_, String>(1).replacen(' ', "\u{1}", 1), latin);
    let mut damaged = codec::encode(&outcome);
    damaged[40] ^= 1;
    assert_eq!(read(damaged).await.unwrap_err().code().unwrap().code(), "XX001");
    assert_eq!(read(vec![9, 0, 0]).await.unwrap_err().code().unwrap().code(), "0A000");
}

#[tokio::test]
async fn content_is_fingerprinted_as_by_the_crate() {
    let fixture = Fixture::new(Major::V18).await;
    let client = fixture.connect().await;
    let sql = fixture.sql("SELECT semel.plan(), semel.digest($1)");
    for content in [&b""[..], b"pay 10", &[0, 255, 10], &[7; 70_000]] {
        let row = client.query_one(&sql, &[&content]).await.unwrap();
        let own = Fingerprint::of_bytes(content);
        assert_eq!(row.get::<_, &[u8]>(0), Plan::new().id().as_bytes());
        assert_eq!(row.get::<_, &[u8]>(1), own.digest());
    }
}

#[tokio::test]
async fn a_permit_of_the_crate_is_read_and_the_other_way_round() {
    let fixture = Fixture::new(Major::V15).await;
    let client = fixture.connect().await;
    let scope = Scope::new(Tenant::new("Käufer 7").unwrap(), Operation::new("pay").unwrap());
    let id = scope.intent(Key::new("a\\b.'~!").unwrap());
    let token = Token::from_bytes([0xab; 16]);
    for id in [id.clone(), id.narrowed([9; 32])] {
        let facet = id.facet.map_or_else(Vec::new, Vec::from);
        let made = Permit { id, token, fence: Fence::new(1 << 60), incarnation: 3 };
        let sql = "SELECT key, facet, token, fence FROM semel.read_permit($1, 'Käufer 7', 'pay')";
        let row = client.query_one(&fixture.sql(sql), &[&permit::encode(&made)]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), made.id.key.as_str());
        assert_eq!(row.get::<_, &[u8]>(1), facet);
        assert_eq!(row.get::<_, &[u8]>(2), token.as_bytes());
        assert_eq!(row.get::<_, i64>(3), 1 << 60);
        let sql = "SELECT permit FROM semel.claim('Käufer 7', 'pay', $1, '', facet => $2)";
        let transaction = client.batch_execute("BEGIN").await;
        transaction.unwrap();
        let key = made.id.key.as_str();
        let row = client.query_one(&fixture.sql(sql), &[&key, &facet]).await.unwrap();
        assert_eq!(permit::decode(row.get(0)).unwrap().id, made.id);
        client.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn a_second_claim_is_in_progress_at_once_and_free_after_a_rollback() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let (first, second) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
        first.begin("k").await;
        second.ok("SET statement_timeout = '5s'").await;
        assert_eq!(decision(&second, "k").await, "in-progress");
        assert_eq!(decision(&second, "other").await, "run");
        let state = "SELECT state FROM semel.status('acme', 'payments.create', 'k')";
        assert_eq!(second.cell(state).await, "not-recorded");
        first.ok("ROLLBACK").await;
        assert_eq!(decision(&second, "k").await, "run");
    }
}

#[tokio::test]
async fn a_snapshot_older_than_the_outcome_must_be_taken_anew() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let (early, late) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
        for (number, level) in ["REPEATABLE READ", "SERIALIZABLE"].into_iter().enumerate() {
            let key = format!("k{number}");
            early.ok(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await;
            early.ok(&format!("{PAY}; SELECT count(*) FROM semel.payments")).await;
            let permit = late.begin(&key).await;
            late.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
            let code = early.err(&format!("SELECT * FROM {}", claim(&key))).await;
            assert_eq!(code, "40001", "{level}");
            early.ok("ROLLBACK").await;
            assert_eq!(decision(&early, &key).await, "replay");
        }
        assert_eq!(early.payments().await, "2");
    }
}

#[tokio::test]
async fn racing_duplicates_have_one_effect() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let mut racing = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let caller = Caller::new(&fixture).await;
            racing.spawn(async move {
                for key in ["a", "b", "c", "d"] {
                    loop {
                        let told = caller.ok(&format!("BEGIN; SELECT * FROM {}", claim(key))).await;
                        match told[0][0].as_deref().unwrap() {
                            "run" => {
                                let complete = complete(told[0][1].as_deref().unwrap());
                                caller.ok(&format!("{PAY}; {complete}; COMMIT")).await;
                                break;
                            }
                            "replay" => break caller.ok("ROLLBACK").await.clear(),
                            other => assert_eq!(other, "in-progress"),
                        }
                        caller.ok("ROLLBACK").await;
                    }
                }
            });
        }
        racing.join_all().await;
        assert_eq!(Caller::new(&fixture).await.payments().await, "4", "{major}");
    }
}

#[tokio::test]
async fn a_final_failure_is_replayed_too() {
    let fixture = Fixture::new(Major::V17).await;
    let caller = Caller::new(&fixture).await;
    let permit = caller.begin("k").await;
    let fail = format!(
        "SELECT semel.fail('{permit}', 'acme', 'payments.create', 402, body => 'card declined')"
    );
    assert_eq!(caller.cell(&fail).await, "stored");
    caller.ok("COMMIT").await;
    let columns = "decision, state, status, convert_from(body, 'UTF8')";
    let told = caller.ok(&format!("BEGIN; SELECT {columns} FROM {}", claim("k"))).await;
    let told: Vec<_> = told[0].iter().map(|cell| cell.as_deref().unwrap()).collect();
    assert_eq!(told, ["replay", "failed", "402", "card declined"]);
}

#[tokio::test]
async fn other_content_is_a_mismatch_unless_a_clean_release_freed_the_key() {
    let fixture = Fixture::new(Major::V18).await;
    let caller = Caller::new(&fixture).await;
    let other = "SELECT decision, incarnation
        FROM semel.claim('acme', 'payments.create', 'k', 'pay 11')";
    let permit = caller.begin("k").await;
    let release = format!("SELECT semel.release('{permit}', 'acme', 'payments.create')");
    caller.ok(&format!("{release}; COMMIT; BEGIN")).await;
    let told = caller.ok(other).await;
    assert_eq!(told[0], [Some("run".to_owned()), Some("1".to_owned())]);
    caller.ok("ROLLBACK").await;
    let permit = caller.begin("k").await;
    caller.ok(&format!("{}; COMMIT", complete(&permit))).await;
    assert_eq!(caller.cell(&format!("BEGIN; {other}")).await, "mismatch");
    let first = other.replace("'pay 11'", "'pay 11', compare => 'replay-first'");
    assert_eq!(caller.cell(&first).await, "replay");
}

#[tokio::test]
async fn a_vanished_client_does_not_hold_a_key_for_ever() {
    let fixture = Fixture::new(Major::V18).await;
    let (lost, next) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
    let claim = "SELECT permit FROM semel.claim('acme', 'payments.create', 'k', 'pay 10',
        idle_timeout => '300 ms')";
    lost.ok(&format!("BEGIN; {claim}")).await;
    let free = async {
        while decision(&next, "k").await != "run" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), free).await.expect("the key comes free");
}

#[tokio::test]
async fn the_callers_own_idle_timeout_is_never_lengthened() {
    let fixture = Fixture::new(Major::V15).await;
    let caller = Caller::new(&fixture).await;
    let setting = "SELECT current_setting('idle_in_transaction_session_timeout')";
    for (own, within) in [("0", "1min"), ("7s", "7s"), ("2h", "1min")] {
        caller.ok(&format!("SET idle_in_transaction_session_timeout = '{own}'")).await;
        caller.begin("k").await;
        assert_eq!(caller.cell(setting).await, within);
        caller.ok("ROLLBACK").await;
        assert_eq!(caller.cell(setting).await, own);
    }
    let unbounded = "SELECT * FROM semel.claim('a', 'b', 'c', '', idle_timeout => '0')";
    caller.ok(&format!("BEGIN; {unbounded}")).await;
    assert_eq!(caller.cell(setting).await, "2h", "zero leaves it alone");
}

#[tokio::test]
async fn a_database_of_another_encoding_will_do() {
    let server = Postgres::shared(Major::V15).await;
    let made = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    server.run_sql(made).await;
    let url = server.url_of("latin");
    PostgresStore::migrate(&PostgresStore::builder(&url)).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let claim = "SELECT decision, permit, headers ->> 0 FROM semel.claim('Käufer', 'pay', 'k', '')";
    client.batch_execute("BEGIN").await.unwrap();
    let permit: String = client.query_one(claim, &[]).await.unwrap().get(1);
    assert_eq!(permit::decode(&permit).unwrap().id.scope.tenant.as_str(), "Käufer");
    let complete = "SELECT semel.complete($1, 'Käufer', 'pay', 200, '[[\"a\", \"é\"]]')";
    client.query_one(complete, &[&permit]).await.unwrap();
    client.batch_execute("COMMIT; BEGIN").await.unwrap();
    let row = client.query_one(claim, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(2)), ("replay", r#"["a", "é"]"#));

    // A name has one lock, whichever encoding and whichever form.
    let held = "ROLLBACK; BEGIN; SELECT * FROM semel.claim('Käufer', 'pay', 'held', '')";
    client.batch_execute(held).await.unwrap();
    let store = PostgresStore::builder(&url).open().await.unwrap();
    let scope = Scope::new(Tenant::new("Käufer").unwrap(), Operation::new("pay").unwrap());
    let asked = words::ask(&scope.intent(Key::new("held").unwrap()));
    words::in_progress(&words::claim(&store, &asked).await.unwrap());
}
