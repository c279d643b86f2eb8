//! What is to go wrong at a given request.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// A request, by bytes that it contains.
#[derive(Debug, Clone)]
pub struct Moment {
    pattern: Vec<u8>,
    nth: usize,
}

impl Moment {
    /// The `nth` time, counted from one, that these bytes go to the server. No bytes at all stand
    /// for every piece that a client sends.
    pub fn nth(pattern: impl Into<Vec<u8>>, nth: usize) -> Self {
        Self { pattern: pattern.into(), nth }
    }
}

impl From<&str> for Moment {
    fn from(pattern: &str) -> Self {
        Self::nth(pattern, 1)
    }
}

impl From<&[u8]> for Moment {
    fn from(pattern: &[u8]) -> Self {
        Self::nth(pattern, 1)
    }
}

/// Tells when what was asked for has gone wrong.
#[derive(Debug, Clone)]
pub struct Trap {
    sprung: watch::Receiver<bool>,
}

impl Trap {
    /// Says whether it has.
    #[must_use]
    pub fn has_sprung(&self) -> bool {
        *self.sprung.borrow()
    }

    /// Waits until it has: the connection is cut, and the server has done all that reached it.
    pub async fn sprung(&mut self) {
        let sprung = self.sprung.wait_for(|sprung| *sprung).await;
        assert!(sprung.is_ok(), "the trap was taken away before it sprang");
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Nothing: everything to the server is held back, from the matching piece on.
    Hold,
    /// The request is lost, from the matching bytes on.
    Request,
    /// The request arrives and its reply is lost.
    Reply,
}

/// A trap that was met; whoever has done what it asks for says so.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) loss: Loss,
    /// Where in the piece the pattern begins; zero if it began in an earlier one.
    pub(super) at: usize,
    pub(super) sprung: watch::Sender<bool>,
}

/// The traps of a proxy.
#[derive(Debug, Clone, Default)]
pub(super) struct Traps {
    armed: Arc<Mutex<Vec<Armed>>>,
}

#[derive(Debug)]
struct Armed {
    pattern: Vec<u8>,
    left: usize,
    loss: Loss,
    sprung: watch::Sender<bool>,
}

impl Traps {
    pub(super) fn arm(&self, moment: Moment, loss: Loss) -> Trap {
        let (sprung, told) = watch::channel(false);
        let Moment { pattern, nth } = moment;
        self.with(|armed| armed.push(Armed { pattern, left: nth.max(1), loss, sprung }));
        Trap { sprung: told }
    }

    pub(super) fn disarm(&self) {
        self.with(Vec::clear);
    }

    /// Looks at the next piece of a connection, and takes the first trap that it meets.
    pub(super) fn meet(&self, seen: &mut Seen, piece: &[u8]) -> Option<Met> {
        self.with(|armed| {
            let text = seen.with(piece);
            let mut met = None;
            for (index, trap) in armed.iter_mut().enumerate() {
                let places = places(&text, &trap.pattern, seen.old);
                if met.is_none() && trap.left <= places.len() {
                    met = Some((index, places[trap.left - 1].saturating_sub(seen.old)));
                } else {
                    trap.left = trap.left.saturating_sub(places.len()).max(1);
                }
            }
            let longest = armed.iter().map(|trap| trap.pattern.len()).max().unwrap_or_default();
            seen.keep(text, longest);
            let (index, at) = met?;
            let Armed { loss, sprung, .. } = armed.remove(index);
            Some(Met { loss, at, sprung })
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<Armed>) -> T) -> T {
        act(&mut self.armed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The end of what a connection has sent, for patterns that two pieces share.
#[derive(Debug, Default)]
pub(super) struct Seen {
    tail: Vec<u8>,
    /// How much of the text before the newest piece was looked at before.
    old: usize,
}

impl Seen {
    fn with(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.tail);
        self.old = text.len();
        text.extend_from_slice(piece);
        text
    }

    fn keep(&mut self, mut text: Vec<u8>, longest: usize) {
        let cut = text.len() - longest.saturating_sub(1).min(text.len());
        text.drain(..cut);
        self.tail = text;
    }
}

/// Where a pattern begins that ends in what is new.
fn places(text: &[u8], pattern: &[u8], old: usize) -> Vec<usize> {
    if pattern.is_empty() {
        return vec![old];
    }
    let windows = text.windows(pattern.len()).enumerate();
    let found = windows.filter(|(at, window)| *window == pattern && at + pattern.len() > old);
    found.map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends pieces and says at which one, and where in it, the trap is met.
    fn check(moment: Moment, pieces: &[&str], met: Option<(usize, usize)>) {
        let (traps, mut seen) = (Traps::default(), Seen::default());
        let _trap = traps.arm(moment, Loss::Request);
        let mut pieces = pieces.iter().enumerate();
        let found = pieces
            .find_map(|(index, piece)| Some((index, traps.meet(&mut seen, piece.as_bytes())?.at)));
        assert_eq!(found, met);
    }

    #[test]
    fn a_request_is_known_by_its_bytes() {
        check("COMMIT".into(), &["BEGIN", "x COMMIT"], Some((1, 2)));
        check("COMMIT".into(), &["BEGIN", "commit"], None);
    }

    #[test]
    fn bytes_that_arrive_in_two_pieces_are_known() {
        check("COMMIT".into(), &["x COM", "MIT"], Some((1, 0)));
        check("aab".into(), &["a", "a", "b"], Some((2, 0)));
    }

    #[test]
    fn the_nth_time_is_counted_over_all_pieces() {
        check(Moment::nth("a", 3), &["a a", "", "xa"], Some((2, 1)));
        check(Moment::nth("aa", 2), &["aa", "b", "aa"], Some((2, 0)));
        check(Moment::nth("a", 3), &["a", "a"], None);
    }

    #[test]
    fn no_bytes_stand_for_every_piece() {
        check(Moment::nth("", 2), &["one", "two"], Some((1, 0)));
    }
}
