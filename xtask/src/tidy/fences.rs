//! The rule that a code block in the documentation runs, is checked, or says that it is not.

use super::Finding;
use super::tree::{File, Tree};
use crate::markdown::Page;

/// Says of a block in a language that could run that it is not run.
const NOT_RUN: &str = "no-run";

/// Blocks that are run or checked, by the whole info string or its first words; see `docs.rs`.
const CHECKED: &[&str] = &[
    "json",
    "rust",
    "rust,compile_fail",
    "rust,no_run",
    "rust,should_panic",
    "sh run",
    "text output",
    "toml semel",
];

/// Nothing that anybody would type or build on.
const INERT: &[&str] = &["http", "mermaid", "text"];

/// The file whose doc comments include the Markdown that holds Rust.
const INCLUDES: &str = "examples/lib.rs";

/// Every block has an info string of the list; every page with Rust is compiled.
pub(super) fn fences(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_documentation(file)) {
        for fence in Page::parse(&file.text).fences {
            if !is_listed(&fence.info) {
                let says = format!(
                    "a code block `{}` neither runs nor says `{NOT_RUN}` (xtask/src/tidy/fences.rs)",
                    fence.info
                );
                findings.push(Finding::new(&file.path, fence.line, says));
            }
            if fence.info.starts_with("rust") && !is_compiled(tree, &file.path) {
                let says = format!("Rust that nothing compiles: include this page in {INCLUDES}");
                findings.push(Finding::new(&file.path, fence.line, says));
            }
        }
    }
    findings
}

/// Pages for readers; Markdown inside a crate is compiled by rustdoc.
fn is_documentation(file: &File) -> bool {
    file.is("md") && (file.path.starts_with("docs/") || !file.path.contains('/'))
}

fn is_listed(info: &str) -> bool {
    // rustdoc would run `rust no-run`: Rust is always compiled.
    let says_so = |words: &[&str]| words.len() > 1 && words[0] != "rust" && words[1] == NOT_RUN;
    let starts_with = |listed: &str| info == listed || info.starts_with(&format!("{listed} "));
    INERT.contains(&info)
        || CHECKED.iter().any(|listed| starts_with(listed))
        || says_so(&info.split(' ').collect::<Vec<_>>())
}

fn is_compiled(tree: &Tree, path: &str) -> bool {
    let included = format!("../{path}");
    let includes = tree.file(INCLUDES).and_then(|file| file.rust.as_ref());
    includes.is_some_and(|rust| rust.literals.iter().any(|literal| literal.text == included))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_block_that_neither_runs_nor_says_so_is_found() {
        let page = "```sh run\nx\n```\n```sh\nx\n```\n```yaml no-run\n```\n```\n```\n```toml semel a.toml\n```\n";
        assert_eq!(places(fences, &[("docs/a.md", page)]), ["docs/a.md:4", "docs/a.md:9"]);
    }

    #[test]
    fn rust_that_nothing_compiles_is_found() {
        let page = "```rust\nfn a() {}\n```\n";
        let lib = "#[doc = include_str!(\"../README.md\")]\nstruct Readme;\n";
        let files = [("README.md", page), ("docs/a.md", page), (INCLUDES, lib)];
        assert_eq!(places(fences, &files), ["docs/a.md:1"]);
    }
}
