//! The plan for a consumer of messages: what is pushed to it, how its effects are counted, and what its
//! answers mean.

mod pushed;
mod spec;

use std::path::Path;

pub(crate) use self::pushed::by_key;
#[doc(inline)]
pub use self::spec::{
    BatchSpec, ConsumerAnswersSpec, ConsumerBounds, ConsumerPlan, Format, LateMessage, MessageSpec,
    MessageVariants, OrderedSpec,
};
use super::{Drilled, PlanError, check, parse, read, reading::Variables};

impl ConsumerPlan {
    /// Reads a plan from its text alone: variables of the environment stay as they are written.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        Self::parse_in(text, Path::new(""), None)
    }

    /// Reads a plan from a file or, where there is no such file, the built-in one of that name, with
    /// the variables of the environment that it names.
    ///
    /// # Errors
    /// There is no such plan, or everything that is wrong with it.
    pub fn read(path_or_name: &str) -> Result<Self, PlanError> {
        read(path_or_name, Drilled::Consumer, Self::parse_in)
    }

    /// Says whether a text is meant as a plan for a consumer: it has a message, or it is no TOML at all.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let read = toml::de::DeTable::parse(text);
        read.is_ok_and(|table| table.get_ref().iter().any(|(name, _)| name.get_ref() == "message"))
    }

    fn parse_in(
        text: &str,
        folder: &Path,
        variables: Option<Variables<'_>>,
    ) -> Result<Self, PlanError> {
        let (mut plan, secrets) =
            parse(text, folder, variables, Self::from_table, check::consumer::check)?;
        plan.secrets = secrets;
        plan.effects.root(folder);
        if let Some(state) = plan.ordered.as_mut().and_then(|ordered| ordered.state.as_mut()) {
            state.root(folder);
        }
        Ok(plan)
    }
}
