//! Any pairs as a form or as parts: two commands are the same exactly if their values agree name by name.
//!
//! A line feed parts one form from the other, `&` the pairs, the first `=` the name from the value. A line feed at the
//! very end says nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use semel::fingerprint::{Command, CommandBody, Content, Fingerprint, FormPair, Part, Plan};

static PLAIN: LazyLock<Plan> = LazyLock::new(Plan::new);
static EXCLUDING: LazyLock<Plan> =
    LazyLock::new(|| Plan::new().exclude(NAMED).expect("the pointers are right"));
static INCLUDING: LazyLock<Plan> =
    LazyLock::new(|| Plan::new().include(NAMED).expect("the pointers are right"));

const NAMED: [&str; 2] = ["/a", "/b~1c"];

type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let (one, other) = cut(data.strip_suffix(b"\n").unwrap_or(data), b'\n');
    let (one, other) = (pairs(one), pairs(other));
    assert_eq!(form(&PLAIN, &one) == form(&PLAIN, &other), by_name(&one) == by_name(&other));
    assert_eq!(parts(&PLAIN, &one) == parts(&PLAIN, &other), one == other);

    let named = |pair: &(&[u8], &[u8])| [&b"a"[..], b"b/c"].contains(&pair.0);
    let (included, left): (Pairs<'_>, Pairs<'_>) = one.iter().copied().partition(named);
    assert_eq!(form(&EXCLUDING, &one), form(&EXCLUDING, &left));
    if !included.is_empty() {
        assert_eq!(form(&INCLUDING, &one), form(&INCLUDING, &included));
    }
}

fn cut(bytes: &[u8], at: u8) -> (&[u8], &[u8]) {
    let mut halves = bytes.splitn(2, |byte| *byte == at);
    (halves.next().unwrap_or_default(), halves.next().unwrap_or_default())
}

fn pairs(bytes: &[u8]) -> Pairs<'_> {
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == b'&').map(|pair| cut(pair, b'=')).collect()
}

fn by_name<'a>(pairs: &Pairs<'a>) -> BTreeMap<&'a [u8], Vec<&'a [u8]>> {
    let mut names = BTreeMap::<_, Vec<_>>::new();
    pairs.iter().for_each(|(name, value)| names.entry(*name).or_default().push(*value));
    names
}

fn form(plan: &Plan, pairs: &Pairs<'_>) -> Fingerprint {
    let borrowed = |(name, value)| -> FormPair<'_> { (Cow::Borrowed(name), Cow::Borrowed(value)) };
    digest(plan, CommandBody::Form(pairs.iter().copied().map(borrowed).collect()))
}

/// Names are text in a part: what is not ASCII is escaped.
fn parts(plan: &Plan, pairs: &Pairs<'_>) -> Fingerprint {
    let names: Vec<_> = pairs.iter().map(|(name, _)| name.escape_ascii().to_string()).collect();
    let both = names.iter().zip(pairs);
    let parts = both.map(|(name, (_, value))| Part::new(Content::Bytes(value)).name(name));
    digest(plan, CommandBody::Multipart(parts.collect()))
}

fn digest(plan: &Plan, body: CommandBody<'_>) -> Fingerprint {
    plan.digest(&Command::new("POST", "/").body(body)).expect("pairs are within the limits")
}
