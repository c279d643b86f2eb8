//! What a handler must not forget to note: that it went away.

use std::sync::{Arc, Mutex};

use semel::{Clock, Holder, IntentId, Timestamp, engine::Ended, error::Error};

use super::world::{Process, World, lock};
use crate::history::{Ask, Said, Told};

/// One ask on its way to its end. Dropped before that, it notes what its caller's going away means.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) world: Arc<World>,
    pub(super) process: Process,
    pub(super) id: IntentId,
    pub(super) ask: Ask,
    /// How often the store's clock had jumped when it began.
    jumps: u64,
    phase: Mutex<Phase>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Asking,
    Ending,
    Holding,
    Over,
    Started,
}

impl Guard {
    pub(super) fn asks(world: Arc<World>, process: Process, id: IntentId, content: u64) -> Self {
        let ask = world.history.ask(&id, world.terms(content), world.now());
        world.opens(ask, process.machine);
        let how = format_args!("{} asks {} on {}", ask.number(), id.key, process.machine);
        world.trace.note("ask", &how);
        let (jumps, phase) = (world.jumps(), Mutex::new(Phase::Asking));
        Self { world, process, id, ask, jumps, phase }
    }

    fn note(&self, what: &'static str) {
        self.world.trace.note(what, &self.ask.number());
    }

    pub(super) fn runs(&self, holder: &Holder) {
        let (world, ask) = (&self.world, self.ask);
        let left = holder.deadline().since(self.process.clock.monotonic());
        // Clocks differ a little. A store whose clock was set forward keeps no lease until its end.
        let believes = !left.is_zero() && world.jumps() == self.jumps;
        let until =
            if believes { world.now().after(left - left / 1_000) } else { Timestamp::default() };
        let token = holder.permit().token;
        world.history.runs(ask, world.server.granted_at(token), until);
        world.granted(token, ask);
        *lock(&self.phase) = Phase::Holding;
        self.note(match holder.grant() {
            Some(semel::decide::Grant::Fresh) => "granted: fresh",
            Some(semel::decide::Grant::Reopened) => "granted: reopened",
            Some(semel::decide::Grant::TakenOver { .. }) => "granted: taken over",
            None => "granted: answer lost before",
        });
    }

    pub(super) fn starts(&self) {
        *lock(&self.phase) = Phase::Started;
    }

    /// Notes how the run ends, before it says so.
    pub(super) fn ends(&self, said: Said) {
        self.note(match &said {
            Said::NoEffect => "ends: no effect",
            Said::Outcome(_) => "ends: outcome",
            Said::Perhaps => "ends: perhaps",
        });
        self.world.history.ends(self.ask, said, self.world.now());
        *lock(&self.phase) = Phase::Ending;
    }

    pub(super) fn told(&self, told: &Told) {
        if self.closes() {
            self.note("told");
            self.world.history.told(self.ask, told, self.world.now());
        }
    }

    pub(super) fn refused(&self, code: &'static str) {
        if self.closes() {
            self.note(match code {
                "forgotten" => "refused: forgotten",
                "in-progress" => "refused: in progress",
                "mismatch" => "refused: mismatch",
                "unknown" => "refused: unknown",
                _ => "refused: otherwise",
            });
            self.world.history.refused(self.ask, code, self.world.now());
        }
    }

    pub(super) fn over(&self) {
        if self.closes() {
            self.note("over");
            self.world.history.over(self.ask, self.world.now());
        }
    }

    /// Notes how storing the end of the run went.
    pub(super) fn finished(&self, told: &Told, ended: Result<Ended, Error>) {
        match ended {
            Ok(Ended::Stored) => self.told(told),
            Ok(Ended::Before(record)) => match &record.outcome {
                Some(outcome) => self.told(&Told::from(outcome)),
                None => self.over(),
            },
            Err(error) => self.failed(&error),
        }
    }

    pub(super) fn failed(&self, error: &Error) {
        if matches!(error, Error::Stale) {
            self.note("stale");
            self.over();
        } else {
            self.note("not stored");
        }
    }

    fn closes(&self) -> bool {
        *lock(&self.phase) = Phase::Over;
        self.world.closes(self.ask)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let phase = *lock(&self.phase);
        if phase == Phase::Over || !self.world.closes(self.ask) {
            return;
        }
        match phase {
            Phase::Holding => self.ends(Said::NoEffect),
            Phase::Started => self.ends(Said::Perhaps),
            _ => {}
        }
        self.note("left");
        self.world.history.left(self.ask, self.world.now());
    }
}
