//! A consumer that is gone between any two steps, and the copy that comes after it.

use std::future::Future;

use semel_postgres::inbox::{Ran, Receive};
use semel_testkit::servers::Major;

use super::desk::{Desk, delivery, is_first};

/// Where the consumer is gone.
#[derive(Clone, Copy, Debug)]
enum Gone {
    Received,
    Acted,
    Recorded,
    Committed,
}

/// M73: what the first run recorded comes with the copy, to be sent again.
#[tokio::test]
async fn a_consumer_gone_after_any_step_leaves_one_effect_after_the_next_copy() {
    for gone in [Gone::Received, Gone::Acted, Gone::Recorded, Gone::Committed] {
        let desk = Desk::new(Major::V18).await;
        let (mut client, mut next) = (desk.connect().await, desk.connect().await);
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let tx = client.transaction().await.unwrap();
        let Ok(Receive::First(handling)) = desk.inbox.receive(tx, &delivery("a")).await else {
            panic!("the message is new")
        };
        let kill = async || {
            next.execute("SELECT pg_terminate_backend($1, 20000)", &[&pid]).await.unwrap();
        };
        match gone {
            Gone::Received => kill().await,
            Gone::Acted => {
                desk.act(&*handling, "a").await.unwrap();
                kill().await;
            }
            Gone::Recorded => {
                desk.act(&*handling, "a").await.unwrap();
                let tx = handling.done(Some("paid".into())).await.unwrap();
                kill().await;
                assert!(tx.commit().await.is_err());
            }
            Gone::Committed => {
                desk.act(&*handling, "a").await.unwrap();
                handling.done(Some("paid".into())).await.unwrap().commit().await.unwrap();
                kill().await;
            }
        }
        let ran = desk.handle(&mut next, &delivery("a"), Some("paid")).await.unwrap();
        match gone {
            Gone::Committed => {
                let Ran::Duplicate(Some(recorded)) = ran else { panic!("{ran:?}") };
                assert_eq!(recorded.answer.as_deref(), Some(&b"paid"[..]));
            }
            _ => assert!(is_first(&ran), "{gone:?}: {ran:?}"),
        }
        assert_eq!(desk.effects(Some("a")).await, 1, "{gone:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_dropped_at_any_moment_leaves_the_message_whole() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    for round in 0..60_u32 {
        let id = format!("m{round}");
        let delivery = delivery(&id);
        {
            let mut polls = round % 12;
            let run = desk.handle(&mut client, &delivery, None);
            let mut run = std::pin::pin!(run);
            std::future::poll_fn(|cx| {
                if polls == 0 {
                    return std::task::Poll::Ready(());
                }
                polls -= 1;
                run.as_mut().poll(cx).map(drop)
            })
            .await;
        }
        // The same connection, and what of the first run was sent is ended on it.
        desk.handle(&mut client, &delivery, None).await.map(drop).unwrap();
        assert_eq!(desk.effects(Some(&id)).await, 1, "{id}");
    }
}
