//! The settings of a plan for a consumer, each declared once.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::plan::{
    mask::Secrets,
    schema::{table, table_words, words},
    spec::{EffectsSpec, ProcessSpec},
};

table! {
    /// A drill of one consumer of messages.
    pub struct ConsumerPlan {
        /// What is drilled, for the report.
        name: String,
        /// Where the consumer listens, such as `http://127.0.0.1:8080`. `--target` of the command line
        /// wins.
        target: Option<String>,
        /// The message, and how it is delivered: pushed as a request, or handed to a program.
        message: MessageSpec,
        /// Other bodies of the message. Each names `{{intent}}` too.
        variants: MessageVariants,
        /// How the effects of one intent are counted: by a URL that answers JSON, or by SQL. One of the
        /// two must be set.
        effects: EffectsSpec,
        /// How several messages are pushed at once.
        batch: Option<BatchSpec>,
        /// What the consumer makes of the order of an aggregate's messages.
        ordered: Option<OrderedSpec>,
        /// How the consumer is started, so that the drill can kill it and start it again.
        process: Option<ProcessSpec>,
        /// What the consumer's answers mean to its broker.
        answers: ConsumerAnswersSpec,
        /// Bounds of the drill.
        bounds: ConsumerBounds,
    }
    and {
        /// What no output shows.
        secrets: Secrets,
    }
}

table! {
    /// The message, and how it is delivered: pushed as a request, or handed to a program.
    pub struct MessageSpec {
        /// A program and its arguments, run for each message instead of a request: its headers are
        /// variables (`CE_ID` for `ce-id`), its body is the standard input. It ends when the message is
        /// handled: 0 acknowledges it, 65 (`EX_DATAERR`) refuses it for good, anything else has it
        /// delivered again. It is killed where a connection would be cut short.
        command: Vec<String> = [],
        /// Where that program runs; a relative path starts at the plan's folder, and `"."` is that folder.
        /// Unless said, where the drill runs.
        folder: Option<PathBuf>,
        /// The method.
        method: String = "POST",
        /// The target's path with its query.
        path: String = "/",
        /// Which headers are sent: `"relay"`, those of Semel's relay (`idempotency-key` and CloudEvents);
        /// `"cloudevents"`, those of CloudEvents 1.0 in binary mode; `"plain"`, none but `headers`.
        format: Format = "relay",
        /// What happened: the header `ce-type`.
        event: String = "order.placed",
        /// Whose it is: the header `ce-source`.
        source: String = "order",
        /// Headers beside those of the format, or instead of them; `content-type: application/json` is
        /// sent unless one is said.
        headers: BTreeMap<String, String>,
        /// The body. The name of the intent must stand there, in a header or in the path.
        body: String,
    }
}

words! {
    /// Which headers a message carries.
    pub enum Format {
        /// Those of CloudEvents 1.0 in binary mode.
        CloudEvents = "cloudevents",
        /// None but those that the plan says.
        Plain = "plain",
        /// Those of Semel's relay.
        Relay = "relay",
    }
}

table! {
    /// Other bodies of the message. Each names `{{intent}}` too.
    pub struct MessageVariants {
        /// Another content, such as another amount: under the id of a message that was had before it
        /// must have no effect.
        changed: Option<String>,
        /// A body that the consumer can never handle, such as an amount that is no number.
        poison: Option<String>,
        /// A body whose first run fails half-way and whose next one does not, if the consumer can be made
        /// to: a switch of its tests, a service that it calls and that answers badly once.
        fails_first: Option<String>,
        /// A body that takes the consumer long, so that it can be killed meanwhile.
        slow: Option<String>,
    }
}

table! {
    /// How several messages are pushed at once.
    pub struct BatchSpec {
        /// The target's path with its query.
        path: String,
        /// Headers of that request, such as `content-type`.
        headers: BTreeMap<String, String>,
        /// One message in the body, with its id: `{{intent}}`, `{{id}}`, `{{aggregate}}` and
        /// `{{sequence}}` are its own.
        item: String,
        /// What stands before the first.
        start: String = "[",
        /// What stands between two.
        between: String = ",",
        /// What stands behind the last.
        end: String = "]",
    }
}

table! {
    /// What the consumer makes of the order of an aggregate's messages.
    pub struct OrderedSpec {
        /// What becomes of a message that comes behind a later one of its aggregate: `"applied"`, it has
        /// its effect all the same; `"skipped"`, it is acknowledged and has none.
        late: LateMessage = "applied",
        /// Where the consumer keeps the state of an aggregate: the `{{sequence}}` of the latest message
        /// that it tells. Found as effects are, by `{{aggregate}}`; `$1` is the aggregate's name.
        state: Option<EffectsSpec>,
    }
}

words! {
    /// What becomes of a message that comes behind a later one.
    pub enum LateMessage {
        /// It has its effect.
        Applied = "applied",
        /// It has none.
        Skipped = "skipped",
    }
}

table! {
    /// What the consumer's answers mean to its broker. Whatever is neither acknowledged nor refused is
    /// delivered again; so is what gets no answer. `retry-after` is kept to.
    pub struct ConsumerAnswersSpec {
        /// Statuses that acknowledge a message. Every 2xx unless said.
        acknowledged: Option<Vec<u16>>,
        /// Statuses of the 4xx that refuse a message for good, so that it is not delivered again. All but
        /// 408, 409, 425 and 429 unless said.
        refused: Option<Vec<u16>>,
        /// After how many deliveries the broker itself gives a message up. Without it, a message that is
        /// never acknowledged nor refused is delivered for ever.
        given_up_after: Option<usize>,
    }
}

table! {
    /// Bounds of the drill.
    pub struct ConsumerBounds {
        /// How many copies of one message come at once; 2 to 500.
        racers: usize = 20,
        /// How many messages the storm has; 1 to 5000.
        storm: usize = 40,
        /// How many other messages come between a message and its late copy; 0 to 100000. A consumer
        /// that remembers the last thousand forgets the first of them.
        between: usize = 200,
        /// How old a message is when its late copy comes; up to 24 hours. As long as its broker keeps it
        /// would be right, if somebody waits.
        later: Duration = "2s",
        /// How often a message that cannot be handled is delivered, to see whether that ends; 2 to 100.
        deliveries: usize = 10,
        /// How long one answer may take; up to 10 minutes.
        answer_wait: Duration = "30s",
        /// How long a message is delivered again until it is acknowledged, and how long the effect of
        /// one that is acknowledged may take to be there; up to 24 hours. `--patience` of the command line
        /// wins.
        patience: Duration = "60s",
        /// What the chance of the storm and of the kills starts from, so that it can be had again.
        /// Drawn afresh unless said; `--seed` of the command line wins.
        seed: Option<u64>,
    }
}
