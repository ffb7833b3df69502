//! Several files as one axis of times, and what they say of themselves.

use super::*;
use crate::archive::BadFiles;
use std::time::{Duration, UNIX_EPOCH};

/// Day numbers of the two Gregorian calendars are two apart, and one of another calendar is another day.
#[test]
fn times_are_found_by_their_instants() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    let grid = LatLonGrid::global(8, 12).unwrap();
    let time = |calendar, day| Time::new(calendar, 2000, 7, day, 6, 0, 0).unwrap();
    let first = time(Calendar::Standard, 1);
    let options = MaskFileOptions::default();
    let mut writer = MaskWriter::create(&path, &grid, first, &options).unwrap();
    for day in 1..6 {
        let at = time(Calendar::Standard, day);
        let mask = ClassMask::new(at, Array2::zeros(grid.shape())).unwrap();
        writer.write(&mask, None).unwrap();
    }
    writer.finish().unwrap();
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    for (calendar, day, found) in [
        (Calendar::Standard, 3, Some(2)),
        (Calendar::ProlepticGregorian, 1, Some(0)),
        (Calendar::ProlepticGregorian, 3, Some(2)),
        (Calendar::ProlepticGregorian, 6, None),
        (Calendar::NoLeap, 3, None),
    ] {
        assert_eq!(archive.find(time(calendar, day)), found, "{calendar} {day}");
    }
}

/// Which masks had not, and fields had.
#[test]
fn files_of_the_two_gregorian_calendars_are_one_axis() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let grid = LatLonGrid::global(8, 12).unwrap();
    let write = |name: &str, calendar, year, day| {
        let time = Time::new(calendar, year, 7, day, 6, 0, 0).unwrap();
        let options = MaskFileOptions::default();
        let mut writer = MaskWriter::create(&at(name), &grid, time, &options).unwrap();
        let codes = Array2::from_elem(grid.shape(), (day % 3) as u8);
        writer
            .write(&ClassMask::new(time, codes).unwrap(), None)
            .unwrap();
        writer.finish().unwrap();
    };
    let open = || MaskArchive::open(folder.path().to_str().unwrap());
    write("a.nc", Calendar::Standard, 2000, 2);
    write("b.nc", Calendar::ProlepticGregorian, 2000, 4);
    write("c.nc", Calendar::Standard, 2000, 3);
    let masks = open().unwrap();
    assert_eq!(masks.calendar(), Calendar::Standard);
    let of = |day| Time::new(Calendar::Standard, 2000, 7, day, 6, 0, 0).unwrap();
    let days = [2, 3, 4].map(of);
    assert_eq!(masks.times(), days);
    for (index, time) in days.into_iter().enumerate() {
        let mask = masks.read(index).unwrap();
        assert_eq!(mask.time, time);
        assert_eq!(mask.codes[[0, 0]], [2, 0, 1][index], "{time}");
    }
    drop(masks);
    for (calendar, year, day, said) in [
        (Calendar::ProlepticGregorian, 2000, 2, "each time once"),
        (Calendar::ProlepticGregorian, 1500, 1, "calendar differs"),
        (Calendar::NoLeap, 2000, 1, "calendar differs"),
    ] {
        write("d.nc", calendar, year, day);
        let error = open().err().unwrap().to_string();
        assert!(error.contains(said), "{calendar} {year}: {error}");
    }
}

/// Masks of a day in July, every six hours; gives the path.
fn written(path: std::path::PathBuf, rows: usize, day: i64) -> std::path::PathBuf {
    written_by(path, (rows, day), "{}")
}

fn written_by(path: std::path::PathBuf, of: (usize, i64), thresholds: &str) -> std::path::PathBuf {
    written_with(path, of, &[("thresholds", thresholds)])
}

