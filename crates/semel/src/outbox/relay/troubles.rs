//! What is told of sends that fail: a reason when it is new, and then now and then while it goes on.

use std::time::Duration;

use crate::clock::Monotonic;

/// How many reasons are kept in mind. Past them, further ones are told when an old one is no longer new.
const REASONS_MAX: usize = 8;

/// How long a reason is not told again.
const AGAIN: Duration = Duration::from_secs(60);

/// The reasons that were told lately, and when.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    told: Vec<(Box<str>, Monotonic)>,
}

impl Troubles {
    /// Says whether a reason is to be told now, and takes it as told then.
    pub(super) fn tells(&mut self, why: &str, now: Monotonic) -> bool {
        self.told.retain(|(_, at)| now.since(*at) < AGAIN);
        let known = self.told.iter().any(|(told, _)| **told == *why);
        if known || self.told.len() >= REASONS_MAX {
            return false;
        }
        self.told.push((why.into(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_when_it_is_new_and_once_a_minute_while_it_goes_on() {
        let (mut troubles, start) = (Troubles::default(), Monotonic::default());
        let mut told = Vec::new();
        for second in 0..150 {
            let now = start.after(Duration::from_secs(second));
            let why = if second % 10 == 3 { "it answered 400" } else { "no answer" };
            if troubles.tells(why, now) {
                told.push((second, why));
            }
        }
        let (no, bad) = ("no answer", "it answered 400");
        assert_eq!(told, [(0, no), (3, bad), (60, no), (63, bad), (120, no), (123, bad)]);
    }

    #[test]
    fn reasons_that_are_never_the_same_are_told_a_few_at_a_time() {
        let (mut troubles, now) = (Troubles::default(), Monotonic::default());
        let tells = |at: &mut Troubles, now| {
            (0..1_000).filter(|nth| at.tells(&format!("request {nth}"), now)).count()
        };
        assert_eq!(tells(&mut troubles, now), REASONS_MAX);
        assert_eq!(tells(&mut troubles, now), 0);
        assert_eq!(tells(&mut troubles, now.after(AGAIN)), REASONS_MAX);
    }
}
