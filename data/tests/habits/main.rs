//! What other tools write and CAM does not: packed axes, fields without time, speeds of the wind, columns of no grid.

mod levels;
mod times;

use squall_data::archive::on_library_thread;
use squall_data::channel_source::in_words;
use squall_data::inspect::inspect;
use squall_data::{Archive, Variable};

fn open(path: &std::path::Path) -> Archive {
    Archive::open(path.to_str().unwrap()).unwrap()
}

/// Name, dimension (a scalar if empty), values and attributes of an axis.
type Axis<'a> = (&'a str, &'a str, &'a [f64], &'a [(&'a str, &'a str)]);

/// Writes a small file whose dimensions, axes and fields are given; all values are 1 but those of axes.
fn file_of(
    path: &std::path::Path,
    dimensions: &[(&str, usize)],
    axes: &[Axis<'_>],
    fields: &[(&str, &str, &[&str])],
) {
    on_library_thread(|| -> Result<(), netcdf::Error> {
        let mut file = netcdf::create(path)?;
        for (name, length) in dimensions {
            file.add_dimension(name, *length)?;
        }
        for (name, dimension, values, attributes) in axes {
            let of = if dimension.is_empty() {
                vec![]
            } else {
                vec![*dimension]
            };
            let mut axis = file.add_variable::<f64>(name, &of)?;
            for (attribute, text) in *attributes {
                axis.put_attribute(attribute, *text)?;
            }
            axis.put_values(values, ..)?;
        }
        for (name, unit, dimensions) in fields {
            let mut field = file.add_variable::<f32>(name, dimensions)?;
            field.put_attribute("units", *unit)?;
            let lengths = field.dimensions().iter().map(|d| d.len());
            let count: usize = lengths.product();
            field.put_values(&vec![1f32; count], ..)?;
        }
        file.close()
    })
    .unwrap();
}

const LAT: Axis<'static> = (
    "lat",
    "lat",
    &[-60.0, -20.0, 20.0, 60.0],
    &[("units", "degrees_north")],
);
const LON: Axis<'static> = (
    "lon",
    "lon",
    &[0.0, 90.0, 180.0, 270.0],
    &[("units", "degrees_east")],
);
const SINCE: (&str, &str) = ("units", "days since 2000-01-01");

/// Axes may be packed as fields are.
#[test]
fn packed_axes_are_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.nc");
    file_of(
        &path,
        &[("time", 2), ("lat", 4), ("lon", 4)],
        &[
            ("lat", "lat", &[-3.0, -1.0, 1.0, 3.0], &[LAT.3[0]]),
            ("lon", "lon", &[0.0, 1.0, 2.0, 3.0], &[LON.3[0]]),
            ("time", "time", &[0.0, 1.0], &[SINCE]),
        ],
        &[("PSL", "Pa", &["time", "lat", "lon"])],
    );
    on_library_thread(|| -> Result<(), netcdf::Error> {
        let mut file = netcdf::append(&path)?;
        for (name, attribute, number) in [
            ("lat", "scale_factor", 20.0),
            ("lon", "scale_factor", 90.0),
            ("time", "scale_factor", 0.25),
            ("time", "add_offset", 1.0),
        ] {
            let mut axis = file.variable_mut(name).unwrap();
            axis.put_attribute(attribute, number)?;
        }
        file.close()
    })
    .unwrap();
    let archive = open(&path);
    assert_eq!(archive.grid().lat_deg(), LAT.2);
    assert_eq!(archive.grid().lon_deg(), LON.2);
    let times: Vec<String> = archive.times().iter().map(ToString::to_string).collect();
    assert_eq!(times, ["2000-01-02T00:00:00", "2000-01-02T06:00:00"]);
}

