//! Levels: one alone, numbers that are no pressures, the lowest one, levels without values.

use super::*;

/// What levels of pressure say of themselves.
const IN_HPA: [(&str, &str); 1] = [("units", "hPa")];

/// Some tools give every field an axis of levels; several versions or members beside each other are no field.
#[test]
fn a_level_alone_serves_and_versions_beside_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one_level.nc");
    let on_level = ["time", "lev", "lat", "lon"];
    file_of(
        &path,
        &[
            ("time", 1),
            ("lev", 1),
            ("expver", 2),
            ("lat", 4),
            ("lon", 4),
        ],
        &[
            LAT,
            LON,
            ("time", "time", &[0.0], &[SINCE]),
            ("lev", "lev", &[85_000.0], &[("units", "Pa")]),
        ],
        &[
            ("PSL", "Pa", &on_level),
            ("U850", "m s-1", &on_level),
            ("T500", "K", &on_level),
            ("u10", "m s-1", &on_level),
            ("v10", "m s-1", &["time", "expver", "lat", "lon"]),
        ],
    );
    let archive = open(&path);
    assert_eq!(
        archive.available(),
        [Variable::U850, Variable::Ubot, Variable::Psl]
    );
    let field = archive.read(0, &[Variable::U850]).unwrap().fields;
    assert!(field.iter().all(|value| *value == 1.0));
    for (variable, said) in [
        (
            Variable::T500,
            "expected a level at 500 hPa, found one at 850 hPa",
        ),
        (
            Variable::Vbot,
            "dimensions (time, expver, lat, lon); `expver` is neither time nor levels of pressure: a file may have one of its 2 entries (xarray: `ds.sel(expver=1).combine_first(",
        ),
    ] {
        let error = archive.read(0, &[variable]).unwrap_err().to_string();
        assert!(error.contains(said), "{variable}: {error}");
        assert!(
            archive
                .problems()
                .iter()
                .any(|problem| problem.contains(said))
        );
    }
}

/// Writes a file of one time and three levels, whose axis has this name, these values and attributes.
fn three_levels(
    path: &std::path::Path,
    axis: &str,
    values: &[f64; 3],
    attributes: &[(&str, &str)],
    fields: &[(&str, &str, &[&str])],
) {
    file_of(
        path,
        &[("time", 1), (axis, 3), ("lat", 4), ("lon", 4)],
        &[
            LAT,
            LON,
            ("time", "time", &[0.0], &[SINCE]),
            (axis, axis, values, attributes),
        ],
        fields,
    );
}

/// Gives each of three levels of a field its place as value.
fn number_levels(path: &std::path::Path, field: &str) {
    on_library_thread(|| -> Result<(), netcdf::Error> {
        let mut file = netcdf::append(path)?;
        let mut field = file.variable_mut(field).unwrap();
        for level in 0..3 {
            field.put_values(&[level as f32; 16], (0, level, .., ..))?;
        }
        file.close()
    })
    .unwrap();
}

/// Levels that are heights rise from the ground; those that are pressures fall.
#[test]
fn the_lowest_model_level_is_the_one_at_the_ground() {
    let folder = tempfile::tempdir().unwrap();
    for (name, standard, attributes, values, lowest) in [
        (
            "pressure.nc",
            "atmosphere_hybrid_sigma_pressure_coordinate",
            ("positive", "down"),
            [3.6, 500.0, 992.6],
            2,
        ),
        (
            "height.nc",
            "atmosphere_hybrid_height_coordinate",
            ("positive", "up"),
            [20.0, 500.0, 85_000.0],
            0,
        ),
        (
            "unsaid.nc",
            "atmosphere_hybrid_height_coordinate",
            ("axis", "Z"),
            [20.0, 500.0, 85_000.0],
            0,
        ),
    ] {
        let path = folder.path().join(name);
        let attributes = [("standard_name", standard), attributes];
        let wind = ("ua", "m s-1", &ON_LEVELS[..]);
        three_levels(&path, "lev", &values, &attributes, &[wind]);
        number_levels(&path, "ua");
        let archive = open(&path);
        let wind = archive.read(0, &[Variable::Ubot]).unwrap().fields;
        assert!(
            wind.iter().all(|value| *value == lowest as f32),
            "{name}: {wind}"
        );
    }
}

