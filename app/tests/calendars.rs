//! Masks and fields of the two Gregorian calendars, which are one since 1582-10-15.

mod common;

use common::{path, run, squall, text};
use ndarray::Array2;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::synthetic::{STEPS_PER_FILE, Scenario, SyntheticConfig, write_run};
use squall_data::{Calendar, ClassMask, LatLonGrid, Time};
use std::path::Path;

fn august(calendar: Calendar, year: i64) -> Time {
    Time::new(calendar, year, 8, 1, 0, 0, 0).expect("a date")
}

/// A day of fields.
fn fields(folder: &Path, first: Time) {
    let config = SyntheticConfig {
        start: first,
        rows: 24,
        columns: 36,
        step_hours: 6,
        steps: 4,
        scenario: Scenario::PRESENT,
        seed: 3,
    };
    write_run(&config, folder, STEPS_PER_FILE, |_| Ok(())).expect("written");
}

/// A day of masks of a cyclone that stays.
fn masks(file: &Path, first: Time) {
    let grid = LatLonGrid::global(24, 36).expect("a grid");
    let options = MaskFileOptions::default();
    let mut writer = MaskWriter::create(file, &grid, first, &options).expect("created");
    let (row, column) = grid.nearest(15.0, 200.0);
    for step in 0..4 {
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            u8::from(j.abs_diff(row) < 2 && i.abs_diff(column) < 2)
        });
        let mask = ClassMask::new(first.add_seconds(6 * 3600 * step), codes).expect("a mask");
        writer.write(&mask, None).expect("written");
    }
    writer.finish().expect("written");
}

#[test]
fn fields_may_have_the_other_gregorian_calendar() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    fields(&at("fields"), august(Calendar::Standard, 2000));
    let tables = ["standard", "proleptic_gregorian"].map(|name| {
        let calendar = Calendar::from_cf(name).expect("a calendar");
        let (file, out) = (at(&format!("{name}.nc")), at(name));
        masks(&file, august(calendar, 2000));
        let of = [path(&file), "--fields", path(&at("fields")), "--out"].map(str::to_string);
        let of: Vec<&str> = of.iter().map(String::as_str).collect();
        run(&[&["events"][..], &of[..], &[path(&out), "-q"]].concat());
        let page = at(&format!("{name}.html"));
        run(&[&["report"][..], &of[..], &[path(&page), "-q"]].concat());
        ["events.csv", "tracks.csv"]
            .map(|table| std::fs::read_to_string(out.join(table)).expect("a table"))
    });
    assert!(tables[0][0].lines().count() == 5, "{}", tables[0][0]);
    assert!(tables[0] == tables[1], "{tables:?}");
}

#[test]
fn fields_of_other_days_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    for (name, of_masks, of_fields, year) in [
        ("leap", Calendar::NoLeap, Calendar::Standard, 2000),
        // Ten days apart, although both have the dates.
        (
            "old",
            Calendar::ProlepticGregorian,
            Calendar::Standard,
            1582,
        ),
    ] {
        let (run, file) = (at(name), at(&format!("{name}.nc")));
        fields(&run, august(of_fields, year));
        masks(&file, august(of_masks, year));
        let refused = |command: &str, out: &str, code: i32| {
            let out = at(out);
            let call = [command, path(&file), "--fields", path(&run), "--out"];
            let output = squall().args(call).arg(&out).output().expect("starts");
            let said = text(&output);
            assert_eq!(output.status.code(), Some(code), "{name}: {said}");
            let names = [of_masks, of_fields].map(Calendar::cf_name);
            assert!(names.iter().all(|name| said.contains(name)), "{said}");
            assert!(!out.exists(), "{name}: something was written");
        };
        refused("events", "events", 3);
        refused("report", "page.html", 2);
    }
}
