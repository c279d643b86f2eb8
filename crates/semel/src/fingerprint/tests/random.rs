//! Random values, spelled at random: every spelling of one value has one fingerprint, and no other value has it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A JSON value; numbers are mantissa and exponent without zeros at the end of the mantissa.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Tree {
    Null,
    Bool(bool),
    Number(i64, i32),
    Text(String),
    Array(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

fn number(mut mantissa: i64, mut exponent: i32) -> Tree {
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    Tree::Number(mantissa, if mantissa == 0 { 0 } else { exponent })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{0,3}",
        "[a-z_]{6,12}",
        proptest::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
        "[\\x00-\\x22\\\\/\u{7f}é€\u{e000}\u{fb33}\u{ffff}😂]{0,10}",
    ]
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        (any::<i64>(), -30_i32..30).prop_map(|(mantissa, exponent)| number(mantissa, exponent)),
        (-200_i64..200, -4_i32..4).prop_map(|(mantissa, exponent)| number(mantissa, exponent)),
        text().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Tree::Array),
            proptest::collection::btree_map(text(), inner, 0..8).prop_map(Tree::Object),
        ]
    })
}

/// Draws small numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// Spells a value in one of the many ways.
fn spell(tree: &Tree, dice: &mut Dice, out: &mut String) {
    blanks(dice, out);
    match tree {
        Tree::Null => out.push_str("null"),
        Tree::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Tree::Number(mantissa, exponent) => spell_number(*mantissa, *exponent, dice, out),
        Tree::Text(text) => spell_text(text, dice, out),
        Tree::Array(items) => {
            out.push('[');
            for (nth, item) in items.iter().enumerate() {
                out.push_str(if nth == 0 { "" } else { "," });
                spell(item, dice, out);
            }
            blanks(dice, out);
            out.push(']');
        }
        Tree::Object(members) => spell_object(members, dice, out),
    }
    blanks(dice, out);
}

fn blanks(dice: &mut Dice, out: &mut String) {
    out.push_str(["", "", "", " ", "\n  ", "\t", "\r\n"][dice.below(7)]);
}

fn spell_object(members: &BTreeMap<String, Tree>, dice: &mut Dice, out: &mut String) {
    let mut members: Vec<_> = members.iter().collect();
    for nth in (1..members.len()).rev() {
        members.swap(nth, dice.below(nth + 1));
    }
    out.push('{');
    for (nth, (name, value)) in members.into_iter().enumerate() {
        out.push_str(if nth == 0 { "" } else { "," });
        blanks(dice, out);
        spell_text(name, dice, out);
        blanks(dice, out);
        out.push(':');
        spell(value, dice, out);
    }
    blanks(dice, out);
    out.push('}');
}

fn spell_text(text: &str, dice: &mut Dice, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let must = character < ' ' || character == '"' || character == '\\';
        if must || dice.below(6) == 0 {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                let unit = format!("\\u{unit:04x}");
                out.push_str(&if dice.below(2) == 0 {
                    unit.to_uppercase().replace('U', "u")
                } else {
                    unit
                });
            }
        } else if character == '/' && dice.below(2) == 0 {
            out.push_str("\\/");
        } else {
            out.push(character);
        }
    }
    out.push('"');
}

/// Moves the point and the exponent against each other, and adds zeros that say nothing.
fn spell_number(mantissa: i64, exponent: i32, dice: &mut Dice, out: &mut String) {
    out.push_str(if mantissa < 0 || (mantissa == 0 && dice.below(2) == 0) { "-" } else { "" });
    let mut digits = mantissa.unsigned_abs().to_string();
    let mut exponent = exponent;
    for _ in 0..dice.below(3) {
        digits.push('0');
        exponent -= 1;
    }
    let after_point = dice.below(digits.len() + 3);
    let zeros = (after_point + 1).saturating_sub(digits.len());
    digits.insert_str(0, &"0".repeat(zeros));
    let (whole, fraction) = digits.split_at(digits.len() - after_point);
    let leading = whole.len() - whole.trim_start_matches('0').len();
    out.push_str(&whole[leading.min(whole.len() - 1)..]);
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    exponent += i32::try_from(after_point).unwrap();
    if exponent != 0 || dice.below(2) == 0 {
        out.push_str(["e", "E"][dice.below(2)]);
        out.push_str(if exponent < 0 { "-" } else { ["", "+"][dice.below(2)] });
        out.push_str(&"0".repeat(dice.below(3)));
        out.push_str(&exponent.unsigned_abs().to_string());
    }
}

fn spelled(tree: &Tree, seed: u64) -> String {
    let mut out = String::new();
    spell(tree, &mut Dice(seed), &mut out);
    out
}

/// Changes one value somewhere in the tree.
fn change(tree: &mut Tree, dice: &mut Dice) {
    match tree {
        Tree::Array(items) if !items.is_empty() && dice.below(4) > 0 => {
            let nth = dice.below(items.len());
            change(&mut items[nth], dice);
        }
        Tree::Object(members) if !members.is_empty() && dice.below(4) > 0 => {
            let nth = dice.below(members.len());
            change(members.values_mut().nth(nth).unwrap(), dice);
        }
        Tree::Array(items) => items.push(Tree::Null),
        Tree::Object(members) if members.is_empty() => *tree = Tree::Array(vec![]),
        Tree::Object(members) => drop(members.pop_first()),
        Tree::Number(mantissa, exponent) => *tree = number(mantissa.wrapping_add(1), *exponent),
        Tree::Text(text) => text.push('\u{301}'),
        Tree::Bool(value) => *value = !*value,
        Tree::Null => *tree = Tree::Bool(false),
    }
}

