//! Short waits kept to some ten microseconds, which the runtime's own timer rounds up to whole
//! milliseconds.

use std::{
    collections::BTreeMap,
    sync::{OnceLock, mpsc},
    thread,
    time::Instant,
};

use tokio::sync::oneshot;

type Order = (Instant, oneshot::Sender<()>);

/// Waits until an instant of the machine's clock.
pub(super) async fn sleep_until(due: Instant) {
    if Instant::now() >= due {
        return;
    }
    let (wake, woken) = oneshot::channel();
    sleeper().send((due, wake)).expect("the sleeper lives as long as the process");
    woken.await.expect("the sleeper wakes everybody");
}

/// One thread sleeps for all.
fn sleeper() -> &'static mpsc::Sender<Order> {
    static SLEEPER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    SLEEPER.get_or_init(|| {
        let (orders, taken) = mpsc::channel();
        let thread = thread::Builder::new().name("sleeper".to_owned());
        thread.spawn(move || wake_all(&taken)).expect("a thread starts");
        orders
    })
}

fn wake_all(orders: &mpsc::Receiver<Order>) {
    let mut waiting = BTreeMap::new();
    // Keeps apart those that are due at the same instant.
    let mut number = 0_u64;
    loop {
        let order = match waiting.first_key_value() {
            None => orders.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(((due, _), _)) => {
                orders.recv_timeout(Instant::saturating_duration_since(due, Instant::now()))
            }
        };
        match order {
            Ok((due, wake)) => {
                number += 1;
                waiting.insert((due, number), wake);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        while let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= now) {
            // Whoever waited may have given up.
            let _ = first.remove().send(());
        }
    }
}
