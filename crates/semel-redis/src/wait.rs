//! What is waited for before anything is answered: replicas, and disks.

use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::error::{Fault, odd, unavailable};

/// What must have a write before it is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// How many replicas must have it.
    pub(crate) replicas: u32,
    /// Whether this server's disk must have it.
    pub(crate) flushed: bool,
    /// How many replicas' disks must have it.
    pub(crate) replicas_flushed: u32,
    /// How long they may take.
    pub(crate) up_to: Duration,
}

impl Wait {
    pub(crate) const NONE: Self =
        Self { replicas: 0, flushed: false, replicas_flushed: 0, up_to: Duration::from_secs(2) };

    /// Whether anything is waited for.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.replicas > 0 || self.asks_for_disks()
    }

    pub(crate) const fn asks_for_disks(&self) -> bool {
        self.flushed || self.replicas_flushed > 0
    }

    /// How many replicas are needed.
    pub(crate) fn replicas_needed(&self) -> u32 {
        self.replicas.max(self.replicas_flushed)
    }

    /// What is said behind a script.
    pub(crate) fn commands(&self) -> Vec<Cmd> {
        let millis = u64::try_from(self.up_to.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut commands = Vec::new();
        if self.replicas > 0 {
            let mut wait = cmd("WAIT");
            wait.arg(self.replicas).arg(millis);
            commands.push(wait);
        }
        if self.asks_for_disks() {
            let mut wait = cmd("WAITAOF");
            wait.arg(u8::from(self.flushed)).arg(self.replicas_flushed).arg(millis);
            commands.push(wait);
        }
        commands
    }

    /// Judges what was answered to them: fewer than were asked for acknowledge nothing.
    pub(crate) fn judge(&self, answers: &[Value]) -> Result<(), Fault> {
        for answer in answers {
            match answer.clone().extract_error()? {
                Value::Int(replicas) => enough("replicas", replicas, self.replicas)?,
                Value::Array(disks) => match disks[..] {
                    [Value::Int(own), Value::Int(replicas)] => {
                        enough("disks of the primary", own, u32::from(self.flushed))?;
                        enough("disks of replicas", replicas, self.replicas_flushed)?;
                    }
                    _ => return Err(odd()),
                },
                _ => return Err(odd()),
            }
        }
        Ok(())
    }
}

fn enough(what: &str, have: i64, asked: u32) -> Result<(), Fault> {
    if have >= i64::from(asked) {
        return Ok(());
    }
    let message =
        format!("{what} that have it in time: {have}, and {asked} are waited for; it may be lost");
    Err(unavailable(message).into())
}
