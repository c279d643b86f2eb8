//! The three flows that are compared.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use semel::{Call, Fingerprint, Key, Operation, Outcome, Policy, Scope, Tenant};
use semel_postgres::{
    PostgresStore,
    transact::{Prepared, Ran, Transact},
};
use semel_testkit::servers::{Major, Postgres, TcpProxy, Towards};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Error, NoTls, Statement};

const ACCOUNTS: u64 = 10_000;

const TABLES: &str = "
    CREATE TABLE payment (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, account bigint NOT NULL,
        key text NOT NULL, amount bigint NOT NULL);
    CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50);
    CREATE TABLE hand (tenant text, operation text, key text, digest bytea NOT NULL, status int,
        headers text, body bytea, created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant, operation, key));
    CREATE INDEX hand_created_at ON hand (created_at);
    INSERT INTO account SELECT g, 0 FROM generate_series(0, 9999) AS g;";

/// What a client does again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Flow {
    /// Begin, insert, update, commit.
    Bare,
    /// The same, and a row of its own: insert, select for update, update.
    Hand,
    /// The same in the atomic form.
    Semel,
}

/// A server with the tables, and clients.
pub(crate) struct Shop {
    _server: Postgres,
    _proxy: Option<TcpProxy>,
    url: String,
    transact: Transact,
    scope: Scope,
    policy: Arc<Policy>,
    serial: AtomicU64,
    /// Connected once: what a new connection reads of the server's catalogue is not what is measured.
    tellers: Mutex<Vec<Teller>>,
}

struct Teller {
    client: Client,
    prepared: Prepared,
    pay: Statement,
    move_balance: Statement,
    hand_insert: Statement,
    hand_select: Statement,
    hand_update: Statement,
}

impl Shop {
    pub(crate) async fn open(major: Major, delay: Duration, clients: u64) -> Arc<Self> {
        let server = Postgres::builder(major).fsync(true).setting("shared_buffers", "256MB");
        let server = server.setting("max_wal_size", "4GB").start().await;
        PostgresStore::migrate(&PostgresStore::builder(server.url())).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(TABLES).await.unwrap();
        let transact = Transact::loader().load(&client).await.unwrap();
        let (mut proxy, mut url) = (None, server.url());
        if !delay.is_zero() {
            let slow = TcpProxy::start(server.address()).await;
            slow.delay(Towards::Server, delay / 2);
            slow.delay(Towards::Client, delay / 2);
            url = slow.through(&url);
            proxy = Some(slow);
        }
        let scope =
            Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments.create").unwrap());
        let policy = Arc::new(Policy::default());
        let serial = AtomicU64::new(0);
        let tellers = Mutex::default();
        let shop =
            Self { _server: server, _proxy: proxy, url, transact, scope, policy, serial, tellers };
        for _ in 0..clients {
            let teller = shop.teller().await;
            shop.tellers.lock().await.push(teller);
        }
        Arc::new(shop)
    }

