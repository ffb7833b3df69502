//! A table of the number of tracks by hemisphere, basin and season.

use super::rows_of;
use crate::compare::{ChangeRow, Comparison, Interval, Region, SEASONS, capital, in_percent};
use crate::report::class_word;
use crate::report::html::Table;
use crate::report::numbers::significant;
use crate::report::parts::region_word;
use squall_data::Class;

/// The table of a class; empty if seasons are unknown or no region has tracks.
pub(crate) fn table(comparison: &Comparison, class: Class) -> String {
    let rows = rows_of(comparison, class, |group| {
        group.season.is_some() && group.region.is_some()
    });
    let tracks: Vec<&ChangeRow> = rows
        .into_iter()
        .filter(|row| row.name == "tracks")
        .collect();
    let of_region = |region: Region| -> Option<Vec<String>> {
        let mut cells = vec![capital(region.name_for(class))];
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
        "{}s a year by hemisphere, {} and season, {} to {}, with the {} % interval of the difference; significant changes are bold",
        capital(class_word(class)),
        region_word(class),
        comparison.a.label,
        comparison.b.label,
        in_percent(comparison.draws.confidence)
    );
    let table = Table {
        caption: &caption,
        columns: &columns,
        rows: &cells,
    };
    table.html()
}

/// Both numbers, bold if they differ significantly, and the interval of the difference.
fn cell(row: &ChangeRow) -> String {
    let value = |value: Option<f64>| value.map_or("–".into(), |v| significant(v, 2));
    let mut cell = format!("{} → {}", value(row.change.a), value(row.change.b));
    if row.significant {
        cell = format!("<strong>{cell}</strong>");
    }
    if let Some(Interval { low, high }) = row.change.interval {
        let (low, high) = (significant(low, 2), significant(high, 2));
        cell += &format!(" <small>({low} to {high})</small>");
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Change, Group, Quantity};
    use crate::statistics::Basin;

    /// The interval used to be in the cell's tooltip, which is missing on paper and without a mouse.
    #[test]
    fn the_interval_of_the_difference_stands_in_the_cell() {
        let mut comparison = Comparison::of_runs([("now", 20), ("then", 20)]);
        let mut change = Change::of_values(Some(4.0), Some(7.0));
        change.interval = Some(Interval {
            low: 1.5,
            high: 4.5,
        });
        let quantity = Quantity::CycloneTracks;
        let (basin, season) = Group::of_both(Basin::NorthAtlantic, 2).columns();
        comparison.changes.push(ChangeRow {
            quantity,
            name: quantity.about().name.into(),
            class: Class::TropicalCyclone.name().into(),
            basin: basin.into(),
            season: season.into(),
            unit: quantity.about().unit.into(),
            change,
            years: None,
            adjusted_p: Some(0.01),
            significant: true,
        });
        let html = table(&comparison, Class::TropicalCyclone);
        let cell = "<strong>4.0 → 7.0</strong> <small>(1.5 to 4.5)</small></td>";
        assert!(html.contains(cell), "{html}");
        assert!(
            html.contains("the 95 % interval of the difference"),
            "{html}"
        );
    }
}
