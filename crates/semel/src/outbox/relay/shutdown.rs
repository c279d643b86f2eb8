//! When a relay is closed, and how long it may take.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::clock::Monotonic;

/// Tells the loops of a relay that it is being closed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Closing {
    token: CancellationToken,
    until: Arc<OnceLock<Monotonic>>,
}

impl Closing {
    /// Begins to close; what is not done until then is left undone. The first call counts.
    pub(super) fn begin(&self, until: Monotonic) {
        self.until.get_or_init(|| until);
        self.token.cancel();
    }

    pub(super) fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(super) async fn begins(&self) {
        self.token.cancelled().await;
    }

    pub(super) fn until(&self) -> Option<Monotonic> {
        self.until.get().copied()
    }

    pub(super) fn is_over(&self, now: Monotonic) -> bool {
        self.has_begun() && self.until().is_some_and(|until| now >= until)
    }
}
