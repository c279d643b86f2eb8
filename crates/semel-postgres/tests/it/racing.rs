//! Duplicates in a hurry: at every isolation level, and with their connections cut at any moment.

use semel_testkit::{SeededEntropy, servers::Major};
use tokio::task::JoinSet;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::{
    caller::{Caller, PAY, claim, complete},
    fixture::Fixture,
};

const CALLERS: usize = 6;
const KEYS: usize = 10;
/// So that the race ends.
const CUTS_MAX: usize = 60;

/// How one try ended.
enum Tried {
    /// The intent is done, by this caller or another.
    Done,
    /// The same key must be tried again.
    Again,
}

/// Begins, claims, pays, completes, commits: as an application does that retries what it may.
async fn pay(client: &Client, fixture: &Fixture, level: &str, key: &str) -> Tried {
    let say = async |statements: String| {
        let said = client.simple_query(&fixture.sql(&statements)).await;
        said.map_err(|error| error.code().map(|code| code.code().to_owned()))
    };
    let tried = async {
        let begin = format!("BEGIN ISOLATION LEVEL {level}; SELECT * FROM {}", claim(key));
        let rows = say(begin).await?;
        let row = rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.expect("a claim returns one row");
        match row.get("decision").unwrap() {
            "run" => {
                say(PAY.to_owned()).await?;
                say(complete(row.get("permit").unwrap())).await?;
                say("COMMIT".to_owned()).await?;
                Ok(Tried::Done)
            }
            "replay" => Ok(Tried::Done),
            other => {
                assert_eq!(other, "in-progress");
                Ok(Tried::Again)
            }
        }
    };
    let tried: Result<_, Option<String>> = tried.await;
    drop(say("ROLLBACK".to_owned()).await);
    match tried {
        Ok(tried) => tried,
        // No code: the connection is gone, and nobody knows whether the commit went through.
        Err(None) => Tried::Again,
        Err(Some(code)) => {
            let may_retry = ["40001", "40P01", "57P01"].contains(&code.as_str());
            assert!(may_retry, "{code} at {level}");
            Tried::Again
        }
    }
}

/// Lets all callers pay under every key until each key is done, for each of them.
fn race(fixture: &Fixture, level: &'static str) -> JoinSet<()> {
    let mut racing = JoinSet::new();
    for _ in 0..CALLERS {
        let fixture = fixture.clone();
        racing.spawn(async move {
            let mut client = connect(&fixture).await;
            for key in 0..KEYS {
                let key = format!("{}-{key}", level.replace(' ', "-"));
                for _ in 0..10_000 {
                    if let Tried::Done = pay(&client, &fixture, level, &key).await {
                        break;
                    }
                    if client.is_closed() {
                        client = connect(&fixture).await;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    racing
}

/// Connects under the name of the schema, by which those of this test are known.
async fn connect(fixture: &Fixture) -> Client {
    loop {
        let client = fixture.connect().await;
        let named = format!("SET application_name = '{}'", fixture.schema);
        if client.batch_execute(&named).await.is_ok() {
            return client;
        }
    }
}

fn victims(fixture: &Fixture) -> String {
    format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{}'", fixture.schema)
}

async fn effects(caller: &Caller) -> (String, String) {
    let done = "SELECT count(*) FROM semel.record WHERE state = 'done'";
    (caller.payments().await, caller.cell(done).await)
}

/// C82
#[tokio::test]
async fn at_every_isolation_level_duplicates_have_one_effect() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
            race(&fixture, level).join_all().await;
        }
        let expected = (3 * KEYS).to_string();
        assert_eq!(effects(&caller).await, (expected.clone(), expected), "{major}");
    }
}

#[tokio::test]
async fn connections_cut_at_any_moment_leave_one_effect_per_key() {
    let chance = SeededEntropy::printed();
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        let racing = race(&fixture, "READ COMMITTED");
        let racing = tokio::spawn(racing.join_all());
        let mut cut = 0;
        while !racing.is_finished() {
            let victims = caller.ok(&victims(&fixture)).await;
            let nth = chance.below(u64::try_from(victims.len()).unwrap());
            let victim =
                victims.get(usize::try_from(nth).unwrap()).and_then(|row| row[0].as_deref());
            if let Some(victim) = victim.filter(|_| cut < CUTS_MAX) {
                caller.ok(&format!("SELECT pg_terminate_backend({victim})")).await;
                cut += 1;
            }
        }
        racing.await.unwrap();
        assert!(cut > 0, "nothing was cut");
        let expected = KEYS.to_string();
        assert_eq!(effects(&caller).await, (expected.clone(), expected), "{major}");
    }
}
