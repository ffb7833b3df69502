//! What other tools write and CAM does not: a level alone, heights, starts of forecasts, columns of no grid.

use squall_data::archive::on_library_thread;
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
            "dimensions (time, expver, lat, lon); `expver` is neither time nor levels of pressure: a file may have one of its 2 entries",
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
        file_of(
            &path,
            &[("time", 1), ("lev", 3), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[0.0], &[SINCE]),
                (
                    "lev",
                    "lev",
                    &values,
                    &[("standard_name", standard), attributes],
                ),
            ],
            &[("ua", "m s-1", &["time", "lev", "lat", "lon"])],
        );
        number_levels(&path, "ua");
        let archive = open(&path);
        let wind = archive.read(0, &[Variable::Ubot]).unwrap().fields;
        assert!(
            wind.iter().all(|value| *value == lowest as f32),
            "{name}: {wind}"
        );
    }
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
        file_of(
            &path,
            &[("time", 1), (name, 3), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[0.0], &[SINCE]),
                (
                    name,
                    name,
                    &[500.0, 850.0, 990.0],
                    &[attribute, ("units", "mb")],
                ),
            ],
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
        file_of(
            &path,
            &[("time", 1), ("level", 3), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[0.0], &[SINCE]),
                ("level", "level", &values, &[attribute]),
            ],
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

/// What a model leaves that was killed between its fields and their time: a date millions of years ago had been read.
#[test]
fn times_that_were_never_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str, fill: Option<f64>| {
        let path = folder.path().join(name);
        file_of(
            &path,
            &[("time", 1), ("lat", 4), ("lon", 4)],
            &[LAT, LON],
            &[("PSL", "Pa", &["time", "lat", "lon"])],
        );
        on_library_thread(|| -> Result<(), netcdf::Error> {
            let mut file = netcdf::append(&path)?;
            match fill {
                None => file.add_variable::<i32>("time", &["time"])?,
                Some(_) => file.add_variable::<f64>("time", &["time"])?,
            };
            let mut time = file.variable_mut("time").unwrap();
            if let Some(fill) = fill {
                time.put_attribute("_FillValue", fill)?;
            }
            time.put_attribute(SINCE.0, SINCE.1)?;
            file.close()
        })
        .unwrap();
        Archive::open(path.to_str().unwrap())
    };
    for (name, fill) in [("integer.nc", None), ("told.nc", Some(-999.0))] {
        let error = said(name, fill).unwrap_err().to_string();
        assert!(error.contains("no time was written there"), "{error}");
        assert!(error.contains(name), "{error}");
    }
    let origin = said("origin.nc", Some(0.0)).unwrap();
    assert_eq!(origin.times()[0].to_string(), "2000-01-01T00:00:00");
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
        file_of(
            &path,
            &[("time", 1), ("level", 3), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[0.0], &[SINCE]),
                ("level", "level", &levels, &[("units", "hPa")]),
            ],
            &[("u", "m s**-1", on_levels)],
        );
        number_levels(&path, "u");
        let archive = open(&path);
        let wind = archive.read(0, &[Variable::U850]).unwrap().fields;
        assert!(wind.iter().all(|value| *value == nearest), "{name}: {wind}");
        let level = archive.read_level(0, "u", 850.0).unwrap().unwrap();
        assert!(level.iter().all(|value| *value == nearest), "{name}");
    }
}

/// Wind that is nowhere known moves nothing: such times had masks without rivers.
#[test]
fn levels_of_a_time_that_was_never_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blank.nc");
    file_of(
        &path,
        &[("time", 1), ("level", 3), ("lat", 4), ("lon", 4)],
        &[
            LAT,
            LON,
            ("time", "time", &[0.0], &[SINCE]),
            (
                "level",
                "level",
                &[300.0, 500.0, 850.0],
                &[("units", "hPa")],
            ),
        ],
        &[("u", "m s**-1", &["time", "level", "lat", "lon"])],
    );
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

