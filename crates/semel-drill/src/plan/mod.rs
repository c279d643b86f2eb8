//! The plan: what to ask of an API, how its effects are counted, and what it documents.
//!
//! In every text of a plan `{{intent}}` stands for the name of the intent, fresh for each one: what
//! the API writes down, and by what the effects are counted. `{{key}}` stands for its key, `{{id}}`
//! for what the first answer named at `resource.id`, and `{{env:NAME}}` for a variable of the
//! environment, so that no secret stands in the file.

mod builtin;
mod check;
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
    builtin::{BUILTIN, Builtin, builtin},
    expected::{Expected, KeyRules},
    mask::Secrets,
    problem::{PlanError, Problem},
    reference::reference_page,
    span::written,
    spec::{
        AnswersSpec, Bounds, Contract, EffectsSpec, KeySpec, KeyStyle, Late, LifetimeSpec, Other,
        Plan, ProcessSpec, RequestSpec, ResourceSpec, TenantSpec, Variants,
    },
    template::{Names, fill, fill_path, fill_pointer},
};
use self::{
    problem::Found,
    reading::{Reading, Table, Variables},
};
pub(crate) use self::{problem::hint, span::span};

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
        let path = Path::new(path_or_name);
        let variables: Variables<'_> = &|name| std::env::var(name).ok();
        if let (false, Some(builtin)) = (path.is_file(), builtin(path_or_name)) {
            return Self::parse_in(builtin.text, Path::new(""), Some(variables))
                .map_err(|error| error.of(path_or_name));
        }
        let text = read_bounded(path)
            .map_err(|why| PlanError::unread(path_or_name, unread(path_or_name, &why)))?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse_in(&text, folder, Some(variables)).map_err(|error| error.of(path_or_name))
    }

    fn parse_in(
        text: &str,
        folder: &Path,
        variables: Option<Variables<'_>>,
    ) -> Result<Self, PlanError> {
        let tree = DeTable::parse(text).map_err(|error| {
            let message = format!("this is not TOML: {}", error.message().replace('\n', "; "));
            let span = error.span().unwrap_or(0..0);
            let found = Found { setting: String::new(), message, span };
            PlanError { plan: "plan".to_owned(), problems: vec![found.placed(text)] }
        })?;
        let mut reading = Reading::new(folder, variables);
        let plan = Self::from_table(&mut Table::new(tree.get_ref(), "", &mut reading));
        if let Some(plan) = &plan {
            check::check(plan, &mut reading);
        }
        let (mut plan, secrets) = reading.end(plan, text)?;
        plan.secrets = secrets;
        plan.root(folder);
        Ok(plan)
    }

    /// Lets a relative file of SQLite start at the plan's folder.
    fn root(&mut self, folder: &Path) {
        let database = self.effects.database.as_mut();
        let file = database.as_ref().and_then(|database| database.strip_prefix("sqlite:"));
        if let Some(rooted) = file.map(|file| format!("sqlite:{}", folder.join(file).display())) {
            self.effects.database = Some(rooted);
        }
    }
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

fn unread(name: &str, why: &str) -> String {
    let names = BUILTIN.iter().map(|plan| plan.name);
    let listed = names.clone().collect::<Vec<_>>().join(", ");
    format!("it cannot be read ({why}), and the built-in plans are {listed}{}", hint(name, names))
}
