//! Reads a spanned TOML tree into settings, and goes on after a problem to find the next one.

use std::{collections::BTreeMap, ops::Range, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::problem::{Found, ProblemKind, listed, nearest};
use super::schema::{Kind, Value, Word};

/// What is known while a file is read.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    /// Where relative paths start.
    pub(super) folder: &'a Path,
    pub(super) found: Vec<Found>,
    places: BTreeMap<String, Range<usize>>,
}

impl<'a> Reading<'a> {
    pub(super) const fn new(folder: &'a Path) -> Self {
        Self { folder, found: Vec::new(), places: BTreeMap::new() }
    }

    /// Notes a problem at a path such as `operation[2].lease`, or at the nearest table above it that
    /// stands in the file.
    pub(crate) fn problem(&mut self, kind: ProblemKind, path: &str, message: impl Into<String>) {
        let span = self.place(path);
        self.at(kind, path, span, message);
    }

    pub(super) fn at(
        &mut self,
        kind: ProblemKind,
        path: &str,
        span: Range<usize>,
        message: impl Into<String>,
    ) {
        self.found.push(Found { kind, key: without_index(path), message: message.into(), span });
    }

    /// Says whether a setting stands in the file.
    pub(crate) fn says(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    fn place(&self, path: &str) -> Range<usize> {
        let mut path = path;
        loop {
            if let Some(span) = self.places.get(path) {
                return span.clone();
            }
            match path.rfind(['.', '[']) {
                Some(at) => path = &path[..at],
                None => return 0..0,
            }
        }
    }
}

/// One table while it is read.
#[derive(Debug)]
pub(crate) struct Table<'r, 'a, 't> {
    pub(super) table: &'t DeTable<'t>,
    /// Its path; empty for the file.
    pub(super) path: &'r str,
    pub(super) reading: &'r mut Reading<'a>,
}

impl Table<'_, '_, '_> {
    /// Reads one setting. A value that cannot be read is a problem, and the default is used to find
    /// the next ones.
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
            return by_default(default, &path, self.reading);
        }
        let absent = V::absent();
        if absent.is_none() && entry.is_none() {
            let message = match self.path {
                "" => format!("`{name}` is not set: it has no default"),
                table => {
                    format!("`{name}` is not set in `{}`: it has no default", without_index(table))
                }
            };
            self.reading.problem(ProblemKind::Missing, &path, message);
        }
        absent
    }

    /// Notes every key that is no setting.
    pub(super) fn refuse_others(&mut self, known: &[&str]) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let path = joined(self.path, name);
            let shown = without_index(&path);
            let message = match nearest(name, known.iter().copied()) {
                Some(near) => format!("`{shown}` is not a setting; did you mean `{near}`?"),
                None => format!("`{shown}` is not a setting"),
            };
            self.reading.at(ProblemKind::Unknown, &path, key.span(), message);
            self.reading.places.insert(path, key.span());
        }
    }
}

fn by_default<V: Value>(default: &str, path: &str, reading: &mut Reading<'_>) -> Option<V> {
    let value = DeValue::parse(default).ok()?;
    V::read(&value, path, reading)
}

/// Reads the tables of an array one by one.
pub(super) fn items<V: Value>(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
) -> Option<Vec<V>> {
    let Some(array) = value.get_ref().as_array() else {
        let what = if matches!(V::kind(), Kind::Table(_)) {
            format!("`{0}` is a list of tables: write [[{0}]]", without_index(path))
        } else {
            format!("`{}` must be a list, not {}", without_index(path), article(value.get_ref()))
        };
        reading.at(ProblemKind::Value, path, value.span(), what);
        return None;
    };
    let mut items = Vec::with_capacity(array.len());
    for (index, item) in array.iter().enumerate() {
        let path = format!("{path}[{index}]");
        reading.places.insert(path.clone(), item.span());
        items.extend(V::read(item, &path, reading));
    }
    Some(items)
}

/// Reads a text by a function that says in words what the text must be.
pub(super) fn text<T>(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
    must_be: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let parsed = value.get_ref().as_str().and_then(parse);
    if parsed.is_none() {
        refuse(value, path, reading, must_be);
    }
    parsed
}

/// Notes that a value is not what it must be.
pub(super) fn refuse(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
    must_be: &str,
) {
    let message =
        format!("`{}` is {}; it must be {must_be}", without_index(path), article(value.get_ref()));
    reading.at(ProblemKind::Value, path, value.span(), message);
}

/// Reads one of a fixed set of words.
pub(super) fn word<W: Word>(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
) -> Option<W> {
    let text = value.get_ref().as_str();
    let met = text.and_then(|text| W::WORDS.iter().find(|(word, _)| *word == text));
    if let Some((_, meaning)) = met {
        return Some(*meaning);
    }
    let names = || W::WORDS.iter().map(|(word, _)| *word);
    let near = text.and_then(|text| nearest(text, names()));
    let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
    refuse(value, path, reading, &format!("{}{hint}", listed(names())));
    None
}

/// Shows a value in a sentence, bounded.
fn article(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.chars().count() <= 60 => format!("{:?}", text.as_ref()),
        DeValue::String(_) => "a long text".into(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

pub(super) fn joined(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// Drops the places in lists: the line says which one is meant.
pub(super) fn without_index(path: &str) -> String {
    let mut shown = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => shown.push(c),
            _ => {}
        }
    }
    shown
}
