//! What the brokers are set to, where promises depend on it: how durable a confirmation is, and how long
//! a record may come again.

use std::{fmt, time::Duration};

use rdkafka::{
    ClientConfig, ClientContext,
    admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier},
    client::DefaultClientContext,
    config::FromClientConfig,
    types::RDKafkaErrorCode,
};

use crate::{
    blocking::{aside, blocking},
    error::{Error, ErrorKind},
};

/// How long a broker may take to tell what it is set to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often Kafka looks for segments to delete.
const CHECKED_EVERY: Duration = Duration::from_secs(300);

/// What a confirmation of a topic is worth.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Durability {
    /// How many brokers keep a partition of the topic: the smallest number of any partition.
    pub replicas: usize,
    /// How many of them have a record at least when it is confirmed (`min.insync.replicas`).
    pub in_sync_min: usize,
    /// Whether a broker that lacks confirmed records may take over when all others are gone
    /// (`unclean.leader.election.enable`): they are lost then.
    pub unclean_election: bool,
    /// Whether every record is flushed to the disk before it is confirmed (`flush.messages` = 1).
    pub flushed: bool,
}

impl Durability {
    /// Says whether a confirmed record survives the loss of any one broker and its disk.
    #[must_use]
    pub const fn survives_one_loss(&self) -> bool {
        self.replicas >= 2 && self.in_sync_min >= 2 && !self.unclean_election
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replicas, in_sync_min, .. } = self;
        write!(f, "confirmed is what {in_sync_min} of {replicas} replicas have")?;
        f.write_str(if self.flushed { " on disk" } else { " in memory" })?;
        if self.unclean_election {
            f.write_str(", and a replica that lacks it may take over")?;
        }
        Ok(())
    }
}

/// Asks the brokers about their settings.
pub(crate) struct Admin(Option<AdminClient<DefaultClientContext>>);

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admin")
    }
}

impl Admin {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, Error> {
        let admin = AdminClient::from_config(config);
        Ok(Self(Some(admin.map_err(|error| Error::asking("cannot make a client", error))?)))
    }

    fn client(&self) -> &AdminClient<DefaultClientContext> {
        self.0.as_ref().expect("it is taken when dropped, not before")
    }

    /// Returns what a confirmation of a topic is worth.
    pub(crate) async fn durability(self, topic: &str) -> Result<Durability, Error> {
        let settings = self.settings(topic).await?;
        let topic = Box::<str>::from(topic);
        let replicas = blocking(move || replicas(self.client().inner(), &topic)).await?;
        let number = |name: &str| settings.get(name).and_then(|value| value.parse::<usize>().ok());
        Ok(Durability {
            replicas,
            in_sync_min: number("min.insync.replicas").unwrap_or(1),
            unclean_election: settings.get("unclean.leader.election.enable") == Some("true"),
            flushed: number("flush.messages") == Some(1),
        })
    }

    /// Returns how long a record of any of the topics may come again at most; `None`: for ever.
    pub(crate) async fn horizon(self, topics: &[Box<str>]) -> Result<Option<Duration>, Error> {
        let mut longest = Some(Duration::ZERO);
        for topic in topics {
            let settings = self.settings(topic).await?;
            longest = longest.zip(horizon(&settings)).map(|(one, other)| one.max(other));
        }
        Ok(longest)
    }

    async fn settings(&self, topic: &str) -> Result<Settings, Error> {
        let asked = [ResourceSpecifier::Topic(topic)];
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let what = format!("cannot read what topic {topic} is set to");
        let answer = self.client().describe_configs(&asked, &options).await;
        let answer = answer.map_err(|error| Error::asking(&what, error))?;
        match answer.into_iter().next() {
            Some(Ok(resource)) => Ok(Settings(resource)),
            Some(Err(RDKafkaErrorCode::UnknownTopicOrPartition)) => {
                Err(Error::new(ErrorKind::Away, format!("there is no topic {topic}")))
            }
            Some(Err(code)) => Err(Error::new(ErrorKind::Away, format!("{what}: {code}"))),
            None => Err(Error::new(ErrorKind::Away, format!("{what}: no answer"))),
        }
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let client = self.0.take();
        aside(move || drop(client));
    }
}

/// What one topic is set to, its brokers' defaults included.
struct Settings(ConfigResource);

impl Settings {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.value.as_deref()
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        let millis = self.get(name)?.parse::<i64>().ok()?;
        u64::try_from(millis).ok().map(Duration::from_millis)
    }
}

/// A record goes with its whole segment, when the youngest record of it is past its retention; and a
/// producer's clock may be as far ahead as the broker lets it be.
fn horizon(settings: &Settings) -> Option<Duration> {
    let deletes = settings.get("cleanup.policy").is_none_or(|policy| policy.contains("delete"));
    if !deletes {
        return None;
    }
    let retention = settings.millis("retention.ms")?;
    let segment = settings.millis("segment.ms").unwrap_or_default();
    let stamped_by_broker = settings.get("message.timestamp.type") == Some("LogAppendTime");
    let ahead = match settings.millis("message.timestamp.after.max.ms") {
        Some(ahead) if !stamped_by_broker => ahead,
        _ => Duration::ZERO,
    };
    let sum = retention.checked_add(segment)?.checked_add(ahead)?;
    // What is longer than a century is for ever: Kafka's word for it is the largest number it has.
    let century = Duration::from_secs(100 * 365 * 24 * 3_600);
    sum.checked_add(CHECKED_EVERY).filter(|sum| *sum < century)
}

fn replicas<C: ClientContext>(
    client: &rdkafka::client::Client<C>,
    topic: &str,
) -> Result<usize, Error> {
    let metadata = client.fetch_metadata(Some(topic), PATIENCE);
    let metadata = metadata.map_err(|error| Error::asking("cannot read metadata", error))?;
    let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
    let fewest = partitions.map(|partition| partition.replicas().len()).min();
    fewest.ok_or_else(|| Error::new(ErrorKind::Away, format!("there is no topic {topic}")))
}
