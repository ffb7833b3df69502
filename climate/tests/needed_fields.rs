//! docs/input.md lists the channels that the rules read, docs/events.md the columns of the tables.

use squall_climate::detect::Method;
use squall_climate::table::{EVENT_COLUMNS, TRACK_COLUMNS};
use squall_data::Variable;

/// The channels in a cell of a table.
fn named(cell: &str) -> Vec<Variable> {
    let has = |channel: &Variable| {
        let mut words = cell.split([' ', ',', ';', '(', ')']);
        words.any(|word| word == channel.name())
    };
    Variable::CHANNELS.into_iter().filter(has).collect()
}

#[test]
fn the_page_has_the_channels_of_every_method() {
    let page = include_str!("../../docs/input.md");
    for method in Method::ALL {
        let begin = format!("| `label --method {}`", method.name());
        let row = page.lines().find(|line| line.starts_with(&begin));
        let row = row.unwrap_or_else(|| panic!("no row of {method}"));
        let cells: Vec<&str> = row.split('|').collect();
        for (cell, channels) in [
            (cells[2], method.channels()),
            (cells[3], method.useful_channels()),
        ] {
            let mut expected = channels.to_vec();
            expected.sort_unstable();
            assert_eq!(named(cell), expected, "{method}: {cell}");
        }
    }
}

#[test]
fn the_page_has_every_column() {
    let page = include_str!("../../docs/events.md");
    for column in EVENT_COLUMNS.iter().chain(&TRACK_COLUMNS) {
        assert!(page.contains(&format!("`{column}`")), "no `{column}`");
    }
}
