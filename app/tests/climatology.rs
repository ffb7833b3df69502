//! Rivers of one run by the percentiles of another, through the program.

mod common;

use common::{path, run, simulate, squall, text};
use ndarray::Array2;
use squall_climate::compare::Coverage;
use squall_climate::detect::TransportSource;
use squall_climate::detect::percentile::{
    ClimateOrigin, PercentileDetector, PercentileThresholds, SavedClimatology,
};
use squall_data::Archive;
use squall_data::archive::on_library_thread;
use squall_data::mask_file::{About, MaskArchive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a climatology lies in a folder of labels by percentile.
const SAVED: &str = "climatology/percentile_thresholds.nc";

/// Labels by percentile, as a command says it.
fn label(fields: &Path, out: &Path, more: &[&str]) -> std::process::Output {
    let call = ["label", path(fields), "--out", path(out)];
    squall().args(call).args(more).output().expect("starts")
}

fn labelled(fields: &Path, out: &Path, more: &[&str]) {
    let output = label(fields, out, more);
    assert!(output.status.success(), "{}", text(&output));
}

const BY_PERCENTILE: [&str; 2] = ["--method", "percentile"];

/// The same by the climate of another run.
fn by(climatology: &Path) -> Vec<&str> {
    [&BY_PERCENTILE[..], &["--climatology", path(climatology)]].concat()
}

/// The attributes of the masks in a folder.
fn attribute(masks: &Path, name: &str) -> String {
    let masks = MaskArchive::open(path(masks)).expect("masks");
    let first = masks.paths().next().expect("a file");
    About::read(first).expect("readable").attributes[name].clone()
}

/// Some times of six-hourly fields, 48 x 72 or on another grid, from some day on.
fn simulate_from(out: &Path, start: &str, days: &str, grid: &str) {
    let call = ["simulate", "--out", path(out), "--grid", grid, "--hours"];
    let more = ["6", "--seed", "5", "-q", "--days", days, "--start", start];
    run(&[&call[..], &more].concat());
}

#[test]
fn a_run_by_its_own_saved_climatology_is_the_same_and_others_go_by_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    // Percentiles want forty times.
    let fields = simulate(folder.path(), 12, 1);
    let (own, again) = (at("own"), at("again"));
    labelled(&fields, &own, &BY_PERCENTILE);
    labelled(&fields, &again, &by(&own));
    let [a, b] = [&own, &again].map(|masks| MaskArchive::open(path(masks)).expect("masks"));
    assert_eq!((a.times(), a.times().len()), (b.times(), 48));
    let mut rivers = 0;
    for index in 0..48 {
        let mask = a.read(index).expect("a mask");
        rivers += mask.codes.iter().filter(|code| **code == 2).count();
        assert!(mask == b.read(index).expect("a mask"), "{index}");
    }
    assert!(rivers > 0);
    let objects = |masks: &Path| std::fs::read(masks.join("objects.csv")).expect("a table");
    assert!(objects(&own) == objects(&again));
    // Both are by one climate, which the second hands on, and say so, to whom compares them, too.
    let saved = |masks: &Path| std::fs::read(masks.join(SAVED)).expect("a climatology");
    assert!(saved(&own) == saved(&again));
    for name in ["percentile_climatology", "thresholds"] {
        assert_eq!(attribute(&own, name), attribute(&again, name), "{name}");
    }
    let told = attribute(&own, "percentile_climatology");
    assert!(
        told.contains(": 48 times from 2000-08-01T00:00:00 to 2000-08-12T18:00:00 (noleap) of squall_present_seed1"),
        "{told}"
    );
    let whose = [&own, &again].map(|masks| attribute(masks, "percentile_climatology_of"));
    assert_eq!(whose, ["the run itself", "another run"]);
    let events = at("events");
    run(&["events", path(&again), "--out", path(&events), "-q"]);
    let rules = Coverage::read(&events, None).expect("statistics").rules;
    assert_eq!(rules["masks.percentile_climatology"], told);
    // A day of another run, beside another method; its folder of labels is as good as the first.
    let (short, labels, third) = (simulate(folder.path(), 1, 2), at("short"), at("third"));
    let both = [
        "--method",
        "deepcam,percentile",
        "--climatology",
        path(&again),
    ];
    labelled(&short, &labels, &both);
    assert!(saved(&labels.join("percentile")) == saved(&own));
    labelled(&short, &third, &by(&labels));
    assert_eq!(attribute(&third, "percentile_climatology"), told);
    // In the folder of one climate there is no place for labels by another, nor by one's own.
    for (out, more, changed) in [
        (
            &again,
            BY_PERCENTILE.to_vec(),
            "was another run, is the run itself",
        ),
        (&own, by(&again), "was the run itself, is another run"),
    ] {
        let output = label(&fields, out, &more);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(changed), "{said}");
    }
}

