//! What an operator asks about the messages of consumers, and says about parked ones.

use semel::{
    Fingerprint,
    inbox::{Consumer, Delivery, InboxStore, MessageId, Park, ParkedState, Receipt, SourceName},
};
use semel_postgres::PostgresStore;

use super::Place;
use crate::command::{Ran, run};

const SIGNED: [&str; 3] = ["--yes", "--note", "looked into it"];

/// A store in which a consumer has parked three messages.
struct Bench {
    place: Place,
    store: PostgresStore,
}

impl Bench {
    async fn new() -> Self {
        let place = Place::bare().await.made().await;
        let text = format!(
            "store = \"{}\"\npostgres = {{ schema = \"{}\" }}\n[[destination]]\nname = \"unused\"\n\
             url = \"http://127.0.0.1:9/\"\n",
            place.url, place.schema
        );
        std::fs::write(place.path().join("semel.toml"), text).unwrap();
        let builder = PostgresStore::builder(&*place.url).schema(&*place.schema);
        let bench = Self { store: builder.open().await.unwrap(), place };
        for id in ["m1", "m2", "m3"] {
            bench.park(id).await;
        }
        bench
    }

    async fn park(&self, id: &str) {
        let payload = Some(format!("about {id}").into());
        let delivery = Delivery::new(message(id), Receipt(1), payload);
        let fingerprint = Fingerprint::of_bytes(id.as_bytes());
        let park = Park {
            consumer: billing(),
            delivery,
            fingerprint,
            moves: false,
            attempts: 5,
            why: "no such customer".into(),
        };
        self.store.park(park).await.unwrap();
    }

    fn inbox(&self, arguments: &[&str]) -> Ran {
        let all: Vec<_> = ["inbox"].iter().chain(arguments).copied().collect();
        run(self.place.path(), &all)
    }

    /// The ids of what is parked in a state.
    fn parked(&self, state: ParkedState) -> Vec<String> {
        let told = self.inbox(&["--json", "parked", "--state", state.as_str()]).json();
        let rows = told["parked"].as_array().unwrap().clone();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn billing() -> Consumer {
    Consumer::new("billing.on-order").unwrap()
}

fn message(id: &str) -> MessageId {
    MessageId::new(SourceName::new("kafka:orders").unwrap(), id).unwrap()
}

#[tokio::test]
async fn parked_messages_are_listed_shown_and_settled_with_an_audit() {
    let bench = Bench::new().await;
    let consumers = bench.inbox(&["--json", "consumers"]).json();
    let told = &consumers["consumers"][0];
    assert_eq!((&told["consumer"], &told["failed"]), (&"billing.on-order".into(), &3.into()));
    assert_eq!(bench.parked(ParkedState::Failed), ["m1", "m2", "m3"]);
    let page = bench.inbox(&["--json", "parked", "--limit", "2"]).json();
    assert_eq!(page["next"][2], "m2");
    let after = ["parked", "--after", "billing.on-order", "kafka:orders", "m2"];
    let rest = bench.inbox(&[&["--json"], &after[..]].concat()).json();
    assert_eq!(rest["parked"].as_array().unwrap().len(), 1);
    let shown = bench.inbox(&["show", "billing.on-order", "kafka:orders", "m1"]).out;
    assert!(shown.contains("no such customer") && shown.contains("about m1"), "{shown}");

    let word = |word: &str, id: &str| {
        let which = [word, "billing.on-order", "kafka:orders", id];
        bench.inbox(&[&which[..], if word == "retry" { &SIGNED[1..] } else { &SIGNED }].concat())
    };
    word("retry", "m1").ends(0, "");
    assert_eq!(bench.parked(ParkedState::Retry), ["m1"]);
    word("skip", "m2").ends(0, "");
    assert_eq!(bench.parked(ParkedState::Skipped), ["m2"]);
    word("drop", "m3").ends(0, "");
    assert_eq!(bench.parked(ParkedState::Failed), Vec::<String>::new());
    word("drop", "m3").ends(1, "is not parked");
    // What was thrown away stays known for ever.
    bench.park("m3").await;
    assert_eq!(bench.parked(ParkedState::Failed), Vec::<String>::new());
    let all = ["retry", "billing.on-order", "--all", "--note", "x"];
    bench.inbox(&all).ends(1, "waits for a word");

    let audit = bench.inbox(&["--json", "audit", "billing.on-order"]).json();
    let rows = audit["audit"].as_array().unwrap();
    let kinds: Vec<_> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["drop", "skip", "retry"]);
    assert_eq!((&rows[0]["actor"], &rows[0]["note"]), (&"ada".into(), &"looked into it".into()));
}

#[tokio::test]
async fn whoever_had_a_message_is_told_by_its_id_alone() {
    let bench = Bench::new().await;
    let told = run(bench.place.path(), &["why", "m2"]);
    told.ends(0, "");
    assert!(told.out.contains("consumer billing.on-order had kafka:orders m2"), "{told:?}");
    let listed = bench.inbox(&["list", "billing.on-order"]).out;
    assert!(listed.contains("m2"), "{listed}");
    bench.inbox(&["show", "billing.on-order", "kafka:orders", "m9"]).ends(1, "knows no message");
    for words in [
        &["list", "nobody"][..],
        &["show", "nobody", "kafka:orders", "m2"],
        &["retry", "nobody", "--all", "--note", "x"],
        &["retry", "nobody", "kafka:orders", "m2", "--note", "x"],
    ] {
        bench.inbox(words).ends(1, "of a consumer nobody: there is billing.on-order");
    }
}
