//! Messages of Kafka whose effect is in PostgreSQL: effects are counted, whatever breaks between.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use semel::inbox::{
    By, Consumer, Delivery, Failed, Handled, Handler, InboxPolicy, Settlement, Source,
    runner::Runner,
};
use semel_kafka::{KafkaConfig, KafkaPublisher, KafkaSource};
use semel_postgres::{
    PostgresStore,
    inbox::{Inbox, Ran, RunError},
};
use semel_testkit::servers::{Major, Postgres};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use crate::fixture::{
    self, PATIENCE, blocking, brokers, delete, message, name, publish_all, quick, topic,
};

/// A consumer whose effects are rows of its own database.
struct Billing {
    url: String,
    store: Arc<PostgresStore>,
    inbox: Inbox,
    /// One run at a time for each of these.
    clients: Vec<Mutex<Client>>,
    policy: Arc<InboxPolicy>,
}

impl Billing {
    async fn fresh(by: By) -> Arc<Self> {
        let url = Postgres::shared(Major::V18).await.database(&name("effects")).await;
        let client = connect(&url).await;
        client.batch_execute("CREATE TABLE effect (message text NOT NULL)").await.unwrap();
        Self::open(url, by).await
    }

    async fn open(url: String, by: By) -> Arc<Self> {
        let store = Arc::new(PostgresStore::builder(&url).open().await.unwrap());
        let backoff = Duration::from_millis(10);
        let policy = InboxPolicy::new(Consumer::new("billing").unwrap());
        let policy = Arc::new(InboxPolicy { by, backoff, ..policy });
        let inbox = store.inbox(Arc::clone(&policy)).unwrap();
        let mut clients = Vec::new();
        for _ in 0..6 {
            clients.push(Mutex::new(connect(&url).await));
        }
        Arc::new(Self { url, store, inbox, clients, policy })
    }

    async fn handle(
        &self,
        delivery: &Delivery,
    ) -> Result<Ran<()>, RunError<tokio_postgres::Error>> {
        let slot = delivery.position.as_ref().map_or(0, |position| {
            position.log.as_str().bytes().map(usize::from).sum::<usize>() % self.clients.len()
        });
        let mut client = self.clients[slot].lock().await;
        self.inbox
            .run(&mut *client, delivery, async |handling| {
                let id = handling.message().id().to_owned();
                handling.execute("INSERT INTO effect VALUES ($1)", &[&id]).await?;
                Ok::<_, tokio_postgres::Error>(handling.finish(None, ()))
            })
            .await
    }

