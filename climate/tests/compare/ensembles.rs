//! Sides that consist of several runs, whose years are pooled.

use super::*;

#[test]
fn members_of_n_years_are_one_run_of_all_their_years() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let runs = [years(2001..=2006, 1), years(2007..=2012, 5)];
    let pooled = ensemble(folder.path(), "a", &runs);
    write_together(&[&runs[0], &runs[1]], &path("one"));
    let b = Run {
        storms: 3,
        seed: 2,
        ..Run::default()
    };
    b.write(&path("b"));
    for block_years in [1, 2] {
        let options = CompareOptions {
            block_years,
            ..options()
        };
        let found = compare_with(pooled.clone(), side(&path("b"), "b"), &options).unwrap();
        let one = compare_with(side(&path("one"), "a"), side(&path("b"), "b"), &options).unwrap();
        assert!(row(&one, Quantity::CycloneTracks, Group::ALL).significant);
        assert_eq!((found.return_levels.len(), found.map_changes.len()), (2, 4));
        assert_eq!(numbers(&found), numbers(&one), "{block_years}");
        assert_eq!(
            (&found.a.years, found.a.blocks),
            (&one.a.years, 12 / block_years)
        );
    }
    // The same with the members on the other side.
    let found = compare_with(side(&path("b"), "b"), pooled, &options()).unwrap();
    let one = compare_with(side(&path("b"), "b"), side(&path("one"), "a"), &options()).unwrap();
    assert_eq!(numbers(&found), numbers(&one));
}

#[test]
fn a_block_of_years_is_of_one_member() {
    let folder = tempfile::tempdir().unwrap();
    // Five years make two blocks of three, so that four members have eight blocks, not the seven of one 20-year run.
    let runs = [1, 2, 3, 4].map(|seed| years(2001..=2005, seed));
    let a = ensemble(folder.path(), "a", &runs);
    let b = ensemble(folder.path(), "b", &runs);
    let options = CompareOptions {
        block_years: 3,
        ..options()
    };
    let found = compare_with(a, b, &options).unwrap();
    assert_eq!((found.a.blocks, found.a.years.len()), (8, 20));
    let blocks: Vec<usize> = found.a.members.iter().map(|run| run.blocks).collect();
    assert_eq!(blocks, [2; 4]);
}

/// The sample is the same, but resampling draws positions in it, so the draws differ.
#[test]
fn the_order_of_members_changes_no_number_but_the_ends_of_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [3, 4, 5].map(|seed| years(2001..=2004, seed));
    let a = ensemble(folder.path(), "a", &runs);
    let other = Run {
        storms: 4,
        ..years(2001..=2008, 9)
    };
    let b = ensemble(folder.path(), "b", &[other]);
    let found = compare_with(a.clone(), b.clone(), &options()).unwrap();
    let mut turned = a;
    turned.folders.rotate_left(1);
    let turned = compare_with(turned, b, &options()).unwrap();
    // The same calendar years in three runs are twelve different years.
    assert_eq!((found.a.years.len(), found.a.blocks), (12, 12));
    let apart = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs(),
        (None, None) => 0.0,
        _ => f64::INFINITY,
    };
    for (one, other) in found.changes.iter().zip(&turned.changes) {
        let (x, y) = (&one.change, &other.change);
        let size = x.a.unwrap_or(0.0).abs().max(1.0);
        assert!(apart(x.a, y.a) <= 1e-12 * size, "{one:?} {other:?}");
        assert_eq!(x.b, y.b);
        // With 1000 permutations the standard error of p is at most 0.016.
        assert!(apart(x.p, y.p) < 0.1, "{one:?} {other:?}");
    }
    for (one, other) in found.return_levels.iter().zip(&turned.return_levels) {
        assert_eq!(one.fits[0].extremes, other.fits[0].extremes);
    }
    assert_eq!(found.maps[0].tested, turned.maps[0].tested);
}

#[test]
fn it_is_said_how_many_members_and_years_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let a = ensemble(
        folder.path(),
        "a",
        &[years(2001..=2006, 1), years(2001..=2006, 5)],
    );
    let b = ensemble(folder.path(), "b", &[years(2001..=2010, 2)]);
    let found = compare_with(a, b, &options()).unwrap();
    let note = "a has 2 members with 6 whole years each, b is one run with 10 whole years: years of all members count as \
                independent of each other";
    assert!(found.notes[0].starts_with(note), "{:?}", found.notes);
    assert!(
        found.statements[0].ends_with("12 years of 2 members against 10."),
        "{}",
        found.statements[0]
    );
    let names: Vec<&str> = found.a.members.iter().map(|m| m.label.as_str()).collect();
    assert_eq!(names, ["m1", "m2"]);
    assert_eq!(found.a.folder, folder.path().join("a"));
    assert!(found.b.members.is_empty());
    // The members survive a round trip; a side of one run is written as before members existed.
    let out = folder.path().join("changes");
    found.write(&out).unwrap();
    let back = Comparison::read(&out).unwrap();
    assert_eq!(format!("{back:?}"), format!("{found:?}"));
    let page = changes_page(&back, "members", "squall compare 'a/m*/events' b").unwrap();
    for part in [
        "12 years (2 members, 2001 to 2006)",
        "10 years (2001 to 2010)",
        "m1/events, ",
        "squall compare &#39;a/m*/events&#39; b",
        "They end at twice the number of years",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let json = fs::read(out.join("changes.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        json["a"]["members"][1]["years"].as_array().unwrap().len(),
        6
    );
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let of_run = [
        "blocks", "calendar", "folder", "grid", "label", "left_out", "years",
    ];
    let mut found = keys(&json["b"]);
    found.sort();
    assert_eq!(found, of_run);
    assert!(!keys(&json).contains(&"unit".to_string()));
}

#[test]
fn a_list_of_folders_need_not_have_a_common_one() {
    let folder = tempfile::tempdir().unwrap();
    let paths: [PathBuf; 3] = ["x/one", "y/two", "z"].map(|name| folder.path().join(name));
    for (path, seed) in paths.iter().zip(1..) {
        years(2001..=2003, seed).write(path);
    }
    let [one, two, b] = paths;
    let a = SideInput {
        folders: vec![one, two],
        label: "a".into(),
        years: Some((2002, 2003)),
    };
    let found = compare_with(a, side(&b, "b"), &options()).unwrap();
    let names: Vec<&str> = found.a.members.iter().map(|m| m.label.as_str()).collect();
    assert_eq!(names, ["x/one", "y/two"]);
    assert_eq!(found.a.years, [2002, 2003, 2002, 2003]);
}
