//! The reader on files written here: every order, packing and fault that real archives show.

mod archive_support;

use archive_support::{Field, FileSpec, path_of, values_of, write};
use proptest::prelude::*;
use squall_data::archive::{BadFiles, on_library_thread};
use squall_data::inspect::inspect;
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, DataError, Variable};
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

const PSL: [Variable; 1] = [Variable::Psl];

fn open(path: &std::path::Path) -> Archive {
    Archive::open(path.to_str().unwrap()).unwrap()
}

#[test]
fn files_in_any_order_are_one_axis() {
    let folder = tempfile::tempdir().unwrap();
    // By name the later days come first.
    for (name, first) in [("a.nc", 4.0), ("b.nc", 0.0), ("c.nc", 2.0)] {
        write(
            &folder.path().join(name),
            &FileSpec {
                times: vec![first, first + 1.0],
                ..FileSpec::default()
            },
        );
    }
    let archive = open(folder.path());
    assert_eq!(archive.times().len(), 6);
    assert!(archive.times().windows(2).all(|pair| pair[0] < pair[1]));
    let (path, at) = archive.source_of(5);
    assert_eq!((path.file_name().unwrap().to_str(), at), (Some("a.nc"), 1));
    assert_eq!(archive.find(archive.times()[3]), Some(3));
    for index in 0..6 {
        let snapshot = archive.read(index, &PSL).unwrap();
        assert_eq!(
            snapshot.fields,
            values_of(archive.grid(), index as f64, 1.0)
        );
    }
    let list = folder.path().join("list.txt");
    fs::write(&list, "# days\nc.nc\n\nb.nc\n").unwrap();
    assert_eq!(open(&list).times().len(), 4);
    assert_eq!(open(&folder.path().join("[ab].nc")).times().len(), 4);
    let error = archive.read(6, &PSL).unwrap_err();
    assert!(matches!(error, DataError::Invalid(_)), "{error}");
}

#[test]
fn variables_split_over_file_sets() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder.path().join("psl.nc"),
        &FileSpec {
            times: vec![0.0, 1.0],
            ..FileSpec::default()
        },
    );
    for (name, day) in [("wind0.nc", 0.0), ("wind1.nc", 1.0)] {
        let fields = vec![Field::named("U10", "m s-1")];
        write(
            &folder.path().join(name),
            &FileSpec {
                times: vec![day],
                fields,
                ..FileSpec::default()
            },
        );
    }
    let archive = open(folder.path());
    assert_eq!(archive.available(), [Variable::Ubot, Variable::Psl]);
    let both = archive.read(1, &[Variable::Psl, Variable::Ubot]).unwrap();
    assert_eq!(
        both.field(Variable::Psl),
        both.field(Variable::Ubot),
        "made alike"
    );
    assert!(
        archive
            .problems()
            .iter()
            .any(|p| p.contains("UBOT") && p.contains("10 m wind"))
    );
    // What is in them is told of each make of file.
    let inspection = inspect(folder.path().to_str().unwrap()).unwrap();
    let makes: Vec<_> = (inspection.makes.iter())
        .map(|make| (make.file.file_name().unwrap().to_str().unwrap(), make.files))
        .collect();
    assert_eq!(makes, [("psl.nc", 1), ("wind0.nc", 2)]);
    assert_eq!(inspection.dialect, "CAM names");
    let text = inspection.to_string();
    for told in [
        "variables of psl.nc\n",
        "variables of wind0.nc and another file\n",
        "\n    U10 ",
        "\n    PSL ",
    ] {
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn repeated_times_and_gaps_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder.path().join("a.nc"),
        &FileSpec {
            times: vec![0.0, 1.0],
            ..FileSpec::default()
        },
    );
    write(
        &folder.path().join("b.nc"),
        &FileSpec {
            times: vec![1.0, 2.0],
            ..FileSpec::default()
        },
    );
    let fields = vec![Field::named("PS", "Pa")];
    write(
        &folder.path().join("c.nc"),
        &FileSpec {
            times: vec![2.0, 3.0],
            fields,
            ..FileSpec::default()
        },
    );
    let archive = open(folder.path());
    assert_eq!(archive.times().len(), 4);
    let says = |word: &str| archive.problems().iter().any(|p| p.contains(word));
    assert!(says("1 time stands in more than one file") && says("PSL is missing at 1 of 4 times"));
    assert!(archive.available().is_empty());
    let error = archive.read(3, &PSL).unwrap_err();
    assert!(
        matches!(&error, DataError::MissingVariable { path, .. } if path.ends_with("c.nc")),
        "{error}"
    );
    // Which times have it is known without reading.
    for (variable, has) in [
        (Variable::Psl, [true, true, true, false]),
        (Variable::Ps, [false, false, true, true]),
        (Variable::Tmq, [false; 4]),
    ] {
        let offered = [0, 1, 2, 3].map(|index| archive.offers(index, variable));
        assert_eq!(offered, has, "{variable}");
        assert!(!archive.offers(4, variable));
        let count = has.iter().filter(|has| **has).count();
        assert_eq!(archive.times_with(variable), count, "{variable}");
        let first = has.iter().position(|has| !has);
        assert_eq!(archive.first_without(&[variable]), first, "{variable}");
    }
    let both = [Variable::Psl, Variable::Ps];
    assert_eq!(archive.first_without(&both), Some(0));
    let files = archive.files_at(2).map(|path| path.file_name().unwrap());
    assert!(files.eq(["b.nc", "c.nc"]));
}