/// Drops what `pointer` names.
fn without(tree: &mut Tree, pointer: &[String]) {
    match (tree, pointer) {
        (Tree::Object(members), [last]) => drop(members.remove(last)),
        (Tree::Object(members), [first, rest @ ..]) => {
            members.get_mut(first).into_iter().for_each(|inner| without(inner, rest));
        }
        (Tree::Array(items), [last]) => {
            if let Some(nth) = last.parse::<usize>().ok().filter(|nth| *nth < items.len()) {
                items.remove(nth);
            }
        }
        (Tree::Array(items), [first, rest @ ..]) => {
            let nth = first.parse::<usize>().ok();
            nth.and_then(|nth| items.get_mut(nth))
                .into_iter()
                .for_each(|inner| without(inner, rest));
        }
        _ => {}
    }
}

/// Draws a way into the tree.
fn way(tree: &Tree, dice: &mut Dice) -> Vec<String> {
    let mut way = Vec::new();
    let mut at = tree;
    while dice.below(5) > 0 {
        let (name, next) = match at {
            Tree::Object(members) if !members.is_empty() => {
                let (name, next) = members.iter().nth(dice.below(members.len())).unwrap();
                (name.clone(), next)
            }
            Tree::Array(items) if !items.is_empty() => {
                let nth = dice.below(items.len());
                (nth.to_string(), &items[nth])
            }
            _ => break,
        };
        way.push(name);
        at = next;
    }
    if way.is_empty() { vec!["absent".to_owned()] } else { way }
}

fn pointer(way: &[String]) -> String {
    way.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_spelling_has_one_canonical_form(tree in trees(), one: u64, other: u64) {
        let (one, other) = (spelled(&tree, one), spelled(&tree, other));
        let limits = Limits::new();
        let canonical = canonical_json(one.as_bytes(), &limits);
        prop_assert!(canonical.is_ok(), "{one}: {canonical:?}");
        prop_assert_eq!(&canonical, &canonical_json(other.as_bytes(), &limits), "{} and {}", &one, &other);
        let canonical = canonical.unwrap();
        prop_assert_eq!(canonical_json(&canonical, &limits).unwrap(), canonical, "its own form");
        prop_assert_eq!(
            Fingerprint::of_json(one.as_bytes()).unwrap(),
            Fingerprint::of_json(other.as_bytes()).unwrap()
        );
    }

    #[test]
    fn the_canonical_form_has_the_value_of_the_text(tree in trees(), seed: u64) {
        let text = spelled(&tree, seed);
        let canonical = canonical_json(text.as_bytes(), &Limits::new()).unwrap();
        let read = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
        prop_assert!(alike(&read(&canonical), &read(text.as_bytes())), "{text}");
    }

    #[test]
    fn a_changed_value_changes_the_fingerprint(tree in trees(), seed: u64, one: u64, other: u64) {
        let mut changed = tree.clone();
        change(&mut changed, &mut Dice(seed));
        prop_assume!(changed != tree);
        let (before, after) = (spelled(&tree, one), spelled(&changed, other));
        prop_assert_ne!(
            Fingerprint::of_json(before.as_bytes()).unwrap(),
            Fingerprint::of_json(after.as_bytes()).unwrap(),
            "{} and {}", before, after
        );
    }

    #[test]
    fn excluding_is_the_same_as_leaving_out(tree in trees(), seed: u64, one: u64, other: u64) {
        let way = way(&tree, &mut Dice(seed));
        let plan = Plan::new().exclude([pointer(&way)]).unwrap();
        let mut left = tree.clone();
        without(&mut left, &way);
        prop_assert_eq!(
            plan.canonical_json(spelled(&tree, one).as_bytes()).unwrap(),
            canonical_json(spelled(&left, other).as_bytes(), &Limits::new()).unwrap()
        );
    }

    #[test]
    fn damaged_texts_are_taken_only_if_they_are_json(
        tree in trees(), seed: u64, at: prop::sample::Index, byte: u8, cut: bool
    ) {
        let mut text = spelled(&tree, seed).into_bytes();
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] = byte }
        if let Ok(canonical) = canonical_json(&text, &Limits::new()) {
            let read = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text);
            match (read(&text), read(&canonical)) {
                (Ok(one), Ok(other)) => prop_assert!(alike(&one, &other), "{one} {other}"),
                // A double cannot hold every number that is kept here.
                (one, other) => prop_assert!(one.is_err() && other.is_err(), "{one:?} {other:?}"),
            }
        }
    }

    #[test]
    fn doubles_keep_the_text_that_a_peer_prints(bits: u64) {
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        let read = |text: String| canonical_json(text.as_bytes(), &Limits::new()).unwrap();
        let short = read(format!("{double:e}"));
        prop_assert_eq!(&short, &read(format!("{double}")));
        // Where two shortest texts are equally near, peers may print either: the number is the same.
        let peer = read(serde_json::to_string(&double).unwrap());
        for text in [short, peer] {
            let back: f64 = String::from_utf8(text).unwrap().parse().unwrap();
            prop_assert_eq!(back, double);
        }
    }
}

/// Compares values as a peer that reads doubles, and reads them with a rounding error now and then.
fn alike(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= one.abs() * 1e-14
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let found = |(name, value)| other.get(name).is_some_and(|other| alike(value, other));
            one.len() == other.len() && one.iter().all(found)
        }
        (one, other) => one == other,
    }
}