/// By all spellings that CF has.
#[test]
fn axes_of_any_name_are_known_by_their_units() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named.nc");
    for (north, east) in [
        ("degrees_north", "degrees_east"),
        ("degree_north", "degree_east"),
        ("degrees_N", "degrees_E"),
        ("degree_N", "degree_E"),
        ("degreesN", "degreesE"),
        ("degreeN", "degreeE"),
    ] {
        let _ = std::fs::remove_file(&path);
        let axes: [Axis<'_>; 3] = [
            ("y", "y", LAT.2, &[("units", north)]),
            ("x", "x", LON.2, &[("units", east)]),
            ("time", "time", &[0.0], &[SINCE]),
        ];
        let dimensions = [("time", 1), ("y", 4), ("x", 4)];
        let field = [("PSL", "Pa", &["time", "y", "x"][..])];
        file_of(&path, &dimensions, &axes, &field);
        let archive = open(&path);
        let found = (archive.grid().lat_deg(), archive.grid().lon_deg());
        assert_eq!(found, (LAT.2, LON.2), "{north}");
    }
}

/// CAM's finite-volume core keeps winds between the cells.
#[test]
fn staggered_axes_are_not_those_of_the_grid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("staggered.nc");
    file_of(
        &path,
        &[
            ("time", 1),
            ("slat", 3),
            ("slon", 4),
            ("lat", 4),
            ("lon", 4),
        ],
        &[
            ("slat", "slat", &[-40.0, 0.0, 40.0], LAT.3),
            ("slon", "slon", &[45.0, 135.0, 225.0, 315.0], LON.3),
            LAT,
            LON,
            ("time", "time", &[0.0], &[SINCE]),
        ],
        &[
            ("PSL", "Pa", &AT_SURFACE),
            ("UBOT", "m s-1", &["time", "slat", "lon"]),
        ],
    );
    let archive = open(&path);
    let grid = archive.grid();
    assert_eq!((grid.lat_deg(), grid.lon_deg()), (LAT.2, LON.2));
    assert_eq!(archive.available(), [Variable::Psl]);
}

/// All memory had been asked for, and where there was less the process ended.
#[test]
fn axes_of_more_values_than_any_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.nc");
    let axes: [Axis<'_>; 3] = [LAT, LON, ("time", "time", &[0.0], &[SINCE])];
    for huge in ["lat", "time"] {
        let _ = std::fs::remove_file(&path);
        on_library_thread(|| -> Result<(), netcdf::Error> {
            let mut file = netcdf::create(&path)?;
            for (name, _, values, attributes) in axes {
                let length = if name == huge { 1 << 33 } else { values.len() };
                file.add_dimension(name, length)?;
                let mut axis = file.add_variable::<f64>(name, &[name])?;
                for (attribute, text) in attributes {
                    axis.put_attribute(attribute, *text)?;
                }
                if name == huge {
                    // Of which none is written.
                    axis.set_chunking(&[1000])?;
                } else {
                    axis.put_values(values, ..)?;
                }
            }
            file.close()
        })
        .unwrap();
        let opened = Archive::open(path.to_str().unwrap()).map(|_| ());
        let error = opened.unwrap_err().to_string();
        let said = format!("`{huge}`");
        assert!(
            error.contains(&said) && error.contains("8589934592"),
            "{error}"
        );
    }
}

/// The height of the lowest level may stand still, but pressure does not.
#[test]
fn a_field_that_does_not_change_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("still.nc");
    let times = [0.0, 1.0];
    for count in [1, 2] {
        let _ = std::fs::remove_file(&path);
        file_of(
            &path,
            &[("time", count), ("lat", 4), ("lon", 4)],
            &[LAT, LON, ("time", "time", &times[..count], &[SINCE])],
            &[
                ("PSL", "Pa", &["time", "lat", "lon"]),
                ("PS", "Pa", &["lat", "lon"]),
            ],
        );
        let archive = open(&path);
        assert_eq!(archive.available(), [Variable::Ps, Variable::Psl]);
        let said = "`PS` has no dimension of time: it is read as the same at all times";
        let told = archive.problems().iter().filter(|told| *told == said);
        assert_eq!(told.count(), count - 1, "{:?}", archive.problems());
    }
}

const ON_LEVELS: [&str; 4] = ["time", "lev", "lat", "lon"];
const AT_SURFACE: [&str; 3] = ["time", "lat", "lon"];

