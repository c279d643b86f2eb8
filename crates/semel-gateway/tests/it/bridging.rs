//! Operations that their upstream completes in a transaction of its own, by the permit it is sent.

use std::{sync::Arc, time::Duration};

use semel::{
    Outcome, Permit, Store,
    decide::{Finish, FinishKind, OnLost},
    permit,
    store::{Completed, memory::MemoryStore},
};
use semel_gateway::{Gateway, ServeError, Settings, stores::Opened};

use crate::{
    gateway::{Served, protected, settings},
    message::{Message, answer},
    upstream::{Deed, Upstream},
};

/// Completes as an application does, and says whether its commit stood.
async fn complete(store: &MemoryStore, permit: Permit) -> bool {
    let span = Duration::from_secs(3_600);
    let finish = Finish {
        kind: FinishKind::Done,
        outcome: Some(Outcome::new(201, "stored").header("content-type", "text/plain")),
        reason: None,
        replay_for: span,
        remember_for: span,
    };
    store.complete(permit, finish).await.unwrap() == Completed::Stored
}

fn permit_of(message: &Message) -> Permit {
    permit::decode(message.header("semel-permit").expect("a permit")).expect("it can be read")
}

/// An application that commits and then does what a test says, and its store.
async fn application(
    deed: impl Fn() -> Deed + Send + Sync + 'static,
) -> (Arc<MemoryStore>, Upstream) {
    let store = Arc::new(MemoryStore::new());
    let shared = Arc::clone(&store);
    let upstream = Upstream::new(move |message| {
        let (store, deed) = (Arc::clone(&shared), deed());
        async move {
            assert!(complete(&store, permit_of(&message)).await);
            deed
        }
    });
    (store, upstream.await)
}

fn bridged(url: &str, on_lost: OnLost) -> Settings {
    let mut settings = settings(&[("app", url)]);
    settings.upstreams[0].bridged = true;
    settings.upstreams[0].answer_wait = Duration::from_millis(300);
    let policy = semel::Policy { durable: false, on_lost, ..semel::Policy::default() };
    let mut protected = protected("pay", "/pay", Some("app"));
    protected.operation = protected.operation.policy(policy).bridged(true);
    settings.operations = vec![protected];
    settings
}

fn opened(store: Arc<MemoryStore>) -> Opened {
    Opened {
        store: Arc::clone(&store) as _,
        sweep: Arc::clone(&store) as _,
        inspect: Arc::clone(&store) as _,
        mover: Arc::clone(&store) as _,
        bridge: Some(store),
        notify: None,
        outbox: None,
        inbox: None,
    }
}

async fn before(settings: &Settings, store: Arc<MemoryStore>) -> Served {
    Served::of(Gateway::with_store(settings, opened(store)).await.unwrap()).await
}

/// Whatever becomes of the answer once the application has committed: what it stored is sent.
#[tokio::test]
async fn what_was_committed_is_sent_whatever_becomes_of_the_answer() {
    let deeds: [fn() -> Deed; 6] = [
        || Deed::Write(answer(500, &[], "a fault after the commit")),
        || Deed::Write(answer(201, &[("x", "1")], "stored")),
        || Deed::Write(b"no HTTP at all\r\n\r\n".to_vec()),
        || Deed::WriteAndClose(b"HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\nhal".to_vec()),
        || Deed::Reset,
        || Deed::Hang,
    ];
    for deed in deeds {
        let (store, upstream) = application(deed).await;
        let gateway = before(&bridged(&upstream.url(), OnLost::Hold), store).await;
        let first = gateway.pay("k").await;
        assert_eq!((first.status(), first.text()), (201, "stored"), "{first:?}");
        assert_eq!(first.header("idempotent-replayed"), None);
        let again = gateway.pay("k").await;
        assert_eq!((again.status(), again.text()), (201, "stored"));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(upstream.seen.requests().len(), 1);
    }
}

/// What the application did not complete was rolled back, so that every failure is tried again, under
/// `hold` too; and a completion that comes late fails.
#[tokio::test]
async fn what_was_not_committed_is_tried_again() {
    let deeds: [fn() -> Deed; 4] = [
        || Deed::Write(answer(500, &[], "rolled back")),
        || Deed::Write(answer(404, &[], "rolled back")),
        || Deed::Reset,
        || Deed::Hang,
    ];
    for deed in deeds {
        let store = Arc::new(MemoryStore::new());
        let upstream = Upstream::new(move |_| {
            let deed = deed();
            async move { deed }
        });
        let upstream = upstream.await;
        let gateway = before(&bridged(&upstream.url(), OnLost::Hold), Arc::clone(&store)).await;
        let first = gateway.pay("k").await;
        assert!(first.status() >= 400, "{first:?}");
        gateway.pay("k").await;
        let seen = upstream.seen.requests();
        assert_eq!(seen.len(), 2);
        assert!(!complete(&store, permit_of(&seen[0])).await, "its commit fails");
    }
}

