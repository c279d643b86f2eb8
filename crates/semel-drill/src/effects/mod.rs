//! How often something really happened: effects are counted where they are kept, never by answers.

mod postgres;
mod sqlite;
mod url;

use std::{error::Error, fmt::Write, path::Path, time::Duration};

use thiserror::Error;

use self::{postgres::ByPostgres, sqlite::BySqlite, url::ByUrl};
use crate::{
    http::{Target, TargetError},
    plan::{EffectsSpec, Names},
};

/// How long a count must stay the same to be settled.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// Says why effects cannot be counted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EffectsError {
    /// The server that counts cannot be used.
    #[error("the effects cannot be asked for: {0}")]
    Target(#[from] TargetError),
    /// The plan does not say how.
    #[error("the plan says neither a `url` nor a `database` with `sql` to count by")]
    Nowhere,
    /// They were asked for, and there was no count to be had; why.
    #[error("the effects cannot be counted: {0}")]
    Uncounted(String),
}

impl EffectsError {
    /// Tells an error with its causes, which drivers keep apart.
    fn of(what: &str, error: &dyn Error) -> Self {
        let mut told = format!("{what}: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            let said = error.to_string();
            if !told.contains(&said) {
                let _infallible = write!(told, ": {said}");
            }
            cause = error.source();
        }
        Self::Uncounted(told)
    }
}

/// Counts the effects of one intent.
#[derive(Debug)]
pub struct Effects {
    source: Source,
    /// How long one count may take.
    within: Duration,
}

#[derive(Debug)]
enum Source {
    Postgres(Box<ByPostgres>),
    Sqlite(BySqlite),
    Url(Box<ByUrl>),
}

impl Effects {
    /// Makes a counter; nothing is asked yet. A path is asked of the target, a whole URL of its own
    /// server, whose certificates are trusted as those of the target are.
    ///
    /// # Errors
    /// The URL of the counter is none, or TLS cannot be set up.
    pub fn open(
        spec: &EffectsSpec,
        target: &Target,
        ca: Option<&Path>,
        within: Duration,
    ) -> Result<Self, EffectsError> {
        let source = match (&spec.url, &spec.database, &spec.sql) {
            (Some(url), ..) => Source::Url(Box::new(ByUrl::new(url, spec, target, ca)?)),
            (None, Some(database), Some(sql)) => match database.strip_prefix("sqlite:") {
                Some(path) => Source::Sqlite(BySqlite::new(path, sql)),
                None => Source::Postgres(Box::new(ByPostgres::new(database, sql, ca)?)),
            },
            _ => return Err(EffectsError::Nowhere),
        };
        Ok(Self { source, within })
    }

    /// Counts the effects of an intent now.
    ///
    /// # Errors
    /// Nobody answers in time, or what is answered is no count.
    pub async fn count(&self, names: &Names) -> Result<u64, EffectsError> {
        let counted = async {
            match &self.source {
                Source::Postgres(database) => database.count(names).await,
                Source::Sqlite(file) => file.count(names, self.within).await,
                Source::Url(url) => url.count(names, self.within).await,
            }
        };
        let late = || EffectsError::Uncounted(format!("no answer within {:?}", self.within));
        tokio::time::timeout(self.within, counted).await.unwrap_or_else(|_| Err(late()))
    }

    /// Counts until the same was counted twice, since an effect may land after its client hung up.
    /// What still changes when the time is over is returned as it is then.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    pub async fn count_settled(&self, names: &Names) -> Result<u64, EffectsError> {
        let mut last = self.count(names).await?;
        let rounds = self.within.as_millis() / SETTLED_AFTER.as_millis();
        for _ in 0..rounds.max(1) {
            tokio::time::sleep(SETTLED_AFTER).await;
            let now = self.count(names).await?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(last)
    }
}