/// Fields are of the time that they are valid at, not of that at which a forecast began.
#[test]
fn the_start_of_a_forecast_is_not_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let start: (&str, &str) = ("standard_name", "forecast_reference_time");
    let lead = (
        "step",
        "",
        &[3.0][..],
        &[("standard_name", "forecast_period"), ("units", "days")][..],
    );
    let of_time = &["time", "lat", "lon"][..];
    let field = [("PSL", "Pa", of_time), ("tp", "kg m**-2", of_time)];
    let dimensions = [("time", 1), ("lat", 4), ("lon", 4)];
    let both = folder.path().join("both.nc");
    let axes = [
        LAT,
        LON,
        ("time", "time", &[0.0], &[SINCE, start]),
        lead,
        ("valid_time", "time", &[3.0], &[SINCE]),
    ];
    file_of(&both, &dimensions, &axes, &field);
    assert_eq!(open(&both).times()[0].to_string(), "2000-01-04T00:00:00");
    let alone = folder.path().join("alone.nc");
    file_of(&alone, &dimensions, &axes[..4], &field);
    let error = Archive::open(alone.to_str().unwrap())
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("at which a forecast began"), "{error}");
    // As cfgrib writes it.
    let cfgrib = folder.path().join("cfgrib.nc");
    let start = [
        SINCE,
        ("standard_name", "time"),
        ("long_name", "initial time of forecast"),
    ];
    let axes_of_cfgrib = [
        LAT,
        LON,
        ("time", "time", &[0.0], &start[..]),
        lead,
        axes[4],
    ];
    file_of(&cfgrib, &dimensions, &axes_of_cfgrib, &field);
    assert_eq!(open(&cfgrib).times()[0].to_string(), "2000-01-04T00:00:00");
    // Rain since the forecast began is no rain of an hour.
    let error = open(&cfgrib)
        .read(0, &[Variable::Prect])
        .unwrap_err()
        .to_string();
    assert!(error.contains("since the forecast began"), "{error}");
    // CF's time is that at which fields are valid, however far ahead they were forecast.
    let valid = folder.path().join("valid.nc");
    let ahead = [("forecast_period", 1), ("time", 1), ("lat", 4), ("lon", 4)];
    let period = (
        "forecast_period",
        "forecast_period",
        &[3.0][..],
        &[("standard_name", "forecast_period"), ("units", "days")][..],
    );
    let time = [SINCE, ("standard_name", "time")];
    let axes_of_cf = [LAT, LON, ("time", "time", &[3.0], &time[..]), period];
    let fields = [("PSL", "Pa", &["time", "forecast_period", "lat", "lon"][..])];
    file_of(&valid, &ahead, &axes_of_cf, &fields);
    let archive = open(&valid);
    assert_eq!(archive.times()[0].to_string(), "2000-01-04T00:00:00");
    assert_eq!(archive.available(), [Variable::Psl]);
    // What looks nothing ahead is an analysis.
    let analysis = folder.path().join("analysis.nc");
    file_of(&analysis, &dimensions, &axes[..3], &field);
    assert_eq!(
        open(&analysis).times()[0].to_string(),
        "2000-01-01T00:00:00"
    );
}

/// CF's `time` beside a lead is valid unless it says that it is a start, or other times are called valid.
#[test]
fn times_of_cf_are_valid_unless_the_file_says_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lead.nc");
    let dimensions = [("forecast_period", 1), ("time", 1), ("lat", 4), ("lon", 4)];
    let lead = [("standard_name", "forecast_period"), ("units", "days")];
    let fields = [("PSL", "Pa", &["time", "forecast_period", "lat", "lon"][..])];
    for (long_name, valid, is_read) in [
        ("time", None, true),
        ("time since initialization", None, true),
        ("reference time", None, false),
        ("Initial time", None, false),
        ("time", Some([3.0]), true),
        ("time", Some([6.0]), false),
    ] {
        let _ = std::fs::remove_file(&path);
        let time = [SINCE, ("standard_name", "time"), ("long_name", long_name)];
        let mut axes: Vec<Axis<'_>> = vec![LAT, LON];
        axes.push(("time", "time", &[3.0], &time));
        axes.push(("forecast_period", "forecast_period", &[3.0], &lead));
        if let Some(days) = &valid {
            axes.push(("valid_time", "", days, &[SINCE]));
        }
        file_of(&path, &dimensions, &axes, &fields);
        let read = || {
            let archive = Archive::open(path.to_str().unwrap())?;
            archive.read(0, &[Variable::Psl])
        };
        let said = read().err().map(|error| error.to_string());
        match said {
            None => assert!(is_read, "{long_name} {valid:?}"),
            Some(said) => {
                let words = "`forecast_period` that is not 0";
                assert!(!is_read && said.contains(words), "{long_name}: {said}");
            }
        }
    }
}

