//! The default file and the reference page, made from the declarations of the settings.

use std::fmt::Write;

use super::{
    Config,
    schema::{Kind, Section, Setting},
};

/// How wide a comment of the default file is.
const WIDTH: usize = 98;

/// Returns a configuration file that says every setting with its default. Whatever has no default
/// and may be left out is shown as a comment.
#[must_use]
pub fn default_file() -> String {
    let mut out = String::from(
        "# Every setting of the gateway with its default, made by `semel reference --toml`.\n\
         # Relative paths start at the folder of the file. A duration is written as \"10s\", \"5m\",\n\
         # \"24h\" or \"30d\", a size as \"64 KiB\" or \"1 MiB\", a secret as { env = \"NAME\" } or\n\
         # { file = \"PATH\" }. Unknown settings are refused.\n",
    );
    toml_section(&mut out, "", &Config::settings());
    out
}

fn toml_section(out: &mut String, path: &str, settings: &[Setting]) {
    let (plain, tables): (Vec<_>, Vec<_>) =
        settings.iter().partition(|setting| matches!(setting.kind, Kind::Plain(_)));
    for setting in plain {
        out.push('\n');
        comment(out, setting);
        let name = setting.name;
        let line = match (setting.default, setting.named) {
            (Some(default), _) => format!("{name} = {default}"),
            (None, Some(named)) => format!("{name} = \"{named}\""),
            (None, None) => format!("# {name} = {}", example(setting)),
        };
        let _infallible = writeln!(out, "{line}");
    }
    for setting in tables {
        let name = if path.is_empty() {
            setting.name.to_owned()
        } else {
            format!("{path}.{}", setting.name)
        };
        out.push('\n');
        comment(out, setting);
        let below = match setting.kind {
            Kind::Tables(below) => {
                let _infallible = writeln!(out, "[[{name}]]");
                below()
            }
            Kind::Table(below) => {
                let _infallible = writeln!(out, "[{name}]");
                below()
            }
            Kind::Plain(_) => continue,
        };
        toml_section(out, &name, &below);
    }
}

fn comment(out: &mut String, setting: &Setting) {
    let words = setting.words.join(" ");
    let needed = if setting.required { " Must be set." } else { "" };
    let mut line = String::from("#");
    for word in words.split_whitespace().chain(needed.split_whitespace()) {
        if line.len() + 1 + word.len() > WIDTH {
            let _infallible = writeln!(out, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _infallible = writeln!(out, "{line}");
}

/// An example for a setting without a default, by what is written.
fn example(setting: &Setting) -> &'static str {
    match (setting.name, kind_words(&setting.kind)) {
        ("admin", _) => "\"127.0.0.1:9090\"",
        ("default_upstream" | "upstream", _) => "\"payments\"",
        ("name", "name") => "\"payments.create\"",
        ("name", _) => "\"payments\"",
        ("path", _) => "\"/payments\"",
        ("pointer", _) => "\"payment:/id\"",
        ("source", _) => "\"header\"",
        ("url", "URL, or where it stands") => "\"https://example.com/events\"",
        ("settlement", _) => "\"30d\"",
        ("webhook", _) => "\"stripe\"",
        ("queue", _) => "\"sqs\"",
        (_, "header name") => "\"x-tenant\"",
        (_, "URL") => "\"http://127.0.0.1:3000\"",
        (_, "path") => "\"file.pem\"",
        (_, words) if words.starts_with("secret") => "{ env = \"NAME\" }",
        (_, words) if words.starts_with("duration") => "\"7d\"",
        _ => "\"…\"",
    }
}

const fn kind_words(kind: &Kind) -> &'static str {
    match kind {
        Kind::Plain(words) => words,
        Kind::Table(..) => "table",
        Kind::Tables(..) => "list of tables",
    }
}

/// Returns the reference page in Markdown.
#[must_use]
pub fn reference_page() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         One TOML file. Every setting, its type and its default stand below; the page is made from \
         the code by `semel reference --markdown`. `semel check` reads a file and tells everything \
         that is wrong with it at once; an unknown setting is refused with the nearest known name.\n\n\
         - A **duration** is written with its unit: `\"250ms\"`, `\"10s\"`, `\"5m\"`, `\"24h\"`, \
         `\"30d\"`, `\"2w\"`, `\"1h30m\"`.\n\
         - A **size** is written with its unit: `\"64 KiB\"`, `\"1 MiB\"`, `\"10 MB\"`.\n\
         - A **secret** never stands in the file: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`.\n\
         - A relative **path** starts at the folder of the file.\n",
    );
    page_section(&mut out, "", &[], &Config::settings());
    out
}

fn page_section(out: &mut String, path: &str, words: &[&str], settings: &[Setting]) {
    let (title, about) = match path {
        "" => ("The file".to_owned(), String::new()),
        path => (format!("`{path}`"), format!("{}\n\n", words.join(" ").trim())),
    };
    let _infallible = write!(
        out,
        "\n## {title}\n\n{about}| setting | type | default | meaning |\n|---|---|---|---|\n"
    );
    for setting in settings {
        page_row(out, setting);
    }
    for setting in settings {
        let path = match path {
            "" => setting.name.to_owned(),
            path => format!("{}.{}", path.trim_matches(['[', ']']), setting.name),
        };
        match setting.kind {
            Kind::Plain(_) => {}
            Kind::Table(below) => {
                page_section(out, &format!("[{path}]"), setting.words, &below());
            }
            Kind::Tables(below) => {
                page_section(out, &format!("[[{path}]]"), setting.words, &below());
            }
        }
    }
}

fn page_row(out: &mut String, setting: &Setting) {
    let default = match (setting.default, setting.named) {
        (Some(default), _) => format!("`{default}`"),
        (None, Some(named)) => format!("`\"{named}\"`"),
        (None, None) if setting.required => "must be set".into(),
        (None, None) => "–".into(),
    };
    let meaning = setting.words.join(" ");
    let _infallible = writeln!(
        out,
        "| `{}` | {} | {default} | {} |",
        setting.name,
        kind_words(&setting.kind).replace('|', "\\|"),
        meaning.trim().replace('|', "\\|")
    );
}
