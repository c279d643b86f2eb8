//! Just enough of Rust's grammar to tell code from comments and literals, and tests from the rest.

use std::ops::Range;

/// A string literal as written, without its quotes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) text: String,
}

/// A Rust file taken apart.
#[derive(Debug)]
pub(super) struct Rust {
    /// The file with comments and the insides of literals blanked: same length, same lines.
    pub(super) code: String,
    pub(super) literals: Vec<Literal>,
    tests: Vec<Range<usize>>,
}

impl Rust {
    /// Takes `text` apart; of source that does not compile the result is a guess.
    pub(super) fn parse(text: &str) -> Self {
        let mut scanner =
            Scanner { text, at: 0, code: text.as_bytes().to_vec(), literals: Vec::new() };
        scanner.scan();
        let literals = scanner.literals;
        let code = String::from_utf8(scanner.code).unwrap_or_default();
        let tests = test_modules(&code);
        Self { code, literals, tests }
    }

    /// Whether line `number` lies in a `#[cfg(test)]` item.
    pub(super) fn is_test_line(&self, number: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&number))
    }

    /// The code by lines, counted from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The line of the byte at `offset`.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        line_at(&self.code, offset)
    }
}

/// Whether `word` stands in `line` with no identifier character beside it.
pub(super) fn finds_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joins = |side: Option<char>| side.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !joins(before) && !joins(after)
    })
}

/// The end of the group that opens with the bracket at `open`, in blanked code.
pub(super) fn group_end(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn line_at(code: &str, offset: usize) -> usize {
    code.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The lines of items under `#[cfg(test)]` that have a body in this file.
fn test_modules(code: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("#[cfg(test)]") {
        let rest = &code[at..];
        let Some(open) = rest.find('{') else { continue };
        if rest.find(';').is_some_and(|end| end < open) {
            continue;
        }
        let end = group_end(code, at + open).unwrap_or(code.len());
        found.push(line_at(code, at)..line_at(code, end) + 1);
    }
    found
}

/// Walks over the text once, blanking as it goes.
#[derive(Debug)]
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    code: Vec<u8>,
    literals: Vec<Literal>,
}

impl Scanner<'_> {
    fn scan(&mut self) {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                let end = rest.find('\n').unwrap_or(rest.len());
                self.blank(end);
            } else if rest.starts_with("/*") {
                self.blank(comment_length(rest));
            } else if let Some(hashes) = self.raw_string(rest) {
                self.raw(rest, hashes);
            } else if rest.starts_with('"') {
                self.quoted(rest);
            } else if rest.starts_with('\'') {
                self.blank_inside(char_length(rest));
            } else {
                self.at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
    }

    /// The number of hashes if a raw string starts here.
    fn raw_string(&self, rest: &str) -> Option<usize> {
        let before = self.text[..self.at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            // `br"` and `cr"` are reached through their own first letter.
            return None;
        }
        let after = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
        let hashes = after.len() - after.trim_start_matches('#').len();
        after[hashes..].starts_with('"').then_some(hashes)
    }

    fn raw(&mut self, rest: &str, hashes: usize) {
        let open = rest.find('"').unwrap_or(0) + 1;
        let close = format!("\"{}", "#".repeat(hashes));
        let length = rest[open..].find(&close).unwrap_or(rest.len() - open);
        self.literal(open, length, close.len());
    }

    fn quoted(&mut self, rest: &str) {
        let mut escaped = false;
        let end = rest[1..].find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        self.literal(1, end.unwrap_or(rest.len() - 1), 1);
    }

    /// Keeps a literal that has `open` bytes before and `close` bytes after its text of `length` bytes.
    fn literal(&mut self, open: usize, length: usize, close: usize) {
        let start = self.at + open;
        let text = self.text[start..start + length].to_owned();
        self.literals.push(Literal { line: line_at(self.text, start), text });
        self.at = start;
        self.blank(length);
        self.at = (self.at + close).min(self.text.len());
    }

    fn blank_inside(&mut self, length: usize) {
        if length > 2 {
            self.at += 1;
            self.blank(length - 2);
        }
        self.at += 1;
    }

    fn blank(&mut self, length: usize) {
        for byte in &mut self.code[self.at..self.at + length] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        self.at += length;
    }
}

/// The length of the block comment that starts `rest`; they nest.
fn comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of the character literal that starts `rest`, or 1 for a lifetime.
fn char_length(rest: &str) -> usize {
    let inside = &rest[1..];
    if let Some(escape) = inside.strip_prefix('\\') {
        let after = escape.chars().next().map_or(0, char::len_utf8);
        return escape[after..].find('\'').map_or(1, |end| 2 + after + end + 1);
    }
    let first = inside.chars().next().map_or(0, char::len_utf8);
    if inside[first..].starts_with('\'') { 1 + first + 1 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str, literals: &[&str]) {
        let rust = Rust::parse(text);
        assert_eq!(rust.code, code);
        let found: Vec<_> = rust.literals.iter().map(|literal| literal.text.as_str()).collect();
        assert_eq!(found, literals);
    }

    #[test]
    fn comments_are_blanked_with_their_quotes() {
        check("a // \"b\"\nc", "a       \nc", &[]);
        check("a /* /* \" */ */ b", "a               b", &[]);
    }

    #[test]
    fn literals_are_kept_and_blanked() {
        check(r#"f("a\"b", 'x')"#, r#"f("    ", ' ')"#, &[r#"a\"b"#]);
        check(r##"r#"a"b"# + br"c""##, r##"r#"   "# + br" ""##, &["a\"b", "c"]);
        check("\"é\\\\\" + d", "\"    \" + d", &["é\\\\"]);
    }

    #[test]
    fn a_lifetime_opens_no_literal() {
        check("fn f<'a>(x: &'a str) { '\\'' }", "fn f<'a>(x: &'a str) { '  ' }", &[]);
    }

    #[test]
    fn test_modules_are_known_by_their_lines() {
        let rust = Rust::parse("fn a() {}\n#[cfg(test)]\nmod t {\n  x\n}\nfn b() {}\n");
        let tests: Vec<_> = (1..=6).filter(|line| rust.is_test_line(*line)).collect();
        assert_eq!(tests, [2, 3, 4, 5]);
        assert!(!Rust::parse("#[cfg(test)]\nmod tests;\nfn a() {}\n").is_test_line(3));
    }
}
