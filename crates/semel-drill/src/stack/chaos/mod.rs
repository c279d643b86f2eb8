//! Three hands that make trouble side by side, each in an order of its own that the seed gives.

mod gateways;
mod lines;
mod redis;
mod server;

use std::{sync::Arc, time::Duration};

use semel_testkit::SeededEntropy;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    StackError,
    application::Application,
    crowd::Crowd,
    gateway::Gateway,
    place::{Line, Place},
    settings::Settings,
    trouble::{Log, Trouble},
};

/// What all hands know.
#[derive(Debug)]
pub(super) struct Chaos {
    pub(super) settings: Settings,
    pub(super) crowd: Arc<Crowd>,
    pub(super) log: Arc<Log>,
    /// What holds the store's file open besides the gateways, where there are events.
    pub(super) application: Option<Arc<Application>>,
    /// Becomes true when there is to be no more trouble.
    pub(super) over: watch::Receiver<bool>,
}

impl Chaos {
    /// Makes trouble until it is over, and leaves everything running.
    pub(super) async fn rage(
        &self,
        gateways: &mut [Gateway],
        place: &mut Place,
        lines: &[Line],
    ) -> Result<(), StackError> {
        let (mut file, mut redis, mut postgres) = (None, None, None);
        match place {
            Place::File(place) => file = Some(place),
            Place::Redis(place) => redis = Some(&mut **place),
            Place::Server(place) => postgres = Some(&mut **place),
        }
        let (of_gateways, of_redis, of_postgres, of_lines) = tokio::join!(
            gateways::hand(self, gateways, file),
            redis::hand(self, redis),
            server::hand(self, postgres),
            lines::hand(self, lines),
        );
        of_gateways.and(of_redis).and(of_postgres).and(of_lines)
    }

    /// A hand that can make some of these troubles.
    fn hand(&self, number: u64, able: &[Trouble]) -> Hand {
        let kinds = able.iter().copied().filter(|trouble| self.settings.has(*trouble)).collect();
        let chance = SeededEntropy::new(self.settings.seed.rotate_right(9) ^ number);
        Hand { chance, kinds, over: self.over.clone(), every: self.settings.every }
    }
}

/// One hand: what it does next, and when.
#[derive(Debug)]
struct Hand {
    chance: SeededEntropy,
    kinds: Vec<Trouble>,
    over: watch::Receiver<bool>,
    every: Duration,
}

impl Hand {
    /// Pauses, and draws the next trouble; nothing when it is over.
    async fn next(&mut self) -> Option<Trouble> {
        let pause = self.between(self.every / 4, self.every * 7 / 4);
        let is_over = timeout(pause, self.over.wait_for(|over| *over)).await.is_ok();
        let drawn = self.one_of(&self.kinds);
        drawn.filter(|_| !is_over)
    }

    fn one_of<T: Copy>(&self, choices: &[T]) -> Option<T> {
        let count = u64::try_from(choices.len()).unwrap_or(u64::MAX);
        let drawn = usize::try_from(self.chance.below(count)).unwrap_or(0);
        choices.get(drawn).copied()
    }

    fn between(&self, least: Duration, most: Duration) -> Duration {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let (least, most) = (micros(least), micros(most));
        Duration::from_micros(least + self.chance.below(most.saturating_sub(least)))
    }

    async fn wait(&self, least_ms: u64, most_ms: u64) {
        let (least, most) = (Duration::from_millis(least_ms), Duration::from_millis(most_ms));
        sleep(self.between(least, most)).await;
    }

    /// Draws how far a clock jumps, in seconds: a little or a lot, either way.
    fn jump(&self) -> i64 {
        let far = self.one_of(&[0, 2, 30, 600, 7_200]).unwrap_or(0);
        if self.chance.below(2) == 0 { far } else { -far }
    }
}
