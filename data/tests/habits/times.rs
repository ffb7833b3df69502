//! Times: starts and leads of forecasts, means, times that were never written.

use super::*;

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

/// As CDO and ECHAM write them; of one with a date in its name midnight of that had been read.
#[test]
fn dates_may_be_numbers_that_have_all_digits() {
    let folder = tempfile::tempdir().unwrap();
    let dimensions = [("time", 2), ("lat", 4), ("lon", 4)];
    let field = [("PSL", "Pa", &["time", "lat", "lon"][..])];
    let unit = ("units", "day as %Y%m%d.%f");
    let whole = folder.path().join("x_20000701.nc");
    let dates = [20_000_701.25, 20_000_701.5];
    let axes: [Axis<'_>; 3] = [LAT, LON, ("time", "time", &dates, &[unit])];
    file_of(&whole, &dimensions, &axes, &field);
    let times = open(&whole).times().to_vec();
    let told = times.iter().map(ToString::to_string);
    let expected = ["2000-07-01T06:00:00", "2000-07-01T12:00:00"];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let short = folder.path().join("y_20000701.nc");
    file_of(&short, &dimensions, &[LAT, LON], &field);
    on_library_thread(|| -> Result<(), netcdf::Error> {
        let mut file = netcdf::append(&short)?;
        let mut time = file.add_variable::<f32>("time", &["time"])?;
        time.put_attribute(unit.0, unit.1)?;
        time.put_values(&dates.map(|date| date as f32), ..)?;
        file.close()
    })
    .unwrap();
    let opened = Archive::open(short.to_str().unwrap()).map(|_| ());
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("`time`") && error.contains("f32"), "{error}");
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

/// Its calendar had been taken for `standard`, so that no time of it was one of a model's.
#[test]
fn a_time_that_names_no_calendar_has_that_of_the_axis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.nc");
    let noleap = [SINCE, ("calendar", "noleap")];
    for (day, expected) in [
        (59.0, &[Variable::Ps, Variable::Psl][..]),
        (60.0, &[Variable::Psl][..]),
    ] {
        let _ = std::fs::remove_file(&path);
        file_of(
            &path,
            &[("time", 1), ("time1", 1), ("lat", 4), ("lon", 4)],
            &[
                LAT,
                LON,
                ("time", "time", &[59.0], &noleap),
                ("time1", "time1", &[day], &[SINCE]),
            ],
            &[
                ("PSL", "Pa", &["time", "lat", "lon"]),
                ("PS", "Pa", &["time1", "lat", "lon"]),
            ],
        );
        assert_eq!(open(&path).available(), expected, "{day}");
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
