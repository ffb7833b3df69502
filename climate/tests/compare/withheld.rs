//! Runs that differ in more than their climate: changes that may come from it are not called significant.

use super::*;

/// Writes a run with `count` rivers that make landfall in each odd year, and one less in even years.
fn write_rivers(run: &Run, folder: &Path, count: usize) -> SideInput {
    let run = Run {
        storms: 0,
        ..run.clone()
    };
    run.write(folder);
    let mut events = String::from("class,time,lon_deg,lat_deg,area_km2,track_id\n");
    let mut tracks = String::from(
        "track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,landfalls\n",
    );
    let mut id = 0;
    for year in 2001..=2012 {
        for day in 1..=count - usize::from(year % 2 == 0) {
            id += 1;
            let start = format!("{year}-03-{day:02}T00:00:00");
            writeln!(events, "atmospheric_river,{start},220,40,500000,{id}").unwrap();
            writeln!(tracks, "{id},atmospheric_river,{start},{start},220,40,1").unwrap();
        }
    }
    fs::write(folder.join("events.csv"), events).unwrap();
    fs::write(folder.join("tracks.csv"), tracks).unwrap();
    side(folder, folder.file_name().unwrap().to_str().unwrap())
}

/// Whether a quantity changes significantly; its adjusted p must be small.
fn is_sure(found: &Comparison, quantity: Quantity) -> bool {
    let row = row(found, quantity, Group::ALL);
    assert!(row.adjusted_p.is_some_and(|p| p < 0.05), "{row:?}");
    row.significant
}

/// Regression: landfalls of rivers became 17 % more frequent (p = 0.001) between two versions, without a note.
#[test]
fn landfalls_of_rivers_by_other_rules_have_no_significant_change() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, landfalls_of_pieces, count| {
        let run = Run {
            landfalls_of_pieces,
            ..Run::default()
        };
        write_rivers(&run, &folder.path().join(name), count)
    };
    let before = write("before", false, 8);
    let [few, many] = [("few", 8), ("many", 16)].map(|(name, count)| write(name, true, count));
    let found = compare_with(before, many.clone(), &options()).unwrap();
    assert!(!is_sure(&found, Quantity::RiverLandfalls) && is_sure(&found, Quantity::RiverTracks));
    let says = |found: &Comparison, part: &str| found.notes.iter().any(|n| n.contains(part));
    assert!(
        says(
            &found,
            "atmospheric_river.landfalls_of_pieces (none against true)"
        ) && says(
            &found,
            "not counted in before, of an earlier version: no change of the landfalls"
        ),
        "{:?}",
        found.notes
    );
    let begin = "No significant change of the number of landfalls of atmospheric rivers";
    let said = found.statements.iter().find(|said| said.starts_with(begin));
    assert!(
        said.is_some_and(
            |said| said.contains(", but maybe not by climate alone, as the notes say)")
        ),
        "{:?}",
        found.statements
    );
    let found = compare_with(few, many, &options()).unwrap();
    assert!(is_sure(&found, Quantity::RiverLandfalls));
    assert!(!says(&found, "earlier version"), "{:?}", found.notes);
}

/// Regression: masks that lack cells in one run were a significant change of rivers, without a note.
#[test]
fn rivers_of_masks_that_lack_cells_have_no_significant_change() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, missing_columns, count| {
        let run = Run {
            missing_columns,
            ..Run::default()
        };
        write_rivers(&run, &folder.path().join(name), count)
    };
    let (whole, few) = (write("whole", 0, 16), write("few", 0, 8));
    let lacking = write("lacking", 2, 8);
    let found = compare_with(whole.clone(), lacking, &options()).unwrap();
    let quantities = [
        Quantity::RiverCover,
        Quantity::RiversPresent,
        Quantity::RiverTracks,
        Quantity::RiverLandfalls,
    ];
    let is_sure_of = |found: &Comparison| quantities.map(|quantity| is_sure(found, quantity));
    assert_eq!(is_sure_of(&found), [false; 4]);
    // Two columns of 36.
    let begin =
        "Cells of masks are missing (lacking: 5.6 %), and no event is found there: no change of";
    let says = |found: &Comparison| found.notes.iter().any(|note| note.starts_with(begin));
    assert!(says(&found), "{:?}", found.notes);
    let found = compare_with(whole, few, &options()).unwrap();
    assert_eq!(is_sure_of(&found), [true; 4]);
    assert!(!says(&found), "{:?}", found.notes);
}
