//! Says on the standard error what is tried while it is tried.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{aside::aside, http::Progress, plan::Secrets};

/// On a terminal a bar that moves, else a line for each rule.
pub(super) struct Watch {
    bar: Option<ProgressBar>,
    secrets: Secrets,
}

impl Watch {
    pub(super) fn new(secrets: Secrets) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, secrets }
    }

    pub(super) fn saw(&self, progress: &Progress<'_>) {
        match (progress, &self.bar) {
            (Progress::Begins { rule, at, of }, Some(bar)) => {
                bar.set_length(u64::try_from(*of).unwrap_or(u64::MAX));
                bar.set_position(u64::try_from(*at).unwrap_or(u64::MAX));
                bar.set_message(rule.name);
            }
            (Progress::Ended(_), Some(bar)) => bar.inc(1),
            (Progress::Begins { .. }, None) => {}
            (Progress::Ended(verdict), None) => {
                let seen = self.secrets.masked(&verdict.seen);
                let line: String = seen.chars().filter(|c| !c.is_control()).take(200).collect();
                aside(format_args!("{:9}  {}: {line}", verdict.ended.word(), verdict.rule.name));
            }
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
