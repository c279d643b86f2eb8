//! The rule that a link in Markdown leads to a file and a heading that exist.

use super::Finding;
use super::tree::{File, Tree};
use crate::markdown::{Link, Page};

/// Every local link resolves.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is("md")) {
        for link in Page::parse(&file.text).links.iter().filter(|link| is_local(&file.path, link)) {
            if let Some(says) = broken(tree, file, &link.to) {
                findings.push(Finding::new(&file.path, link.line, says));
            }
        }
    }
    findings
}

/// Whether the link points into the repository; in a crate's Markdown a bare name is a link of rustdoc.
fn is_local(path: &str, link: &Link) -> bool {
    let elsewhere =
        link.to.contains("://") || link.to.starts_with("mailto:") || link.to.contains("::");
    let of_rustdoc = path.starts_with("crates/") && !link.to.contains(['/', '.', '#']);
    !link.to.is_empty() && !elsewhere && !of_rustdoc
}

fn broken(tree: &Tree, file: &File, to: &str) -> Option<String> {
    let (path, anchor) = to.split_once('#').unwrap_or((to, ""));
    let Some(target) = resolve(&file.path, path) else {
        return Some(format!("the link `{to}` leads out of the repository"));
    };
    if !tree.contains(&target) {
        return Some(format!("the link `{to}` leads to no file"));
    }
    let page = tree.file(&target).filter(|page| page.is("md") && !anchor.is_empty())?;
    let anchors = Page::parse(&page.text).anchors;
    (!anchors.iter().any(|known| known == anchor))
        .then(|| format!("the link `{to}` leads to no heading"))
}

/// The path that `to` means when written in the file `from`.
fn resolve(from: &str, to: &str) -> Option<String> {
    if to.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in to.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_dead_link_is_found() {
        let page = "# Here\n[a](../README.md#top) [b](#here) [c](https://x.example/y)\n[d](gone.md)\n\
                    [e](#gone)\n[f](../README.md#gone)\n[g](../../out.md)\n[h](../docs/)\n";
        let files = [("README.md", "# Top\n"), ("docs/a.md", page)];
        assert_eq!(
            places(links, &files),
            ["docs/a.md:3", "docs/a.md:4", "docs/a.md:5", "docs/a.md:6"]
        );
    }
}