/// What is said of channels that nobody uses is noise.
#[test]
fn problems_are_those_of_the_channels_that_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.nc");
    let named = [("ps", "Pa"), ("t2m", "K"), ("d2m", "K"), ("tcwv", "parsec")];
    let fields = named.map(|(name, unit)| Field::named(name, unit)).to_vec();
    write(
        &path,
        &FileSpec {
            fields,
            ..FileSpec::default()
        },
    );
    let archive = open(&path);
    let about = |used: &[Variable]| -> Vec<String> {
        let told = archive.problems_of(used);
        let words = told.iter().filter_map(|told| told.split(' ').next());
        words.map(String::from).collect()
    };
    assert!(about(&[Variable::Ps, Variable::Trefht]).is_empty());
    assert_eq!(about(&[Variable::Tmq]), ["`tcwv`"]);
    // ZBOT is made of QREFHT, which is itself computed.
    let all = about(&Variable::CHANNELS);
    assert_eq!(about(&[Variable::Zbot]), ["QREFHT", "ZBOT"]);
    assert_eq!(all, ["`tcwv`", "QREFHT", "ZBOT"]);
    assert_eq!(all.len(), archive.problems().len());
}

/// Winds at half hours beside pressure at full hours were a line each, before the error.
#[test]
fn channels_that_are_missing_at_the_same_times_share_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let winds = [Field::named("U850", "m s-1"), Field::named("V850", "m s-1")];
    let pressure = [Field::named("PSL", "Pa")];
    for (name, time, fields) in [("a.nc", 0.0, &pressure[..]), ("b.nc", 0.5, &winds[..])] {
        write(
            &folder.path().join(name),
            &FileSpec {
                times: vec![time],
                fields: fields.to_vec(),
                ..FileSpec::default()
            },
        );
    }
    let archive = open(folder.path());
    let begins = |used: &[Variable], expected: &[&str]| {
        let told = archive.problems_of(used);
        let same = told.iter().zip(expected).all(|(a, b)| a.starts_with(b));
        assert!(told.len() == expected.len() && same, "{told:?}");
    };
    let both = "U850, V850 are missing at 1 of 2 times, first in `";
    begins(
        &Variable::CHANNELS,
        &[both, "PSL is missing at 1 of 2 times, first in `"],
    );
    begins(
        &[Variable::V850],
        &["V850 is missing at 1 of 2 times, first in `"],
    );
}