/// All that was said is that channels are missing.
#[test]
fn missing_levels_are_reported_with_the_levels_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let temperature = ("ta", "K", &ON_LEVELS[..]);
    let height = ("zg", "m", &ON_LEVELS[..]);
    let wind = ("U", "m s-1", &ON_LEVELS[..]);
    let path = folder.path().join("pressure.nc");
    let fields = [temperature, height];
    three_levels(&path, "lev", &[1000.0, 500.0, 250.0], &IN_HPA, &fields);
    let path = folder.path().join("model.nc");
    let hybrid = [
        (
            "standard_name",
            "atmosphere_hybrid_sigma_pressure_coordinate",
        ),
        ("positive", "down"),
    ];
    three_levels(&path, "lev", &[3.6, 500.0, 992.6], &hybrid, &[wind]);
    let archive = open(folder.path());
    let missing = [Variable::U850, Variable::T200, Variable::Z200];
    assert!(missing.iter().all(|v| !archive.available().contains(v)));
    let told = archive.levels_instead(0, &missing);
    let expected = "`U` on model levels; `ta`, `zg` at 1000, 500, 250 hPa";
    assert_eq!(told.as_deref(), Some(expected));
    assert_eq!(
        archive.levels_instead(0, &[Variable::V850, Variable::Psl]),
        None
    );
}

/// xarray's `sel(level=850)` leaves such files, of which nothing had been read.
#[test]
fn a_level_that_was_picked_is_told_by_its_scalar_coordinate() {
    let folder = tempfile::tempdir().unwrap();
    for (name, unit, hpa) in [("u", "m s-1", 850.0), ("t", "K", 500.0), ("z", "m", 300.0)] {
        let path = folder.path().join(format!("{name}.nc"));
        file_of(
            &path,
            &[("time", 1), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[0.0], &[SINCE]),
                ("level", "", &[hpa], &IN_HPA),
            ],
            &[(name, unit, &AT_SURFACE), ("PSL", "Pa", &AT_SURFACE)],
        );
        on_library_thread(|| -> Result<(), netcdf::Error> {
            let mut file = netcdf::append(&path)?;
            for field in [name, "PSL"] {
                let mut field = file.variable_mut(field).unwrap();
                field.put_attribute("coordinates", "number level")?;
            }
            file.close()
        })
        .unwrap();
    }
    let archive = open(folder.path());
    let expected = [Variable::U850, Variable::Psl, Variable::T500];
    assert_eq!(archive.available(), expected);
    let fields = archive.read(0, &expected).unwrap().fields;
    assert!(fields.iter().all(|value| *value == 1.0));
    // The heights of `tempest`, which are no channels.
    let heights = archive.read_level(0, "Z", 300.0).unwrap().unwrap();
    assert!(heights.iter().all(|value| *value == 1.0));
    assert!(archive.has_level(0, "T", 500.0) && !archive.has_level(0, "Z", 500.0));
}

/// FV3 names its hybrid levels by the pressures that they have over the sea; over mountains these had been integrated.
#[test]
fn full_levels_of_fv3_are_no_pressures() {
    let folder = tempfile::tempdir().unwrap();
    for (name, attribute) in [
        ("pfull", ("long_name", "pressure")),
        ("PFULL", ("positive", "down")),
        ("lev", ("long_name", "ref full pressure level")),
        ("level", ("edges", "phalf")),
    ] {
        let path = folder.path().join(format!("{name}.nc"));
        let on_levels = &["time", name, "lat", "lon"][..];
        three_levels(
            &path,
            name,
            &[500.0, 850.0, 990.0],
            &[attribute, ("units", "mb")],
            &[
                ("ugrd", "m/sec", on_levels),
                ("spfh", "kg/kg", on_levels),
                ("tmp", "K", on_levels),
            ],
        );
        number_levels(&path, "ugrd");
        let archive = open(&path);
        assert_eq!(archive.available(), [Variable::Ubot], "{name}");
        assert!(archive.level_fields(0).is_empty(), "{name}");
        let wind = archive.read(0, &[Variable::Ubot]).unwrap().fields;
        assert!(wind.iter().all(|value| *value == 2.0), "{name}");
    }
}

/// ecCodes writes the numbers of ERA5's model levels without a unit, as its pressures were once: they had been hPa.
#[test]
fn numbers_of_model_levels_are_no_pressures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("levels.nc");
    let count = [1.0, 2.0, 3.0];
    for (values, attribute, lowest) in [
        (
            [135.0, 136.0, 137.0],
            ("long_name", "model_level_number"),
            Some(2.0),
        ),
        (count, ("long_name", "model level"), Some(2.0)),
        (count, ("positive", "down"), Some(2.0)),
        (count, ("positive", "up"), Some(0.0)),
        // Nobody says at which end the ground is.
        (count, ("axis", "Z"), None),
    ] {
        let _ = std::fs::remove_file(&path);
        let on_levels = &["time", "level", "lat", "lon"][..];
        three_levels(
            &path,
            "level",
            &values,
            &[attribute],
            &[
                ("u", "m s**-1", on_levels),
                ("q", "kg kg**-1", on_levels),
                ("PSL", "Pa", &["time", "lat", "lon"]),
            ],
        );
        number_levels(&path, "u");
        let archive = open(&path);
        // Neither a column of water nor fields at pressures.
        let wind = lowest.map(|_| Variable::Ubot);
        let expected: Vec<Variable> = wind.into_iter().chain([Variable::Psl]).collect();
        assert_eq!(archive.available(), expected, "{attribute:?}");
        assert!(archive.level_fields(0).is_empty(), "{attribute:?}");
        if let Some(lowest) = lowest {
            let wind = archive.read(0, &[Variable::Ubot]).unwrap().fields;
            assert!(wind.iter().all(|value| *value == lowest), "{attribute:?}");
        }
    }
}