/// A success without a completion breaks the contract: it is not sent, not run again, and counted.
#[tokio::test]
async fn a_success_without_completion_is_loud() {
    let upstream = Upstream::counting().await;
    let store = Arc::new(MemoryStore::new());
    let gateway = before(&bridged(&upstream.url(), OnLost::Rerun), store).await;
    let first = gateway.pay("k").await;
    assert_eq!((first.status(), first.code().as_str()), (502, "not-completed"));
    assert_eq!(gateway.pay("k").await.code(), "unknown");
    assert_eq!(upstream.seen.requests().len(), 1);
    assert_eq!(gateway.metric("semel_bridge_breaches_total").await, 1);
}

/// A trusted application may say more than its status; what anybody else says counts for nothing.
#[tokio::test]
async fn a_trusted_application_may_say_more_than_its_status() {
    for (trusted, status, effect, next) in [
        (true, 200, "none", "its own answer"),
        (true, 500, "unknown", "unknown"),
        (true, 402, "final", "its own answer"),
        (false, 200, "none", "unknown"),
        (false, 500, "unknown", "its own answer"),
    ] {
        let said = answer(status, &[("semel-effect", effect)], "its own answer");
        let upstream = Upstream::saying(said).await;
        let mut settings = bridged(&upstream.url(), OnLost::Hold);
        settings.upstreams[0].trusted = trusted;
        let operation = settings.operations[0].operation.clone().trust_effect_header(trusted);
        settings.operations[0].operation = operation;
        let gateway = before(&settings, Arc::default()).await;
        gateway.pay("k").await;
        let again = gateway.pay("k").await;
        let told = if again.code().is_empty() { again.text().to_owned() } else { again.code() };
        assert_eq!(told, next, "{trusted} {status} {effect}");
        let replays = trusted && effect == "final";
        assert_eq!(again.header("idempotent-replayed").is_some(), replays, "{effect}");
    }
}

/// A permit goes to a bridged upstream for a bridged operation alone, and comes from nobody else.
#[tokio::test]
async fn a_permit_goes_where_it_belongs_alone() {
    let (store, app) =
        application(|| Deed::Write(answer(201, &[("semel-permit", "leaked")], "stored"))).await;
    let other = Upstream::saying(answer(200, &[("semel-permit", "leaked")], "ok")).await;
    let mut settings = bridged(&app.url(), OnLost::Hold);
    let url = other.url().parse().unwrap();
    settings.upstreams.push(semel_gateway::settings::UpstreamSettings::new("other", url));
    settings.operations.push(protected("plain", "/plain", Some("app")));
    settings.operations.push(protected("else", "/else", Some("other")));
    let gateway = before(&settings, store).await;
    let forged = [("idempotency-key", "k"), ("semel-permit", "forged")];
    let paid = gateway.send("POST /pay", &forged, "{}").await;
    assert_eq!((paid.status(), paid.header("semel-permit")), (201, None));
    for line in ["POST /else", "GET /elsewhere"] {
        let answered = gateway.send(line, &forged, "").await;
        assert_eq!(answered.header("semel-permit"), None, "{line}");
    }
    let permits: Vec<_> =
        other.seen.requests().iter().map(|m| m.header("semel-permit").map(str::to_owned)).collect();
    assert_eq!(permits.into_iter().flatten().count(), 0, "no other upstream sees one");
    // An operation that is not bridged hands none on, to whichever upstream.
    let app_saw = app.seen.requests().len();
    drop(
        tokio::time::timeout(crate::message::PATIENCE, gateway.send("POST /plain", &forged, ""))
            .await,
    );
    let seen = app.seen.requests();
    assert!(seen.len() > app_saw);
    assert!(seen[app_saw..].iter().all(|message| message.header("semel-permit").is_none()));
}

/// What cannot be bridged refuses to start.
#[tokio::test]
async fn an_operation_without_its_upstreams_consent_refuses_to_start() {
    let mut settings = bridged("http://127.0.0.1:1", OnLost::Hold);
    settings.upstreams[0].bridged = false;
    let refused = Gateway::with_store(&settings, opened(Arc::default())).await.unwrap_err();
    assert!(matches!(refused, ServeError::NotBridged { .. }), "{refused}");
    settings.upstreams[0].bridged = true;
    let mut blind = opened(Arc::default());
    blind.bridge = None;
    let refused = Gateway::with_store(&settings, blind).await.unwrap_err();
    assert!(matches!(refused, ServeError::Layer(_)), "{refused}");
}