/// Whatever would make a comparison unfair is refused by name, before anything is written.
#[test]
fn a_climatology_that_is_none_or_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 10, 1);
    let own = at("own");
    labelled(&fields, &own, &BY_PERCENTILE);
    let saved = own.join(SAVED);
    let (winter, coarse) = (at("winter"), at("coarse"));
    simulate_from(&winter, "2000-01-31", "2", "48x72");
    simulate_from(&coarse, "2000-08-01", "1", "24x36");
    let (damaged, empty) = (at("damaged.nc"), at("empty"));
    let bytes = std::fs::read(&saved).expect("readable");
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).expect("written");
    std::fs::create_dir(&empty).expect("created");
    let strict = at("strict.toml");
    std::fs::write(
        &strict,
        "[percentile]\nmin_length_km = 1000.0\npercentile = 90.0\n",
    )
    .expect("written");
    let water = at("water.toml");
    std::fs::write(&water, "[percentile]\nmoisture = \"column_water\"\n").expect("written");
    let entries = std::fs::read_dir(&fields).expect("a folder");
    let mut files = entries.map(|entry| entry.expect("an entry").path());
    let is_field = |file: &PathBuf| file.extension().is_some_and(|end| end == "nc");
    let field = files.find(is_field).expect("a file");
    let out = at("labels");
    let refuses = |fields: &Path, more: &[&str], code: i32, told: &[&str]| {
        let output = label(fields, &out, more);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains("hint: "), "{more:?}: {said}");
        for told in told {
            assert!(said.contains(told), "{told}: {said}");
        }
        assert!(!out.exists(), "{more:?}");
    };
    let climatology = |named: &Path, told: &[&str]| {
        let more = ["--method", "percentile", "--climatology", path(named)];
        refuses(&fields, &more, 3, told);
    };
    climatology(&empty, &["has no climatology/percentile_thresholds.nc"]);
    climatology(&at("absent.nc"), &["cannot open", "absent.nc"]);
    climatology(&damaged, &["damaged.nc", "netCDF"]);
    climatology(&field, &["variable `threshold`: expected thresholds that"]);
    let by = ["--method", "percentile", "--climatology", path(&own)];
    refuses(
        &winter,
        &by,
        3,
        &["months: expected January to February", "found August"],
    );
    refuses(
        &coarse,
        &by,
        3,
        &["grid: expected 24 x 36", "found 48 x 72"],
    );
    for (file, told) in [
        (&strict, "`percentile` of [percentile] is 90 in "),
        (&water, "`moisture` of [percentile] is column_water in "),
    ] {
        let more = [&by[..], &["--thresholds", path(file)]].concat();
        refuses(&fields, &more, 2, &[told, "percentile_thresholds.nc"]);
    }
    for method in ["deepcam", "tempest,bard"] {
        let more = ["--method", method, "--climatology", path(&own)];
        refuses(&fields, &more, 2, &["add percentile to --method"]);
    }
    // A number that no percentile follows from is the user's.
    let shorter = at("shorter.toml");
    std::fs::write(&shorter, "[percentile]\nmin_length_km = 1000.0\n").expect("written");
    labelled(
        &fields,
        &out,
        &[&by[..], &["--thresholds", path(&shorter)]].concat(),
    );
    let thresholds = attribute(&out, "thresholds");
    assert!(
        thresholds.contains("\"min_length_km\":1000.0"),
        "{thresholds}"
    );
}

/// Writes humidity and winds of these names on levels, of a time in August.
fn write_levels(path: &Path, names: [&str; 3], levels_hpa: &[f64], has_surface: bool) {
    let written = on_library_thread(|| -> netcdf::Result<()> {
        let mut file = netcdf::create(path)?;
        let lat_deg: Vec<f64> = (0..24).map(|j| -86.25 + 7.5 * f64::from(j)).collect();
        let lon_deg: Vec<f64> = (0..36).map(|i| 10.0 * f64::from(i)).collect();
        for (name, values, units) in [
            ("time", &[0.0][..], "days since 2000-08-01 00:00:00"),
            ("lev", levels_hpa, "hPa"),
            ("lat", &lat_deg[..], "degrees_north"),
            ("lon", &lon_deg[..], "degrees_east"),
        ] {
            file.add_dimension(name, values.len())?;
            let mut axis = file.add_variable::<f64>(name, &[name])?;
            axis.put_attribute("units", units)?;
            axis.put_values(values, ..)?;
        }
        let cells = lat_deg.len() * lon_deg.len();
        for (name, units, value) in [
            (names[0], "kg kg-1", 0.005f32),
            (names[1], "m s-1", 12.0),
            (names[2], "m s-1", 5.0),
        ] {
            let mut field = file.add_variable::<f32>(name, &["time", "lev", "lat", "lon"])?;
            field.put_attribute("units", units)?;
            field.put_values(&vec![value; levels_hpa.len() * cells], ..)?;
        }
        if has_surface {
            let mut surface = file.add_variable::<f32>("ps", &["time", "lat", "lon"])?;
            surface.put_attribute("units", "Pa")?;
            surface.put_values(&vec![98_000.0f32; cells], ..)?;
        }
        Ok(())
    });
    written.expect("a file of levels");
}

