//! Hints of a store, passed on to every destination.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use super::{paced::STORE_RETRY, shutdown::Closing};
use crate::{clock::Clock, entropy::Entropy, outbox::store::OutboxHints};

/// How long one call waits for a hint.
const WAIT: Duration = Duration::from_secs(30);

/// Waits for hints until the relay is closed. Polling finds what is not hinted at.
pub(super) async fn pass_on(
    hints: Arc<dyn OutboxHints>,
    to: Vec<Arc<Notify>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    closing: Closing,
) {
    let mut failures = 0_u32;
    loop {
        let hinted = tokio::select! {
            biased;
            () = closing.begins() => return,
            hinted = hints.hinted(WAIT) => hinted,
        };
        match hinted {
            Ok(true) => {
                failures = 0;
                to.iter().for_each(|destination| destination.notify_one());
            }
            Ok(false) => failures = 0,
            Err(error) => {
                if failures == 0 {
                    tracing::warn!(%error, "the store gives no hints for now; the relay polls");
                }
                failures = failures.saturating_add(1);
                let until = clock.monotonic().after(STORE_RETRY.wait(failures, &*entropy));
                tokio::select! {
                    biased;
                    () = closing.begins() => return,
                    () = clock.sleep_until(until) => {}
                }
            }
        }
    }
}
