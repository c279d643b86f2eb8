//! Where the records lie: a file or a server, and what can be done to either.

mod postgres;
mod redis;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use semel_gateway::{config::StoreUrl, settings::StoreSettings};
use semel_testkit::servers::{Disk, TcpProxy};

pub(super) use self::{postgres::ServerPlace, redis::RedisPlace};
use super::{
    StackError,
    settings::{Settings, Store},
    trouble::Trouble,
};

/// Room for the records of a long run.
const DISK_MIB: u32 = 2_048;
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

/// Where the records lie.
#[derive(Debug)]
pub(super) enum Place {
    File(FilePlace),
    Redis(Box<RedisPlace>),
    Server(Box<ServerPlace>),
}

impl Place {
    pub(super) async fn new(settings: &Settings, folder: &Path) -> Result<Self, StackError> {
        Ok(match settings.store {
            Store::Sqlite => Self::File(FilePlace::new(settings, folder)?),
            Store::Redis | Store::RedisCluster | Store::RedisSentinel => {
                Self::Redis(Box::new(RedisPlace::new(settings, folder).await?))
            }
            Store::Postgres => Self::Server(Box::new(ServerPlace::new(settings, folder).await?)),
        })
    }

    /// Waits until trouble may begin.
    pub(super) async fn until_ready(&self) -> Result<(), StackError> {
        match self {
            Self::File(_) => {}
            Self::Redis(servers) => servers.settle().await?,
            Self::Server(server) => server.catch_up().await,
        }
        Ok(())
    }

    /// Kills whatever serves, all of it at once, and starts it.
    pub(super) async fn start_anew(&mut self) -> Result<(), StackError> {
        match self {
            Self::File(_) => {}
            Self::Redis(servers) => servers.start_anew().await?,
            Self::Server(server) => {
                server.primary.kill();
                server.primary.restart().await;
            }
        }
        Ok(())
    }

    /// Returns the store's URL for one gateway.
    pub(super) fn url_for(&self, gateway: usize) -> String {
        match self {
            Self::File(file) => file.url(),
            Self::Redis(servers) => servers.url_for(gateway),
            Self::Server(server) => server.url_for(gateway),
        }
    }

    /// Returns the ways that lead to it over a network.
    pub(super) fn lines(&self) -> Vec<Line> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Redis(servers) => servers.lines.clone(),
            Self::Server(server) => server.lines.clone(),
        }
    }

    /// Returns how the drill itself opens the store.
    pub(super) fn settings(&self) -> io::Result<StoreSettings> {
        let url = match self {
            Self::File(file) => file.url(),
            Self::Redis(servers) => servers.url(),
            Self::Server(server) => server.primary.url(),
        };
        let read = StoreUrl::parse(&url, Path::new("/"));
        let read = read.ok_or_else(|| io::Error::other(format!("{url} is no store")))?;
        let settings = StoreSettings::from(read);
        Ok(match self {
            Self::Redis(servers) => StoreSettings { redis: servers.used.clone(), ..settings },
            Self::File(_) | Self::Server(_) => settings,
        })
    }
}
