//! Every promise can be seen broken.

use semel::{Key, Operation, Scope, Tenant};

use super::*;

fn id(key: &str) -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    scope.intent(Key::new(key).unwrap())
}

fn told(status: u16, body: &'static str) -> Told {
    Told { status, body: body.into() }
}

/// One intent done and told twice, one refused for good, one that nobody can say of.
fn sound() -> History {
    let history = History::default();
    history.effect(&id("done"));
    history.acknowledged(&id("done"), told(201, "x"));
    history.acknowledged(&id("done"), told(201, "x"));
    history.acknowledged(&id("refused"), told(402, "no"));
    history.in_doubt(&id("refused"));
    history.in_doubt(&id("doubt"));
    history
}

fn replay(id: &IntentId) -> Option<Told> {
    match id.key.as_str() {
        "done" => Some(told(201, "x")),
        "refused" => Some(told(402, "no")),
        _ => None,
    }
}

#[test]
fn a_sound_history_breaks_nothing() {
    for promise in [Promise::AtMostOnce, Promise::ExactlyOnce] {
        assert_eq!(sound().check(promise, replay), []);
    }
}

/// The canary: every promise can be seen broken.
#[test]
fn every_broken_promise_is_seen() {
    let check = |history: &History| history.check(Promise::ExactlyOnce, replay);
    let history = sound();
    history.effect(&id("done"));
    assert_eq!(check(&history), [Broken::Twice { id: id("done"), effects: 2 }]);
    assert_eq!((history.count(&id("done")), history.check(Promise::Keyed, replay)), (2, vec![]));

    let history = sound();
    history.asked(&id("asked"));
    assert_eq!(check(&history), [Broken::Undone(id("asked"))]);
    assert_eq!(history.check(Promise::AtMostOnce, replay), []);

    let history = sound();
    history.effects(&id("done"), 0);
    assert_eq!(history.check(Promise::AtMostOnce, replay), [Broken::Lost(id("done"))]);

    let history = sound();
    history.acknowledged(&id("done"), told(201, "y"));
    let (first, later) = (told(201, "x"), told(201, "y"));
    assert_eq!(check(&history), [Broken::Differs { id: id("done"), first, later }]);

    let lost = sound().check(Promise::AtMostOnce, |_| None);
    let not_replayed = |key| Broken::NotReplayed { id: id(key), replayed: None };
    assert_eq!(lost, [not_replayed("done"), not_replayed("refused")]);
    assert_eq!(sound().ids(), [id("done"), id("doubt"), id("refused")]);
}
