//! `semel-drill http`: drills an API by a plan.

use clap::Args;

use super::{
    drilled::{Options, no_target},
    exit::{Exit, Failure},
};
use crate::{
    effects::Effects,
    http::{Drill, Target, scenario},
    plan::Plan,
};

/// Drills an HTTP API by a plan: breaks it, retries, and counts the effects
///
/// The API must be yours: a drill charges, changes and deletes for real, by the hundred.
#[derive(Args, Debug)]
pub(super) struct Http {
    /// Where the API listens; otherwise the plan says
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// The plan: a file, or the name of a built-in one
    #[arg(long, value_name = "FILE|NAME")]
    plan: String,
    #[command(flatten)]
    options: Options,
}

impl Http {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let rules: Vec<_> = scenario::rules().map(|rule| rule.name).collect();
        self.options.check(&rules)?;
        let drill = self.drill()?;
        let contract = Some(drill.plan.contract);
        self.options.tell(&drill, scenario::all().to_vec(), contract).await
    }

    fn drill(&self) -> Result<Drill, Failure> {
        let mut plan = Plan::read(&self.plan)?;
        if let Some(patience) = self.options.patience {
            plan.bounds.patience = patience;
        }
        let url = self.target.as_ref().or(plan.target.as_ref()).ok_or_else(no_target)?;
        let ca = self.options.ca()?;
        let target = Target::parse(url, ca)?;
        let effects = Effects::open(&plan.effects, &target, ca, plan.bounds.answer_wait)?;
        let seed = self.options.seed(plan.bounds.seed)?;
        Ok(Drill::new(plan, target, effects, seed))
    }
}
