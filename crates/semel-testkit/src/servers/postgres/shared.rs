//! One server of each major for all tests of a process.

use tokio::sync::OnceCell;

use super::{Major, Postgres};

impl Postgres {
    /// Returns the server of this major that all tests of the process share, starting it for the
    /// first. Each test makes a schema or a database of its own in it, and leaves its settings and
    /// its running alone: who freezes it freezes them all. It ends with the process.
    ///
    /// # Panics
    ///
    /// Panics if this major is not installed or the server does not start.
    pub async fn shared(major: Major) -> &'static Self {
        static SERVERS: [OnceCell<Postgres>; 3] = [const { OnceCell::const_new() }; 3];
        let index = Major::ALL.iter().position(|other| *other == major).unwrap_or_default();
        SERVERS[index].get_or_init(|| Self::start(major)).await
    }
}
