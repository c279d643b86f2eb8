//! Just enough of Markdown to find code blocks, headings and links.

/// A fenced code block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// The line of the opening fence, from one.
    pub(crate) line: usize,
    /// What follows the opening fence.
    pub(crate) info: String,
    /// The lines inside, without the indentation of the fence.
    pub(crate) text: String,
}

/// A link's destination.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) to: String,
}

/// A Markdown file taken apart.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) fences: Vec<Fence>,
    pub(crate) links: Vec<Link>,
    /// What `#…` can point at.
    pub(crate) anchors: Vec<String>,
}

impl Page {
    /// Takes `text` apart.
    pub(crate) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut open: Option<(Fence, String, usize)> = None;
        for (index, line) in text.lines().enumerate() {
            open = match open {
                Some((fence, mark, indent)) => page.inside(fence, mark, indent, line),
                None => page.outside(index + 1, line),
            };
        }
        page.fences.extend(open.map(|(fence, ..)| fence));
        page
    }

    fn inside(
        &mut self,
        mut fence: Fence,
        mark: String,
        indent: usize,
        line: &str,
    ) -> Option<(Fence, String, usize)> {
        if line.trim().starts_with(&mark) && line.trim().chars().all(|c| mark.starts_with(c)) {
            self.fences.push(fence);
            return None;
        }
        let spaces = line.len() - line.trim_start_matches(' ').len();
        fence.text.push_str(&line[spaces.min(indent)..]);
        fence.text.push('\n');
        Some((fence, mark, indent))
    }

    fn outside(&mut self, number: usize, line: &str) -> Option<(Fence, String, usize)> {
        let start = line.trim_start();
        let marks = start.len() - start.trim_start_matches('`').len();
        if marks >= 3 && !start[marks..].contains('`') {
            let info = start[marks..].trim().to_owned();
            let fence = Fence { line: number, info, text: String::new() };
            return Some((fence, "`".repeat(marks), line.len() - start.len()));
        }
        if start.starts_with('#') {
            self.heading(start.trim_start_matches('#').trim());
        }
        self.links(number, &without_code(line));
        None
    }

    fn heading(&mut self, title: &str) {
        let kept = title.to_lowercase().replace(' ', "-");
        let slug: String =
            kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let same = self.anchors.iter().filter(|anchor| **anchor == slug).count();
        self.anchors.push(slug.clone());
        if same > 0 {
            self.anchors.push(format!("{slug}-{same}"));
        }
    }

    fn links(&mut self, line: usize, text: &str) {
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            let to = rest.split([')', ' ']).next().unwrap_or_default();
            self.links.push(Link { line, to: to.trim_matches(['<', '>']).to_owned() });
        }
        if let Some((_, to)) = text.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            let to = to.split(' ').next().unwrap_or_default();
            self.links.push(Link { line, to: to.to_owned() });
        }
    }
}

/// The line with what stands in backticks blanked.
fn without_code(line: &str) -> String {
    let parts: Vec<_> = line.split('`').collect();
    let closed = parts.len() % 2 == 1;
    let shown = parts
        .iter()
        .enumerate()
        .map(|(index, part)| if closed && index % 2 == 1 { "" } else { part });
    shown.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_keep_their_info_and_lose_their_indentation() {
        let page =
            Page::parse("a\n\n1. b\n   ```sh run\n   x\n     y\n   ```\n````text\n```\n````\n");
        let found: Vec<_> =
            page.fences.iter().map(|f| (f.line, f.info.as_str(), f.text.as_str())).collect();
        assert_eq!(found, [(4, "sh run", "x\n  y\n"), (8, "text", "```\n")]);
    }

    #[test]
    fn links_in_code_are_no_links() {
        let page = Page::parse(
            "[a](b.md#c) `[d](e)` ![f](<g.png>)\n[h]: i.md \"j\"\n```text\n[k](l)\n```\n",
        );
        let found: Vec<_> = page.links.iter().map(|link| (link.line, link.to.as_str())).collect();
        assert_eq!(found, [(1, "b.md#c"), (1, "g.png"), (2, "i.md")]);
    }

    #[test]
    fn anchors_are_made_as_forges_make_them() {
        let page = Page::parse("# A `b`, c!\n## X\n## X\n");
        assert_eq!(page.anchors, ["a-b-c", "x", "x", "x-1"]);
    }
}
