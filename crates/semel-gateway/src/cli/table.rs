//! Tables for people.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

const LINE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// Makes a table with a line under its header and nothing else drawn.
pub(super) fn plain<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(LINE).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

/// Lays out names and values, a line each.
pub(super) fn pairs(pairs: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().collect();
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<_> =
        pairs.into_iter().map(|(name, value)| format!("{name:width$}  {value}")).collect();
    lines.join("\n")
}
