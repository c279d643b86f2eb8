//! Reads a spanned TOML tree into a plan, and goes on after a problem to find the next one.

use std::{collections::BTreeMap, ops::Range, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    mask::Secrets,
    problem::{Found, PlanError, hint},
    schema::Value,
    template,
};

/// The most problems that are told at once: nobody reads more, and each is looked up in the text.
const TOLD_MAX: usize = 100;

/// Where the values of `{{env:NAME}}` come from.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is known while a plan is read.
pub(crate) struct Reading<'a> {
    /// Where relative paths start.
    pub(super) folder: &'a Path,
    /// Without it `{{env:NAME}}` stays as it is written.
    variables: Option<Variables<'a>>,
    found: Vec<Found>,
    places: BTreeMap<String, Range<usize>>,
    secrets: Secrets,
}

impl<'a> Reading<'a> {
    pub(super) fn new(folder: &'a Path, variables: Option<Variables<'a>>) -> Self {
        let secrets = Secrets::default();
        Self { folder, variables, found: Vec::new(), places: BTreeMap::new(), secrets }
    }

    /// Notes a problem at a path such as `request.headers`, or at the nearest table above it that
    /// stands in the file.
    pub(super) fn problem(&mut self, path: &str, message: impl Into<String>) {
        let span = self.place(path);
        self.at(path, span, message);
    }

    pub(super) fn at(&mut self, path: &str, span: Range<usize>, message: impl Into<String>) {
        self.found.push(Found { setting: path.to_owned(), message: message.into(), span });
    }

    /// Says whether a setting stands in the file.
    pub(super) fn says(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    fn place(&self, path: &str) -> Range<usize> {
        let mut path = path;
        loop {
            if let Some(span) = self.places.get(path) {
                return span.clone();
            }
            match path.rfind('.') {
                Some(at) => path = &path[..at],
                None => return 0..0,
            }
        }
    }

    /// Puts the values of variables into a text, and remembers them as secrets.
    fn resolved(&mut self, text: &str, path: &str, span: Range<usize>) -> String {
        let Some(variables) = self.variables else {
            return text.to_owned();
        };
        let mut unset = Vec::new();
        let resolved = template::replaced(text, |name| {
            let variable = name.strip_prefix("env:")?;
            let value = variables(variable);
            match &value {
                Some(value) => self.secrets.note(path, value),
                None => unset.push(variable.to_owned()),
            }
            value
        });
        for variable in unset {
            let message = format!("`{path}` names the variable `{variable}`, which is not set");
            self.at(path, span.clone(), message);
        }
        resolved
    }

    /// Ends the reading: what was read with its secrets, or everything that is wrong.
    pub(super) fn end<T>(self, read: Option<T>, text: &str) -> Result<(T, Secrets), PlanError> {
        match read {
            Some(read) if self.found.is_empty() => Ok((read, self.secrets)),
            _ => {
                let mut found = self.found;
                found.sort_by_key(|found| found.span.start);
                found.truncate(TOLD_MAX);
                let problems = found.into_iter().map(|found| found.placed(text)).collect();
                Err(PlanError { plan: "plan".to_owned(), problems })
            }
        }
    }
}

/// One table while it is read.
pub(crate) struct Table<'r, 'a, 't> {
    table: &'t DeTable<'t>,
    /// Its path; empty for the file.
    path: &'r str,
    reading: &'r mut Reading<'a>,
}

impl<'r, 'a, 't> Table<'r, 'a, 't> {
    pub(super) fn new(table: &'t DeTable<'t>, path: &'r str, reading: &'r mut Reading<'a>) -> Self {
        Self { table, path, reading }
    }

    /// Reads one setting. After a value that cannot be read its default is used, to find the next
    /// problem.
    pub(super) fn value<V: Value>(&mut self, name: &str, default: Option<&str>) -> Option<V> {
        let path = joined(self.path, name);
        let entry = self.table.iter().find(|(key, _)| key.get_ref() == name);
        if let Some((key, value)) = entry {
            let span = match value.get_ref() {
                DeValue::Table(_) => key.span(),
                _ => value.span(),
            };
            self.reading.places.insert(path.clone(), span);
            if let Some(value) = V::read(value, &path, self.reading) {
                return Some(value);
            }
        }
        if let Some(default) = default {
            let value = DeValue::parse(default).ok()?;
            return V::read(&value, &path, self.reading);
        }
        let absent = V::absent();
        if absent.is_none() && entry.is_none() {
            self.reading.problem(&path, format!("`{path}` is not set: it has no default"));
        }
        absent
    }

    /// Notes every key that is no setting.
    pub(super) fn refuse_others(&mut self, known: &[&str]) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let path = joined(self.path, name);
                let near = hint(name, known.iter().copied());
                self.reading.at(&path, key.span(), format!("there is no setting `{path}`{near}"));
            }
        }
    }
}

/// Reads a text, with the values of variables in it.
pub(super) fn text(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
) -> Option<String> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        refuse(value, path, reading, "a text in quotes");
    }
    text.map(|text| reading.resolved(text, path, value.span()))
}

/// Notes that a value is not what it must be.
pub(super) fn refuse(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
    must_be: &str,
) {
    let message = format!("`{path}` is {}; it must be {must_be}", shown(value.get_ref()));
    reading.at(path, value.span(), message);
}

/// Shows a value in a sentence, bounded.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.chars().count() <= 60 => format!("{:?}", text.as_ref()),
        DeValue::String(_) => "a long text".into(),
        DeValue::Integer(number) => number.as_str().chars().take(40).collect(),
        DeValue::Float(number) => number.as_str().chars().take(40).collect(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

fn joined(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}