fn written_with(
    path: std::path::PathBuf,
    (rows, day): (usize, i64),
    attributes: &[(&str, &str)],
) -> std::path::PathBuf {
    let grid = LatLonGrid::global(rows, 12).unwrap();
    let first = Time::new(Calendar::NoLeap, 2000, 7, day, 0, 0, 0).unwrap();
    let options = MaskFileOptions {
        attributes: (attributes.iter())
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
        ..MaskFileOptions::default()
    };
    let mut writer = MaskWriter::create(&path, &grid, first, &options).unwrap();
    for step in 0..4 {
        let time = first.add_seconds(21_600 * step);
        let mask = ClassMask::new(time, Array2::zeros(grid.shape())).unwrap();
        writer.write(&mask, None).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Masks of another day had been read as of the times of those before them.
#[test]
fn a_file_that_is_replaced_before_it_is_read_is_refused_unless_it_is_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    // The second of its last change tells files apart that are made at once.
    let put = |second: u64, rows: usize, day: i64| {
        let new = written(folder.path().join("new"), rows, day);
        let file = std::fs::File::options().write(true).open(&new).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(second))
            .unwrap();
        std::fs::rename(&new, &path).unwrap();
    };
    for (rows, day, is_good) in [(8, 1, true), (8, 2, false), (10, 1, false)] {
        put(1, 8, 1);
        let masks = MaskArchive::open(path.to_str().unwrap()).unwrap();
        put(2, rows, day);
        match masks.read(3) {
            Ok(mask) => assert!(is_good && mask.time == masks.times()[3], "{rows} {day}"),
            Err(error) => {
                let said = error.to_string();
                assert!(!is_good && said.contains("has changed since"), "{said}");
                assert!(said.contains("masks.nc"), "{said}");
            }
        }
    }
}

#[test]
fn bad_files_are_left_out_and_named_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let input = folder.path().to_str().unwrap();
    let open = |bad_files| MaskArchive::open_with(input, None, bad_files);
    let first = written(at("a.nc"), 8, 1);
    written(at("e.nc"), 8, 3);
    assert!(open(BadFiles::Skip).unwrap().skipped().is_empty());
    // Cut short, of another grid, of a time that is there, and no mask at all.
    let whole = std::fs::read(&first).unwrap();
    std::fs::write(at("b.nc"), &whole[..whole.len() / 2]).unwrap();
    written(at("c.nc"), 10, 2);
    std::fs::write(at("d.nc"), &whole).unwrap();
    std::fs::write(at("f.nc"), "no mask").unwrap();
    let error = open(BadFiles::Fail).err().unwrap().to_string();
    assert!(error.contains("b.nc"), "{error}");
    let masks = open(BadFiles::Skip).unwrap();
    assert_eq!(masks.times().len(), 8);
    assert_eq!(masks.source_of(4), at("e.nc"));
    masks.read(7).unwrap();
    let skipped = masks.skipped();
    assert_eq!(skipped.len(), 4, "{skipped:?}");
    for (name, why) in ["b.nc", "c.nc", "d.nc", "f.nc"].iter().zip(skipped) {
        assert!(why.contains(name), "{why}");
    }
    for name in ["a.nc", "e.nc"] {
        std::fs::remove_file(at(name)).unwrap();
    }
    for name in ["c.nc", "d.nc"] {
        std::fs::write(at(name), "no mask").unwrap();
    }
    let error = open(BadFiles::Skip).err().unwrap().to_string();
    assert!(
        error.contains("none of 4 mask files can be used"),
        "{error}"
    );
}

#[test]
fn masks_of_other_rules_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mixed = || {
        let masks = MaskArchive::open(folder.path().to_str().unwrap()).unwrap();
        masks.mixed().map(str::to_string)
    };
    for (name, day) in [("a.nc", 1), ("b.nc", 2)] {
        written(at(name), 8, day);
    }
    assert_eq!(mixed(), None);
    written_by(at("c.nc"), (8, 3), "{\"river\": 21}");
    let said = mixed().unwrap();
    assert!(said.contains("c.nc") && said.contains("a.nc"), "{said}");
    let other = MaskArchive::open(at("c.nc").to_str().unwrap()).unwrap();
    let rules = ("thresholds", "{\"river\": 21}".to_string());
    assert_eq!(other.made_by(), [rules]);
}

