//! `semel inbox retry`, `skip` and `drop`: says what is to become of parked messages.
//!
//! A word only marks: whoever runs the consumer does the rest.

use clap::Args;
use semel::inbox::{Consumer, Mark, MessageId, ParkedFilter, ParkedState, SourceName};
use serde_json::json;

use super::target::{Desk, consumer, message, source};
use crate::cli::{
    exit::{Exit, Failure, say},
    show::printable,
    signed::{Signed, Who, seen},
};

/// How many messages are read at once.
const PAGE: u32 = 1_000;

/// Which parked messages.
#[derive(Args, Debug)]
struct Which {
    /// The consumer
    #[arg(value_parser = consumer)]
    consumer: Consumer,
    /// The source
    #[arg(value_parser = source, requires = "id", required_unless_present = "all")]
    source: Option<SourceName>,
    /// The message's id in its source
    #[arg(required_unless_present = "all")]
    id: Option<String>,
    /// Every message of the consumer that waits for a word
    #[arg(long, conflicts_with_all = ["source", "id"])]
    all: bool,
}

impl Which {
    async fn find(&self, desk: &Desk) -> Result<Vec<(MessageId, Box<str>)>, Failure> {
        let Some((source, id)) = self.source.clone().zip(self.id.as_deref()) else {
            return self.failed(desk).await;
        };
        let message = message(source, id)?;
        let state = desk.inspect.message(self.consumer.clone(), message.clone()).await?;
        if state.parked.is_none() {
            desk.known(&self.consumer).await?;
        }
        let parked = state.parked.ok_or_else(|| {
            let consumer = &self.consumer;
            Failure::refused(format!(
                "the message {message} is not parked for {consumer}; nothing was changed"
            ))
        })?;
        Ok(vec![(message, parked.why)])
    }

    async fn failed(&self, desk: &Desk) -> Result<Vec<(MessageId, Box<str>)>, Failure> {
        let mut found: Vec<(MessageId, Box<str>)> = Vec::new();
        loop {
            let after = found.last().map(|(last, _)| (self.consumer.clone(), last.clone()));
            let consumer = Some(self.consumer.clone());
            let state = Some(ParkedState::Failed);
            let filter = ParkedFilter { consumer, state, after, limit: PAGE };
            let page = desk.inspect.parked(filter).await?;
            if page.is_empty() {
                break;
            }
            found.extend(page.into_iter().map(|parked| (parked.message, parked.why)));
        }
        if found.is_empty() {
            desk.known(&self.consumer).await?;
            return Err(Failure::refused("nothing that is parked there waits for a word"));
        }
        Ok(found)
    }

    async fn mark(
        &self,
        desk: &Desk,
        messages: Vec<(MessageId, Box<str>)>,
        mark: Mark,
        signed: &Signed,
    ) -> Result<Exit, Failure> {
        let mut marked = 0;
        for (message, _) in messages {
            let consumer = self.consumer.clone();
            let there = desk.inspect.mark(consumer, message, mark, signed.actor()).await?;
            marked += u64::from(there);
        }
        if marked == 0 {
            return Err(Failure::refused("what was parked is gone; nothing was changed"));
        }
        let word = mark.as_str();
        say(&if desk.json {
            json!({ "result": "marked", "word": word, "messages": marked }).to_string()
        } else {
            format!("{marked} marked: {word}")
        })?;
        Ok(Exit::Fine)
    }
}

fn shown(messages: &[(MessageId, Box<str>)]) -> String {
    seen(messages, |(message, why)| printable(&format!("{message}  {why}")))
}

/// Has parked messages run again
#[derive(Args, Debug)]
pub(super) struct Retry {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    signed: Signed,
}

impl Retry {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let messages = self.which.find(desk).await?;
        self.which.mark(desk, messages, Mark::Retry, &self.signed).await
    }
}

/// Leaves parked messages out and keeps their copies
#[derive(Args, Debug)]
pub(super) struct Skip {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    who: Who,
}

impl Skip {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        let messages = self.which.find(desk).await?;
        let what = format!("Never run {} messages?", messages.len());
        self.who.confirm(desk.json, &shown(&messages), &what)?;
        self.which.mark(desk, messages, Mark::Skip, &self.who.signed).await
    }
}

/// Leaves parked messages out and throws their copies away; their names stay known for ever
#[derive(Args, Debug)]
pub(super) struct DropArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    who: Who,
}

impl DropArgs {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        let messages = self.which.find(desk).await?;
        let what = format!("Never run {} messages, and throw their copies away?", messages.len());
        self.who.confirm(desk.json, &shown(&messages), &what)?;
        self.which.mark(desk, messages, Mark::Drop, &self.who.signed).await
    }
}