/// Rain as a mean lies between the hours of all else: half of the times had no more than that, and no time had all.
#[test]
fn times_of_what_is_not_needed_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, hours: &[f64], fields: &[&'static str]| {
        let fields = fields.iter().map(|name| match *name {
            "PSL" => Field::named("PSL", "Pa"),
            "PRECT" => Field::named("PRECT", "m/s"),
            wind => Field::named(wind, "m s-1"),
        });
        let spec = FileSpec {
            times: hours.iter().map(|hour| hour / 24.0).collect(),
            fields: fields.collect(),
            ..FileSpec::default()
        };
        write(&folder.path().join(name), &spec);
    };
    file("a.nc", &[3.0, 9.0, 15.0], &["PRECT"]);
    file("b.nc", &[0.0, 6.0, 12.0], &["PSL", "U850"]);
    let mut archive = open(folder.path());
    assert!(archive.times().len() == 6 && archive.available().is_empty());
    let both = [Variable::U850, Variable::Psl];
    assert_eq!(archive.most_together(), both);
    let told = archive.leave_out_times_without(&both).expect("a sentence");
    let begins = "3 of 6 times have PRECT alone, first 2000-01-01T03:00:00 in `";
    assert!(told.starts_with(begins) && told.contains("a.nc"), "{told}");
    let hours = |archive: &Archive| -> Vec<i64> {
        let times = archive.times().iter();
        times
            .map(|time| time.seconds_since(archive.times()[0]) / 3600)
            .collect()
    };
    assert_eq!(hours(&archive), [0, 6, 12]);
    assert_eq!(archive.available(), both);
    let problems = archive.problems().join("; ");
    assert!(!problems.contains("missing at"), "{problems}");
    let found = archive.read(2, &[Variable::Psl]).unwrap();
    assert_eq!(found.time, archive.times()[2]);
    assert_eq!(archive.leave_out_times_without(&both), None);
    // All that a command asks for is there, but never at once.
    let mut archive = open(folder.path());
    let all = [Variable::Psl, Variable::Prect];
    assert_eq!(archive.leave_out_times_without(&all), None);
    assert_eq!(archive.times().len(), 6);
    // A time at which the field itself is lacking is none of others.
    fs::remove_file(folder.path().join("a.nc")).unwrap();
    file("c.nc", &[18.0, 24.0], &["PRECT"]);
    let mut archive = open(folder.path());
    assert_eq!(archive.leave_out_times_without(&both), None);
    assert_eq!(hours(&archive), [0, 6, 12, 18, 24]);
}

#[test]
fn units_are_converted_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("units.nc");
    // What is packed has an offset of its own, in the unit of the file.
    for scale in [None, Some(0.25)] {
        let named = [
            ("msl", "hPa"),
            ("t2m", "degC"),
            ("tp", "m"),
            ("tcwv", "parsec"),
        ];
        let fields = named.map(|(name, unit)| Field {
            scale,
            ..Field::named(name, unit)
        });
        let fields = fields.to_vec();
        write(
            &path,
            &FileSpec {
                fields,
                ..FileSpec::default()
            },
        );
        let archive = open(&path);
        assert_eq!(
            archive.available(),
            [
                Variable::Psl,
                Variable::Prect,
                Variable::Trefht,
                Variable::Zbot
            ]
        );
        let stored = values_of(archive.grid(), 0.0, 1.0);
        let snapshot = archive.read(0, archive.available()).unwrap();
        for (cell, stored) in snapshot
            .fields
            .outer_iter()
            .next()
            .unwrap()
            .iter()
            .zip(&stored)
        {
            approx::assert_relative_eq!(*cell, stored * 100.0, max_relative = 1e-6);
        }
        for (cell, stored) in snapshot
            .field(Variable::Trefht)
            .unwrap()
            .iter()
            .zip(&stored)
        {
            approx::assert_relative_eq!(*cell, stored + 273.15, max_relative = 1e-6);
        }
        for (cell, stored) in snapshot.field(Variable::Prect).unwrap().iter().zip(&stored) {
            approx::assert_relative_eq!(*cell, stored / 3600.0, max_relative = 1e-6);
        }
        let error = archive.read(0, &[Variable::Tmq]).unwrap_err();
        assert!(
            matches!(&error, DataError::BadVariable { variable, found, .. } if variable == "tcwv" && found.contains("parsec")),
            "{error}"
        );
        assert!(archive.problems().iter().any(|p| p.contains("parsec")));
        // It read as if hourly sums of every 6th hour alone were wrong.
        let rain = "PRECT is read from `tp`: a sum over the hour before, divided by 3600 s (right if each value is the \
                    sum of one hour, also where only every 6th hour was downloaded; wrong for sums of 3, 6 or 24 hours)";
        assert!(
            archive.problems().iter().any(|p| p.contains(rain)),
            "{:?}",
            archive.problems()
        );
    }
}

