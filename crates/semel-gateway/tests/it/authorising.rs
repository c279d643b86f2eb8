//! Whether a caller may still see what is kept, as an endpoint says.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use semel_gateway::settings::{AuthSettings, UpstreamSettings};
use semel_testkit::Gate;

use crate::{
    gateway::{Served, settings},
    message::{Wire, answer, request},
    upstream::{Deed, Upstream},
};

/// What an upstream lets in once: a nonce, or the id of a token.
const NONCE: &str = "x-nonce";

/// A gateway that asks an endpoint, and what that endpoint says.
struct Asked {
    upstream: Upstream,
    endpoint: Upstream,
    says: Arc<Mutex<Option<Vec<u8>>>>,
    gateway: Served,
}

impl Asked {
    async fn new() -> Self {
        Self::before(Upstream::counting().await).await
    }

    async fn before(upstream: Upstream) -> Self {
        let says = Arc::new(Mutex::new(Some(answer(204, &[], ""))));
        let saying = Arc::clone(&says);
        let endpoint = Upstream::new(move |_| {
            let said = saying.lock().unwrap().clone();
            async move { said.map_or(Deed::Hang, Deed::Write) }
        })
        .await;
        let mut settings = settings(&[("api", &upstream.url())]);
        let url = format!("{}/check?who=1", endpoint.url());
        settings.authorize = Some(AuthSettings {
            upstream: UpstreamSettings::new("auth", url.parse().unwrap()),
            wait: std::time::Duration::from_millis(300),
            without: vec![http::HeaderName::from_static("x-inner")],
        });
        let gateway = Served::new(&settings).await;
        Self { upstream, endpoint, says, gateway }
    }

    fn say(&self, said: Option<Vec<u8>>) {
        *self.says.lock().unwrap() = said;
    }
}

/// L13: a grant that was revoked between the two calls ends the replay.
#[tokio::test]
async fn a_revoked_grant_gets_the_refusal_and_nothing_that_was_kept() {
    let asked = Asked::new().await;
    assert_eq!(asked.gateway.pay("revoked-1").await.text(), "{\"id\":1}");
    let replay = asked.gateway.pay("revoked-1").await;
    assert_eq!((replay.status(), replay.text()), (201, "{\"id\":1}"));
    for status in [401, 403] {
        let no = answer(status, &[("www-authenticate", "Bearer"), ("x-inner", "1")], "no");
        asked.say(Some(no));
        let refused = asked.gateway.pay("revoked-1").await;
        assert_eq!((refused.status(), refused.text()), (status, "no"));
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        assert_eq!((refused.header("location"), refused.header("x-inner")), (None, None));
    }
    assert_eq!(asked.upstream.seen.requests().len(), 1);
}

/// L16: what may be used once is looked at behind the gateway, so the retry that carries it again is answered, and
/// spends nothing. Another intent with it is refused, and so is whoever may not see the answer.
#[tokio::test]
async fn a_nonce_that_was_used_refuses_other_intents_and_never_the_retry() {
    let (gate, spent) = (Gate::shut(), Mutex::new(HashSet::new()));
    let held = Arc::clone(&gate);
    let upstream = Upstream::new(move |message| {
        let fresh = spent.lock().unwrap().insert(message.header(NONCE).unwrap().to_owned());
        let (gate, status) = (Arc::clone(&held), if fresh { 201 } else { 401 });
        async move { Deed::WriteWhen(gate, answer(status, &[], if fresh { "paid" } else { "used" })) }
    });
    let asked = Asked::before(upstream.await).await;
    let headers = |key, nonce| [("idempotency-key", key), (NONCE, nonce)];
    let pay = async |key, nonce| {
        let got = asked.gateway.send("POST /pay", &headers(key, nonce), "{}").await;
        (got.status(), got.text().to_owned())
    };
    let paid = (201, "paid".to_owned());

    // The client never hears of the first.
    let mut wire = Wire::to(asked.gateway.address).await;
    wire.write(request("POST /pay", &headers("once-1", "n-1"), "{}")).await;
    gate.arrived(1).await;
    wire.reset();
    gate.open();
    assert_eq!(pay("once-1", "n-1").await, paid);
    assert_eq!(pay("once-1", "n-2").await, paid);
    assert_eq!(pay("once-2", "n-1").await, (401, "used".to_owned()));
    assert_eq!(pay("once-2", "n-2").await, paid);
    asked.say(Some(answer(403, &[], "no")));
    assert_eq!(pay("once-1", "n-3").await, (403, "no".to_owned()));

    let sent: Vec<_> = asked.upstream.seen.requests();
    let sent = sent.iter().map(|seen| (seen.header("idempotency-key"), seen.header(NONCE)));
    let sent: Vec<_> = sent.map(|(key, nonce)| (key.unwrap(), nonce.unwrap())).collect();
    assert_eq!(sent, [("once-1", "n-1"), ("once-2", "n-1"), ("once-2", "n-2")]);
}

#[tokio::test]
async fn the_endpoint_gets_the_head_of_the_request_and_no_body() {
    let asked = Asked::new().await;
    let headers = [
        ("idempotency-key", "head-only-1"),
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("x-inner", "1"),
        ("content-type", "application/json"),
    ];
    for _ in 0..2 {
        asked.gateway.send("POST /pay?q=1", &headers, "{\"amount\":5}").await;
    }
    let seen = &asked.endpoint.seen.requests()[0];
    assert_eq!(seen.start, "GET /check?who=1 HTTP/1.1");
    for (name, value) in [
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("idempotency-key", "head-only-1"),
        ("x-original-method", "POST"),
        ("x-original-uri", "/pay?q=1"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    for name in ["content-length", "content-type", "transfer-encoding", "x-inner"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert!(seen.body.is_empty());
    // A fresh run is the upstream's to refuse: only the replay was asked about.
    assert_eq!(asked.endpoint.seen.requests().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_gives_no_clear_answer_shows_nothing() {
    let asked = Asked::new().await;
    asked.gateway.pay("unclear-1").await;
    for said in [Some(answer(500, &[], "")), Some(answer(302, &[("location", "/")], "")), None] {
        asked.say(said);
        let refused = asked.gateway.pay("unclear-1").await;
        assert_eq!((refused.status(), refused.code().as_str()), (503, "authorization-away"));
    }
    asked.say(Some(answer(200, &[], "")));
    assert_eq!(asked.gateway.pay("unclear-1").await.status(), 201);
    assert_eq!(asked.upstream.seen.requests().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_down_shows_nothing() {
    let Asked { upstream, endpoint, gateway, says: _ } = Asked::new().await;
    gateway.pay("down-auth-1").await;
    drop(endpoint);
    let refused = gateway.pay("down-auth-1").await;
    assert_eq!((refused.status(), refused.code().as_str()), (503, "authorization-away"));
    assert_eq!(upstream.seen.requests().len(), 1);
}
