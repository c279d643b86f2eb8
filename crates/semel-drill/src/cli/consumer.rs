//! `semel-drill consumer`: drills a consumer of messages by a plan.

use clap::Args;

use super::{
    drilled::{Options, no_target},
    exit::{Exit, Failure},
};
use crate::{
    consumer::{Consumer, rules},
    http::Target,
    plan::ConsumerPlan,
};

/// Drills a consumer of messages by a plan: delivers again, and counts the effects
///
/// The consumer must be yours: each message has its effect for real, and there are hundreds of them.
#[derive(Args, Debug)]
pub(super) struct ConsumerArgs {
    /// Where the consumer listens; otherwise the plan says
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// The plan: a file, or the name of a built-in one
    #[arg(long, value_name = "FILE|NAME")]
    plan: String,
    #[command(flatten)]
    options: Options,
}

impl ConsumerArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let rules: Vec<_> = rules().map(|rule| rule.name).collect();
        self.options.check(&rules)?;
        let consumer = self.consumer()?;
        let scenarios = consumer.scenarios();
        let all = scenarios.iter().map(Box::as_ref).collect();
        self.options.tell(consumer.drill(), all, None).await
    }

    fn consumer(&self) -> Result<Consumer, Failure> {
        let mut plan = ConsumerPlan::read(&self.plan)?;
        if let Some(patience) = self.options.patience {
            plan.bounds.patience = patience;
        }
        let url = self.target.as_ref().or(plan.target.as_ref());
        let url = match url {
            None if !plan.message.command.is_empty() => Consumer::NOBODY,
            url => url.ok_or_else(no_target)?,
        };
        let ca = self.options.ca()?;
        let target = Target::parse(url, ca)?;
        let seed = self.options.seed(plan.bounds.seed)?;
        Ok(Consumer::open(plan, target, ca, seed)?)
    }
}