/// Of levels that are close to each other the first within one percent had been taken.
#[test]
fn the_nearest_level_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let on_levels = &["time", "level", "lat", "lon"][..];
    for (name, levels, nearest) in [
        ("down.nc", [845.0, 850.0, 855.0], 1.0),
        ("up.nc", [855.0, 849.8, 849.9], 2.0),
    ] {
        let path = folder.path().join(name);
        let wind = ("u", "m s**-1", on_levels);
        three_levels(&path, "level", &levels, &IN_HPA, &[wind]);
        number_levels(&path, "u");
        let archive = open(&path);
        let wind = archive.read(0, &[Variable::U850]).unwrap().fields;
        assert!(wind.iter().all(|value| *value == nearest), "{name}: {wind}");
        let level = archive.read_level(0, "u", 850.0).unwrap().unwrap();
        assert!(level.iter().all(|value| *value == nearest), "{name}");
        // The nearest is 2 hPa away.
        let other = archive.read_level(0, "u", 852.0).unwrap();
        assert!(
            other.is_none() && !archive.has_level(0, "u", 852.0),
            "{name}"
        );
    }
    // For a channel a level stands that is less than one percent away.
    for (hpa, is_near) in [(842.0, true), (858.0, true), (841.0, false), (859.0, false)] {
        let path = folder.path().join(format!("{hpa}.nc"));
        let wind = ("u", "m s**-1", on_levels);
        three_levels(&path, "level", &[300.0, 500.0, hpa], &IN_HPA, &[wind]);
        let found = open(&path).available().contains(&Variable::U850);
        assert_eq!(found, is_near, "{hpa}");
    }
}

/// Wind that is nowhere known moves nothing: such times had masks without rivers.
#[test]
fn levels_of_a_time_that_was_never_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blank.nc");
    let on_levels = &["time", "level", "lat", "lon"][..];
    let wind = ("u", "m s**-1", on_levels);
    three_levels(&path, "level", &[300.0, 500.0, 850.0], &IN_HPA, &[wind]);
    let blank = |levels: std::ops::Range<usize>| {
        on_library_thread(|| -> Result<(), netcdf::Error> {
            let mut file = netcdf::append(&path)?;
            let mut wind = file.variable_mut("u").unwrap();
            for level in levels {
                wind.put_values(&[f32::NAN; 16], (0_usize, level, .., ..))?;
            }
            file.close()
        })
        .unwrap();
    };
    blank(2..3);
    let archive = open(&path);
    // Below the ground of a plateau.
    assert!(archive.read_levels(0, "u").is_ok());
    assert!(archive.read_level(0, "u", 500.0).is_ok());
    let error = archive.read_level(0, "u", 850.0).unwrap_err().to_string();
    assert!(error.contains("only missing values"), "{error}");
    drop(archive);
    blank(0..2);
    let error = open(&path).read_levels(0, "u").unwrap_err().to_string();
    assert!(error.contains("only missing values"), "{error}");
}

/// The vapour of the lowest three kilometres had been that of the column, and so had what a line makes of that aloft.
#[test]
fn levels_near_the_ground_or_aloft_alone_are_no_column() {
    let folder = tempfile::tempdir().unwrap();
    for (name, levels, is_column) in [
        ("cmip.nc", [850.0, 500.0, 250.0], true),
        ("whole.nc", [1000.0, 700.0, 504.0], true),
        ("low.nc", [1000.0, 850.0, 700.0], false),
        ("high.nc", [500.0, 300.0, 100.0], false),
    ] {
        let path = folder.path().join(name);
        let fields = [
            ("PS", "Pa", &AT_SURFACE[..]),
            ("q", "kg kg-1", &ON_LEVELS[..]),
        ];
        three_levels(&path, "lev", &levels, &IN_HPA, &fields);
        let archive = open(&path);
        let has_water = archive.available().contains(&Variable::Tmq);
        assert_eq!(has_water, is_column, "{name}");
        assert!(archive.read_levels(0, "q").is_ok(), "{name}");
        if !is_column {
            let error = archive.read(0, &[Variable::Tmq]).unwrap_err().to_string();
            assert!(error.contains("500 hPa or above, found"), "{error}");
        }
    }
}

