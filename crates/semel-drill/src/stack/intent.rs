//! Intents by number: their keys, and what is known of each.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use semel::{IntentId, Key, Operation, Scope, Tenant};

use super::trouble::Asked;

/// The tenant of a gateway that has one only.
const TENANT: &str = "single";

/// The operations, by name and path. At one of them whoever comes second waits.
pub(super) const OPERATIONS: [(&str, &str, &str); 2] =
    [("orders.create", "/orders", "wait"), ("payments.create", "/payments", "conflict")];

/// Returns the key of an intent.
pub(super) fn key(number: u64) -> String {
    format!("drill-{number:09}")
}

/// Returns the intent of a key.
pub(super) fn number(key: &str) -> Option<u64> {
    key.strip_prefix("drill-")?.parse().ok()
}

/// Returns the operation of an intent: its name and its path. Every eighth may wait.
pub(super) const fn operation(number: u64) -> (&'static str, &'static str) {
    let (name, path, _) = OPERATIONS[if number.is_multiple_of(8) { 0 } else { 1 }];
    (name, path)
}

/// Returns the full name of an intent.
pub(super) fn id(number: u64) -> IntentId {
    let tenant = Tenant::new(TENANT).expect("it is a name");
    let operation = Operation::new(operation(number).0).expect("it is a name");
    Scope::new(tenant, operation).intent(Key::new(key(number)).expect("it is a key"))
}

/// What is known of one intent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// When it was first asked for.
    pub(super) first: Instant,
    /// Whom.
    pub(super) asked: Asked,
    /// When a caller was first told that nobody can say.
    pub(super) unknown: Option<Instant>,
    /// When one was first told a final answer.
    pub(super) told: Option<Instant>,
}

/// What is known of all intents.
#[derive(Debug, Default)]
pub(super) struct Book(Mutex<Vec<Known>>);

impl Book {
    /// Begins the next intent unless there are `end` already, and returns its number.
    pub(super) fn begin(&self, end: u64) -> Option<u64> {
        let mut all = self.lock();
        let number = u64::try_from(all.len()).ok().filter(|number| *number < end)?;
        all.push(Known {
            first: Instant::now(),
            asked: Asked::default(),
            unknown: None,
            told: None,
        });
        Some(number)
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.lock().len()).unwrap_or(u64::MAX)
    }

    /// Notes that a gateway is asked.
    pub(super) fn asked(&self, number: u64, gateway: usize) {
        self.with(number, |known| known.asked.add(gateway));
    }

    /// Notes that a caller was told that nobody can say.
    pub(super) fn unknown(&self, number: u64) {
        self.with(number, |known| {
            known.unknown.get_or_insert_with(Instant::now);
        });
    }

    /// Notes that a caller was told a final answer.
    pub(super) fn told(&self, number: u64) {
        self.with(number, |known| {
            known.told.get_or_insert_with(Instant::now);
        });
    }

    /// Returns the intents of which a caller was told a final answer.
    pub(super) fn all_told(&self) -> Vec<u64> {
        let all = self.lock();
        let told = (0..).zip(&*all).filter(|(_, known)| known.told.is_some());
        told.map(|(number, _)| number).collect()
    }

    /// Returns what is known of an intent.
    pub(super) fn get(&self, number: u64) -> Option<Known> {
        self.lock().get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the intents of which a caller was told that nobody can say.
    pub(super) fn told_unknown(&self) -> Vec<u64> {
        let all = self.lock();
        let told = (0..).zip(&*all).filter(|(_, known)| known.unknown.is_some());
        told.map(|(number, _)| number).collect()
    }

    fn with(&self, number: u64, change: impl FnOnce(&mut Known)) {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(known) = self.lock().get_mut(number) {
            change(known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_intent() {
        for given in [0, 8, 123_456_789] {
            assert_eq!(number(&key(given)), Some(given));
        }
        assert_eq!((number("drill-x"), number("other")), (None, None));
    }
}
