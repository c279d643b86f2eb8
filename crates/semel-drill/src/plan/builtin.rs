//! The plans that the drill brings along.

/// What a plan is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Drilled {
    /// A consumer of messages: `semel-drill consumer`.
    Consumer,
    /// An HTTP API: `semel-drill http`.
    Http,
}

impl Drilled {
    /// Names what is drilled in a sentence.
    pub(crate) const fn who(self) -> &'static str {
        match self {
            Self::Consumer => "the consumer",
            Self::Http => "the API",
        }
    }

    /// Says that a plan is meant for the other command.
    pub(crate) fn elsewhere(self, plan: &str) -> String {
        let (what, command) = match self {
            Self::Consumer => ("a consumer", "consumer"),
            Self::Http => ("an API", "http"),
        };
        format!("this is the plan of {what}: `semel-drill {command} --plan {plan}`")
    }
}

/// A plan that the drill brings along.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Builtin {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it drills.
    pub of: Drilled,
    /// What it is for, in one sentence.
    pub about: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Every built-in plan, in the order of its name.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "cloudevents",
        of: Drilled::Consumer,
        about: "A consumer that CloudEvents are pushed to; to be adapted.",
        text: include_str!("../../plans/cloudevents.toml"),
    },
    Builtin {
        name: "demo",
        of: Drilled::Http,
        about: "The payments API of `semel demo`, behind its gateway.",
        text: include_str!("../../plans/demo.toml"),
    },
    Builtin {
        name: "demo-events",
        of: Drilled::Consumer,
        about: "The gateway of `semel demo`, as it consumes the events of an outbox.",
        text: include_str!("../../plans/demo-events.toml"),
    },
    Builtin {
        name: "ietf",
        of: Drilled::Http,
        about: "An API that keeps the IETF draft for the Idempotency-Key header; to be adapted.",
        text: include_str!("../../plans/ietf.toml"),
    },
    Builtin {
        name: "stripe",
        of: Drilled::Http,
        about: "An API that keeps the contract of Stripe's v1 API; to be adapted.",
        text: include_str!("../../plans/stripe.toml"),
    },
];

/// Returns the built-in plan of a name, for one kind of drill.
#[must_use]
pub fn builtin(name: &str, of: Drilled) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|plan| plan.name == name && plan.of == of)
}
