//! How far a drill is, on the standard error.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{crowd::Crowd, ledger::Ledger, trouble::Log};
use crate::aside::aside;

/// How often a line is written where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Tells how far it is: by a bar on a terminal, otherwise by a line now and then.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    is_silent: bool,
    told: Mutex<Option<Instant>>,
    last: Mutex<String>,
}

impl Progress {
    /// Tells on the standard error.
    #[must_use]
    pub fn shown() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        Self { bar, is_silent: false, told: Mutex::default(), last: Mutex::default() }
    }

    /// Tells nothing.
    #[must_use]
    pub fn silent() -> Self {
        Self { bar: None, is_silent: true, told: Mutex::default(), last: Mutex::default() }
    }

    /// Says what is done now.
    pub(super) fn say(&self, what: &str) {
        self.note(what);
        match &self.bar {
            _ if self.is_silent => {}
            Some(bar) => bar.set_message(what.to_owned()),
            None => aside(what),
        }
    }

    fn note(&self, what: &str) {
        what.clone_into(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns what it would say now.
    #[must_use]
    pub fn last(&self) -> String {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn tell(&self, crowd: &Crowd, ledger: &Ledger, log: &Log, begun: Instant) {
        if self.is_silent {
            return;
        }
        let (intents, effects) = (crowd.book.len(), ledger.effects());
        let mut says =
            format!("{}s: {intents} intents, {effects} effects", begun.elapsed().as_secs());
        for (trouble, count) in log.counts() {
            says += &format!(", {count} × {trouble:?}").to_lowercase();
        }
        self.note(&says);
        if self.bar.is_none() {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.unwrap_or(begun).elapsed() < LINE_EVERY {
                return;
            }
            *told = Some(Instant::now());
        }
        self.say(&says);
        self.bar.iter().for_each(ProgressBar::tick);
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
