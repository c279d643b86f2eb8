//! Exchanges as a person can repeat them, in a shell.

use std::fmt::Write;

use super::Report;
use crate::http::{Answer, Exchange, Got, Program, Request, program::variable};

/// How many bytes of a request's body are shown: what is longer is not repeated by hand.
const SENT_BYTES_MAX: usize = 2_000;

/// How many characters of an answer's body are shown.
const ANSWERED_CHARS_MAX: usize = 400;

/// The longest value of a header that is shown whole.
const HEADER_CHARS_MAX: usize = 512;

/// How many characters of a longer one are shown from its start, and from its end.
const HEADER_CHARS_SHOWN: usize = 40;

impl Report {
    /// Shows an exchange: what it was for and when, the request as a command, what came of it.
    pub(super) fn exchange(&self, number: usize, exchange: &Exchange) -> String {
        let Exchange { what, request, got, sent_at, took } = exchange;
        let what = printable(&self.secrets.masked(what));
        let (at_ms, took_ms) = (sent_at.as_millis(), took.as_millis());
        format!(
            "{number:>3}. {what} (at {at_ms} ms, took {took_ms} ms)\n     {}\n     → {}",
            self.command(request),
            self.got(got)
        )
    }

    fn command(&self, request: &Request) -> String {
        if let Some(program) = &self.program {
            return self.handed(program, request);
        }
        let url = format!("{}{}", self.target, self.secrets.masked(&request.path));
        let mut command = format!("curl -i -X {} {}", request.method, quoted(&url));
        for (name, value) in &request.headers {
            let value = self.secrets.masked_header(name, value);
            let length = value.chars().count();
            if length > HEADER_CHARS_MAX {
                let start: String = value.chars().take(HEADER_CHARS_SHOWN).collect();
                let end: String = value.chars().skip(length - HEADER_CHARS_SHOWN).collect();
                // It is repeated from `--json`: a line of thousands would hide all others.
                let short = printable(&format!("{name}: {start}…{end} ({length} characters)"));
                let _infallible = write!(command, " -H {}", quoted(&short));
                continue;
            }
            // An empty header is written with a semicolon: `name:` would leave it out.
            let header =
                if value.is_empty() { format!("{name};") } else { format!("{name}: {value}") };
            let _infallible = write!(command, " -H {}", quoted(&header));
        }
        match std::str::from_utf8(&request.body) {
            Ok("") => {}
            Ok(text) if text.len() <= SENT_BYTES_MAX => {
                let text = self.secrets.masked(text);
                let _infallible = write!(command, " --data-raw {}", quoted(&text));
            }
            _ => {
                let length = request.body.len();
                let _infallible = write!(command, " --data-binary @BODY  # {length} bytes");
            }
        }
        command
    }

    /// The same for a program: its variables and its standard input.
    fn handed(&self, program: &Program, message: &Request) -> String {
        let mut command = match std::str::from_utf8(&message.body) {
            Ok(text) if text.len() <= SENT_BYTES_MAX => {
                format!("printf %s {} | env", quoted(&self.secrets.masked(text)))
            }
            _ => format!("env < BODY  # {} bytes\n      ", message.body.len()),
        };
        for (name, value) in &message.headers {
            let value = self.secrets.masked_header(name, value);
            let _infallible = write!(command, " {}={}", variable(name), quoted(&value));
        }
        for word in &program.start {
            let _infallible = write!(command, " {}", quoted(&self.secrets.masked(word)));
        }
        match &program.folder {
            Some(folder) => format!("cd {} && {command}", quoted(&folder.to_string_lossy())),
            None => command,
        }
    }

    fn got(&self, got: &Got) -> String {
        match got {
            Got::Answer(answer) => self.answer(answer),
            Got::Swallowed(answer) => format!("lost on its way: {}", self.answer(answer)),
            Got::Broken(why) => printable(&self.secrets.masked(&format!("no answer: {why}"))),
            Got::HungUp | Got::TimedOut => got.to_string(),
        }
    }

    fn answer(&self, answer: &Answer) -> String {
        let text = self.secrets.masked(&String::from_utf8_lossy(&answer.body));
        let start: String = text.chars().take(ANSWERED_CHARS_MAX).collect();
        let dots = if start.len() < text.len() { "…" } else { "" };
        let mut shown = answer.status.to_string();
        for name in ["ended", "location", "retry-after", semel::wire::IDEMPOTENT_REPLAYED] {
            if let Some(value) = answer.header(name) {
                let value = self.secrets.masked_header(name, value);
                let _infallible = write!(shown, " ({name}: {value})");
            }
        }
        printable(&format!("{shown} {start}{dots}"))
    }
}

/// Writes a text so that no control character of it reaches a terminal.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' | '\r' | '\t' => shown.push(' '),
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Quotes a text for a POSIX shell, or for bash where it holds control characters.
fn quoted(text: &str) -> String {
    if !text.contains(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str(r"\\"),
            '\'' => quoted.push_str(r"\'"),
            '\n' => quoted.push_str(r"\n"),
            '\r' => quoted.push_str(r"\r"),
            '\t' => quoted.push_str(r"\t"),
            c if c.is_control() => {
                let _infallible = write!(quoted, r"\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for text in ["it's", "a\\b \"c\" $HOME `x`", "line\nnext\t'q'\\", "\u{1b}[31mé\u{7f}"] {
            let script = format!("printf %s {}", quoted(text));
            let run = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(run.stdout).unwrap(), text);
        }
    }

    #[test]
    fn no_control_character_reaches_a_terminal() {
        assert_eq!(printable("a\u{1b}[31m\nb\r\n"), "a\\u{1b}[31m b");
    }
}
