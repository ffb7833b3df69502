//! Numbers of tracks by hemisphere, basin and season: a table of these.

use super::rows_of;
use crate::compare::{ChangeRow, Comparison, Region, SEASONS, capital};
use crate::report::class_word;
use crate::report::html::{Table, escape};
use crate::report::numbers::significant;
use squall_data::Class;

/// The table of a class; empty where nothing is known of seasons or no region has tracks.
pub(crate) fn table(comparison: &Comparison, class: Class) -> String {
    let rows = rows_of(comparison, class, |group| {
        group.season.is_some() && group.region.is_some()
    });
    let tracks: Vec<&ChangeRow> = rows
        .into_iter()
        .filter(|row| row.name == "tracks")
        .collect();
    let of_region = |region: Region| -> Option<Vec<String>> {
        let mut cells = vec![capital(region.name())];
        let mut any = false;
        for (season, _) in SEASONS {
            let row = tracks
                .iter()
                .find(|row| row.basin == region.code() && row.season == season);
            let seen = row.filter(|row| row.change.a > Some(0.0) || row.change.b > Some(0.0));
            any |= seen.is_some();
            cells.push(seen.map_or("–".into(), |row| cell(row)));
        }
        any.then_some(cells)
    };
    let cells: Vec<Vec<String>> = Region::all().filter_map(of_region).collect();
    if cells.is_empty() {
        return String::new();
    }
    let mut columns = vec![("Where", false)];
    columns.extend(SEASONS.map(|(short, _)| (short, true)));
    let caption = format!(
        "{}s a year by hemisphere, basin and season, {} to {}; significant changes are bold",
        capital(class_word(class)),
        comparison.a.label,
        comparison.b.label
    );
    let table = Table {
        caption: &caption,
        columns: &columns,
        rows: &cells,
    };
    table.html()
}

fn cell(row: &ChangeRow) -> String {
    let value = |value: Option<f64>| value.map_or("–".into(), |v| significant(v, 2));
    let numbers = format!("{} → {}", value(row.change.a), value(row.change.b));
    let interval = row.change.interval.map(|interval| {
        format!(
            "{} to {}",
            significant(interval.low, 2),
            significant(interval.high, 2)
        )
    });
    let title = interval.map_or(String::new(), |interval| {
        format!(" title=\"{}\"", escape(&format!("difference {interval}")))
    });
    if row.significant {
        format!("<strong{title}>{numbers}</strong>")
    } else {
        format!("<span{title}>{numbers}</span>")
    }
}
