//! `semel-drill plan`: the plans that the drill brings along, and what is wrong with one's own.

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure, say};
use crate::{
    effects::Effects,
    http::{Drill, Target, scenario},
    plan::{BUILTIN, Plan, builtin, hint, reference_page},
    report::two_columns,
};

/// Where nobody listens: a plan is looked at without asking anybody.
const NOBODY: &str = "http://127.0.0.1:9";

/// Shows, lists and checks plans
#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Tells everything that is wrong with a plan, and which rules it lets be tried; asks nobody
    Check {
        /// The plan: a file, or the name of a built-in one
        #[arg(value_name = "FILE")]
        plan: String,
    },
    /// Lists the built-in plans
    List,
    /// Prints the reference of the plan in Markdown
    Reference,
    /// Prints a built-in plan, to start from
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

impl PlanArgs {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        match self.command {
            PlanCommand::Check { plan } => check(&plan)?,
            PlanCommand::List => say(&two_columns(BUILTIN.iter().map(|p| (p.name, p.about))))?,
            PlanCommand::Reference => say(reference_page().trim_end())?,
            PlanCommand::Show { name } => {
                let plan = builtin(&name).ok_or_else(|| {
                    let near = hint(&name, BUILTIN.iter().map(|plan| plan.name));
                    Failure::usage(format!("there is no built-in plan `{name}`{near}"))
                })?;
                say(plan.text.trim_end())?;
            }
        }
        Ok(Exit::Fine)
    }
}

fn check(name: &str) -> Result<(), Failure> {
    let plan = Plan::read(name)?;
    let target = Target::parse(plan.target.as_deref().unwrap_or(NOBODY), None)?;
    let effects = Effects::open(&plan.effects, &target, None, plan.bounds.answer_wait)?;
    let (title, missing_target) = (plan.secrets.masked(&plan.name), plan.target.is_none());
    let drill = Drill::new(plan, target, effects, 0);
    let rules = scenario::all().iter().map(|scenario| {
        let missing = scenario.needs(&drill).map(|missing| format!("not tried: {missing}"));
        (scenario.rule().name, missing.unwrap_or_else(|| "can be tried".to_owned()))
    });
    let rules: Vec<_> = rules.collect();
    let tried = rules.iter().filter(|(_, how)| how == "can be tried").count();
    say(&two_columns(rules.iter().map(|(name, how)| (*name, how.as_str()))))?;
    let target = if missing_target { "; it names no target, so `--target` must" } else { "" };
    say(&format!("\n{title}: {tried} of {} rules can be tried{target}", rules.len()))
}
