//! Parked messages that an operator wants to be run again.

use super::{Inner, desk::Fared};
use crate::inbox::{
    handler::Failed,
    store::{ParkedMessage, Uncount},
};

/// How many are run in one round.
const ROUND: usize = 100;

impl Inner {
    /// Runs what is due.
    pub(super) async fn run_parked(&self) {
        let due = match self.store.due(self.policy.consumer.clone(), ROUND).await {
            Ok(due) => due,
            Err(error) => {
                self.store_failed(&error);
                return;
            }
        };
        for parked in due {
            if self.run_again(&parked).await == Fared::Away {
                return;
            }
        }
    }

    /// Runs a parked message again. A failure waits for an operator; what passes by itself, for the next
    /// round.
    async fn run_again(&self, parked: &ParkedMessage) -> Fared {
        let delivery = parked.delivery();
        match self.run(&delivery).await {
            Ok(handled) => {
                let fared = self.after_commit(&delivery, handled).await;
                if fared == Fared::Ended {
                    // Until here its copy stays, so that what it recorded is sent although this process
                    // is gone.
                    self.uncount(vec![delivery.message], Uncount::Ended).await;
                }
                fared
            }
            Err(Failed::Away(error)) => {
                self.is_away(&error);
                Fared::Away
            }
            Err(why) => {
                let attempts = parked.attempts.saturating_add(1);
                match self.park(&delivery, attempts, &why).await {
                    Ok(_) => Fared::Ended,
                    Err(_) => Fared::Away,
                }
            }
        }
    }
}
