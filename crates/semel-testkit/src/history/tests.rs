//! Every promise can be seen broken.

use std::time::Duration;

use semel::{Key, Operation, Scope, Tenant, decide::OnLost};

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

const fn at(secs: u64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

fn terms(content: u64) -> Terms {
    Terms {
        content,
        on_lost: OnLost::Hold,
        lease: Duration::from_secs(30),
        replay_for: Duration::from_secs(100),
        remember_for: Duration::from_secs(1_000),
        transit: Duration::from_secs(5),
    }
}

/// One caller that asks, is granted, acts and is done at second 10.
fn done() -> (History, Ask) {
    let history = History::default();
    let ask = history.ask(&id("k"), terms(0), at(1));
    history.runs(ask, at(2), at(31));
    history.acts(ask, 0);
    history.ends(ask, Said::Outcome(told(201, "x")), at(10));
    history.told(ask, &told(201, "x"), at(11));
    (history, ask)
}

/// Asks for `k` once more.
fn again(history: &History, content: u64, now: u64) -> Ask {
    history.ask(&id("k"), terms(content), at(now))
}

#[track_caller]
fn untrue(history: &History, why: Untrue) {
    assert_eq!(history.broken().last(), Some(&Broken::Untrue { id: id("k"), why }));
}

#[test]
fn a_course_without_a_fault_breaks_nothing() {
    let (history, _) = done();
    history.told(again(&history, 0, 20), &told(201, "x"), at(21));
    history.refused(again(&history, 1, 22), "mismatch", at(23));
    history.refused(again(&history, 0, 200), "forgotten", at(201));
    let fresh = again(&history, 1, 1_100);
    history.runs(fresh, at(1_101), at(1_130));
    history.refused(again(&history, 1, 1_102), "in-progress", at(1_103));
    history.acts(fresh, 0);
    history.left(fresh, at(1_104));
    history.refused(again(&history, 1, 1_200), "unknown", at(1_201));
    history.ends(fresh, Said::Outcome(told(201, "y")), at(1_210));
    history.told(fresh, &told(201, "y"), at(1_211));
    assert_eq!((history.broken(), history.ids()), (vec![], vec![id("k")]));
}

#[test]
fn what_is_remembered_is_granted_to_nobody() {
    let (history, _) = done();
    history.runs(again(&history, 0, 500), at(501), at(530));
    assert_eq!(history.broken(), [Broken::Again(id("k"))]);
}

#[test]
fn two_holders_that_believe_are_one_too_many() {
    let history = History::default();
    let [one, two] = [again(&history, 0, 1), again(&history, 0, 1)];
    history.runs(one, at(2), at(32));
    history.runs(two, at(31), at(61));
    assert_eq!(history.broken(), [Broken::TwoHolders(id("k"))]);
}

#[test]
fn a_second_effect_is_seen_unless_its_key_is_the_first() {
    for (promise, key, effects) in
        [(Promise::AtMostOnce, 0, Some(2)), (Promise::Keyed, 0, None), (Promise::Keyed, 1, Some(2))]
    {
        let history = History::default();
        history.promise(promise);
        let [one, two] = [again(&history, 0, 1), again(&history, 0, 40)];
        history.runs(one, at(2), at(31));
        history.acts(one, 0);
        history.runs(two, at(41), at(70));
        history.acts(two, key);
        let twice = effects.map(|effects| Broken::Twice { id: id("k"), effects });
        assert_eq!(history.broken(), twice.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn other_content_is_neither_granted_nor_told() {
    let (history, _) = done();
    history.told(again(&history, 1, 20), &told(201, "x"), at(21));
    assert_eq!(history.broken(), [Broken::OtherContent(id("k"))]);

    let history = History::default();
    let [one, two] = [again(&history, 0, 1), again(&history, 1, 40)];
    history.runs(one, at(2), at(31));
    history.runs(two, at(41), at(70));
    assert_eq!(history.broken(), [Broken::OtherContent(id("k"))]);
}

#[test]
fn an_outcome_is_one_that_was_kept_with_its_effect_and_the_only_one() {
    let (history, _) = done();
    let invented = told(201, "z");
    history.told(again(&history, 0, 20), &invented, at(21));
    assert_eq!(history.broken(), [Broken::Invented { id: id("k"), told: invented }]);

    let history = History::default();
    let ask = again(&history, 0, 1);
    history.runs(ask, at(2), at(31));
    history.ends(ask, Said::Outcome(told(201, "x")), at(10));
    history.told(ask, &told(201, "x"), at(11));
    assert_eq!(history.broken(), [Broken::Lost(id("k"))]);

    let history = History::default();
    let [one, two] = [again(&history, 0, 1), again(&history, 0, 40)];
    for (ask, by, body) in [(one, 2, "x"), (two, 41, "y")] {
        history.runs(ask, at(by), at(by + 29));
        history.ends(ask, Said::Outcome(told(402, body)), at(by + 60));
        history.told(ask, &told(402, body), at(by + 61));
    }
    let (first, later) = (told(402, "x"), told(402, "y"));
    assert_eq!(history.broken(), [Broken::Differs { id: id("k"), first, later }]);
}

#[test]
fn what_was_told_is_hidden_from_nobody() {
    for code in ["unknown", "in-progress", "forgotten"] {
        let (history, _) = done();
        history.refused(again(&history, 0, 20), code, at(21));
        let hidden = Broken::NotReplayed { id: id("k"), replayed: None };
        assert_eq!(history.broken()[0], hidden, "{code}");
    }
}

#[test]
fn every_untrue_refusal_is_seen() {
    let nobody = History::default();
    nobody.refused(again(&nobody, 0, 1), "in-progress", at(2));
    untrue(&nobody, Untrue::InProgress);
    nobody.refused(again(&nobody, 0, 50), "mismatch", at(51));
    untrue(&nobody, Untrue::Mismatch);
    let (history, _) = done();
    history.refused(again(&history, 0, 20), "forgotten", at(21));
    untrue(&history, Untrue::Forgotten);
    history.refused(again(&history, 0, 200), "unknown", at(201));
    untrue(&history, Untrue::Unknown);
    history.told(again(&history, 0, 300), &told(201, "x"), at(301));
    untrue(&history, Untrue::Outlived);
    history.stuck(&id("k"));
    assert_eq!(history.broken().last(), Some(&Broken::Stuck(id("k"))));
}

/// What was asked before the store's time went back may have been decided at the earlier time.
#[test]
fn time_that_went_back_is_allowed_for() {
    let (history, _) = done();
    let ask = again(&history, 0, 109);
    history.turned_back(at(111), at(105));
    history.refused(ask, "forgotten", at(106));
    assert_eq!(history.broken(), []);
}
