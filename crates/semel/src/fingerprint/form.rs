//! Forms and multipart bodies: what of them counts, and in which order.

use super::feed::Feed;
use super::json::escaped;
use super::pointer::{Pointers, Step};
use super::{FingerprintError, FormPair, Part, Plan};

/// Adds the pairs that count, sorted by name. The order of the values of one name stays, since `a=1&a=2` can mean
/// another thing than `a=2&a=1`; the order between names is the accident of a client's hash map.
pub(super) fn pairs(
    feed: &mut Feed,
    plan: &Plan,
    pairs: &[FormPair<'_>],
) -> Result<(), FingerprintError> {
    let mut kept = counting(plan, pairs, |(name, _)| Some(name))?;
    kept.sort_by(|(one, _), (other, _)| one.cmp(other));
    feed.count(kept.len());
    for (name, value) in kept {
        feed.bytes(name);
        feed.bytes(value);
    }
    Ok(())
}

/// Adds the parts that count, in the order they were sent: a part may refer to an earlier one.
pub(super) fn parts(
    feed: &mut Feed,
    plan: &Plan,
    parts: &[Part<'_>],
) -> Result<(), FingerprintError> {
    let kept = counting(plan, parts, |part| part.name.map(str::as_bytes))?;
    feed.count(kept.len());
    kept.into_iter().for_each(|part| feed.part(part));
    Ok(())
}

/// Picks the items whose name the plan counts: those it includes, or all if it includes none of them, but never what
/// it excludes.
fn counting<'i, T>(
    plan: &Plan,
    items: &'i [T],
    name: impl Fn(&T) -> Option<&[u8]>,
) -> Result<Vec<&'i T>, FingerprintError> {
    let limit = plan.limit().members;
    if u32::try_from(items.len()).map_or(true, |count| count > limit) {
        return Err(FingerprintError::TooManyMembers { limit });
    }
    let (include, exclude) = (plan.included(), plan.excluded());
    let named = |pointers: &Pointers, item: &T| name(item).is_some_and(|name| ends(pointers, name));
    let left: Vec<_> = items.iter().filter(|item| !named(exclude, item)).collect();
    let included: Vec<_> = left.iter().copied().filter(|item| named(include, item)).collect();
    Ok(if included.is_empty() { left } else { included })
}

fn ends(pointers: &Pointers, name: &[u8]) -> bool {
    let tree = pointers.tree();
    let step = match tree.root() {
        Step::On(root) => tree.member(root, &escaped(name)),
        whole => whole,
    };
    matches!(step, Step::End(_))
}
