//! One message: run, record, emit, and what follows from a failure.

use std::{future::Future, time::Duration};

use super::{Inner, Progress};
use crate::{
    caught::caught,
    error::{Source as Cause, StoreError, StoreErrorKind},
    inbox::{
        handler::{Failed, Handled},
        message::Delivery,
        store::{Attempts, Mismatch, ParkAnswer, Recorded, Standing, Uncount},
    },
    telemetry::count,
};

/// How a message fared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fared {
    /// It comes again after this pause.
    Again(Duration),
    /// Something failed that every message needs: it comes again, and all behind it.
    Away,
    /// It is done with.
    Ended,
}

impl Inner {
    /// Handles one message, whose attempt is counted before if it came before.
    pub(super) async fn handle(
        &self,
        delivery: &Delivery,
        known: Option<Attempts>,
        is_counted: bool,
        progress: &Progress,
    ) -> Fared {
        let message = || vec![delivery.message.clone()];
        let attempts = match known {
            Some(_) if !is_counted => match self.count(message()).await {
                Ok(counted) => {
                    progress.count(&message());
                    counted.first().copied()
                }
                Err(error) => return self.store_failed(&error),
            },
            known => known,
        };
        // The attempt before this one did not come to an end at all, since one that fails is given back
        // there: the message may be what ends whoever runs it.
        if let Some(attempts) = attempts.filter(|a| a.count > self.attempts_kept())
            && self.parks(&attempts)
        {
            let why = Failed::Refused("its last attempt did not come to an end".into());
            match self.park(delivery, attempts.count - 1, &why).await {
                Ok(ParkAnswer::Parked) => return Fared::Ended,
                // It was handled: what its run recorded is still to be sent.
                Ok(ParkAnswer::Ended) => {}
                Err(error) => return self.not_parked(&error),
            }
        }
        match self.run(delivery).await {
            Ok(handled) => {
                let fared = self.after_commit(delivery, handled).await;
                if attempts.is_some() {
                    // That something recorded could not be sent is no failure of the message.
                    let why = match fared {
                        Fared::Ended => Uncount::Ended,
                        Fared::Again(_) | Fared::Away => Uncount::GivenBack,
                    };
                    self.uncount(message(), why).await;
                }
                fared
            }
            Err(Failed::Away(error)) => {
                self.is_away(&error);
                if attempts.is_some() {
                    self.uncount(message(), Uncount::GivenBack).await;
                }
                Fared::Away
            }
            Err(why) => self.failed(delivery, attempts, &why).await,
        }
    }

    /// A message failed: it comes again, or is parked.
    async fn failed(&self, delivery: &Delivery, attempts: Option<Attempts>, why: &Failed) -> Fared {
        count(&self.counters.failures);
        // That of the first delivery is counted only now that it failed.
        let attempts = match attempts {
            Some(attempts) => attempts,
            None => match self.count(vec![delivery.message.clone()]).await {
                Ok(counted) => counted.first().copied().unwrap_or_default(),
                Err(error) => return self.store_failed(&error),
            },
        };
        if matches!(why, Failed::Refused(_)) || self.parks(&attempts) {
            return self.parked(delivery, attempts.count, why).await;
        }
        let (message, count) = (&delivery.message, attempts.count);
        tracing::info!(%message, attempts = count, %why, "a message failed, and is run again");
        if count >= self.attempts_kept() {
            self.uncount(vec![message.clone()], Uncount::GivenBack).await;
        }
        Fared::Again(self.jittered(self.policy.backoff_after(count)))
    }

    /// How many attempts are counted at most of a message whose attempts come to an end: what is counted
    /// above tells of one that did not. Never one alone, since giving it back would forget when it began.
    fn attempts_kept(&self) -> u32 {
        self.policy.attempts_max.max(2)
    }

    /// Parks a message; one that cannot be parked now comes again.
    async fn parked(&self, delivery: &Delivery, attempts: u32, why: &Failed) -> Fared {
        match self.park(delivery, attempts, why).await {
            Ok(_) => Fared::Ended,
            Err(error) => self.not_parked(&error),
        }
    }

    fn not_parked(&self, error: &StoreError) -> Fared {
        match error.kind() {
            // Another copy is at work.
            StoreErrorKind::Busy => Fared::Again(self.jittered(self.policy.backoff)),
            _ => Fared::Away,
        }
    }

    /// What is due once it is known that the effect is committed.
    pub(super) async fn after_commit(&self, delivery: &Delivery, handled: Handled) -> Fared {
        let recorded = match handled {
            Handled::First(recorded) => {
                count(&self.counters.handled);
                Some(recorded)
            }
            Handled::Duplicate(recorded) => {
                count(&self.counters.duplicates);
                recorded
            }
            Handled::Mismatch(recorded) => return self.mismatch(delivery, recorded).await,
        };
        match recorded.filter(|recorded| recorded.standing == Standing::Done) {
            Some(recorded) => self.emitted(delivery, &recorded).await,
            None => Fared::Ended,
        }
    }

    async fn emitted(&self, delivery: &Delivery, recorded: &Recorded) -> Fared {
        match answered(self.handler.emit(delivery, recorded)).await {
            Ok(()) => Fared::Ended,
            Err(why) => {
                // The effect is there: nothing is counted, and a copy sends it again.
                count(&self.counters.not_emitted);
                let message = &delivery.message;
                tracing::warn!(%message, %why, "what a message recorded could not be sent yet");
                match why {
                    Failed::Away(_) => Fared::Away,
                    _ => Fared::Again(self.jittered(self.policy.backoff_after(2))),
                }
            }
        }
    }

    /// Another message under the same id is written down, and not run.
    async fn mismatch(&self, delivery: &Delivery, recorded: Recorded) -> Fared {
        let mismatch = Mismatch {
            consumer: self.policy.consumer.clone(),
            message: delivery.message.clone(),
            recorded: recorded.fingerprint,
            came: self.handler.fingerprint(delivery),
        };
        match self.store.report(mismatch).await {
            Ok(()) => {
                count(&self.counters.mismatches);
                tracing::warn!(message = %delivery.message, "another message came under one id");
                Fared::Ended
            }
            Err(error) => self.store_failed(&error),
        }
    }

    /// Runs the handler. A panic is a failure of the message.
    pub(super) async fn run(&self, delivery: &Delivery) -> Result<Handled, Failed> {
        answered(self.handler.run(delivery)).await
    }

    /// Runs the handler for several messages.
    pub(super) async fn run_all(
        &self,
        deliveries: &[Delivery],
    ) -> Result<Option<Vec<Handled>>, Failed> {
        answered(self.handler.run_all(deliveries)).await
    }

    /// The store could not be asked.
    pub(super) fn store_failed(&self, error: &StoreError) -> Fared {
        count(&self.counters.store_errors);
        tracing::warn!(%error, "the inbox could not be asked");
        Fared::Away
    }

    /// Something failed that every message needs.
    pub(super) fn is_away(&self, error: &Cause) {
        count(&self.counters.away);
        tracing::warn!(%error, "messages cannot be handled now");
    }
}

/// Waits for a call of the handler, and turns a panic into a failure.
async fn answered<T>(call: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    caught(call).await.unwrap_or_else(|| Err(Failed::message("the handler panicked")))
}
