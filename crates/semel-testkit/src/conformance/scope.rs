//! Scopes: a key means nothing outside of its tenant, operation and facet.

use semel::IntentId;

use super::{Fresh, verbs::*};

/// Shows that two names are two intents: both run, and each gets its own outcome.
async fn are_two(on: &Fresh, one: &IntentId, two: &IntentId) {
    let (first, second) = (on.hold(one).await, on.take(other(two)).await);
    on.complete(&first, done(semel::Outcome::new(201, "one"))).await;
    on.complete(&second, done(semel::Outcome::new(202, "two"))).await;
    assert_eq!(replayed(on.claim(ask(one)).await).status, 201, "{one:?} is not {two:?}");
    assert_eq!(replayed(on.claim(other(two)).await).status, 202, "{two:?} is not {one:?}");
    assert_eq!(on.kept(one).await.id, *one);
    assert_eq!(on.kept(two).await.id, *two);
}

/// C41, C44: two tenants with one key are two intents.
pub async fn tenants_share_nothing(on: Fresh) {
    let of = |tenant| named(tenant, "payments.create", "k");
    are_two(&on, &of("acme"), &of("umbrella")).await;
}

/// C40: two operations with one key are two intents.
pub async fn operations_share_nothing(on: Fresh) {
    let of = |operation| named("acme", operation, "k");
    are_two(&on, &of("orders.create"), &of("payments.create")).await;
}

/// S07: two keys with one content are two intents.
pub async fn keys_share_nothing(on: Fresh) {
    let (one, two) = (id("k1"), id("k2"));
    on.finished(&one).await;
    on.hold(&two).await;
    in_progress(on.claim(ask(&two)).await);
}

/// Two facets of one key are two intents, and none is the one without a facet.
pub async fn facets_share_nothing(on: Fresh) {
    are_two(&on, &id("k").narrowed([1; 32]), &id("k").narrowed([2; 32])).await;
    are_two(&on, &id("n"), &id("n").narrowed([0; 32])).await;
}

/// Names are compared as they are: case counts.
pub async fn case_counts(on: Fresh) {
    are_two(&on, &id("key"), &id("KEY")).await;
    are_two(&on, &named("acme", "a.b", "x"), &named("Acme", "a.b", "x")).await;
    are_two(&on, &named("acme", "a.b", "y"), &named("acme", "A.b", "y")).await;
}

/// Tenants are compared as they are: composed and decomposed letters differ, blanks count, and all
/// come back as they were.
pub async fn tenants_are_compared_byte_by_byte(on: Fresh) {
    let of = |tenant: &str, key| named(tenant, "payments.create", key);
    are_two(&on, &of("Käufer", "a"), &of("Ka\u{308}ufer", "a")).await;
    are_two(&on, &of("acme", "b"), &of("acme ", "b")).await;
    are_two(&on, &of("商店🏬", "c"), &of("商店", "c")).await;
    are_two(&on, &of("straße", "d"), &of("strasse", "d")).await;
}

/// No character inside a name moves the border to the next one.
pub async fn separators_inside_names_do_not_collide(on: Fresh) {
    are_two(&on, &named("a", "b:c", "d"), &named("a", "b", "c:d")).await;
    are_two(&on, &named("a/b", "c", "d"), &named("a", "b/c", "d")).await;
    are_two(&on, &named("a b", "c", "d"), &named("a", "b", "c")).await;
    are_two(&on, &named("a", "b", "'%_\\\"--"), &named("a", "b", "'%x\\\"--")).await;
}

/// The longest names come back whole, and differ in their last byte.
pub async fn the_longest_names_come_back(on: Fresh) {
    let of = |last: &str| {
        let tenant = format!("{}{last}", "é".repeat(127));
        let operation = format!("{}{last}", "o".repeat(127));
        named(&tenant, &operation, &format!("{}{last}", "k".repeat(254)))
    };
    are_two(&on, &of("1"), &of("2")).await;
}
