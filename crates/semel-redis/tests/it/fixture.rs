//! Keys of a test's own in a server that all tests share, and time that moves by hand.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection, cmd};
use semel_redis::{RedisBuilder, RedisStore};
use semel_testkit::{
    conformance::MoveTime,
    servers::{Redis, RedisCluster, RedisKind},
};
use tokio::net::{TcpListener, TcpStream};

/// The time that a test moves, one key in every part of the store's keys.
const MOVED: &str =
    "  return tonumber(redis.call('GET', string.match(KEYS[1], '^{.-}') .. ':moved'))";
/// How many parts there are.
const BUCKETS: usize = 256;
/// When a test begins.
pub(crate) const START: i64 = 1_700_000_000_000_000;

/// A fresh prefix.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    pub(crate) url: String,
    pub(crate) prefix: String,
    /// The servers that may have the keys.
    pub(crate) servers: Vec<SocketAddr>,
    is_cluster: bool,
}

impl Fixture {
    /// Takes a prefix in the shared server of a kind.
    pub(crate) async fn new(kind: RedisKind) -> Self {
        Self::of_server(Redis::shared(kind).await)
    }

    /// Takes a prefix in a server.
    pub(crate) fn of_server(server: &Redis) -> Self {
        Self::of(server.url(), vec![server.address()], false)
    }

    /// Takes a prefix in the shared cluster of a kind.
    pub(crate) async fn clustered(kind: RedisKind) -> Self {
        Self::of_cluster(RedisCluster::shared(kind).await)
    }

    pub(crate) fn of_cluster(cluster: &RedisCluster) -> Self {
        let servers = cluster.addresses()[..3].to_vec();
        let hosts: Vec<_> = servers.iter().map(ToString::to_string).collect();
        Self::of(format!("redis://{}?cluster=true", hosts.join(",")), servers, true)
    }

    pub(crate) fn of(url: String, servers: Vec<SocketAddr>, is_cluster: bool) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { url, prefix: format!("test-{}-{number}", std::process::id()), servers, is_cluster }
    }

    /// Takes a prefix in a server as a user who has its keys and no right but to use them: neither to read settings nor
    /// to publish.
    pub(crate) async fn of_user(server: &Redis) -> Self {
        let mut fixture = Self::of_server(server);
        let (user, keys) = (format!("app-{}", fixture.prefix), format!("~{{{}.*", fixture.prefix));
        let mut rule = vec!["ACL", "SETUSER", &user, "on", ">secret", &keys, "resetchannels"];
        rule.extend(["+@connection", "+@read", "+@write", "+eval", "+evalsha", "+time"]);
        assert_eq!(server.ask(&rule).await, "OK");
        fixture.url = format!("redis://{user}:secret@{}", server.address());
        fixture
    }

    /// Begins to open the store; in a cluster an answer waits for the replica.
    pub(crate) fn builder(&self) -> RedisBuilder {
        let builder = RedisStore::builder(&self.url).prefix(self.prefix.as_str());
        if self.is_cluster {
            builder.wait_replicas(1).wait_for(Duration::from_secs(10))
        } else {
            builder
        }
    }

    /// Begins to open the store by a time that stands still but for what a test moves.
    pub(crate) async fn timed(&self) -> (RedisBuilder, Arc<MovedTime>) {
        let time = MovedTime::start(self).await;
        (self.builder().clock(MOVED), Arc::new(time))
    }
}

impl Fixture {
    /// The slot that has an intent, as the documentation says it: by the first byte of its name's digest.
    pub(crate) fn slot_of(&self, id: &semel::IntentId) -> u16 {
        use sha2::Digest;
        let scope = &id.scope;
        let name = format!("{}\0{}\0{}", scope.tenant, scope.operation, id.key);
        tags(&self.prefix)[usize::from(sha2::Sha256::digest(name)[0])].0
    }
}

/// Asks again until there is an answer.
pub(crate) async fn until<T, E: std::fmt::Debug, F: Future<Output = Result<T, E>>>(
    ask: impl Fn() -> F,
) -> T {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes a way to a server: whoever connects to the address is carried there by `carry`.
pub(crate) async fn way_to<F: Future<Output = ()> + Send + 'static>(
    server: SocketAddr,
    carry: impl Fn(TcpStream, TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(server).await.unwrap();
            tokio::spawn(carry(client, server));
        }
    });
    address
}

/// Makes a connection that is not the store's.
pub(crate) async fn connect(server: SocketAddr) -> MultiplexedConnection {
    let client = Client::open(format!("redis://{server}")).unwrap();
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(20)))
        .set_response_timeout(Some(Duration::from_secs(20)));
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

/// Moves the time of one prefix.
pub(crate) struct MovedTime {
    /// The keys that a server has, and a way to it.
    parts: Vec<(MultiplexedConnection, Vec<String>)>,
}

impl MovedTime {
    async fn start(fixture: &Fixture) -> Self {
        let mut parts = Vec::new();
        for server in &fixture.servers {
            let mut connection = connect(*server).await;
            let ranges = ranges(&mut connection, *server).await;
            let keys = tags(&fixture.prefix)
                .into_iter()
                .filter(|(slot, _)| {
                    ranges.iter().any(|(first, last)| (first..=last).contains(&slot))
                })
                .map(|(_, tag)| format!("{{{tag}}}:moved"));
            parts.push((connection, keys.collect()));
        }
        let time = Self { parts };
        time.add(START).await;
        time
    }

    async fn add(&self, micros: i64) {
        for (connection, keys) in &self.parts {
            let mut pipeline = redis::pipe();
            for key in keys {
                pipeline.cmd("INCRBY").arg(key).arg(micros).ignore();
            }
            let mut connection = connection.clone();
            pipeline.query_async::<()>(&mut connection).await.unwrap();
        }
    }
}

/// The slots that a server has: all, if it is alone.
async fn ranges(connection: &mut MultiplexedConnection, server: SocketAddr) -> Vec<(u16, u16)> {
    type Node = (String, u16, String, redis::Value);
    type Row = (u16, u16, Node, redis::Value);
    let rows: Result<Vec<Row>, _> = cmd("CLUSTER").arg("SLOTS").query_async(connection).await;
    let Ok(rows) = rows else { return vec![(0, u16::MAX)] };
    let own = rows.into_iter().filter(|(_, _, (_, port, ..), _)| *port == server.port());
    own.map(|(first, last, ..)| (first, last)).collect()
}

/// The names of the parts of a prefix, with their slots, found anew by the words of the documentation.
pub(crate) fn tags(prefix: &str) -> Vec<(u16, String)> {
    let mut found: Vec<Option<(u16, String)>> = vec![None; BUCKETS];
    for number in 0.. {
        let tag = format!("{prefix}.{number}");
        let slot = slot(tag.as_bytes());
        let place = &mut found[usize::from(slot) / 64];
        if place.is_none() {
            *place = Some((slot, tag));
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    found.into_iter().flatten().collect()
}

fn slot(tag: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for byte in tag {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16_384
}

#[async_trait]
impl MoveTime for MovedTime {
    async fn advance(&self, by: Duration) {
        self.add(i64::try_from(by.as_micros()).unwrap()).await;
    }

    async fn turn_back(&self, by: Duration) {
        self.add(-i64::try_from(by.as_micros()).unwrap()).await;
    }
}