/// Writes a file of one time and three levels with these fields.
fn file_with_levels(path: &std::path::Path, fields: &[(&str, &str, &[&str])]) {
    file_of(
        path,
        &[("time", 1), ("lev", 3), ("lat", 4), ("lon", 4)],
        &[
            LAT,
            LON,
            ("time", "time", &[0.0], &[SINCE]),
            ("lev", "lev", &[200.0, 500.0, 850.0], &[("units", "hPa")]),
        ],
        fields,
    );
}

/// Of fields that serve two channels it had been told of "2 of 1 files", and of those that are no channels not at all.
#[test]
fn a_field_without_a_unit_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bare.nc");
    file_with_levels(&path, &[("PS", "Pa", &AT_SURFACE)]);
    on_library_thread(|| -> Result<(), netcdf::Error> {
        let mut file = netcdf::append(&path)?;
        for name in ["T", "Q"] {
            file.add_variable::<f32>(name, &ON_LEVELS)?;
        }
        for name in ["d2m", "tp", "IVT"] {
            file.add_variable::<f32>(name, &AT_SURFACE)?;
        }
        file.close()
    })
    .unwrap();
    let archive = open(&path);
    let told = archive.problems().iter().map(String::as_str);
    let told: Vec<&str> = told.filter(|told| told.contains("no unit")).collect();
    let expected = [
        "`IVT` names no unit: kg m-1 s-1 is assumed",
        "`Q` names no unit: kg kg-1 is assumed",
        "`T` names no unit: K is assumed",
        "`d2m` names no unit: K is assumed",
        // A depth, of which a rate is made.
        "`tp` names no unit: m is assumed",
    ];
    assert_eq!(told, expected);
}

/// What channels are computed from, and vapour transport, had looked as if nothing read them.
#[test]
fn inspect_tells_what_each_variable_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("uses.nc");
    let fields: [(&str, &str, &[&str]); 5] = [
        ("sp", "Pa", &AT_SURFACE),
        ("d2m", "K", &AT_SURFACE),
        ("viwve", "kg m-1 s-1", &AT_SURFACE),
        ("sst", "K", &AT_SURFACE),
        ("q", "kg kg-1", &ON_LEVELS),
    ];
    file_with_levels(&path, &fields);
    let found = inspect(path.to_str().unwrap()).unwrap();
    for (name, uses) in [
        ("sp", "PS"),
        ("d2m", "QREFHT (computed, with PS, where no file has it)"),
        ("viwve", "vapour transport"),
        ("sst", ""),
        ("q", "TMQ (summed over levels, where no file has it)"),
    ] {
        let mut variables = found.makes[0].variables.iter();
        let variable = variables.find(|variable| variable.name == name).unwrap();
        assert_eq!(variable.channels.join(", "), uses, "{name}");
    }
    // Heights that tell warm cores are no channels.
    let path = folder.path().join("heights.nc");
    file_of(
        &path,
        &[("time", 1), ("lev", 3), ("lat", 4), ("lon", 4)],
        &[
            LAT,
            LON,
            ("time", "time", &[0.0], &[SINCE]),
            ("lev", "lev", &[250.0, 500.0, 850.0], &[("units", "hPa")]),
        ],
        &[("zg", "m", &ON_LEVELS)],
    );
    let found = inspect(path.to_str().unwrap()).unwrap();
    let mut variables = found.makes[0].variables.iter();
    let heights = variables.find(|variable| variable.name == "zg").unwrap();
    assert_eq!(heights.channels, ["warm cores (Z250, Z500)"]);
}

