//! Masks and fields that do not belong together, and fields in which nobody can tell a cyclone.

mod common;

use common::{path, real, run, simulate, squall, text};
use ndarray::Array2;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::{Calendar, ClassMask, LatLonGrid, Time};
use std::path::Path;

/// Runs the program, which must refuse its input (exit code 3), say every one of `words`, and not panic.
fn refuses(arguments: &[&str], words: &[&str]) {
    common::refuses(arguments, 3, words);
}

/// Six-hourly masks of a cyclone at 15N that drifts westward.
fn masks(file: &Path, first: Time, steps: i64) {
    let grid = LatLonGrid::global(48, 72).expect("a grid");
    let options = MaskFileOptions::default();
    let mut writer = MaskWriter::create(file, &grid, first, &options).expect("created");
    for step in 0..steps {
        let (row, column) = grid.nearest(15.0, 200.0 - 2.0 * step as f64);
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            u8::from(j.abs_diff(row) < 2 && i.abs_diff(column) < 2)
        });
        let mask = ClassMask::new(first.add_seconds(6 * 3600 * step), codes).expect("a mask");
        writer.write(&mask, None).expect("written");
    }
    writer.finish().expect("written");
}

fn august(calendar: Calendar, year: i64) -> Time {
    Time::new(calendar, year, 8, 1, 0, 0, 0).expect("a date")
}

#[test]
fn masks_and_fields_that_do_not_match() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    let (file, out) = (at("masks.nc"), at("events"));
    let call = [
        "events",
        path(&file),
        "--fields",
        path(&fields),
        "--out",
        path(&out),
    ];

    masks(&file, august(Calendar::Standard, 2000), 4);
    refuses(
        &call,
        &["calendar of the fields", "noleap", "standard", "hint:"],
    );
    masks(&file, august(Calendar::NoLeap, 1990), 4);
    refuses(&call, &["times of the fields", "1990-08-01", "2000-08-01"]);

    masks(&file, august(Calendar::NoLeap, 2000), 8);
    let coarse = at("coarse");
    run(&[
        "simulate",
        "--out",
        path(&coarse),
        "--grid",
        "32x64",
        "--days",
        "1",
        "--hours",
        "6",
        "--start",
        "2000-08-01",
        "--quiet",
    ]);
    let other = [
        "events",
        path(&file),
        "--fields",
        path(&coarse),
        "--out",
        path(&out),
    ];
    refuses(&other, &["grid of the fields", "48", "32", "hint:"]);
    assert!(!out.join("events.csv").exists(), "nothing was written");

    // Fields of the first of two days: said, and blank on the second.
    let output = squall().args(call).output().expect("the program starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no fields at 4 of 8 times"), "{said}");
    let table = std::fs::read_to_string(out.join("events.csv")).expect("a table");
    let mut rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let columns = rows.next().expect("a header");
    let pressure = columns.iter().position(|name| *name == "min_psl_pa");
    let pressure = pressure.expect("a column of pressure");
    let known: Vec<bool> = rows.map(|row| !row[pressure].is_empty()).collect();
    assert_eq!(known, [true, true, true, true, false, false, false, false]);
}

/// What a file tells is not overruled, and not passed over in silence.
#[test]
fn a_calendar_that_the_file_contradicts_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (file, out) = (at("masks.nc"), at("events"));
    masks(&file, august(Calendar::NoLeap, 2000), 12);
    let call = |input: &Path, out: &Path, calendar: &str| {
        [
            "events",
            path(input),
            "--out",
            path(out),
            "--calendar",
            calendar,
        ]
        .map(str::to_string)
    };
    let refused = |input: &Path| {
        let call = call(input, &at("refused"), "standard");
        let words = ["calendar differs", "noleap", "standard", "hint:"];
        refuses(&call.each_ref().map(String::as_str), &words);
        assert!(!at("refused").join("events.csv").exists());
    };
    refused(&file);
    let formats = ["--format", "teca,ibtracs,geojson"];
    let whole = call(&file, &out, "noleap");
    let whole: Vec<&str> = whole.iter().map(String::as_str).chain(formats).collect();
    run(&whole);
    for name in [
        "tracks.tropical_cyclone.teca.csv",
        "tracks.tropical_cyclone.ibtracs.nc",
        "events.geojson",
    ] {
        refused(&out.join(name));
    }
    // Tracks and tables of events are of use.
    run(&["inspect", path(&out)]);
    run(&[
        "inspect",
        path(&out.join("tracks.tropical_cyclone.ibtracs.nc")),
    ]);
}