#[test]
fn levels_in_any_order_and_unit() {
    let folder = tempfile::tempdir().unwrap();
    for (name, levels, unit) in [
        ("up.nc", vec![1000.0, 850.0, 500.0, 200.0], "millibars"),
        (
            "down.nc",
            vec![20_000.0, 50_000.0, 85_000.0, 100_000.0],
            "Pa",
        ),
    ] {
        let path = folder.path().join(name);
        let on = |name, unit| Field {
            levels: true,
            ..Field::named(name, unit)
        };
        let fields = vec![
            on("ua", "m s-1"),
            on("T", "K"),
            on("z", "m**2 s**-2"),
            on("o3", "furlong"),
        ];
        write(
            &path,
            &FileSpec {
                fields,
                levels: levels.clone(),
                level_unit: unit,
                ..FileSpec::default()
            },
        );
        let archive = open(&path);
        let channels = [
            Variable::U850,
            Variable::T200,
            Variable::T500,
            Variable::Z1000,
            Variable::Z200,
        ];
        assert_eq!(archive.available(), channels);
        let factor = if unit == "Pa" { 1.0 } else { 100.0 };
        let level = |pa: f64| {
            levels
                .iter()
                .position(|l| (l * factor - pa).abs() < 1.0)
                .unwrap() as f64
        };
        let snapshot = archive.read(0, &[Variable::T500]).unwrap();
        assert_eq!(
            snapshot.fields,
            values_of(archive.grid(), 1000.0 * level(50_000.0), 1.0)
        );
        // Any name of the wind, from the top down; a field that is no channel comes as it is.
        let (pressure, wind) = archive.read_levels(0, "U").unwrap();
        assert_eq!(pressure, [20_000.0, 50_000.0, 85_000.0, 100_000.0]);
        for (pa, plane) in pressure.iter().zip(wind.outer_iter()) {
            let expected = values_of(archive.grid(), 1000.0 * level(*pa), 1.0);
            assert_eq!(plane, expected.index_axis(ndarray::Axis(0), 0));
        }
        assert_eq!(archive.read_levels(0, "O3").unwrap().1.dim().0, 4);
        let error = archive.read_levels(0, "omega").unwrap_err().to_string();
        assert!(
            error.contains("omega") && error.contains("ua, T, z, o3"),
            "{error}"
        );
    }
}

