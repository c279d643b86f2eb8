//! `semel-drill plan`: the plans that the drill brings along, and what is wrong with one's own.

use clap::{Args, Subcommand};

use super::{
    exit::{Exit, Failure, say},
    rules::Of,
};
use crate::{
    consumer::Consumer,
    effects::Effects,
    http::{
        Drill, Target,
        scenario::{self, Scenario},
    },
    plan::{
        BUILTIN, Builtin, ConsumerPlan, Drilled, Plan, consumer_reference_page, hint, kind_of,
        reference_page,
    },
    report::two_columns,
};

/// Where nobody listens: a plan is looked at without asking anybody.
const NOBODY: &str = Consumer::NOBODY;

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
    Reference {
        /// Of which plan
        #[arg(value_enum, default_value_t = Of::Http)]
        of: Of,
    },
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
            PlanCommand::Reference { of: Of::Http } => say(reference_page().trim_end())?,
            PlanCommand::Reference { of: Of::Consumer } => {
                say(consumer_reference_page().trim_end())?;
            }
            PlanCommand::Show { name } => say(shown(&name)?.text.trim_end())?,
        }
        Ok(Exit::Fine)
    }
}

fn shown(name: &str) -> Result<&'static Builtin, Failure> {
    BUILTIN.iter().find(|plan| plan.name == name).ok_or_else(|| {
        let near = hint(name, BUILTIN.iter().map(|plan| plan.name));
        Failure::usage(format!("there is no built-in plan `{name}`{near}"))
    })
}

fn check(name: &str) -> Result<(), Failure> {
    match kind_of(name) {
        Drilled::Consumer => {
            let plan = ConsumerPlan::read(name)?;
            let target = Target::parse(plan.target.as_deref().unwrap_or(NOBODY), None)?;
            let consumer = Consumer::open(plan, target, None, 0)?;
            let scenarios = consumer.scenarios();
            let scenarios: Vec<_> = scenarios.iter().map(Box::as_ref).collect();
            can_be_tried(consumer.drill(), &scenarios)
        }
        Drilled::Http => {
            let plan = Plan::read(name)?;
            let target = Target::parse(plan.target.as_deref().unwrap_or(NOBODY), None)?;
            let effects = Effects::open(&plan.effects, &target, None, plan.bounds.answer_wait)?;
            can_be_tried(&Drill::new(plan, target, effects, 0), scenario::all())
        }
    }
}

/// Says which rules a plan lets be tried.
fn can_be_tried(drill: &Drill, scenarios: &[&dyn Scenario]) -> Result<(), Failure> {
    let plan = &drill.plan;
    let rules = scenarios.iter().map(|scenario| {
        let missing = scenario.needs(drill).map(|missing| format!("not tried: {missing}"));
        (scenario.rule().name, missing.unwrap_or_else(|| "can be tried".to_owned()))
    });
    let rules: Vec<_> = rules.collect();
    let tried = rules.iter().filter(|(_, how)| how == "can be tried").count();
    say(&two_columns(rules.iter().map(|(name, how)| (*name, how.as_str()))))?;
    let has_target = plan.target.is_some() || drill.program().is_some();
    let target = if has_target { "" } else { "; it names no target, so `--target` must" };
    let title = plan.secrets.masked(&plan.name);
    say(&format!("\n{title}: {tried} of {} rules can be tried{target}", rules.len()))
}