#[test]
fn masks_without_any_event_give_tables_without_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("masks.nc"), folder.path().join("events"));
    let first = august(Calendar::NoLeap, 2000);
    let grid = LatLonGrid::global(48, 72).expect("a grid");
    let options = MaskFileOptions::default();
    let mut writer = MaskWriter::create(&file, &grid, first, &options).expect("created");
    let mask = ClassMask::new(first, Array2::zeros(grid.shape())).expect("a mask");
    writer.write(&mask, None).expect("written");
    writer.finish().expect("written");
    let said = run(&["events", path(&file), "--out", path(&out), "--json"]);
    // Whose netCDF has neither fields nor masks, but who wrote it is known.
    let inspected = squall().args(["inspect", path(&out)]).output();
    let inspected = text(&inspected.expect("starts"));
    assert!(
        inspected.contains("it holds tables of `squall events`"),
        "{inspected}"
    );
    assert!(
        said.contains("\"cyclones\":0") || said.contains("\"cyclones\": 0"),
        "{said}"
    );
    for name in ["events.csv", "tracks.csv"] {
        let table = std::fs::read_to_string(out.join(name)).expect("a table");
        assert_eq!(table.lines().count(), 1, "{name}: {table}");
    }
}

/// As `squall infer --skip-bad` leaves it where no time could be used.
#[test]
fn a_table_of_boxes_that_holds_no_time_is_told_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (table, out) = (
        folder.path().join("boxes.csv"),
        folder.path().join("events"),
    );
    let header = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n";
    std::fs::write(&table, header).expect("written");
    let words = ["boxes.csv` has neither boxes nor times", "hint: a time at"];
    refuses(&["events", path(&table), "--out", path(&out)], &words);
    assert!(!out.exists());
}

#[test]
fn cyclones_that_are_never_strong_are_left_out_where_the_wind_is_known() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    // A cyclone of the masks that the fields know nothing of, not at the first time and not at the last, where their
    // pressure stands still.
    let grid = LatLonGrid::global(48, 72).expect("a grid");
    let first = august(Calendar::NoLeap, 2000);
    let file = at("masks.nc");
    let mut writer =
        MaskWriter::create(&file, &grid, first, &MaskFileOptions::default()).expect("created");
    for step in 0..12 {
        let cell = grid.nearest(-78.5, 10.0);
        let there = (1..11).contains(&step);
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| u8::from(there && (j, i) == cell));
        let mask = ClassMask::new(first.add_seconds(6 * 3600 * step), codes).expect("a mask");
        writer.write(&mask, None).expect("written");
    }
    writer.finish().expect("written");
    let tracks = |least: &str| {
        let out = at(&format!("events-{least}"));
        let (masks, fields) = (path(&file), path(&fields));
        run(&[
            "events",
            masks,
            "--fields",
            fields,
            "--min-wind",
            least,
            "--out",
            path(&out),
        ]);
        let table = std::fs::read_to_string(out.join("tracks.csv")).expect("a table");
        let events = std::fs::read_to_string(out.join("events.csv")).expect("a table");
        (table.lines().count() - 1, events.lines().count() - 1)
    };
    assert_eq!(tracks("0"), (1, 10));
    // What was seen stays in the table of events, as of tracks that are too short.
    assert_eq!(tracks("60"), (0, 10));
    let out = at("no");
    // The same asked for in a file.
    let tracking = at("tracking.toml");
    std::fs::write(&tracking, "[tropical_cyclone]\nmin_peak_wind_m_s = 17\n").expect("written");
    let refused = |more: &[&str], said: &str| {
        let call = ["events", path(&file), "--out", path(&out)];
        common::refuses(&[&call[..], more].concat(), 2, &[said]);
    };
    let asks = ["--tracking", path(&tracking), "--min-wind", "17"];
    // Whoever asked is told, not who did not.
    let in_file = format!("min_peak_wind_m_s in `{}`: there are no", path(&tracking));
    refused(&asks[..2], &in_file);
    refused(&asks[2..], "--min-wind: there are no fields");
    refused(&asks, "--min-wind: there are no fields");
    refused(&["--fields", path(&fields), "--min-wind", "-1"], "-1");
    refused(&["--min-cyclone-km2", "nan"], "nan");
    refused(&["--min-river-km2=-5"], "-5");
}