#[test]
fn grids_and_calendars_must_agree() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("a.nc"), &FileSpec::default());
    let b = folder.path().join("b.nc");
    for (spec, what) in [
        (
            FileSpec {
                rows: 9,
                times: vec![1.0],
                ..FileSpec::default()
            },
            "grid",
        ),
        (
            FileSpec {
                calendar: "360_day",
                times: vec![1.0],
                ..FileSpec::default()
            },
            "calendar",
        ),
    ] {
        write(&b, &spec);
        let error = Archive::open(folder.path().to_str().unwrap()).unwrap_err();
        assert!(
            matches!(&error, DataError::Mismatch { what: found, path, .. } if *found == what && *path == b),
            "{error}"
        );
        let rest = Archive::open_with(folder.path().to_str().unwrap(), BadFiles::Skip).unwrap();
        assert_eq!(rest.file_count(), 1);
        assert!(rest.problems()[0].contains("b.nc"), "{:?}", rest.problems());
    }
    // The two Gregorian calendars are one since 1582.
    write(
        &b,
        &FileSpec {
            calendar: "proleptic_gregorian",
            times: vec![1.0],
            ..FileSpec::default()
        },
    );
    write(
        &folder.path().join("a.nc"),
        &FileSpec {
            calendar: "standard",
            ..FileSpec::default()
        },
    );
    assert_eq!(open(folder.path()).times().len(), 2);
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = |path: &std::path::Path| Archive::open(path.to_str().unwrap()).unwrap_err();
    assert!(matches!(error(folder.path()), DataError::NoInput { .. }));
    assert!(matches!(
        error(&folder.path().join("none.nc")),
        DataError::NoInput { .. }
    ));
    let whole = folder.path().join("whole.nc");
    write(
        &whole,
        &FileSpec {
            rows: 40,
            columns: 80,
            ..FileSpec::default()
        },
    );
    let bytes = fs::read(&whole).unwrap();
    for (name, content) in [
        ("empty.nc", &b""[..]),
        ("text.nc", b"not netCDF at all"),
        ("cut.nc", &bytes[..bytes.len() / 2]),
        ("head.nc", &bytes[..100]),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let error = error(&path);
        assert!(
            matches!(&error, DataError::Unreadable { path: named, .. } if *named == path),
            "{name}: {error}"
        );
    }
    let rest = Archive::open_with(folder.path().to_str().unwrap(), BadFiles::Skip).unwrap();
    assert_eq!(
        (
            rest.file_count(),
            rest.problems()
                .iter()
                .filter(|p| p.starts_with("skipped"))
                .count()
        ),
        (1, 4)
    );
    let falling = folder.path().join("falling.nc");
    write(
        &falling,
        &FileSpec {
            times: vec![1.0, 1.0],
            ..FileSpec::default()
        },
    );
    assert!(error(&falling).to_string().contains("times that rise"));
    let list = folder.path().join("list");
    fs::write(&list, "whole.nc\nlost.nc\n").unwrap();
    assert!(error(&list).to_string().contains("lost.nc"));
}

#[test]
fn coordinates_of_two_dimensions_are_refused_for_fields_and_masks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rotated.nc");
    on_library_thread(|| {
        let mut file = netcdf::create(&path).unwrap();
        file.add_dimension("time", 1).unwrap();
        file.add_dimension("y", 4).unwrap();
        file.add_dimension("x", 5).unwrap();
        for (name, unit) in [("lat", "degrees_north"), ("lon", "degrees_east")] {
            let mut axis = file.add_variable::<f64>(name, &["y", "x"]).unwrap();
            axis.put_attribute("units", unit).unwrap();
        }
        let mut time = file.add_variable::<f64>("time", &["time"]).unwrap();
        time.put_attribute("units", "days since 2000-01-01")
            .unwrap();
        for name in ["PSL", "LABELS"] {
            file.add_variable::<f32>(name, &["time", "y", "x"]).unwrap();
        }
        file.close().unwrap();
    });
    let input = path.to_str().unwrap();
    for error in [
        Archive::open(input).map(|_| ()).unwrap_err(),
        MaskArchive::open(input).map(|_| ()).unwrap_err(),
    ] {
        let said = error.to_string();
        assert!(
            said.contains("rotated.nc") && said.contains("curvilinear"),
            "{said}"
        );
    }
}