/// A network that learnt from other sources than it is given has to tell.
#[test]
fn sources_of_channels_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fields: [(&str, &str, &[&str]); 6] = [
        ("msl", "Pa", &AT_SURFACE),
        ("sp", "Pa", &AT_SURFACE),
        ("d2m", "K", &AT_SURFACE),
        ("t2m", "K", &AT_SURFACE),
        ("u10", "m s-1", &AT_SURFACE),
        ("q", "kg kg-1", &ON_LEVELS),
    ];
    file_with_levels(&at("first.nc"), &fields);
    // A later time has the wind of the lowest level.
    file_of(
        &at("later.nc"),
        &[("time", 1), ("lat", 4), ("lon", 4)],
        &[LAT, LON, ("time", "time", &[9.0], &[SINCE])],
        &[("UBOT", "m s-1", &AT_SURFACE), ("PSL", "Pa", &AT_SURFACE)],
    );
    let archive = open(folder.path());
    assert_eq!(archive.times().len(), 2);
    let said = |indices: std::ops::Range<usize>| -> Vec<String> {
        let sources = archive.sources(indices, &Variable::CHANNELS);
        let others = sources
            .iter()
            .filter(|(channel, sources)| !sources.iter().all(|source| source.is_itself(**channel)));
        let words = others.map(|(channel, sources)| format!("{channel}: {}", in_words(sources)));
        words.collect()
    };
    let at_10_m = "`u10` (10 m wind instead of the lowest model level)";
    let first = [
        "TMQ: computed from `q`".to_string(),
        format!("UBOT: {at_10_m}"),
        "QREFHT: computed from `d2m`".into(),
        "PS: `sp`".into(),
        "PSL: `msl`".into(),
        "TREFHT: `t2m`".into(),
        "ZBOT: computed".into(),
    ];
    assert_eq!(said(0..1), first);
    assert!(said(1..2).is_empty());
    let both = said(0..2);
    let [wind, pressure] = [
        format!("UBOT: `UBOT` and {at_10_m}"),
        "PSL: `PSL` and `msl`".into(),
    ];
    assert!(both.contains(&wind) && both.contains(&pressure), "{both:?}");
}

/// Gives all values of some fields at the ground these numbers, and those of levels one number for each.
fn fill(path: &std::path::Path, at_ground: &[(&str, f32)], on_levels: &[(&str, [f32; 3])]) {
    on_library_thread(|| -> Result<(), netcdf::Error> {
        let mut file = netcdf::append(path)?;
        for (name, value) in at_ground {
            let mut field = file.variable_mut(name).unwrap();
            field.put_values(&[*value; 16], ..)?;
        }
        for (name, values) in on_levels {
            let mut field = file.variable_mut(name).unwrap();
            for (level, value) in values.iter().enumerate() {
                field.put_values(&[*value; 16], (0_usize, level, .., ..))?;
            }
        }
        file.close()
    })
    .unwrap();
}

/// What is computed, by hand, from fields in several files and in units of their own.
#[test]
fn computed_channels_have_the_values_of_their_formulas() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // Humidity at 200, 500 and 850 hPa.
    let humidity = [("q", [0.0, 4.0, 10.0])];
    let (q, dewpoint) = (
        ("q", "g kg-1", &ON_LEVELS[..]),
        ("d2m", "degC", &AT_SURFACE[..]),
    );
    let ground = [
        ("sp", "hPa", &AT_SURFACE[..]),
        ("t2m", "K", &AT_SURFACE[..]),
    ];
    std::fs::create_dir(at("both")).unwrap();
    file_with_levels(&at("both/levels.nc"), &[q, dewpoint]);
    fill(&at("both/levels.nc"), &[("d2m", 20.0)], &humidity);
    file_with_levels(&at("both/ground.nc"), &ground);
    fill(
        &at("both/ground.nc"),
        &[("sp", 1000.0), ("t2m", 295.0)],
        &[],
    );
    // Without surface pressure there is no humidity near the ground, and no air below the lowest level.
    file_with_levels(&at("alone.nc"), &[q, dewpoint, ground[1]]);
    fill(&at("alone.nc"), &[("d2m", 20.0), ("t2m", 295.0)], &humidity);
    for (name, expected) in [
        (
            "both",
            &[
                // Vapour of 23.39 hPa at 20 °C (Smithsonian tables): 0.622 e / (p - 0.378 e).
                (Variable::Qrefht, 0.014_68, 4e-5),
                // Trapezoids: (0.002 · 30,000 + 0.007 · 35,000 + 0.01234 · 15,000) / 9.80665.
                (Variable::Tmq, 49.97, 0.05),
                // 29.2714 · 295 (1 + 0.608 · 0.01468) · 0.0074717.
                (Variable::Zbot, 65.09, 0.05),
            ][..],
        ),
        (
            "alone.nc",
            &[
                (Variable::Tmq, 31.10, 0.01),
                // With 8 g/kg, where no humidity is known.
                (Variable::Zbot, 64.83, 0.05),
            ][..],
        ),
    ] {
        let archive = open(&at(name));
        for &(variable, value, tolerance) in expected {
            let field = archive.read(0, &[variable]).unwrap().fields;
            let value: f64 = value;
            let is_near = |found: &f32| (f64::from(*found) - value).abs() < tolerance;
            assert!(field.iter().all(is_near), "{name} {variable}: {field}");
        }
        let told = archive.problems().join("\n");
        let is_told = told.contains("without PS levels below the ground count");
        assert_eq!(is_told, name == "alone.nc", "{told}");
        let has_humidity = archive.available().contains(&Variable::Qrefht);
        assert_eq!(has_humidity, name == "both");
    }
    // And who asks for a channel hears of all files that it is made of.
    let archive = open(&at("both"));
    let paths = [at("both/ground.nc"), at("both/levels.nc")];
    let [ground, levels] = [0, 1].map(|file| paths[file].as_path());
    for (variable, files) in [
        (Variable::Tmq, &[ground, levels][..]),
        (Variable::Qrefht, &[ground, levels]),
        (Variable::Zbot, &[ground, levels]),
        (Variable::Trefht, &[ground]),
        (Variable::Psl, &[]),
    ] {
        assert_eq!(archive.files_read(0, &[variable]), files, "{variable}");
        let first = archive.file_of(0, variable);
        assert_eq!(first, files.first().copied());
        let has = archive.check_has(0, &[Variable::Ps, variable]);
        assert_eq!(has.is_ok(), !files.is_empty(), "{variable}");
    }
}

