//! Names of the result files of an event run, and their removal before another run writes to the folder.

use crate::error::Result;
use squall_data::{Class, atomic};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The table that every run writes. It is removed last, because it marks the folder as one of a run.
const EVENTS: &str = "events.csv";

/// The other files that a run writes, always or on request.
const OTHERS: [&str; 12] = [
    "tracks.csv",
    "statistics.nc",
    "object_id.nc",
    "monthly.csv",
    "yearly.csv",
    "seasonal_cycle.csv",
    "histograms.csv",
    "categories.csv",
    "tracks.geojson",
    "events.geojson",
    "tracks.parquet",
    "events.parquet",
];

/// Suffixes of formats without a class column, which have one file per class.
const OF_A_CLASS: [&str; 4] = ["gfdl.txt", "stitchnodes.csv", "teca.csv", "ibtracs.nc"];

/// The first columns of Squall's tables of events.
const HEADER: &[u8] = b"class,time,lon_deg,lat_deg,";

/// Whether an event run writes files of this name: its tables, statistics, and tracks in formats of other tools.
///
/// # Example
/// ```
/// use squall_climate::stream::is_result;
/// assert!(is_result("events.csv") && is_result("tracks.tropical_cyclone.teca.csv"));
/// assert!(!is_result("tracks.mine.csv") && !is_result("objects.csv"));
/// ```
pub fn is_result(name: &str) -> bool {
    name == EVENTS || OTHERS.contains(&name) || of_classes().any(|known| known == name)
}

fn of_classes() -> impl Iterator<Item = String> {
    let classes = Class::TRACKED.into_iter();
    classes.flat_map(|class| OF_A_CLASS.map(|end| format!("tracks.{}.{end}", class.name())))
}

/// Removes the results of an earlier run from a folder, so that they are not mixed with those of a new one. Other files
/// stay. A folder without one of Squall's tables of events is not touched.
///
/// # Errors
/// [`crate::ClimateError::Data`] if a file cannot be removed.
pub fn clear_results(out: &Path) -> Result<()> {
    clear_those_of(&out.join(EVENTS), out)
}

/// Like [`clear_results`], but for a table of events that may be in another folder.
pub(super) fn clear_those_of(table: &Path, out: &Path) -> Result<()> {
    if !is_squall_table(table) {
        return Ok(());
    }
    let names = OTHERS.map(String::from).into_iter().chain(of_classes());
    let mut were_there = false;
    for name in names.chain([EVENTS.to_string()]) {
        were_there |= atomic::remove(out.join(name))?;
    }
    if were_there {
        tracing::info!(
            "the results of an earlier run in `{}` are replaced",
            out.display()
        );
    }
    Ok(())
}

/// Whether the file is one of Squall's tables of events.
fn is_squall_table(table: &Path) -> bool {
    let mut begin = [0; HEADER.len()];
    let read = File::open(table).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == HEADER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;
    use crate::table::Row;
    use std::fs;

    #[test]
    fn only_results_of_a_run_are_cleared_away() {
        assert!(Event::columns().join(",").as_bytes().starts_with(HEADER));
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let results = [
            "tracks.csv",
            "monthly.csv",
            "events.geojson",
            "tracks.atmospheric_river.ibtracs.nc",
        ];
        let others = ["tracks.mine.nc", "notes.txt", "objects.csv", "changes.csv"];
        for name in results.iter().chain(&others) {
            fs::write(at(name), "text").unwrap();
        }
        // There was no run here, so the files may belong to someone else.
        clear_results(folder.path()).unwrap();
        fs::write(at(EVENTS), "name,wind\n").unwrap();
        clear_results(folder.path()).unwrap();
        assert!(results.iter().all(|name| at(name).is_file()));
        fs::write(at(EVENTS), "class,time,lon_deg,lat_deg,area_km2\n").unwrap();
        clear_results(folder.path()).unwrap();
        let left = fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            ["changes.csv", "notes.txt", "objects.csv", "tracks.mine.nc"]
        );
        clear_results(&at("absent")).unwrap();
    }
}
