//! Tables for people, and where the next page of one starts.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

const LINE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// Makes a table with a line under its header and nothing else drawn.
pub(super) fn plain<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(LINE).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

/// Returns the last row of a page that is full: behind it the next page starts.
pub(super) fn last_of_full<T>(rows: &[T], limit: u32) -> Option<&T> {
    rows.last().filter(|_| u32::try_from(rows.len()).is_ok_and(|count| count == limit))
}

/// Lays out names and values, a line each.
pub(super) fn pairs(pairs: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().collect();
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<_> =
        pairs.into_iter().map(|(name, value)| format!("{name:width$}  {value}")).collect();
    lines.join("\n")
}