/// As people are told and programs read it.
#[test]
fn inspect_tells_times_sizes_and_whose_files_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nc");
    for (names, days, dialect, step_hours) in [
        (["msl", "tcwv"], [0.0, 0.25, 0.5], "ERA5", Some(6.0)),
        (["SLP", "TQV"], [0.0, 1.0, 2.0], "MERRA-2", Some(24.0)),
        (["psl", "prw"], [0.0, 1.0, 3.0], "CMIP", None),
        (["prmslmsl", "pwatclm"], [0.0, 1.0, 2.0], "GFS", Some(24.0)),
        (["PSL", "TMQ"], [0.5, 1.0, 1.5], "CAM names", Some(12.0)),
    ] {
        let _ = std::fs::remove_file(&path);
        file_of(
            &path,
            &[("time", 3), ("lat", 4), ("lon", 4)],
            &[LAT, LON, ("time", "time", &days, &[SINCE])],
            &[(names[0], "Pa", &AT_SURFACE), (names[1], "mm", &AT_SURFACE)],
        );
        let found = inspect(path.to_str().unwrap()).unwrap();
        assert_eq!((found.dialect, found.step_hours), (dialect, step_hours));
        assert_eq!(found.channels, ["TMQ", "PSL"]);
        assert_eq!((found.files, found.grid_shape), (1, Some((4, 4))));
        assert_eq!(found.bytes, std::fs::metadata(&path).unwrap().len());
        let (first, last, count) = found.times.unwrap();
        let times = open(&path).times().to_vec();
        assert_eq!((first, last), (times[0].to_string(), times[2].to_string()));
        assert_eq!(count, 3);
        // Where times are uneven somebody may have lost some.
        let mut problems = found.problems.iter();
        let is_told = problems.any(|told| told.contains("has a gap"));
        assert_eq!(is_told, step_hours.is_none(), "{:?}", found.problems);
        assert!(found.usable);
    }
}