/// A climatology of the fields' grid as files had it that did not say how moisture was computed.
fn write_unrecorded(path: &Path, fields: &Path) {
    let grid = Archive::open(common::path(fields))
        .expect("fields")
        .grid()
        .clone();
    let rules = PercentileThresholds {
        min_times: 1,
        ..PercentileThresholds::default()
    };
    let detector = PercentileDetector::new(&rules, grid.clone()).expect("rules");
    let mut counts = detector.climatology();
    let plane = Array2::from_elem(grid.shape(), 300.0f32);
    counts.add(8, plane.view()).expect("a time");
    let origin = ClimateOrigin {
        input: "old.nc".into(),
        span: ["2000-08-01T00:00:00"; 2].map(String::from),
        calendar: "standard".into(),
        transport: Some(TransportSource::Levels.describe().into()),
        moisture: None,
    };
    let thresholds = Arc::new(counts.thresholds(&rules).expect("thresholds"));
    let made = SavedClimatology::new(thresholds, &rules, grid, origin).expect("a climatology");
    made.write(path).expect("written");
}

/// A sum over other levels, or with those below the ground, is another quantity; a name is only a name.
#[test]
fn percentiles_of_transport_over_other_levels_are_refused() {
    const CMIP: [&str; 3] = ["hus", "ua", "va"];
    const LEVELS: [f64; 5] = [1000.0, 850.0, 700.0, 500.0, 300.0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    write_levels(&at("all.nc"), CMIP, &LEVELS, false);
    write_levels(&at("same.nc"), CMIP, &LEVELS, false);
    write_levels(&at("fewer.nc"), CMIP, &LEVELS[..4], false);
    write_levels(&at("ground.nc"), CMIP, &LEVELS, true);
    write_levels(&at("renamed.nc"), ["Q", "U", "V"], &LEVELS, false);
    let rules = at("rules.toml");
    std::fs::write(&rules, "[percentile]\nmin_times = 1\n").expect("written");
    let climate = at("climate");
    let own = [&BY_PERCENTILE[..], &["--thresholds", path(&rules)]].concat();
    labelled(&at("all.nc"), &climate, &own);
    for (name, told) in [
        (
            "fewer",
            "the levels that moisture is summed over: expected 4 (500, 700, 850, 1000 hPa), as the fields have, found 5 \
             (300, 500, 700, 850, 1000 hPa)",
        ),
        (
            "ground",
            "those above the ground, which surface pressure tells, as the fields have, found",
        ),
    ] {
        let out = at(name);
        let output = label(&at(&format!("{name}.nc")), &out, &by(&climate));
        let said = text(&output);
        assert_eq!(output.status.code(), Some(3), "{name}: {said}");
        assert!(said.contains(told), "{name}: {said}");
        assert!(said.contains("hint: ") && !out.exists(), "{name}: {said}");
    }
    let said_of = |name: &str, climate: &Path| {
        let out = at(&format!("{name}_labels"));
        let output = label(&at(&format!("{name}.nc")), &out, &by(climate));
        let said = text(&output);
        assert!(output.status.success(), "{name}: {said}");
        said
    };
    let said = said_of("same", &climate);
    assert!(!said.contains("moisture is computed"), "{said}");
    let said = said_of("renamed", &climate);
    let told = "moisture is computed from Q, U, V here, from hus, ua, va in the climatology";
    assert!(said.contains(told), "{said}");
    let old = at("old.nc");
    write_unrecorded(&old, &at("all.nc"));
    let said = said_of("all", &old);
    assert!(said.contains("cannot be checked"), "{said}");
    // The same of column water, where that is a sum.
    let (water, wet) = (at("water.toml"), at("wet"));
    let text_of_rules = "[percentile]\nmin_times = 1\nmoisture = \"column_water\"\n";
    std::fs::write(&water, text_of_rules).expect("written");
    let by_water = [&BY_PERCENTILE[..], &["--thresholds", path(&water)]].concat();
    labelled(&at("all.nc"), &wet, &by_water);
    let output = label(&at("fewer.nc"), &at("fewer"), &by(&wet));
    let said = text(&output);
    assert!(said.contains("summed over: expected 4 (500, "), "{said}");
    assert!(!at("fewer").exists(), "{said}");
    // A series of both has no percentiles.
    let (series, out) = (at("series"), at("series_labels"));
    std::fs::create_dir(&series).expect("created");
    for (name, day) in [("all", 0.0), ("fewer", 1.0)] {
        let file = series.join(format!("{name}.nc"));
        std::fs::copy(at(&format!("{name}.nc")), &file).expect("copied");
        let moved = on_library_thread(|| -> netcdf::Result<()> {
            let mut file = netcdf::append(&file)?;
            let mut time = file.variable_mut("time").ok_or("none")?;
            time.put_values(&[day], ..)
        });
        moved.expect("at another time");
    }
    let output = label(&series, &out, &own);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let told = "the levels that moisture is summed over at 2000-08-02T00:00:00 in";
    assert!(said.contains(told) && !out.exists(), "{said}");
}
