//! Tables for people.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

const LINE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// Makes a table with a line under its header and nothing else drawn.
pub(super) fn plain<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(LINE).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}