/// The file that a refusal names is the one that the variable is in.
#[test]
fn the_file_of_the_bad_variable_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, field) in [
        ("huss.nc", Field::named("huss", "1")),
        ("psl.nc", Field::named("psl", "Pa")),
        // What it is computed from where it is blank is in another file.
        ("z1000.nc", Field::named("z1000", "km")),
    ] {
        write(
            &at(name),
            &FileSpec {
                fields: vec![field],
                ..FileSpec::default()
            },
        );
    }
    let archive = open(folder.path());
    for (variable, name) in [(Variable::Psl, "psl.nc"), (Variable::Z1000, "z1000.nc")] {
        let error = archive.read_plausible(0, &[variable]).unwrap_err();
        assert_eq!(error.path(), Some(at(name).as_path()), "{error}");
    }
}

/// A name tells one time: of many without an axis all but the first would be lost.
#[test]
fn many_times_without_an_axis_are_refused_for_fields_and_masks() {
    let folder = tempfile::tempdir().unwrap();
    for (dimension, unlimited, steps) in [
        ("time", false, 3),
        ("time", true, 2),
        ("record", true, 4),
        ("time", false, 1),
    ] {
        let name = format!("{dimension}-{steps}.2001-05-06-10800.nc");
        let path = folder.path().join(name);
        on_library_thread(|| {
            let mut file = netcdf::create(&path).unwrap();
            if unlimited {
                file.add_unlimited_dimension(dimension).unwrap();
            } else {
                file.add_dimension(dimension, steps).unwrap();
            }
            for (name, unit, values) in [
                ("lat", "degrees_north", [-67.5, -22.5, 22.5, 67.5]),
                ("lon", "degrees_east", [0.0, 90.0, 180.0, 270.0]),
            ] {
                file.add_dimension(name, 4).unwrap();
                let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
                axis.put_attribute("units", unit).unwrap();
                axis.put_values(&values, ..).unwrap();
            }
            for name in ["PSL", "LABELS"] {
                let mut variable = file
                    .add_variable::<f32>(name, &[dimension, "lat", "lon"])
                    .unwrap();
                variable.put_attribute("units", "Pa").unwrap();
                let zeros = vec![0.0f32; steps * 16];
                let extents = [0..steps, 0..4, 0..4].map(netcdf::Extent::from);
                variable.put_values(&zeros, extents).unwrap();
            }
            file.close().unwrap();
        });
        let input = path.to_str().unwrap();
        let (fields, masks) = (Archive::open(input), MaskArchive::open(input));
        if steps == 1 {
            let times = (fields.unwrap().times().len(), masks.unwrap().times().len());
            assert_eq!(times, (1, 1));
            continue;
        }
        let errors = [fields.err().unwrap(), masks.err().unwrap()];
        for error in errors {
            let said = error.to_string();
            assert!(
                matches!(&error, DataError::BadVariable { variable, .. } if variable == dimension),
                "{said}"
            );
            assert!(said.contains(&format!("{steps} steps")), "{said}");
        }
    }
}

/// A file in the place of another had been read as that one was packed, and as of its times.
#[test]
fn a_file_that_is_replaced_before_it_is_read_is_refused_unless_it_has_only_grown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.nc");
    let packed = |scale: f64, times: &[f64]| FileSpec {
        times: times.to_vec(),
        fields: vec![Field {
            scale: Some(scale),
            ..Field::named("PSL", "Pa")
        }],
        ..FileSpec::default()
    };
    // The second of its last change tells files apart that are made at once.
    let put = |second: u64, spec: &FileSpec| {
        let new = folder.path().join("new");
        write(&new, spec);
        let file = fs::File::options().write(true).open(&new).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(second))
            .unwrap();
        fs::rename(&new, &path).unwrap();
    };
    for (spec, is_good) in [
        (packed(0.25, &[0.0, 1.0]), true),
        (packed(0.25, &[0.0, 1.0, 2.0]), true),
        (packed(0.5, &[0.0, 1.0]), false),
        (packed(0.25, &[0.0, 3.0]), false),
        (packed(0.25, &[0.0]), false),
    ] {
        put(1, &packed(0.25, &[0.0, 1.0]));
        let archive = open(&path);
        put(2, &spec);
        let read = archive.read(1, &PSL);
        if is_good {
            let expected = values_of(archive.grid(), 1.0, 1.0);
            assert_eq!(read.unwrap().fields, expected);
        } else {
            let error = read.unwrap_err().to_string();
            assert!(error.contains("has changed since"), "{error}");
            assert!(error.contains("x.nc"), "{error}");
        }
    }
}

