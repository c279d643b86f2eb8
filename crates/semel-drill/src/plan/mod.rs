//! The plan: what to ask of an API, how its effects are counted, and what it documents.
//!
//! In every text of a plan `{{intent}}` stands for the name of the intent, fresh for each one: what
//! the API writes down, and by what the effects are counted. `{{key}}` stands for its key, `{{id}}`
//! for what the first answer named at `resource.id`, and `{{env:NAME}}` for a variable of the
//! environment, so that no secret stands in the file.

mod builtin;
mod check;
mod consumer;
mod expected;
mod mask;
mod problem;
mod reading;
mod reference;
mod schema;
mod span;
mod spec;
mod template;
#[cfg(test)]
mod tests;
mod value;

use std::{fs::File, io::Read as _, path::Path};

use toml::de::DeTable;

#[doc(inline)]
pub use self::{
    builtin::{BUILTIN, Builtin, Drilled, builtin},
    consumer::{
        BatchSpec, ConsumerAnswersSpec, ConsumerBounds, ConsumerPlan, Format, LateMessage,
        MessageSpec, MessageVariants, OrderedSpec,
    },
    expected::{Expected, KeyRules},
    mask::Secrets,
    problem::{PlanError, Problem},
    reference::{consumer_reference_page, reference_page},
    span::written,
    spec::{
        AnswersSpec, Bounds, Contract, EffectsSpec, KeySpec, KeyStyle, Late, LifetimeSpec, Other,
        Plan, ProcessSpec, RequestSpec, ResourceSpec, TenantSpec, Variants,
    },
    template::{Names, fill, fill_path, fill_pointer},
};
pub(crate) use self::{consumer::by_key, problem::hint, span::span};
use self::{
    problem::Found,
    reading::{Reading, Table, Variables},
};

/// The longest plan that is read, in bytes.
const PLAN_MAX: u64 = 1 << 20;

impl Plan {
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
        read(path_or_name, Drilled::Http, Self::parse_in)
    }

    fn parse_in(
        text: &str,
        folder: &Path,
        variables: Option<Variables<'_>>,
    ) -> Result<Self, PlanError> {
        let (mut plan, secrets) = parse(text, folder, variables, Self::from_table, check::check)?;
        plan.secrets = secrets;
        plan.effects.root(folder);
        Ok(plan)
    }
}

impl EffectsSpec {
    /// Lets a relative file of SQLite start at the plan's folder.
    fn root(&mut self, folder: &Path) {
        let database = self.database.as_mut();
        let file = database.as_ref().and_then(|database| database.strip_prefix("sqlite:"));
        if let Some(rooted) = file.map(|file| format!("sqlite:{}", folder.join(file).display())) {
            self.database = Some(rooted);
        }
    }
}

/// Reads a plan from a file or, where there is no such file, the built-in one of that name.
fn read<P>(
    path_or_name: &str,
    of: Drilled,
    parse_in: impl Fn(&str, &Path, Option<Variables<'_>>) -> Result<P, PlanError>,
) -> Result<P, PlanError> {
    let path = Path::new(path_or_name);
    let variables: Variables<'_> = &|name| std::env::var(name).ok();
    if let (false, Some(builtin)) = (path.is_file(), builtin(path_or_name, of)) {
        return parse_in(builtin.text, Path::new(""), Some(variables))
            .map_err(|error| error.of(path_or_name));
    }
    if let Some(elsewhere) = of_other_command(path_or_name, of) {
        return Err(PlanError::unread(path_or_name, elsewhere));
    }
    let text = read_bounded(path)
        .map_err(|why| PlanError::unread(path_or_name, unread(path_or_name, of, &why)))?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse_in(&text, folder, Some(variables)).map_err(|error| error.of(path_or_name))
}

/// Says that a plan is meant for the other command, where it is: what is wrong with it for this one would
/// help nobody.
fn of_other_command(path_or_name: &str, of: Drilled) -> Option<String> {
    let path = Path::new(path_or_name);
    let meant = if path.is_file() {
        meant_for(&read_bounded(path).ok()?)?
    } else {
        BUILTIN.iter().find(|plan| plan.name == path_or_name)?.of
    };
    (meant != of).then(|| meant.elsewhere(path_or_name))
}

/// Says what a text is meant to drill, if it says so by its message or its request.
fn meant_for(text: &str) -> Option<Drilled> {
    let tree = DeTable::parse(text).ok()?;
    let has = |setting: &str| tree.get_ref().iter().any(|(name, _)| name.get_ref() == setting);
    match (has("message"), has("request")) {
        (true, false) => Some(Drilled::Consumer),
        (false, true) => Some(Drilled::Http),
        _ => None,
    }
}

/// Says what a plan is for: a built-in one by its name, a file by whether it has a message.
#[must_use]
pub fn kind_of(path_or_name: &str) -> Drilled {
    let path = Path::new(path_or_name);
    let of_name = BUILTIN.iter().find(|plan| plan.name == path_or_name).map(|plan| plan.of);
    match of_name {
        Some(of) if !path.is_file() => of,
        _ if read_bounded(path).is_ok_and(|text| ConsumerPlan::is_meant(&text)) => {
            Drilled::Consumer
        }
        _ => Drilled::Http,
    }
}

/// Reads what a text declares, and checks it.
fn parse<P>(
    text: &str,
    folder: &Path,
    variables: Option<Variables<'_>>,
    from_table: impl Fn(&mut Table<'_, '_, '_>) -> Option<P>,
    check: impl Fn(&P, &mut Reading<'_>),
) -> Result<(P, Secrets), PlanError> {
    let tree = DeTable::parse(text).map_err(|error| {
        let message = format!("this is not TOML: {}", error.message().replace('\n', "; "));
        let span = error.span().unwrap_or(0..0);
        let found = Found { setting: String::new(), message, span };
        PlanError { plan: "plan".to_owned(), problems: vec![found.placed(text)] }
    })?;
    let mut reading = Reading::new(folder, variables);
    let plan = from_table(&mut Table::new(tree.get_ref(), "", &mut reading));
    if let Some(plan) = &plan {
        check(plan, &mut reading);
    }
    reading.end(plan, text)
}

/// Reads a file that must not be longer than a plan may be.
fn read_bounded(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    // What is no plain file says nothing true of its length, or has no end.
    let length = File::open(path)
        .and_then(|file| file.take(PLAN_MAX + 1).read_to_string(&mut text))
        .map_err(|error| error.to_string())?;
    if u64::try_from(length).map_or(true, |length| length > PLAN_MAX) {
        return Err(format!("it has more bytes than the {PLAN_MAX} of a plan"));
    }
    Ok(text)
}

fn unread(name: &str, of: Drilled, why: &str) -> String {
    let names = BUILTIN.iter().filter(|plan| plan.of == of).map(|plan| plan.name);
    let listed = names.clone().collect::<Vec<_>>().join(", ");
    format!("it cannot be read ({why}), and the built-in plans are {listed}{}", hint(name, names))
}
