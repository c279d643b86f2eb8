//! One intent, claimed in different forms: by functions, by the typed guard, with a lease. There is
//! one lock and one record for all of them.

use std::time::Duration;

use semel::{
    Fingerprint, Outcome, Permit, Refusal, State, Store, Timestamp, Token,
    decide::{Ask, Compare, OnLost},
    permit,
    store::ClaimAnswer,
};
use semel_postgres::{PostgresStore, transact::Atomic};
use semel_testkit::servers::Major;

use crate::{
    caller::{Caller, PAY, claim, complete},
    fixture::Fixture,
    transact::shop::{call, id},
};

async fn leased(store: &PostgresStore, key: &str, token: u8) -> ClaimAnswer {
    let ask = Ask {
        id: id(key),
        token: Token::from_bytes([token; 16]),
        fingerprint: Fingerprint::of_bytes(b"pay 10"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: Duration::from_secs(30),
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: None,
    };
    store.claim(vec![ask]).await.unwrap().remove(0).answer
}

async fn granted(store: &PostgresStore, key: &str, token: u8) -> Permit {
    match leased(store, key, token).await {
        ClaimAnswer::Granted { permit, .. } => permit,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_claim_by_function_holds_the_key_against_every_form() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let store = fixture.open().await;
        let caller = Caller::new(&fixture).await;
        let permit = caller.begin("k").await;
        let met = leased(&store, "k", 1).await;
        assert!(matches!(met, ClaimAnswer::Refused(Refusal::InProgress { .. })), "{met:?}");
        let mut client = fixture.connect().await;
        let transaction = client.transaction().await.unwrap();
        let met = store.transact().claim(transaction, &call("k")).await.unwrap();
        assert!(matches!(met, Atomic::Refused(_, Refusal::InProgress { .. })), "{met:?}");
        drop(met);
        caller.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
        let ClaimAnswer::Replay(record) = leased(&store, "k", 2).await else {
            panic!("the outcome is kept");
        };
        assert_eq!(record.outcome, Some(Outcome::new(201, "")));
        let transaction = client.transaction().await.unwrap();
        let met = store.transact().claim(transaction, &call("k")).await.unwrap();
        assert!(matches!(met, Atomic::Replay(..)), "{met:?}");
    }
}

#[tokio::test]
async fn a_guard_holds_the_key_against_the_functions() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let store = fixture.open().await;
        let caller = Caller::new(&fixture).await;
        let mut client = fixture.connect().await;
        let transaction = client.transaction().await.unwrap();
        let Atomic::Run(guard) = store.transact().claim(transaction, &call("k")).await.unwrap()
        else {
            panic!("nobody holds it");
        };
        let decision = format!("BEGIN; SELECT decision FROM {}", claim("k"));
        assert_eq!(caller.cell(&decision).await, "in-progress");
        let nested = fixture.sql(&format!("SELECT * FROM {}", claim("k2")));
        guard.simple_query(&nested).await.unwrap();
        let savepoint = guard.simple_query("SAVEPOINT s").await;
        savepoint.unwrap();
        let nested = fixture.sql(&format!("SELECT * FROM {}", claim("k")));
        let error = guard.simple_query(&nested).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "SM008");
        guard.simple_query("ROLLBACK TO s").await.unwrap();
        let transaction = guard.complete(Outcome::new(201, "paid")).await.unwrap();
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "SM004", "the other key was not completed");
        // The server tells of the failure a moment before it lets the lock go.
        let free = async {
            loop {
                caller.ok("ROLLBACK").await;
                let met = caller.cell(&decision).await;
                if met != "in-progress" {
                    return met;
                }
            }
        };
        let met = tokio::time::timeout(Duration::from_secs(20), free).await;
        assert_eq!(met.expect("the key comes free"), "run");
    }
}

#[tokio::test]
async fn what_a_store_claims_an_application_completes_by_function() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let store = fixture.open().await;
        let caller = Caller::new(&fixture).await;
        let held = granted(&store, "k", 1).await;
        let decision = format!("BEGIN; SELECT decision FROM {}; ROLLBACK", claim("k"));
        assert_eq!(caller.cell(&decision).await, "in-progress");
        let complete = complete(&permit::encode(&held));
        assert_eq!(caller.cell(&format!("BEGIN; {PAY}; {complete}")).await, "stored");
        caller.ok("COMMIT").await;
        let record = store.read(vec![id("k")]).await.unwrap().records.remove(0).unwrap();
        assert_eq!((record.state, record.token), (State::Done, held.token));
        assert_eq!(record.outcome, Some(Outcome::new(201, "")));
        assert_eq!(caller.cell(&decision).await, "replay");
    }
}
