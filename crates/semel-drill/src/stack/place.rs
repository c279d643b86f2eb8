//! Where the records lie: a file or a server, and what can be done to either.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use semel_gateway::{config::StoreUrl, settings::StoreSettings};
use semel_testkit::servers::{Disk, Postgres, TcpProxy, Towards};

use super::{
    StackError,
    settings::{Settings, Store},
    skew::Skew,
    trouble::Trouble,
};

/// Room for the records of a long run.
const DISK_MIB: u32 = 2_048;
/// How far a standby is behind that nobody waits for.
const LAG: Duration = Duration::from_millis(300);
const STANDBY: &str = "standby";

/// The number of the application among those who have a way, behind all gateways.
const APPLICATION: usize = 63;

/// A way of one gateway, or of the application, to what is behind it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) gateway: usize,
    pub(super) proxy: Arc<TcpProxy>,
}

impl Line {
    /// Starts a way for a gateway.
    pub(super) async fn to(gateway: usize, server: SocketAddr) -> Self {
        Self { gateway, proxy: Arc::new(TcpProxy::start(server).await) }
    }
}

/// The file of an SQLite store.
#[derive(Debug)]
pub(super) struct FilePlace {
    file: PathBuf,
    pub(super) disk: Option<Disk>,
}

impl FilePlace {
    pub(super) fn new(settings: &Settings, folder: &Path) -> Result<Self, StackError> {
        let data = folder.join("data");
        std::fs::create_dir_all(&data)?;
        let disk = settings.has(Trouble::Power).then(|| {
            Disk::mount(&folder.join("disk.img"), &data, DISK_MIB).map_err(StackError::Usage)
        });
        Ok(Self { file: data.join("semel.db"), disk: disk.transpose()? })
    }

    /// Where the file lies.
    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.file.display())
    }
}

/// The server of a PostgreSQL store, and each gateway's way to it.
#[derive(Debug)]
pub(super) struct ServerPlace {
    pub(super) primary: Postgres,
    standby: Option<Postgres>,
    /// The slow way of a standby that nobody waits for.
    lag: Option<TcpProxy>,
    is_lagging: bool,
    lines: Vec<Line>,
    pub(super) skew: Option<Skew>,
}

impl ServerPlace {
    pub(super) async fn new(settings: &Settings, folder: &Path) -> Result<Self, StackError> {
        let skew = settings.has(Trouble::Skew).then(|| Skew::new(folder.join("clock")));
        let skew = skew.transpose()?;
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
    async fn catch_up(&self) {
        if let Some(standby) = &self.standby {
            self.primary.until_caught_up(standby).await;
        }
    }

    /// Kills the primary, promotes the standby, leads everybody there and makes a new standby. The old
    /// primary never comes back.
    pub(super) async fn fail_over(&mut self) {
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

    fn url_for(&self, gateway: usize) -> String {
        self.lines[gateway].proxy.through(&self.primary.url())
    }

    /// The URL by which the application writes: the last way there is.
    pub(super) fn own_url(&self) -> String {
        self.url_for(self.lines.len() - 1)
    }
}

/// Where the records lie.
#[derive(Debug)]
pub(super) enum Place {
    File(FilePlace),
    Server(Box<ServerPlace>),
}

impl Place {
    pub(super) async fn new(settings: &Settings, folder: &Path) -> Result<Self, StackError> {
        Ok(match settings.store {
            Store::Sqlite => Self::File(FilePlace::new(settings, folder)?),
            Store::Postgres => Self::Server(Box::new(ServerPlace::new(settings, folder).await?)),
        })
    }

    /// Waits until trouble may begin.
    pub(super) async fn until_ready(&self) {
        match self {
            Self::File(_) => {}
            Self::Server(server) => server.catch_up().await,
        }
    }

    /// Returns the store's URL for one gateway.
    pub(super) fn url_for(&self, gateway: usize) -> String {
        match self {
            Self::File(file) => file.url(),
            Self::Server(server) => server.url_for(gateway),
        }
    }

    /// Returns the ways that lead to it over a network.
    pub(super) fn lines(&self) -> Vec<Line> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Server(server) => server.lines.clone(),
        }
    }

    /// Returns how the drill itself opens the store.
    pub(super) fn settings(&self) -> io::Result<StoreSettings> {
        let url = match self {
            Self::File(file) => file.url(),
            Self::Server(server) => server.primary.url(),
        };
        let read = StoreUrl::parse(&url, Path::new("/"));
        read.map(StoreSettings::from).ok_or_else(|| io::Error::other(format!("{url} is no store")))
    }
}
