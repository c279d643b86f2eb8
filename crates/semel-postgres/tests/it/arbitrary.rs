//! Texts that nobody would send and rows that nobody would write: the functions take exactly what Rust takes, and a
//! tampered row is answered or damaged. Drawn from a seed that is printed; `SEMEL_SEED` plays it again.

use semel::{
    Fence, Key, Operation, Outcome, Permit, Scope, Store, StoreError, StoreErrorKind, Tenant,
    Token, permit,
    store::{
        ClaimAnswer, Completed,
        capability::{Filter, Inspect, Sweep, SweepBudget},
    },
};
use semel_testkit::servers::Major;
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use crate::{
    fixture::Fixture,
    words::{self, ask, clean, done, hold, id},
};

const TEXTS: usize = 400;
const ROWS: usize = 250;

/// Draws what only depends on the seed.
struct Dice(u64);

impl Dice {
    fn of_this_run() -> Self {
        let asked = std::env::var("SEMEL_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = asked.unwrap_or_else(|| u64::from(std::process::id()));
        println!("seed {seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next()).unwrap() % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A text that is a name, or almost: a server's text has no NUL.
    fn text(&mut self, alphabet: &str) -> String {
        let odd =
            ['\u{1}', '\t', '\n', ' ', '\u{7f}', '\u{85}', 'é', '\u{fffd}', '😀', '\\', '\'', '.'];
        let plain: Vec<char> = alphabet.chars().collect();
        let length = self.one(&[0, 1, 2, 5, 9, 40, 127, 128, 129, 255, 256, 300]);
        let odds = self.one(&[0, 0, 0, 1, 9]);
        let mut text = String::new();
        while text.len() < length {
            let is_odd = self.below(10) < odds;
            text.push(if is_odd { self.one(&odd) } else { self.one(&plain) });
        }
        text
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = self.one(&[0, 1, 8, 16, 32, 33, 200]);
        (0..length).map(|_| u8::try_from(self.next() & 0xff).unwrap()).collect()
    }

    fn bigint(&mut self) -> i64 {
        let any = i64::try_from(self.next()).unwrap();
        self.one(&[
            any,
            -any,
            0,
            1,
            -1,
            i64::MAX,
            i64::MIN,
            i64::from(u32::MAX) + 1,
            1_700_000_000_000_000,
        ])
    }
}

/// Asks for the decision and the permit of a claim, in a transaction that is rolled back.
async fn claimed(
    client: &mut Client,
    fixture: &Fixture,
    [tenant, operation, key]: &[String; 3],
) -> Result<(String, Option<String>), String> {
    let sql = fixture.sql("SELECT decision, permit FROM semel.claim($1, $2, $3, 'pay 10')");
    let transaction = client.transaction().await.unwrap();
    let typed: [(&(dyn ToSql + Sync), Type); 3] =
        [(tenant, Type::TEXT), (operation, Type::TEXT), (key, Type::TEXT)];
    let said = transaction.query_typed(&sql, &typed).await;
    let said = said.map_err(|error| error.code().expect("the server says why").code().to_owned());
    let said = said.map(|rows| (rows[0].get(0), rows[0].get(1)));
    transaction.rollback().await.unwrap();
    said
}

#[tokio::test]
async fn the_functions_take_the_names_that_rust_takes_and_tell_them_in_the_permit() {
    let fixture = Fixture::new(Major::V15).await;
    let mut client = fixture.connect().await;
    let mut dice = Dice::of_this_run();
    let mut taken = 0;
    for _ in 0..TEXTS {
        let names = [dice.text("acme Ü"), dice.text("pay.create:/_-9"), dice.text("k!~\"{7")];
        let [tenant, operation, key] = &names;
        let rust = (Tenant::new(tenant), Operation::new(operation), Key::new(key));
        match (claimed(&mut client, &fixture, &names).await, rust) {
            (Ok((decision, Some(text))), (Ok(tenant), Ok(operation), Ok(key))) => {
                assert_eq!(decision, "run", "{names:?}");
                let permit = permit::decode(&text).expect("Rust reads what the functions write");
                assert_eq!(permit.id, Scope::new(tenant, operation).intent(key), "{names:?}");
                taken += 1;
            }
            (Err(code), (tenant, operation, key)) => {
                assert_eq!(code, "SM007", "{names:?}");
                assert!(tenant.is_err() || operation.is_err() || key.is_err(), "{names:?}");
            }
            (said, rust) => panic!("{names:?}: {said:?} {rust:?}"),
        }
    }
    assert!((TEXTS / 20..TEXTS).contains(&taken), "{taken} of {TEXTS} were taken");
}

/// A permit's text with something changed.
fn changed(dice: &mut Dice, text: &str) -> String {
    let mut parts: Vec<String> = text.split('.').map(str::to_owned).collect();
    let at = dice.below(parts.len());
    let other = dice.one(&[
        "",
        "0",
        "00",
        "+1",
        "-1",
        "1",
        "zz",
        "6b",
        "C3",
        "éé",
        "6\n",
        "9223372036854775808",
        "ff",
    ]);
    match dice.below(5) {
        0 => parts[at] = other.to_owned(),
        1 => parts[at].push_str(other),
        2 => drop(parts.remove(at)),
        3 => parts.insert(at, other.to_owned()),
        _ => parts[at] = parts[at].to_uppercase(),
    }
    parts.join(".")
}

#[tokio::test]
async fn no_text_but_a_permit_of_rust_ends_anything() {
    let fixture = Fixture::new(Major::V15).await;
    let mut client = fixture.connect().await;
    let mut dice = Dice::of_this_run();
    let sql = fixture.sql("SELECT semel.complete($1, 'acme', 'pay', 201)");
    for _ in 0..TEXTS {
        let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
        let permit = Permit {
            id: scope.intent(Key::new("k").unwrap()),
            token: Token::from_bytes([7; 16]),
            fence: Fence::new(dice.next()),
            incarnation: 0,
        };
        let text = changed(&mut dice, &permit::encode(&permit));
        let transaction = client.transaction().await.unwrap();
        let said = transaction.query_typed(&sql, &[(&text, Type::TEXT)]).await;
        let code = said.expect_err("nothing is held").code().expect("why").code().to_owned();
        match permit::decode(&text) {
            // No store keeps a larger fence.
            Ok(read) if i64::try_from(read.fence.get()).is_err() => assert_eq!(code, "SM002"),
            Ok(read) if read.id.scope != permit.id.scope => assert_eq!(code, "SM003", "{text}"),
            Ok(_) => {
                assert!(["SM001", "SM004", "SM005"].contains(&code.as_str()), "{text}: {code}")
            }
            Err(_) => assert!(["SM002", "SM003"].contains(&code.as_str()), "{text}: {code}"),
        }
        transaction.rollback().await.unwrap();
    }
}

/// A column that a test tampers with, and what it takes.
const COLUMNS: &[(&str, char)] = &[
    ("state", 's'),
    ("token", 'b'),
    ("fence", 'i'),
    ("plan", 'b'),
    ("digest", 'b'),
    ("renewed_at_us", 'i'),
    ("lease_us", 'i'),
    ("takeovers", 'i'),
    ("compare", 't'),
    ("incarnation", 'i'),
    ("created_at_us", 'i'),
    ("claimed_at_us", 'i'),
    ("settled_at_us", 'i'),
    ("claimed_by", 's'),
    ("reason", 's'),
    ("resolved_by", 'b'),
    ("pointer_kind", 's'),
    ("pointer_id", 's'),
    ("replay_until_us", 'i'),
    ("remember_until_us", 'i'),
    ("sweep_at_us", 'i'),
    ("outcome", 'b'),
];

/// Puts any value into any column of a record, and says which.
async fn tamper(client: &Client, fixture: &Fixture, dice: &mut Dice) -> String {
    let (column, kind) = dice.one(COLUMNS);
    let (value, type_of): (Box<dyn ToSql + Sync>, Type) = match kind {
        _ if dice.below(6) == 0 => (Box::new(None::<String>), Type::TEXT),
        'b' => (Box::new(dice.bytes()), Type::BYTEA),
        'i' => (Box::new(dice.bigint()), Type::INT8),
        't' => (Box::new(dice.below(2) == 0), Type::BOOL),
        _ => {
            let word = dice.one(&["done", "failed", "open", "running", "unknown", "gone", "é"]);
            (Box::new(word.to_owned()), Type::TEXT)
        }
    };
    let cast = match kind {
        'b' => "bytea",
        'i' => "bigint",
        't' => "boolean",
        _ => "text",
    };
    let value_of = if type_of == Type::TEXT { format!("$1::{cast}") } else { "$1".to_owned() };
    let sql = format!("UPDATE semel.record SET {column} = {value_of} WHERE key = 'bad'");
    let tampered = client.query_typed(&fixture.sql(&sql), &[(&*value, type_of)]).await;
    // The schema keeps out what it says is never NULL, and what runs without a lease and is committed.
    let refused = tampered.err().map(|error| error.code().expect("why").code().to_owned());
    let known = ["23502", "SM004"];
    assert!(refused.as_deref().is_none_or(|code| known.contains(&code)), "{column}: {refused:?}");
    format!("{column} = {value:?}")
}

/// An answer, or the word that a row is not what it was.
fn sound<T>(told: &str, answer: Result<T, StoreError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            let known = [StoreErrorKind::Damaged, StoreErrorKind::Version];
            assert!(known.contains(&error.kind()), "{told}: {error:?}");
            None
        }
    }
}

#[tokio::test]
async fn a_tampered_row_is_answered_or_damaged_and_harms_no_other() {
    let fixture = Fixture::new(Major::V15).await;
    let (client, store) = (fixture.connect().await, fixture.open().await);
    let mut dice = Dice::of_this_run();
    let good = hold(&store, &id("good")).await;
    assert_eq!(store.complete(good, done(201)).await.unwrap(), Completed::Stored);
    let bad = id("bad");
    for _ in 0..ROWS {
        client
            .batch_execute(&fixture.sql("DELETE FROM semel.record WHERE key = 'bad'"))
            .await
            .unwrap();
        let permit = hold(&store, &bad).await;
        match dice.below(4) {
            0 => {}
            1 => drop(store.complete(permit.clone(), words::doubt()).await.unwrap()),
            _ => drop(store.complete(permit.clone(), done(201)).await.unwrap()),
        }
        let told = tamper(&client, &fixture, &mut dice).await;
        let (asked, other) = (ask(&bad), ask(&id("good")));
        // In one batch with another's: that one is answered.
        let (answer, beside) =
            tokio::join!(words::claim(&store, &asked), words::claim(&store, &other));
        assert_eq!(words::replayed(beside.expect(&told)), 201, "{told}");
        if let Some(ClaimAnswer::Replay(record)) = sound(&told, answer) {
            let kept = record.outcome.is_none_or(|kept| kept == Outcome::new(201, "kept"));
            assert!(kept, "{told}");
        }
        sound(&told, store.read(vec![bad.clone()]).await);
        sound(&told, words::renew(&store, &permit).await);
        sound(&told, store.complete(permit.clone(), done(201)).await);
        sound(&told, store.release(bad.clone(), clean(&permit)).await);
        sound(&told, store.resolve(bad.clone(), words::not_done(&permit), words::actor()).await);
        sound(&told, store.list(Filter { limit: 10, ..Filter::default() }).await);
        sound(&told, store.counts().await);
        sound(&told, store.sweep(SweepBudget { records: 10 }).await);
    }
}
