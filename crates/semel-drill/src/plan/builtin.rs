//! The plans that the drill brings along.

/// A plan that the drill brings along.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Builtin {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is for, in one sentence.
    pub about: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Every built-in plan, in the order of its name.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "demo",
        about: "The payments API of `semel demo`, behind its gateway.",
        text: include_str!("../../plans/demo.toml"),
    },
    Builtin {
        name: "ietf",
        about: "An API that keeps the IETF draft for the Idempotency-Key header; to be adapted.",
        text: include_str!("../../plans/ietf.toml"),
    },
    Builtin {
        name: "stripe",
        about: "An API that keeps the contract of Stripe's v1 API; to be adapted.",
        text: include_str!("../../plans/stripe.toml"),
    },
];

/// Returns the built-in plan of a name.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|plan| plan.name == name)
}