/// Sea-level pressure alone does not tell a hurricane from a winter storm: the deepest low of this analysis is one.
#[test]
fn lows_of_pressure_alone_do_not_become_cyclones() {
    let Some(file) = real("mslp-ecmwf-0p4-202208/mslp.nc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("labels");
    for method in ["deepcam", "tempest"] {
        let call = [
            "label",
            path(&file),
            "--method",
            method,
            "--out",
            path(&out),
        ];
        refuses(&call, &["T200", "T500", "Z200", "hint:"]);
    }
    assert!(!out.join("objects.csv").exists(), "nothing was labelled");
}

/// Curvilinear coordinates that move with the storm.
#[test]
fn a_nest_that_moves_is_refused() {
    let Some(file) = real("katrina-wrf-nest/ci_test_file.nc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let words = ["XLAT", "curvilinear", "regridded", "hint:"];
    refuses(&["label", path(&file), "--out", path(&out)], &words);
    // It is described, and cannot be used.
    refuses(
        &["inspect", path(&file)],
        &["WRF", "curvilinear", "can be used", "hint:"],
    );
}

/// What would do harm, mislead, or be passed over in silence.
#[test]
fn tables_and_fields_where_they_do_not_belong() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 2, 3);
    let another = simulate(folder.path(), 2, 4);
    let (labels, truth, page) = (at("labels"), fields.join("truth"), at("page.html"));
    run(&["label", path(&fields), "--out", path(&labels), "--quiet"]);
    let refuses = |arguments: &[&str], words: &[&str]| {
        common::refuses(arguments, 2, &[words, &["hint:"]].concat());
    };
    let truths = std::fs::read(truth.join("tracks.csv")).expect("a truth");
    refuses(
        &["events", path(&truth), "--out", path(&truth)],
        &["holds masks or fields"],
    );
    assert_eq!(
        std::fs::read(truth.join("tracks.csv")).expect("a truth"),
        truths
    );

    let report = |masks: &str, fields: &Path| {
        let words = [
            "report",
            masks,
            "--fields",
            path(fields),
            "--out",
            path(&page),
        ];
        words.map(str::to_string)
    };
    let of = |call: &[String; 6], words: &[&str]| {
        refuses(&call.each_ref().map(String::as_str), words);
    };
    of(
        &report(&format!("{}:nowhere", path(&labels)), &fields),
        &["nowhere", "events.csv"],
    );
    let (later, fine) = (at("later"), at("fine"));
    let simulate = ["simulate", "--days", "1", "--seed", "3", "--quiet"];
    run(&[
        &simulate[..],
        &[
            "--out",
            path(&later),
            "--grid",
            "48x72",
            "--start",
            "2001-01-01",
        ],
    ]
    .concat());
    run(&[&simulate[..], &["--out", path(&fine), "--grid", "60x90"]].concat());
    of(
        &report(path(&labels), &later),
        &["none of the masks' times", "2001-01-01"],
    );
    of(&report(path(&labels), &fine), &["another grid", "60"]);
    let mut onto_a_table = report(path(&labels), &fields);
    let table = path(&truth.join("tracks.csv")).to_string();
    onto_a_table[5] = table.clone();
    of(&onto_a_table, &[table.as_str(), "neither .html nor .htm"]);
    assert_eq!(std::fs::read(&table).expect("a truth"), truths);
    // Of the same times and another run: only the files' names tell.
    let other = report(path(&labels), &another);
    let said = squall().args(&other).output().expect("starts");
    assert!(said.status.success(), "{}", text(&said));
    assert!(
        text(&said).contains("are they of the same run?"),
        "{}",
        text(&said)
    );
    let own = report(path(&labels), &fields);
    let said = squall().args(&own).output().expect("starts");
    assert!(said.status.success(), "{}", text(&said));
    assert!(!text(&said).contains("same run?"), "{}", text(&said));
    let events = at("events");
    masks(&at("masks.nc"), august(Calendar::NoLeap, 1990), 4);
    run(&[
        "events",
        path(&at("masks.nc")),
        "--out",
        path(&events),
        "--object-id",
        "--quiet",
    ]);
    of(
        &report(path(&events), &fields),
        &["tables of events and no masks", "MASKS:"],
    );
    let others = format!("{}:{}", path(&labels), path(&events));
    of(
        &report(&others, &fields),
        &["are not those of", "1990-08-01"],
    );

    // Without a table the page does not say that there was nothing.
    std::fs::remove_file(labels.join("objects.csv")).expect("removed");
    run(&["report", path(&labels), "--out", path(&page), "--quiet"]);
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("No table of events of the"), "no word of it");
    assert!(!html.contains("No events were found by any source"));

    let label = [
        "label",
        path(&fields),
        "--out",
        path(&labels),
        "--method",
        "tempest",
    ];
    refuses(
        &[&label[..], &["--rivers", "relaxed"]].concat(),
        &["--rivers", "deepcam"],
    );
    refuses(
        &[&label[..], &["--bard-members", "none.csv"]].concat(),
        &["--method bard"],
    );
}