    /// Lets all clients work for a while and returns how many transactions a second they committed.
    pub(crate) async fn round(self: &Arc<Self>, flow: Flow, span: Duration) -> f64 {
        let tellers = std::mem::take(&mut *self.tellers.lock().await);
        let until = Instant::now() + span;
        let began = Instant::now();
        let tasks: Vec<_> = tellers
            .into_iter()
            .map(|mut teller| {
                let shop = Arc::clone(self);
                tokio::spawn(async move {
                    let mut done = 0;
                    while Instant::now() < until {
                        teller.once(&shop, flow).await;
                        done += 1;
                    }
                    (done, teller)
                })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            let (more, teller) = task.await.unwrap();
            done += more;
            self.tellers.lock().await.push(teller);
        }
        f64::from(done) / began.elapsed().as_secs_f64()
    }

    /// Every payment of the atomic form has its record.
    pub(crate) async fn check(&self) {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let without = "SELECT count(*) FROM payment AS p WHERE p.key LIKE 'semel-%'
            AND NOT EXISTS (SELECT FROM semel.record AS r WHERE r.key = p.key)";
        let row = client.query_one(without, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 0);
    }

    async fn teller(&self) -> Teller {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        // As an application would have it; so a claim need not set it for each transaction.
        let bound = "SET idle_in_transaction_session_timeout = '60s'";
        client.batch_execute(bound).await.unwrap();
        let prepare = async |text| client.prepare(text).await.unwrap();
        let pay = "INSERT INTO payment (account, key, amount) VALUES ($1, $2, 10) RETURNING id";
        let insert = "INSERT INTO hand (tenant, operation, key, digest) VALUES ($1, $2, $3, $4)
            ON CONFLICT DO NOTHING";
        let select = "SELECT digest, status, headers, body FROM hand
            WHERE tenant = $1 AND operation = $2 AND key = $3 FOR UPDATE";
        let update = "UPDATE hand SET status = $4, headers = $5, body = $6
            WHERE tenant = $1 AND operation = $2 AND key = $3";
        Teller {
            prepared: self.transact.prepare(&client).await.unwrap(),
            pay: prepare(pay).await,
            move_balance: prepare("UPDATE account SET balance = balance + 10 WHERE id = $1").await,
            hand_insert: prepare(insert).await,
            hand_select: prepare(select).await,
            hand_update: prepare(update).await,
            client,
        }
    }
}

impl Teller {
    async fn once(&mut self, shop: &Shop, flow: Flow) {
        let serial = shop.serial.fetch_add(1, Ordering::Relaxed);
        let account = i64::try_from(serial.wrapping_mul(7_919) % ACCOUNTS).unwrap();
        match flow {
            Flow::Bare => self.bare(&format!("bare-{serial}"), account).await.unwrap(),
            Flow::Hand => self.hand(&format!("hand-{serial}"), account).await.unwrap(),
            Flow::Semel => self.semel(shop, &format!("semel-{serial}"), account).await,
        }
    }

    async fn bare(&self, key: &str, account: i64) -> Result<(), Error> {
        self.client.batch_execute("BEGIN").await?;
        let id = effect(&self.client, &self.pay, &self.move_balance, key, account).await?;
        assert!(body(id).len() > 8);
        self.client.batch_execute("COMMIT").await
    }

    async fn hand(&self, key: &str, account: i64) -> Result<(), Error> {
        let digest = *Fingerprint::of_bytes(key.as_bytes()).digest();
        let (tenant, operation) = ("acme", "payments.create");
        let client = &self.client;
        client.batch_execute("BEGIN").await?;
        let inserted =
            client.execute(&self.hand_insert, &[&tenant, &operation, &key, &&digest[..]]).await?;
        let row = client.query_one(&self.hand_select, &[&tenant, &operation, &key]).await?;
        assert!(inserted == 1 && row.get::<_, &[u8]>(0) == digest);
        let id = effect(client, &self.pay, &self.move_balance, key, account).await?;
        let (status, headers, body) = (201, "content-type: application/json", body(id));
        let values: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&tenant, &operation, &key, &status, &headers, &body.as_bytes()];
        client.execute(&self.hand_update, values).await?;
        client.batch_execute("COMMIT").await
    }

    async fn semel(&mut self, shop: &Shop, key: &str, account: i64) {
        let intent = shop.scope.clone().intent(Key::new(key).unwrap());
        let fingerprint = Fingerprint::of_bytes(key.as_bytes());
        let call = Call::new(intent, fingerprint, Arc::clone(&shop.policy));
        let Self { client, prepared, pay, move_balance, .. } = self;
        let lent = (&mut *client, &*prepared);
        let ran = shop.transact.run(lent, &call, async |guard| {
            let id = effect(&guard, pay, move_balance, key, account).await?;
            let outcome = Outcome::new(201, body(id)).pointer("payment", &id.to_string());
            let outcome = outcome.header("content-type", "application/json");
            Ok::<_, Error>(guard.done(outcome, id))
        });
        assert!(matches!(ran.await.unwrap(), Ran::Done(_)));
    }
}

async fn effect(
    client: &Client,
    pay: &Statement,
    move_balance: &Statement,
    key: &str,
    account: i64,
) -> Result<i64, Error> {
    let id = client.query_one(pay, &[&account, &key]).await?.get(0);
    client.execute(move_balance, &[&account]).await?;
    Ok(id)
}

fn body(id: i64) -> String {
    format!("{{\"id\":{id},\"amount\":10,\"currency\":\"EUR\",\"state\":\"accepted\"}}")
}