/// The water at `time` and the pressure at `time1` are of one time, or one of them is refused.
#[test]
fn fields_at_another_time_of_their_own_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.nc");
    for (hours, refused) in [(0.0, false), (6.0, true)] {
        let _ = std::fs::remove_file(&path);
        let since = ("units", "hours since 2000-01-01");
        file_of(
            &path,
            &[("time", 1), ("time1", 1), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[0.0], &[since]),
                ("time1", "time1", &[hours], &[since]),
            ],
            &[
                ("tcwv", "kg m**-2", &["time", "lat", "lon"]),
                ("msl", "Pa", &["time1", "lat", "lon"]),
            ],
        );
        let archive = open(&path);
        if refused {
            assert_eq!(archive.available(), [Variable::Tmq]);
            let error = archive.read(0, &[Variable::Psl]).unwrap_err().to_string();
            let said = "found `time1`, which is 2000-01-01T06:00:00";
            assert!(error.contains(said), "{error}");
        } else {
            assert_eq!(archive.available(), [Variable::Tmq, Variable::Psl])
        }
    }
}

/// NCAR keeps ERA5's rain by the start of forecasts and the hours ahead.
#[test]
fn hours_ahead_along_a_dimension_are_leads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rain.nc");
    let hour = &[("units", "hours"), ("long_name", "forecast hour")][..];
    let dimensions = [("start", 2), ("forecast_hour", 1), ("lat", 4), ("lon", 4)];
    let field = &["start", "forecast_hour", "lat", "lon"][..];
    for (name, ahead, along, words) in [
        (
            "forecast_initial_time",
            [6.0],
            "forecast_hour",
            "`forecast_hour` that is not 0",
        ),
        ("forecast_initial_time", [0.0], "forecast_hour", ""),
        (
            "time",
            [6.0],
            "forecast_hour",
            "`forecast_hour` that is not 0",
        ),
        ("valid_time", [6.0], "forecast_hour", ""),
        (
            "forecast_initial_time",
            [6.0],
            "",
            "`forecast_hour` that is not 0",
        ),
    ] {
        let _ = std::fs::remove_file(&path);
        file_of(
            &path,
            &dimensions,
            &[
                LAT,
                LON,
                (name, "start", &[0.0, 1.0], &[SINCE]),
                ("forecast_hour", along, &ahead, hour),
            ],
            &[("MTPR", "kg m**-2 s**-1", field)],
        );
        let read = || {
            let archive = Archive::open(path.to_str().unwrap())?;
            archive.read(1, &[Variable::Prect])
        };
        let said = read().err().map(|error| error.to_string());
        match &said {
            None => assert!(words.is_empty(), "{name} {along}"),
            Some(said) => assert!(!words.is_empty() && said.contains(words), "{said}"),
        }
    }
}

/// CESM's daily means stand at the midnight that ends the day.
#[test]
fn means_at_the_ends_of_days_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mean.nc");
    for (times, bounds, method, is_told) in [
        ([1.0, 2.0], [0.0, 1.0, 1.0, 2.0], "time: mean", true),
        // Means of six hours are of the same day; so is what stands in the middle, and a state at a time.
        ([1.0, 2.0], [0.75, 1.0, 1.75, 2.0], "time: mean", false),
        ([0.5, 1.5], [0.0, 1.0, 1.0, 2.0], "time: mean", false),
        ([1.0, 2.0], [0.0, 1.0, 1.0, 2.0], "time: point", false),
    ] {
        let _ = std::fs::remove_file(&path);
        let bounded = [SINCE, ("bounds", "ends")];
        file_of(
            &path,
            &[("time", 2), ("two", 2), ("lat", 4), ("lon", 4)],
            &[LAT, LON, ("time", "time", &times, &bounded)],
            &[("PSL", "Pa", &["time", "lat", "lon"])],
        );
        on_library_thread(|| -> Result<(), netcdf::Error> {
            let mut file = netcdf::append(&path)?;
            let mut field = file.variable_mut("PSL").unwrap();
            field.put_attribute("cell_methods", method)?;
            let mut ends = file.add_variable::<f64>("ends", &["time", "two"])?;
            ends.put_values(&bounds, ..)?;
            file.close()
        })
        .unwrap();
        let archive = open(&path);
        let said = archive.problems().join("\n");
        let told = said.contains("their times are the ends of that");
        assert_eq!(told, is_told, "{times:?} {bounds:?} {method}: {said}");
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