    /// How many effects there are, and of how many messages.
    async fn effects(&self) -> (i64, i64) {
        let count = "SELECT count(*), count(DISTINCT message) FROM effect";
        let row = connect(&self.url).await.query_one(count, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn until(&self, effects: i64, owners: &[&Owner]) {
        let deadline = Instant::now() + PATIENCE * 2;
        while self.effects().await.1 < effects {
            let late = Instant::now() > deadline;
            assert!(!late, "{:?} of {effects}: {owners:?}", self.effects().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts an owner of its own source, in the group of the topic.
    async fn start(self: &Arc<Self>, topic_name: &str) -> Owner {
        let source = KafkaSource::builder(quick(fixture::shared().await), topic_name);
        let source = Arc::new(source.topic(topic_name).open().await.unwrap());
        let store = Arc::clone(&self.store) as _;
        let policy = Arc::clone(&self.policy);
        let shown = Arc::clone(&source);
        let runner = Runner::builder(policy, source, store, Arc::clone(self) as _).build().unwrap();
        let closing = CancellationToken::new();
        let closed = closing.clone();
        let task = tokio::spawn(async move { runner.run(closed.cancelled()).await });
        Owner { closing, task, source: shown }
    }
}

/// Shown when it is too late: how far its logs are.
#[derive(Debug)]
#[expect(dead_code, reason = "the source is shown, and read by nobody else")]
struct Owner {
    source: Arc<KafkaSource>,
    closing: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), semel::inbox::runner::RunnerError>>,
}

impl Owner {
    async fn close(self) {
        self.closing.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Ends it in the middle of what it does: it acknowledges nothing more.
    async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }
}

#[async_trait]
impl Handler for Billing {
    async fn run(&self, delivery: &Delivery) -> Result<Handled, Failed> {
        Ok(self.handle(delivery).await?.into())
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn fill(topic_name: &str, from: u32, count: u32) {
    let publisher = KafkaPublisher::builder(fixture::shared().await).topics(topic_name);
    let publisher = publisher.open().await.unwrap();
    let messages = (from..from + count).map(|n| message("o", &format!("o-{}", n % 31), n));
    publish_all(&publisher, messages.collect()).await;
}

/// M17: owners come, go and are killed; whatever two of them had at once has one effect.
#[tokio::test(flavor = "multi_thread")]
async fn rebalances_between_owners_leave_one_effect_per_message() {
    for by in [By::Ids, By::Positions] {
        let (billing, topic_name) = (Billing::fresh(by).await, name("owners"));
        topic(&brokers().await, &topic_name, 4).await;
        fill(&topic_name, 0, 200).await;
        let first = billing.start(&topic_name).await;
        billing.until(20, &[&first]).await;
        let second = billing.start(&topic_name).await;
        fill(&topic_name, 200, 200).await;
        billing.until(220, &[&first, &second]).await;
        first.kill().await;
        fill(&topic_name, 400, 100).await;
        billing.until(420, &[&second]).await;
        let third = billing.start(&topic_name).await;
        fill(&topic_name, 500, 100).await;
        second.close().await;
        billing.until(600, &[&third]).await;
        third.close().await;
        assert_eq!(billing.effects().await, (600, 600), "{by:?}");
    }
}

/// M113: every copy is in another partition, and all are handled at once.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_copies_at_once_have_one_effect() {
    let (billing, topic_name) = (Billing::fresh(By::Ids).await, name("copies"));
    topic(&brokers().await, &topic_name, 6).await;
    let (to, in_topic) = (brokers().await, topic_name.clone());
    blocking(move || {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &to).create().unwrap();
        for copy in 0..50 {
            let header = Header { key: "id", value: Some("the-one") };
            let record = BaseRecord::<str, str>::to(&in_topic).payload("the same");
            let record = record.partition(copy % 6).headers(OwnedHeaders::new().insert(header));
            producer.send(record).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
    })
    .await;
    let owners = [billing.start(&topic_name).await, billing.start(&topic_name).await];
    fill(&topic_name, 0, 60).await;
    // Behind every copy of its partition lies one of these.
    billing.until(61, &[&owners[0], &owners[1]]).await;
    for owner in owners {
        owner.close().await;
    }
    assert_eq!(billing.effects().await, (61, 61));
}

/// A consumer by positions of a topic that is deleted and made again has the effects of both.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_anew_has_its_own_effects_by_positions_too() {
    let (billing, topic_name) = (Billing::fresh(By::Positions).await, name("effects-anew"));
    topic(&brokers().await, &topic_name, 2).await;
    fill(&topic_name, 0, 50).await;
    let owner = billing.start(&topic_name).await;
    billing.until(50, &[&owner]).await;
    delete(&brokers().await, &topic_name).await;
    topic(&brokers().await, &topic_name, 2).await;
    fill(&topic_name, 50, 50).await;
    billing.until(100, &[&owner]).await;
    owner.close().await;
    assert_eq!(billing.effects().await, (100, 100));
}

const ROLE: &str = "SEMEL_CONSUMER_THAT_IS_KILLED";

/// M73, M97: the process is killed after each commit and before the acknowledgement, `SEMEL_KILLS` times for each
/// way to know a message again.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_killed_between_commit_and_acknowledgement_has_one_effect_per_message() {
    if let Ok(role) = std::env::var(ROLE) {
        return until_killed(&role).await;
    }
    let kills = std::env::var("SEMEL_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u32 = kills.unwrap_or(4);
    for by in [By::Ids, By::Positions] {
        let (billing, topic_name) = (Billing::fresh(by).await, name("killed-consumer"));
        topic(&brokers().await, &topic_name, 2).await;
        fill(&topic_name, 0, kills + 20).await;
        let role = format!("{} {topic_name} {} {by:?}", brokers().await, billing.url);
        for kill in 0..kills {
            let role = role.clone();
            let committed = blocking(move || one_life(&role)).await;
            assert!(committed.starts_with("committed"), "kill {kill}: {committed}");
        }
        let (effects, messages) = billing.effects().await;
        assert_eq!((effects, messages), (i64::from(kills), i64::from(kills)), "{by:?}");
        let rest = billing.start(&topic_name).await;
        billing.until(i64::from(kills) + 20, &[&rest]).await;
        rest.close().await;
        let all = i64::from(kills) + 20;
        assert_eq!(billing.effects().await, (all, all), "{by:?}");
        println!("{by:?}: {kills} kills between commit and acknowledgement, {all} effects");
    }
}

/// Starts the consumer, and kills it as soon as it has committed. Returns what it said.
fn one_life(role: &str) -> String {
    const NAME: &str =
        "effects::a_consumer_killed_between_commit_and_acknowledgement_has_one_effect_per_message";
    let mut consumer = Command::new(std::env::current_exe().unwrap());
    consumer.args(["--exact", NAME, "--nocapture"]).env(ROLE, role);
    let mut consumer = consumer.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(consumer.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.into_iter().find(|line| line.starts_with("committed"));
    consumer.kill().unwrap();
    consumer.wait().unwrap();
    said.unwrap_or_else(|| "it ended by itself".to_owned())
}

/// Handles what comes until a first effect is committed; then it waits to be killed, without having told Kafka.
async fn until_killed(role: &str) {
    let [brokers, topic_name, url, by] =
        <[&str; 4]>::try_from(role.split(' ').collect::<Vec<_>>()).unwrap();
    let by = if by == "Ids" { By::Ids } else { By::Positions };
    let billing = Billing::open(url.to_owned(), by).await;
    // The one that comes after it takes its place at once, and need not wait until it is missed.
    let config = quick(KafkaConfig::new(brokers)).set("group.instance.id", topic_name);
    let source = KafkaSource::builder(config, topic_name).topic(topic_name);
    let source = source.open().await.unwrap();
    loop {
        let received = source.receive(10, Duration::from_secs(1)).await.unwrap();
        let start = received.assigned.into_iter().map(|log| (log, None)).collect();
        source.start(start).await.unwrap();
        for delivery in received.deliveries {
            match billing.handle(&delivery).await.unwrap() {
                Ran::First((), _) => {
                    println!("\ncommitted {}", delivery.message);
                    return std::future::pending().await;
                }
                _ => drop(source.settle(vec![(delivery.receipt, Settlement::Ack)]).await.unwrap()),
            }
        }
    }
}