/// It was told although column water is read from the other file.
#[test]
fn humidity_that_is_no_column_matters_where_no_other_file_has_water() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    file_of(
        &at("water.nc"),
        &[("time", 1), ("lat", 4), ("lon", 4)],
        &[LAT, LON, ("time", "time", &[0.0], &[SINCE])],
        &[("TMQ", "kg m-2", &AT_SURFACE)],
    );
    for (times, is_told) in [(&[0.0][..], false), (&[0.0, 1.0][..], true)] {
        let _ = std::fs::remove_file(at("low.nc"));
        file_of(
            &at("low.nc"),
            &[("time", times.len()), ("lev", 2), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", times, &[SINCE]),
                ("lev", "lev", &[850.0, 500.0], &IN_HPA),
            ],
            &[("hus", "kg kg-1", &ON_LEVELS)],
        );
        let archive = open(folder.path());
        assert_eq!(archive.available().contains(&Variable::Tmq), !is_told);
        let mut problems = archive.problems().iter();
        let told = problems.any(|problem| problem.contains("`hus` cannot serve as TMQ"));
        assert_eq!(told, is_told, "{:?}", archive.problems());
    }
}

/// It was told although MERRA-2's `ULML` was read from the other file, and the time was said to stand in both.
#[test]
fn a_stand_in_matters_where_no_other_file_has_the_channel() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    file_of(
        &at("lowest.nc"),
        &[("time", 1), ("lat", 4), ("lon", 4)],
        &[LAT, LON, ("time", "time", &[0.0], &[SINCE])],
        &[("ULML", "m s-1", &AT_SURFACE)],
    );
    for (times, is_told) in [(&[0.0][..], false), (&[0.0, 1.0][..], true)] {
        let _ = std::fs::remove_file(at("at_10_m.nc"));
        file_of(
            &at("at_10_m.nc"),
            &[("time", times.len()), ("lat", 4), ("lon", 4)],
            &[LAT, LON, ("time", "time", times, &[SINCE])],
            &[("U10M", "m s-1", &AT_SURFACE)],
        );
        let archive = open(folder.path());
        assert_eq!(archive.available(), [Variable::Ubot]);
        let told = archive.problems().iter().map(String::as_str);
        let told: Vec<&str> = told.filter(|told| !told.contains("calendar")).collect();
        let stand_in =
            "UBOT is read from `U10M`: 10 m wind instead of the lowest model level (1 of 2 files)";
        let expected = if is_told { vec![stand_in] } else { vec![] };
        assert_eq!(told, expected);
    }
}

/// All files of the time had been named, and no channel.
#[test]
fn a_channel_that_stands_in_two_files_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at_surface: &[&str] = &AT_SURFACE;
    for (name, fields) in [
        ("a.nc", &["PSL", "TMQ"][..]),
        ("b.nc", &["PSL", "PS"][..]),
        ("c.nc", &["TS"][..]),
    ] {
        let fields = fields.iter().map(|&field| {
            let unit = match field {
                "TMQ" => "kg m-2",
                "TS" => "K",
                _ => "Pa",
            };
            (field, unit, at_surface)
        });
        file_of(
            &folder.path().join(name),
            &[("time", 1), ("lat", 4), ("lon", 4)],
            &[LAT, LON, ("time", "time", &[0.0], &[SINCE])],
            &fields.collect::<Vec<_>>(),
        );
    }
    let problems = open(folder.path()).problems().join("\n");
    assert!(
        problems.contains("1 time stands in more than one file"),
        "{problems}"
    );
    let read = "b.nc`: the first file that has a channel is read (PSL)";
    assert!(problems.contains(read), "{problems}");
}

/// The first by name had been the only one that was looked at.
#[test]
fn humidity_beside_another_that_is_no_column_is_summed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.nc");
    file_of(
        &path,
        &[("time", 1), ("low", 3), ("lev", 3), ("lat", 4), ("lon", 4)],
        &[
            LAT,
            LON,
            ("time", "time", &[0.0], &[SINCE]),
            ("low", "low", &[1000.0, 925.0, 850.0], &IN_HPA),
            ("lev", "lev", &[850.0, 500.0, 250.0], &IN_HPA),
        ],
        &[
            ("PS", "Pa", &AT_SURFACE),
            ("hus", "kg kg-1", &["time", "low", "lat", "lon"]),
            ("q", "kg kg-1", &ON_LEVELS),
        ],
    );
    let archive = open(&path);
    assert!(archive.available().contains(&Variable::Tmq));
    let mut problems = archive.problems().iter();
    assert!(!problems.any(|problem| problem.contains("cannot serve as TMQ")));
}