/// Masks and fields are known by what is in them and may have any name, also that of a movie.
#[test]
fn a_movie_takes_the_place_of_nothing_that_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (file, recipe, page) = (at("masks.png"), at("recipe.apng"), at("page.html"));
    masks(&file, august(Calendar::NoLeap, 2000), 4);
    std::fs::write(&recipe, "seed = 7\n").expect("written");
    let before = common::contents(folder.path(), |_| false);
    let other_spelling = folder.path().join(".").join("masks.png");
    for movie in [&file, &other_spelling, &recipe] {
        let report = ["report", path(&file), "--recipe", path(&recipe)];
        let outputs = ["--movie", path(movie), "--out", path(&page)];
        let words = ["is read, and would be replaced", "hint:"];
        common::refuses(&[report, outputs].concat(), 2, &words);
    }
    assert!(common::contents(folder.path(), |_| false) == before);
}

/// Missing times are said once by every command that looks at all of them; keys of thresholds that there are none of
/// are told with those that there are.
#[test]
fn gaps_and_wrong_keys_are_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 8, 3);
    for day in ["03", "05"] {
        for name in [
            format!("squall_present_seed3.cam.h2.2000-08-{day}-00000.nc"),
            format!("truth/truth.2000-08-{day}-00000.nc"),
        ] {
            std::fs::remove_file(fields.join(name)).expect("removed");
        }
    }
    let (truth, labels, events) = (fields.join("truth"), at("labels"), at("events"));
    let gap = "a gap: no time between 2000-08-02T18:00:00 and 2000-08-07T00:00:00 (4.3 days; mostly every 6 h)";
    for call in [
        &["inspect", path(&fields)][..],
        &["label", path(&fields), "--out", path(&labels)],
        &[
            "label",
            path(&fields),
            "--method",
            "bard",
            "--out",
            path(&at("bard")),
        ],
        &[
            "events",
            path(&labels),
            "--fields",
            path(&fields),
            "--out",
            path(&events),
        ],
        &["events", path(&truth), "--out", path(&at("truths"))],
    ] {
        let output = squall().args(call).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches(gap).count(), 1, "{call:?}: {said}");
    }
    let thresholds = at("rules.toml");
    std::fs::write(&thresholds, "[cyclone]\nmin_vorticity = 1\n").expect("written");
    for (method, tables) in [
        ("deepcam", "[cyclone], [river]"),
        ("tempest", "[tempest.node]"),
    ] {
        let out = at("no");
        let label = [
            "label",
            path(&fields),
            "--out",
            path(&out),
            "--method",
            method,
        ];
        let call = [&label[..], &["--thresholds", path(&thresholds)]].concat();
        let output = squall().args(&call).output().expect("starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for word in ["rules.toml", "docs/events.md", tables] {
            assert!(said.contains(word), "no `{word}`: {said}");
        }
        assert!(!said.contains("Thresholds`"), "{said}");
    }
}

/// What follows from the tables can fail when a century of work is done: the same command goes on from the end of it.
#[test]
fn what_fails_after_the_tables_costs_no_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("masks.nc"), folder.path().join("events"));
    masks(&file, august(Calendar::NoLeap, 2000), 12);
    let call = ["events", path(&file), "--out", path(&out), "--json"];
    let untouched = folder.path().join("untouched");
    run(&["events", path(&file), "--out", path(&untouched), "-q"]);
    // A folder stands where statistics.nc is to be.
    std::fs::create_dir_all(out.join("statistics.nc/full")).expect("a folder");
    let output = squall().args(call).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    std::fs::remove_dir_all(out.join("statistics.nc")).expect("removed");
    // As another build left it.
    std::fs::write(out.join(".builds.json"), "[\"another\"]").expect("written");
    let output = squall().args(call).output().expect("the program starts");
    let said = text(&output);
    for words in [
        "\"resumed_after\": 12",
        "begun by another build of squall (another)",
    ] {
        assert!(said.contains(words), "no `{words}`: {said}");
    }
    let skip = |name: &str| name.ends_with(".nc");
    assert!(common::contents(&out, skip) == common::contents(&untouched, skip));
    assert!(!out.join(".events.partial").exists() && out.join("statistics.nc").is_file());
    // And once it is done it is done: the next call begins anew.
    assert!(run(&call).contains("\"resumed_after\": 0"));
}

#[test]
fn times_that_a_format_does_not_know_are_refused_before_the_work() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("masks.nc"), folder.path().join("events"));
    masks(&file, august(Calendar::NoLeap, 2000).add_seconds(1800), 4);
    let call = [
        "events",
        path(&file),
        "--out",
        path(&out),
        "--format",
        "csv",
    ];
    common::refuses(&call, 2, &["full hours only", "00:30"]);
    assert!(!out.join("events.csv").exists());
}