/// The channels had been missing without a reason.
#[test]
fn a_unit_that_keeps_a_channel_from_being_computed_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("units.nc");
    let fields: [(&str, &str, &[&str]); 3] = [
        ("PS", "Pa", &AT_SURFACE),
        ("q", "mol mol-1", &ON_LEVELS),
        ("d2m", "degF", &AT_SURFACE),
    ];
    file_with_levels(&path, &fields);
    let archive = open(&path);
    for (channel, name, said) in [
        (
            Variable::Tmq,
            "`q`",
            "expected a unit that converts to kg kg-1, found `mol mol-1`",
        ),
        (
            Variable::Qrefht,
            "`d2m`",
            "expected a unit that converts to K, found `degF`",
        ),
    ] {
        let error = archive.read(0, &[channel]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(said), "{error}");
        let problem = format!("{name} cannot serve as {channel}: {said}");
        let told = archive.problems();
        assert!(told.contains(&problem), "{told:?}");
    }
}

/// CAM calls the speed of the wind at 10 m `U10`, as others call its zonal component.
#[test]
fn speeds_of_the_wind_are_no_components() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wind.nc");
    let said = "expected a component of the wind, found its speed";
    for (attribute, is_component) in [
        (("long_name", "10m wind speed"), false),
        (("standard_name", "wind_speed"), false),
        (("long_name", "wind speed at the lowest level"), false),
        (("long_name", "North Pacific wind speed"), false),
        (("long_name", "eastern Pacific zonal wind speed"), true),
        (("long_name", "zonal wind speed"), true),
        (("long_name", "East-West wind speed"), true),
        (("long_name", "10m Uwind speed"), true),
        (("long_name", "U10 wind speed"), true),
        (("long_name", "wind speed along longitude"), true),
        (("long_name", "10 metre U wind component"), true),
        (("standard_name", "eastward_wind"), true),
    ] {
        let _ = std::fs::remove_file(&path);
        let field = ["time", "lat", "lon"];
        let on_level = ["time", "lev", "lat", "lon"];
        file_of(
            &path,
            &[("time", 1), ("lev", 1), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[0.0], &[SINCE]),
                ("lev", "lev", &[850.0], &[("units", "hPa")]),
            ],
            &[("U10", "m/s", &field), ("U", "m/s", &on_level)],
        );
        on_library_thread(|| -> Result<(), netcdf::Error> {
            let mut file = netcdf::append(&path)?;
            for name in ["U10", "U"] {
                let mut wind = file.variable_mut(name).unwrap();
                wind.put_attribute(attribute.0, attribute.1)?;
            }
            file.close()
        })
        .unwrap();
        let archive = open(&path);
        let expected: &[Variable] = if is_component {
            &[Variable::U850, Variable::Ubot]
        } else {
            &[]
        };
        assert_eq!(archive.available(), expected, "{attribute:?}");
        assert_eq!(archive.has_level(0, "U", 850.0), is_component);
        let refused = archive.problems().iter().any(|told| told.contains(said));
        assert_eq!(refused, !is_component, "{attribute:?}");
    }
}

#[test]
fn columns_of_an_unstructured_grid_are_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ncol.nc");
    let axes = [
        ("lat", "ncol", LAT.2, LAT.3),
        ("lon", "ncol", LON.2, LON.3),
        ("time", "time", &[0.0][..], &[SINCE][..]),
    ];
    file_of(
        &path,
        &[("time", 1), ("ncol", 4)],
        &axes,
        &[("PSL", "Pa", &["time", "ncol"])],
    );
    let error = Archive::open(path.to_str().unwrap())
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("unstructured") && error.contains("regridded"),
        "{error}"
    );
}

/// As in the HDF5 files of DeepCAM's data set, in which only `squall inspect` found variables.
#[test]
fn variables_in_groups_are_named_where_a_file_has_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data-2000-01-01-01-1.h5");
    on_library_thread(|| -> Result<(), netcdf::Error> {
        let mut file = netcdf::create(&path)?;
        let mut group = file.add_group("climate")?;
        group.add_dimension("y", 2)?;
        group.add_dimension("x", 3)?;
        group.add_variable::<f32>("data", &["y", "x"])?;
        let mut inner = group.add_group("more")?;
        inner.add_variable::<f32>("labels", &["y", "x"])?;
        file.close()
    })
    .unwrap();
    let error = Archive::open(path.to_str().unwrap())
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("in groups") && error.contains("climate/data, climate/more/labels"),
        "{error}"
    );
}
