//! Templates: what stands between `{{` and `}}` in the texts of a plan.

use super::problem::hint;

/// What the place of a message in its aggregate is unless somebody says.
const FIRST: &str = "1";

/// What the names of a template stand for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Names {
    /// The intent, as the API writes it down.
    pub intent: String,
    /// Its key, as it is sent.
    pub key: String,
    /// What the first answer named at `resource.id`.
    pub id: Option<String>,
    /// Whose message it is, if that is not the intent's alone.
    pub aggregate: Option<String>,
    /// Which message of its aggregate it is; the first unless said.
    pub sequence: Option<String>,
}

impl Names {
    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "intent" => Some(&self.intent),
            "key" => Some(&self.key),
            "id" => self.id.as_deref(),
            "aggregate" => Some(self.aggregate.as_deref().unwrap_or(&self.intent)),
            "sequence" => Some(self.sequence.as_deref().unwrap_or(FIRST)),
            _ => None,
        }
    }
}

/// Puts the names into a text as they are; a name that is not known yet stays as it is written.
#[must_use]
pub fn fill(text: &str, names: &Names) -> String {
    replaced(text, |name| names.value(name).map(str::to_owned))
}

/// Puts the names into a path, so that none of their characters splits it.
#[must_use]
pub fn fill_path(text: &str, names: &Names) -> String {
    replaced(text, |name| names.value(name).map(percent_encoded))
}

/// Puts the names into a JSON pointer, each as part of one token (RFC 6901).
#[must_use]
pub fn fill_pointer(text: &str, names: &Names) -> String {
    replaced(text, |name| {
        names.value(name).map(|value| value.replace('~', "~0").replace('/', "~1"))
    })
}

/// Replaces every `{{name}}` for which there is a value. What was put in is not looked at again.
pub(super) fn replaced(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, name, after)) = next(rest) {
        out.push_str(before);
        match value(name) {
            Some(value) => out.push_str(&value),
            None => {
                out.push_str("{{");
                out.push_str(name);
                out.push_str("}}");
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Splits a text at its first template. JSON's own braces are none: a name has no quotes in it.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find("{{").map(|at| from + at) {
        let inside = &text[at + 2..];
        let name_len = inside.find(|c: char| !is_name(c)).unwrap_or(inside.len());
        if name_len > 0 && inside[name_len..].starts_with("}}") {
            return Some((&text[..at], &inside[..name_len], &inside[name_len + 2..]));
        }
        // One brace further, so that the last two of three are tried too.
        from = at + 1;
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-' | '.' | ' ')
}

/// Says whether a text names something, such as `intent`.
pub(super) fn has(text: &str, wanted: &str) -> bool {
    names(text).contains(&wanted)
}

/// Says whether a text still holds a variable that was not put in.
pub(super) fn has_variable(text: &str) -> bool {
    names(text).iter().any(|name| name.starts_with("env:"))
}

fn names(text: &str) -> Vec<&str> {
    let (mut names, mut rest) = (Vec::new(), text);
    while let Some((_, name, after)) = next(rest) {
        names.push(name);
        rest = after;
    }
    names
}

/// Says what is wrong with the templates of a text, where `allowed` are the names that it may hold.
pub(super) fn problem(text: &str, allowed: &[&str]) -> Option<String> {
    let fits =
        |name: &&str| allowed.contains(name) || name.strip_prefix("env:").is_some_and(is_env);
    let wrong = names(text).into_iter().find(|name| !fits(name))?;
    if wrong == "id" {
        return Some("has no `{{id}}` yet".to_owned());
    }
    let near = hint(wrong.trim(), allowed.iter().copied().chain(["env:"])).replace('`', "");
    let known = allowed.join(", ");
    Some(format!(
        "names `{{{{{wrong}}}}}`, which stands for nothing{near}; known are {known} and env:NAME"
    ))
}

fn is_env(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn percent_encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(intent: &str, id: Option<&str>) -> Names {
        let (intent, key) = (intent.into(), "k-1".into());
        Names { intent, key, id: id.map(str::to_owned), ..Names::default() }
    }

    #[test]
    fn names_are_put_in_where_they_stand() {
        let names = names_of("i-1", Some("a/b"));
        let cases = [
            (r#"{"order":"{{intent}}"}"#, r#"{"order":"i-1"}"#),
            (r#"{"a":{"b":"{{key}}"}}"#, r#"{"a":{"b":"k-1"}}"#),
            ("{{{intent}}}", "{i-1}"),
            ("{{intent}}{{intent}}", "i-1i-1"),
            ("{{other}} {{ }} {{", "{{other}} {{ }} {{"),
            ("/x/{{id}}", "/x/a/b"),
            ("{{aggregate}} {{sequence}}", "i-1 1"),
        ];
        for (text, filled) in cases {
            assert_eq!(fill(text, &names), filled, "{text}");
        }
    }

    #[test]
    fn a_name_never_splits_a_path_or_a_pointer() {
        let names = names_of("a/b~c", Some("x/y?z é"));
        assert_eq!(fill_path("/orders/{{id}}", &names), "/orders/x%2Fy%3Fz%20%C3%A9");
        assert_eq!(fill_pointer("/charges/{{intent}}", &names), "/charges/a~1b~0c");
    }

    #[test]
    fn what_was_put_in_is_no_template() {
        let names = Names { intent: "{{key}}".into(), key: "k".into(), ..Names::default() };
        assert_eq!(fill("{{intent}} {{id}}", &names), "{{key}} {{id}}");
    }

    #[test]
    fn a_name_that_stands_for_nothing_is_told() {
        let wrong = |text| problem(text, &["intent", "key"]);
        assert_eq!(wrong("{{intent}} {{env:A_1}} {\"a\":{\"b\":1}}"), None);
        assert_eq!(wrong("{{id}}").unwrap(), "has no `{{id}}` yet");
        assert!(wrong("{{intend}}").unwrap().contains("did you mean intent?"));
        assert!(wrong("{{ intent }}").unwrap().contains("did you mean intent?"));
        assert!(wrong("{{env:}}").unwrap().contains("stands for nothing"));
    }
}
