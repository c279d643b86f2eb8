//! How a gateway ends: what runs finishes, what waits is told, and a second word ends at once.

use std::{sync::Arc, time::Duration};

use semel_gateway::Ended;
use tokio::sync::Notify;

use crate::{
    gateway::{Served, settings},
    message::{Wire, answer, request, send},
    upstream::{Deed, Upstream},
};

/// An upstream that answers when it is told to.
async fn held_up() -> (Upstream, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let waiting = Arc::clone(&go);
    let upstream = Upstream::new(move |_| {
        let go = Arc::clone(&waiting);
        async move {
            go.notified().await;
            Deed::Write(answer(201, &[], "done"))
        }
    })
    .await;
    (upstream, go)
}

fn pay(key: &str) -> Vec<u8> {
    request("POST /pay", &[("idempotency-key", key)], "{\"amount\":5}")
}

#[tokio::test]
async fn the_holder_finishes_and_a_waiting_retry_gets_its_answer() {
    let (upstream, go) = held_up().await;
    let mut gateway = Served::before(&upstream.url()).await;
    let (mut holder, mut retry) =
        (Wire::to(gateway.address).await, Wire::to(gateway.address).await);
    holder.write(pay("ending-1")).await;
    upstream.seen.until(1).await;
    retry.write(pay("ending-1")).await;
    gateway.until("semel_waits_total", 1).await;
    gateway.shutdown.begin();
    let ready = send(gateway.admin, "GET /readyz", &[], "").await;
    assert_eq!((ready.status(), ready.text()), (503, "shutting down\n"));
    go.notify_one();
    let first = holder.answer("POST").await.unwrap();
    let second = retry.answer("POST").await.unwrap();
    assert_eq!((first.status(), first.text()), (201, "done"));
    assert_eq!((second.status(), second.body), (201, first.body));
    assert_eq!(gateway.ended().await, Ended::Clean);
    assert_eq!(upstream.seen.requests().len(), 1);
}

#[tokio::test]
async fn a_shutdown_without_anything_running_ends_soon_and_closes_idle_connections() {
    let upstream = Upstream::counting().await;
    let mut gateway = Served::before(&upstream.url()).await;
    let mut idle = Wire::to(gateway.address).await;
    idle.write(pay("idle-1")).await;
    idle.answer("POST").await.unwrap();
    gateway.shutdown.begin();
    assert_eq!(gateway.ended().await, Ended::Clean);
    assert_eq!(idle.some().await, None);
    assert!(tokio::net::TcpStream::connect(gateway.address).await.is_err());
}

/// What does not finish in time is cut, and says so; whoever waited is told to come back.
#[tokio::test]
async fn what_does_not_finish_in_time_is_cut_short_and_a_waiting_retry_gets_a_clean_answer() {
    let (upstream, _never) = held_up().await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.shutdown_wait = Duration::from_millis(900);
    let mut gateway = Served::new(&settings).await;
    let (mut holder, mut retry) =
        (Wire::to(gateway.address).await, Wire::to(gateway.address).await);
    holder.write(pay("cut-1")).await;
    upstream.seen.until(1).await;
    retry.write(pay("cut-1")).await;
    gateway.until("semel_waits_total", 1).await;
    gateway.shutdown.begin();
    let told = retry.answer("POST").await.unwrap();
    assert_eq!((told.status(), told.code().as_str()), (503, "closed"));
    assert_eq!(gateway.ended().await, Ended::CutShort);
}

#[tokio::test]
async fn a_second_word_ends_at_once() {
    let (upstream, _never) = held_up().await;
    let mut gateway = Served::before(&upstream.url()).await;
    let mut holder = Wire::to(gateway.address).await;
    holder.write(pay("at-once-1")).await;
    upstream.seen.until(1).await;
    gateway.shutdown.begin();
    gateway.shutdown.end_now();
    assert_eq!(gateway.ended().await, Ended::CutShort);
}

/// C13: a client that hangs up cancels nothing.
#[tokio::test]
async fn the_answer_is_kept_although_the_client_hung_up() {
    let (upstream, go) = held_up().await;
    let gateway = Served::before(&upstream.url()).await;
    let mut gone = Wire::to(gateway.address).await;
    gone.write(pay("hung-up-1")).await;
    upstream.seen.until(1).await;
    drop(gone);
    go.notify_one();
    let retry = gateway.pay("hung-up-1").await;
    assert_eq!((retry.status(), retry.text()), (201, "done"));
    assert_eq!(retry.header("idempotent-replayed"), Some("true"));
    assert_eq!(upstream.seen.requests().len(), 1);
}