/// Only rules have chosen their objects; who reads masks of others drops small ones.
#[test]
fn masks_are_by_rules_if_all_files_name_some_and_none_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let is_by_rules = |names: &[&str]| {
        let paths: Vec<String> = names
            .iter()
            .map(|name| at(name).display().to_string())
            .collect();
        let list = at("list.txt");
        std::fs::write(&list, paths.join("\n")).unwrap();
        MaskArchive::open(list.to_str().unwrap())
            .unwrap()
            .is_by_rules()
    };
    for (name, day) in [("a.nc", 1), ("b.nc", 2), ("network.nc", 3)] {
        written(at(name), 8, day);
    }
    crate::archive::nc::on_library_thread(|| {
        let mut file = netcdf::append(at("network.nc")).unwrap();
        file.add_attribute("squall_model_hash", "3f2a").unwrap();
        file.close().unwrap();
    });
    let grid = LatLonGrid::global(8, 12).unwrap();
    let first = Time::new(Calendar::NoLeap, 2000, 7, 4, 0, 0, 0).unwrap();
    let options = MaskFileOptions::default();
    let mut writer = MaskWriter::create(&at("other.nc"), &grid, first, &options).unwrap();
    let mask = ClassMask::new(first, Array2::zeros(grid.shape())).unwrap();
    writer.write(&mask, None).unwrap();
    writer.finish().unwrap();
    assert!(is_by_rules(&["a.nc", "b.nc"]));
    for not in ["network.nc", "other.nc"] {
        assert!(
            !is_by_rules(&["a.nc", not]) && !is_by_rules(&[not]),
            "{not}"
        );
    }
}

/// Of masks of earlier versions it is not known what was applied.
#[test]
fn masks_that_tell_less_are_not_of_other_rules() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mixed = || {
        let masks = MaskArchive::open(folder.path().to_str().unwrap()).unwrap();
        masks.mixed().is_some()
    };
    let core = |core| [("thresholds", "{}"), ("warm_core", core)];
    written_with(at("a.nc"), (8, 1), &core("heights"));
    written_by(at("b.nc"), (8, 2), "{}");
    written_with(at("c.nc"), (8, 3), &core("heights"));
    assert!(!mixed());
    written_with(at("d.nc"), (8, 4), &core("temperatures"));
    assert!(mixed());
}

/// As xarray writes attributes through h5netcdf: the masks had been of no rules.
#[test]
fn attributes_may_be_strings_of_netcdf_4() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path().join("a.nc"), 8, 1);
    crate::archive::nc::on_library_thread(|| {
        let mut file = netcdf::append(&path).unwrap();
        for (name, text) in [
            ("thresholds", "{\"river\": 21}"),
            ("source", "another tool"),
        ] {
            file.add_attribute(name, vec![text]).unwrap();
        }
        // One for each class: the first alone had been read, and the file refused.
        let words = vec!["background", "tropical_cyclone", "atmospheric_river"];
        let mut labels = file.variable_mut("LABELS").unwrap();
        labels.put_attribute("flag_meanings", words).unwrap();
        file.close().unwrap();
    });
    let rules = "{\"river\": 21}".to_string();
    let masks = MaskArchive::open(path.to_str().unwrap()).unwrap();
    assert_eq!(masks.source(), "another tool");
    assert_eq!(masks.classes(), Class::EVENTS);
    assert_eq!(masks.made_by(), [("thresholds", rules.clone())]);
    assert_eq!(About::read(&path).unwrap().attributes["thresholds"], rules);
}

#[test]
fn a_file_tells_its_grid_and_how_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let about = About::read(&written(folder.path().join("a.nc"), 8, 1)).unwrap();
    assert_eq!(about.grid.shape(), (8, 12));
    assert_eq!(about.calendar, Calendar::NoLeap);
    assert_eq!(about.attributes["thresholds"], "{}");
}