/// As CMIP has them: of more than eight each had been opened again for every time.
#[test]
#[cfg(unix)]
fn files_of_one_variable_each_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let pressures = [Variable::Ps, Variable::Psl];
    let winds = [
        Variable::U850,
        Variable::V850,
        Variable::Ubot,
        Variable::Vbot,
    ];
    let heights = [Variable::Z1000, Variable::Z200, Variable::Zbot];
    let temperatures = [
        Variable::T200,
        Variable::T500,
        Variable::Ts,
        Variable::Trefht,
    ];
    let all = [&pressures[..], &winds, &heights, &temperatures].concat();
    for variable in &all {
        let spec = FileSpec {
            times: vec![0.0, 1.0],
            fields: vec![Field::named(variable.name(), variable.entry().unit)],
            ..FileSpec::default()
        };
        write(&folder.path().join(format!("{variable}.nc")), &spec);
    }
    let archive = open(folder.path());
    archive.read(0, &all).unwrap();
    // What is open is there without its name.
    for path in archive.paths() {
        fs::remove_file(path).unwrap();
    }
    let snapshot = archive.read(1, &all).unwrap();
    let expected = values_of(archive.grid(), 1.0, 1.0);
    for plane in snapshot.fields.outer_iter() {
        assert_eq!(plane, expected.index_axis(ndarray::Axis(0), 0));
    }
}

#[test]
fn threads_share_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    for day in 0..12 {
        write(
            &path_of(folder.path(), day),
            &FileSpec {
                times: vec![f64::from(day)],
                ..FileSpec::default()
            },
        );
    }
    let archive = open(folder.path());
    std::thread::scope(|scope| {
        for start in 0..4 {
            let archive = &archive;
            scope.spawn(move || {
                for index in (0..12).map(|step| (step * 5 + start) % 12) {
                    let snapshot = archive.read(index, &PSL).unwrap();
                    assert_eq!(
                        snapshot.fields,
                        values_of(archive.grid(), index as f64, 1.0)
                    );
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However a field lies on disk, the same snapshot comes out.
    #[test]
    fn the_order_on_disk_does_not_matter(
        flip_lat: bool, flip_lon: bool, transposed: bool, roll in 0usize..16, classic: bool, integers: bool,
        packing in 0u8..4, repeat_meridian: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.nc");
        write(&path, &FileSpec { hole: true, ..FileSpec::default() });
        let expected = open(&path).read(0, &PSL).unwrap();
        let (scale, unsigned) = [(None, false), (Some(0.25), false), (Some(-0.25), false), (Some(0.25), true)][usize::from(packing)];
        let fields = vec![Field { scale, unsigned, transposed, ..Field::named("PSL", "Pa") }];
        let spec = FileSpec { hole: true, flip_lat, flip_lon, roll, classic, integers, repeat_meridian, fields, ..FileSpec::default() };
        write(&path, &spec);
        let found = open(&path).read(0, &PSL).unwrap();
        prop_assert_eq!(found.fields.iter().filter(|value| value.is_nan()).count(), 2);
        prop_assert_eq!(&*found.grid, &*expected.grid);
        for (found, expected) in found.fields.iter().zip(&expected.fields) {
            // The hole in the field must stay one, and packing to quarters is exact here.
            prop_assert!(found == expected || found.is_nan() && expected.is_nan(), "{} {}", found, expected);
        }
    }
}
