//! The reference page of the plan, made from the declarations of its settings.

use std::fmt::Write;

use super::{
    ConsumerPlan, Plan,
    schema::{Kind, Section, Setting, Value},
};

/// Returns the reference page of a plan for an API, in Markdown.
#[must_use]
pub fn reference_page() -> String {
    page(include_str!("reference.txt"), Plan::kind())
}

/// Returns the reference page of a plan for a consumer, in Markdown.
#[must_use]
pub fn consumer_reference_page() -> String {
    page(include_str!("consumer/reference.txt"), ConsumerPlan::kind())
}

fn page(start: &str, of: Kind) -> String {
    let mut out = start.to_owned();
    if let Kind::Table(plan) = of {
        let mut shown = Vec::new();
        section(&mut out, "", &plan(), &mut shown);
    }
    out
}

fn section(out: &mut String, path: &str, of: &Section, shown: &mut Vec<(&'static str, String)>) {
    let title = if path.is_empty() { "The file".to_owned() } else { format!("`[{path}]`") };
    let _infallible = write!(out, "\n## {title}\n\n{}\n", words(of.words));
    // A request is a request wherever it stands.
    if let Some((_, first)) = shown.iter().find(|(name, _)| *name == of.name) {
        let _infallible = write!(out, "\nIt has the settings of `[{first}]`.\n");
        return;
    }
    shown.push((of.name, path.to_owned()));
    out.push_str("\n| setting | what is written | default | meaning |\n|---|---|---|---|\n");
    for setting in &of.settings {
        row(out, setting);
    }
    for setting in &of.settings {
        if let Kind::Table(below) = setting.kind {
            let below = Section { words: setting.words, ..below() };
            let dot = if path.is_empty() { "" } else { "." };
            section(out, &format!("{path}{dot}{}", setting.name), &below, shown);
        }
    }
}

fn row(out: &mut String, setting: &Setting) {
    let default = match setting.default {
        Some(default) => format!("`{default}`"),
        None if setting.required => "must be set".to_owned(),
        None => "–".to_owned(),
    };
    let kind = match setting.kind {
        Kind::Plain(words) => words,
        Kind::Table(_) => "table",
    };
    let meaning = words(setting.words).replace('|', "\\|");
    let _infallible = writeln!(out, "| `{}` | {kind} | {default} | {meaning} |", setting.name);
}

fn words(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
