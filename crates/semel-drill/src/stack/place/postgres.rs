//! The server of a PostgreSQL store, its standby, and the ways there.

use std::{path::Path, time::Duration};

use semel_testkit::servers::{Postgres, TcpProxy, Towards};

use super::{APPLICATION, DISK_MIB, Line};
use crate::stack::{StackError, settings::Settings, skew::Skew, trouble::Trouble};

/// How far a standby is behind that nobody waits for.
const LAG: Duration = Duration::from_millis(300);
const STANDBY: &str = "standby";

/// The server of a PostgreSQL store, and each gateway's way to it.
#[derive(Debug)]
pub(in crate::stack) struct ServerPlace {
    pub(in crate::stack) primary: Postgres,
    standby: Option<Postgres>,
    /// The slow way of a standby that nobody waits for.
    lag: Option<TcpProxy>,
    is_lagging: bool,
    pub(super) lines: Vec<Line>,
    pub(in crate::stack) skew: Option<Skew>,
}

impl ServerPlace {
    pub(in crate::stack) async fn new(
        settings: &Settings,
        folder: &Path,
    ) -> Result<Self, StackError> {
        let skew = Skew::of_server(settings, folder)?;
        let mut built = Postgres::builder(settings.major)
            // A standby is asked for by every commit: it comes back at once.
            .setting("wal_retrieve_retry_interval", "100ms");
        for (name, value) in skew.iter().flat_map(Skew::environment) {
            built = built.env(&name, &value);
        }
        if settings.has(Trouble::Power) {
            built = built.disk(DISK_MIB);
        }
        let primary = built.start().await;
        let is_lagging = settings.lagging_standby;
        let mut place =
            Self { primary, standby: None, lag: None, is_lagging, lines: Vec::new(), skew };
        for gateway in 0..settings.gateways {
            place.lines.push(Line::to(gateway, place.primary.address()).await);
        }
        if settings.events {
            place.lines.push(Line::to(APPLICATION, place.primary.address()).await);
        }
        if settings.has(Trouble::Failover) {
            place.stand_by().await;
        }
        Ok(place)
    }

    /// Starts a standby that every commit waits for, or one that lags behind.
    async fn stand_by(&mut self) {
        if self.is_lagging {
            let slow = TcpProxy::start(self.primary.address()).await;
            slow.delay(Towards::Client, LAG);
            self.standby = Some(self.primary.standby_through(STANDBY, slow.address()).await);
            self.lag = Some(slow);
            return;
        }
        let standby = self.primary.standby(STANDBY).await;
        self.primary.commits_wait_for(STANDBY).await;
        self.standby = Some(standby);
    }

    /// Waits until the standby has what the primary has, such as the schema: without it a failover would
    /// lead to a store that nobody ever opened.
    pub(super) async fn catch_up(&self) {
        if let Some(standby) = &self.standby {
            self.primary.until_caught_up(standby).await;
        }
    }

    /// Kills the primary, promotes the standby, leads everybody there and makes a new standby. The old
    /// primary never comes back.
    pub(in crate::stack) async fn fail_over(&mut self) {
        let Some(standby) = self.standby.take() else { return };
        self.primary.kill();
        standby.promote().await;
        self.primary = standby;
        for line in &self.lines {
            line.proxy.lead_to(self.primary.address());
            line.proxy.cut().await;
        }
        self.stand_by().await;
    }

    pub(super) fn url_for(&self, gateway: usize) -> String {
        self.lines[gateway].proxy.through(&self.primary.url())
    }

    /// The URL by which the application writes: the last way there is.
    pub(in crate::stack) fn own_url(&self) -> String {
        self.url_for(self.lines.len() - 1)
    }
}
