//! A run with known trends: from the tables and statistics that `squall events` writes to statements and a page.

use ndarray::Array2;
use rand::Rng;
use squall_climate::ClimateError;
use squall_climate::compare::{Group, Quantity};
use squall_climate::report::trends::trends_page;
use squall_climate::statistics::{Basin, Statistics};
use squall_climate::trends::{self, NoTrend, TrendInput, TrendOptions, TrendRow, Trends};
use squall_data::random::stream;
use squall_data::{Calendar, ClassMask, LatLonGrid, Time};
use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

const CALENDAR: Calendar = Calendar::NoLeap;
const YEARS: RangeInclusive<i64> = 1961..=2000;

fn time(year: i64, month: i64, day: i64) -> Time {
    Time::new(CALENDAR, year, month, day, 0, 0, 0).unwrap()
}

/// Writes a run with twelve rivers in every year whose number of cyclones rises by four a decade and whose winds rise
/// by 1 m/s a decade. Returns the number of cyclones in each year. Cyclones before `windy` have no wind.
fn write(folder: &Path, windy: i64) -> Vec<usize> {
    let mut random = stream(1, "trends test", &[]);
    let mut events = vec!["class,time,lon_deg,lat_deg,area_km2,track_id,max_wind_m_s".to_string()];
    let mut tracks = vec![
        "track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,max_wind_m_s"
            .to_string(),
    ];
    let (mut id, mut counts) = (0, Vec::new());
    for year in YEARS {
        let since = year - YEARS.start();
        for month in 1..=12 {
            id += 1;
            let (start, end) = (time(year, month, 1), time(year, month, 4));
            let river = format!("atmospheric_river,{start},202,42,400000,{id},");
            events.push(river);
            tracks.push(format!("{id},atmospheric_river,{start},{end},202,42,"));
        }
        // Marks the last day of the data, for tables without statistics.
        let last = time(year, 12, 31);
        events.push(format!("atmospheric_river,{last},202,42,400000,,"));
        let count = 20 + (0.4 * since as f64).round() as usize + random.random_range(0..7usize);
        for k in 0..count {
            id += 1;
            let month = (k % 12) as i64 + 1;
            let (start, end) = (time(year, month, 10), time(year, month, 13));
            let wind = 33.0 + 0.1 * since as f64 + random.random_range(-6.0..6.0);
            let wind = if year < windy {
                String::new()
            } else {
                format!("{wind:.3}")
            };
            events.push(format!("tropical_cyclone,{start},140,12,90000,{id},{wind}"));
            tracks.push(format!("{id},tropical_cyclone,{start},{end},140,12,{wind}"));
        }
        counts.push(count);
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("events.csv"), events.join("\n") + "\n").unwrap();
    fs::write(folder.join("tracks.csv"), tracks.join("\n") + "\n").unwrap();
    counts
}

/// Writes statistics of a run that was analysed on all days except those of the months for which `lacks` returns true.
fn write_statistics(folder: &Path, lacks: impl Fn(i64, i64) -> bool) {
    write_statistics_with(folder, lacks, |_| 0);
}

/// The same for masks of which some of the twelve columns are missing in each year.
fn write_statistics_with(
    folder: &Path,
    lacks: impl Fn(i64, i64) -> bool,
    missing_columns: impl Fn(i64) -> usize,
) {
    let grid = LatLonGrid::global(8, 12).unwrap();
    let mut statistics = Statistics::new(&grid);
    for (year, month) in YEARS.flat_map(|year| (1..=12).map(move |month| (year, month))) {
        if lacks(year, month) {
            continue;
        }
        for day in 1..=CALENDAR.days_in_month(year, month) {
            let mask = ClassMask::new(time(year, month, day), Array2::zeros((8, 12))).unwrap();
            statistics
                .add_time(mask.time, Some(&mask), 24.0, [])
                .unwrap();
            let missing = Array2::from_shape_fn((8, 12), |(_, i)| i < missing_columns(year));
            statistics.leave_out(mask.time, missing.view()).unwrap();
        }
    }
    statistics
        .write_netcdf(folder.join("statistics.nc"), &grid, CALENDAR)
        .unwrap();
}

/// The confidence is so high that the intervals contain the imposed trends whatever the noise.
fn options() -> TrendOptions {
    TrendOptions {
        confidence: 0.999,
        calendar: Some(CALENDAR),
        ..TrendOptions::default()
    }
}

fn trends_of(
    folder: &Path,
    years: Option<(i64, i64)>,
    options: &TrendOptions,
) -> Result<Trends, ClimateError> {
    let input = TrendInput {
        folder: folder.into(),
        label: "run".into(),
        years,
    };
    trends::plan(input, options)?.run(&|| Ok(()), |_| Ok(()))
}

fn row(trends: &Trends, quantity: Quantity, group: Group) -> &TrendRow {
    let found = (trends.trends.iter()).find(|row| row.quantity == quantity && row.group == group);
    found.unwrap_or_else(|| panic!("no row of {quantity:?} {group:?}"))
}

#[test]
fn known_trends_are_found_where_they_are_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let counts = write(folder.path(), 0);
    write_statistics(folder.path(), |_, _| false);
    let found = trends_of(folder.path(), None, &options()).unwrap();
    assert_eq!(found.run.years, Vec::from_iter(YEARS));
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
    let values: Vec<Option<f64>> = counts.iter().map(|count| Some(*count as f64)).collect();
    assert_eq!(tracks.values, values);
    let slope = tracks.trend.slope.unwrap();
    assert!((slope - 4.0).abs() < 0.8, "{slope}");
    let interval = tracks.trend.interval.unwrap();
    assert!(interval.holds(4.0) && interval.low > 2.0, "{interval:?}");
    assert!(tracks.significant && tracks.trend.p.unwrap() < 1e-6);
    let mean = counts.iter().sum::<usize>() as f64 / 40.0;
    assert!((tracks.relative.unwrap() - slope / mean).abs() < 1e-12);
    let wind = row(&found, Quantity::CycloneWind, Group::ALL);
    assert!(wind.trend.interval.unwrap().holds(1.0), "{wind:?}");
    assert!(wind.significant);
    // All storms form and stay in the West Pacific.
    let pacific = Group::of_basin(Basin::WestPacific);
    assert_eq!(row(&found, Quantity::CycloneTracks, pacific).values, values);
    let atlantic = Group::of_basin(Basin::NorthAtlantic);
    let none = row(&found, Quantity::CycloneTracks, atlantic);
    assert_eq!(none.trend.no_trend, Some(NoTrend::NoEvents));
    // The seasons add up to the year.
    let of_seasons: f64 = (0..4)
        .map(|s| row(&found, Quantity::CycloneTracks, Group::of_season(s)))
        .map(|row| row.trend.mean.unwrap())
        .sum();
    assert!((of_seasons - mean).abs() < 1e-9);
    for constant in [
        Quantity::RiverTracks,
        Quantity::CycloneLifetime,
        Quantity::CycloneLatitude,
    ] {
        let trend = row(&found, constant, Group::ALL).trend;
        assert_eq!(trend.no_trend, Some(NoTrend::Constant), "{constant:?}");
        assert_eq!((trend.slope, trend.p), (None, None));
    }
    let first = &found.statements[0];
    assert!(
        first.starts_with("Tropical cyclones become 1")
            && first.contains(" % more frequent per decade (99.9 % interval +")
            && first.ends_with(", p < 0.001); 40 years, 1961 to 2000."),
        "{first}"
    );
    let rivers = "Atmospheric rivers: 12.0 a year in the mean; no trend, because all years have the same value; 40 years, 1961 to 2000.";
    assert!(found.statements.iter().any(|text| text == rivers));

    let out = folder.path().join("trends");
    found.write(&out).unwrap();
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let yearly = read("yearly.csv");
    let line = format!("tracks,tropical_cyclone,all,all,a year,1961,{}", counts[0]);
    let mut lines = yearly.lines();
    assert_eq!(
        lines.next(),
        Some("quantity,class,basin,season,unit,year,value")
    );
    let is_value = |text: &&str| {
        text.strip_prefix(line.as_str())
            .is_some_and(|rest| rest.starts_with('.'))
    };
    assert!(lines.next().as_ref().is_some_and(is_value), "{yearly:.200}");
    assert!(!yearly.contains("tropical_cyclone,NA,"));
    let table = read("trends.csv");
    let columns = table.lines().next().unwrap().split(',').count();
    assert!(table.lines().all(|line| line.split(',').count() == columns));
    assert!(table.contains("\ntracks,tropical_cyclone,all,all,a year,40,1961,2000,"));
    assert!(table.contains(",no_events\n"));
    let mut rows = table.lines();
    let columns = rows.next().unwrap().split(',');
    let of_tracks = |row: &&str| row.starts_with("tracks,tropical_cyclone,all,all,");
    let cells: BTreeMap<&str, &str> = columns
        .zip(rows.find(of_tracks).unwrap().split(','))
        .collect();
    let relative = tracks.relative_interval.unwrap();
    for (column, expected) in [
        ("mean", tracks.trend.mean),
        ("sd", tracks.trend.sd),
        ("slope", tracks.trend.slope),
        ("low", Some(interval.low)),
        ("high", Some(interval.high)),
        ("relative_slope", tracks.relative),
        ("relative_low", Some(relative.low)),
        ("relative_high", Some(relative.high)),
        ("tau", tracks.trend.tau),
        ("persistence", tracks.trend.persistence),
        ("p", tracks.trend.p),
        ("adjusted_p", tracks.adjusted_p),
    ] {
        let (found, expected): (f64, f64) = (cells[column].parse().unwrap(), expected.unwrap());
        let off = (found - expected).abs();
        assert!(off <= 1e-5 * expected.abs(), "{column}: {found}");
    }
    // Relative slopes are fractions of the mean.
    assert!((relative.low * mean - interval.low).abs() < 1e-9);
    assert!((relative.high * mean - interval.high).abs() < 1e-9);
    let json: serde_json::Value = serde_json::from_str(&read("trends.json")).unwrap();
    assert_eq!(json["trends"][0]["slope"], slope);
    assert_eq!(json["trends"][0]["interval"]["low"], interval.low);
    assert_eq!(json["run"]["years"][39], 2000);
    assert!(read("statements.txt").starts_with(first));

    let page = trends_page(&found, "One run", "squall trends run --out trends");
    for part in [
        "<title>One run</title>",
        "more frequent per decade",
        "class=\"line trend\"",
        "squall trends run --out trends",
        "run</strong>: 40 years (1961 to 2000)",
        "<strong>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("NaN"));
    // The page has no maps.
    assert!(!page.contains("Natural Earth"));
}

#[test]
fn years_that_are_not_whole_are_left_out_and_the_trend_goes_on_around_them() {
    let folder = tempfile::tempdir().unwrap();
    let counts = write(folder.path(), 0);
    write_statistics(folder.path(), |year, month| (year, month) == (1980, 3));
    let found = trends_of(folder.path(), None, &options()).unwrap();
    assert_eq!((found.run.years.len(), found.run.left_out[0].0), (39, 1980));
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("not whole are left out: 1980")),
        "{:?}",
        found.notes
    );
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
    assert_eq!(tracks.values.len(), 39);
    assert_eq!(tracks.values[19], Some(counts[20] as f64));
    assert!(tracks.trend.interval.unwrap().holds(4.0), "{tracks:?}");
    assert!(
        found.statements[0].ends_with("; 39 of the years 1961 to 2000."),
        "{}",
        found.statements[0]
    );
    // There is one year fewer if years start in July.
    let southern = TrendOptions {
        year_start: 7,
        ..options()
    };
    let found = trends_of(folder.path(), None, &southern).unwrap();
    assert_eq!(found.run.years.first(), Some(&1961));
    assert_eq!(found.run.years.last(), Some(&1999));
    assert!(trends_page(&found, "July", "").contains("1961 to 1999, with gaps, each from July on"));
    // Like a model started in December.
    write_statistics(folder.path(), |year, month| match year {
        1961 => month < 12,
        2000 => month == 12,
        _ => false,
    });
    let found = trends_of(folder.path(), None, &options()).unwrap();
    assert_eq!(found.run.years.len(), 38);
    let better = "39 are whole if they begin with December (`--year-start 12`).";
    let says = |end: &str| found.notes.iter().any(|note| note.ends_with(end));
    assert!(says(better), "{:?}", found.notes);
}

#[test]
fn years_of_unknown_winds_are_missing_and_not_calm() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 1975);
    let found = trends_of(folder.path(), None, &options()).unwrap();
    for quantity in [Quantity::Hurricanes, Quantity::CycloneWind] {
        let row = row(&found, quantity, Group::ALL);
        let years = (row.trend.years, row.trend.first_year, row.trend.last_year);
        assert_eq!(years, (26, Some(1975), Some(2000)), "{quantity:?}");
        assert!(row.values[..14].iter().all(Option::is_none));
        assert!(row.trend.interval.is_some());
    }
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
    assert_eq!(tracks.trend.years, 40);
    let says = |begin: &str| found.notes.iter().any(|note| note.starts_with(begin));
    assert!(
        says("14 of 40 years are unknown for tropical_cyclone hurricanes")
            && says("Left out, because the tables of run lack their columns or values: ")
            && says("There is no statistics.nc"),
        "{:?}",
        found.notes
    );
    let out = folder.path().join("trends");
    found.write(&out).unwrap();
    let yearly = fs::read_to_string(out.join("yearly.csv")).unwrap();
    assert!(yearly.contains("\nhurricanes,tropical_cyclone,all,all,a year,1974,\n"));
    assert!(trends_page(&found, "winds", "").contains("26 years, 1975 to 2000"));
}

/// Regression: better reporting of winds was a trend of their mean.
#[test]
fn means_of_which_early_tracks_lack_more_values_have_no_significant_trend() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 0);
    let file = folder.path().join("tracks.csv");
    let table = fs::read_to_string(&file).unwrap();
    let rows = table.lines().map(|row| {
        let cells: Vec<&str> = row.split(',').collect();
        let is_fifth = cells[0].parse::<u32>().is_ok_and(|id| id % 5 == 0);
        if is_fifth && cells[2] < "1981" {
            format!("{},\n", cells[..6].join(","))
        } else {
            format!("{row}\n")
        }
    });
    let rows: String = rows.collect();
    fs::write(&file, rows).unwrap();
    let found = trends_of(folder.path(), None, &options()).unwrap();
    let wind = row(&found, Quantity::CycloneWind, Group::ALL);
    assert!(
        wind.adjusted_p.is_some_and(|p| p < 0.001) && !wind.significant,
        "{wind:?}"
    );
    // Nor has the number of those whose wind is strong.
    let hurricanes = row(&found, Quantity::Hurricanes, Group::ALL);
    assert!(
        hurricanes.adjusted_p.is_some_and(|p| p < 0.001) && !hurricanes.significant,
        "{hurricanes:?}"
    );
    let note = "no value for tropical_cyclone hurricanes, tropical_cyclone major_hurricanes: no trend of these";
    assert!(
        found.notes.iter().any(|said| said.contains(note)),
        "{:?}",
        found.notes
    );
    // The latitude when strongest comes from the events, which all have a wind.
    let note = "of the later half 0 % have no value for tropical_cyclone max_wind, tropical_cyclone max_wind_p90: no \
                trend of these is called significant";
    assert!(
        found.notes.iter().any(|said| said.contains(note)),
        "{:?}",
        found.notes
    );
}

/// Regression: where the later masks lacked six of 64 columns, the share of the Earth under rivers fell by 8 % per
/// decade, without a note.
#[test]
fn numbers_have_no_significant_trend_where_masks_lack_cells() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 0);
    let columns = |year: i64| if year > 1980 { 3 } else { 0 };
    write_statistics_with(folder.path(), |_, _| false, columns);
    let found = trends_of(folder.path(), None, &options()).unwrap();
    for (quantity, significant) in [
        (Quantity::CycloneTracks, false),
        (Quantity::CyclonesPresent, false),
        (Quantity::CycloneWind, true),
    ] {
        let row = row(&found, quantity, Group::ALL);
        assert!(row.adjusted_p.is_some_and(|p| p < 0.001), "{row:?}");
        assert_eq!(row.significant, significant, "{quantity:?}");
    }
    // A quarter of the cells in half of the years.
    let begin =
        "12.5 % of the cells of masks are missing, and no event is found there: no trend of";
    assert!(
        found.notes.iter().any(|note| note.starts_with(begin)),
        "{:?}",
        found.notes
    );
}

/// Best tracks may have only some seasons; the others used to count as years without a storm, without any note.
#[test]
fn years_that_no_table_has_a_row_of_are_said() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 0);
    for (name, at) in [("events.csv", 1), ("tracks.csv", 2)] {
        let table = fs::read_to_string(folder.path().join(name)).unwrap();
        let is_odd = |row: &&str| {
            let cell = row.split(',').nth(at).unwrap();
            let year = cell.get(..4).and_then(|year| year.parse::<i64>().ok());
            year.is_none_or(|year| year % 2 == 1)
        };
        let rows: Vec<&str> = table.lines().filter(is_odd).collect();
        fs::write(folder.path().join(name), rows.join("\n") + "\n").unwrap();
    }
    let said = |options: &TrendOptions| trends_of(folder.path(), None, options).unwrap().notes;
    let note = "In 19 of 39 years the tables have no rows: 1962, 1964, 1966, 1968, 1970 and 14 more. They count as \
                years without an event, although the data may be missing.";
    let summer = TrendOptions {
        months: vec![6, 7, 8],
        ..options()
    };
    for notes in [said(&options()), said(&summer)] {
        assert!(notes.iter().any(|n| n == note), "{notes:?}");
    }
    // Statistics prove that the empty years were analysed.
    write_statistics(folder.path(), |_, _| false);
    let notes = said(&options());
    assert!(!notes.iter().any(|n| n.contains("no row")), "{notes:?}");
}

/// Every other river is a piece of zero duration; the mean over all rivers used to be 1.5 days.
#[test]
fn pieces_of_rivers_have_no_lifetime_and_are_said() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 0);
    let file = folder.path().join("tracks.csv");
    let table = fs::read_to_string(&file).unwrap();
    let mut rows = vec![table.lines().next().unwrap().to_string() + ",origin,fate"];
    let mut is_piece = false;
    for row in table.lines().skip(1) {
        let mut cells: Vec<&str> = row.split(',').collect();
        is_piece ^= cells[1] == "atmospheric_river";
        if cells[1] == "atmospheric_river" && is_piece {
            cells[3] = cells[2];
            rows.push(cells.join(",") + ",split,merge");
        } else {
            rows.push(format!("{row},genesis,lysis"));
        }
    }
    fs::write(&file, rows.join("\n") + "\n").unwrap();
    let found = trends_of(folder.path(), None, &options()).unwrap();
    for (quantity, value) in [
        (Quantity::RiverTracks, 12.0),
        (Quantity::RiverLifetime, 3.0),
    ] {
        let values = &row(&found, quantity, Group::ALL).values;
        assert_eq!(*values, vec![Some(value); 40], "{quantity:?}");
    }
    let note = "Numbers of atmospheric rivers are of pieces between mergers: 50 % of the tracks of run split from \
                another river or ended in one. Lifetimes leave them out.";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
}

#[test]
fn few_years_months_and_what_a_run_does_not_have() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 0);
    let found = trends_of(folder.path(), Some((1961, 1969)), &options()).unwrap();
    assert!(
        found
            .trends
            .iter()
            .all(|row| row.trend.slope.is_none() && !row.significant)
    );
    // Once, not in every sentence.
    let few = "There is no trend, because only 9 whole years are known and at least 10 are needed.";
    assert_eq!(found.notes[0], few);
    assert_eq!(found.text().matches("only 9 whole years").count(), 1);
    assert!(found.statements[0].ends_with(" in the mean; 9 years, 1961 to 1969."));
    let page = trends_page(&found, "few", "");
    assert!(page.contains("1961 to 1969: no trend"), "{page}");
    // Regression: trends that were never tested were "not significant".
    assert!(page.contains("not tested</li>"), "{page}");
    for claim in ["not significant", "% intervals", "Mann-Kendall"] {
        assert!(!page.contains(claim), "{claim} in {page}");
    }
    let summer = TrendOptions {
        months: vec![6, 7, 8],
        ..options()
    };
    let found = trends_of(folder.path(), None, &summer).unwrap();
    assert!(found.trends.iter().all(|row| row.season == "all"));
    assert!(found.statements[0].ends_with("1961 to 2000, June to August only."));
    let winter = TrendOptions {
        months: vec![12, 1, 2],
        ..options()
    };
    let found = trends_of(folder.path(), None, &winter).unwrap();
    assert_eq!(found.months, [1, 2, 12]);
    let keeps = "`--year-start 12` keeps seasons whole.";
    assert!(
        found.notes.iter().any(|note| note.ends_with(keeps)),
        "{:?}",
        found.notes
    );
    let error = trends_of(folder.path(), Some((1900, 1910)), &options()).unwrap_err();
    assert!(
        matches!(&error, ClimateError::Period { reason, .. } if reason == "it has no year from 1900 to 1910"),
        "{error}"
    );
    for wrong in [
        TrendOptions {
            confidence: 0.3,
            ..options()
        },
        TrendOptions {
            months: vec![13],
            ..options()
        },
    ] {
        let error = trends_of(folder.path(), None, &wrong).unwrap_err();
        assert!(
            error.to_string().contains("expected months from 1 to 12"),
            "{error}"
        );
    }
    assert!(trends_of(&folder.path().join("absent"), None, &options()).is_err());
    // A cancelled run stops.
    let input = TrendInput {
        folder: folder.path().into(),
        label: "run".into(),
        years: None,
    };
    let work = trends::plan(input, &options()).unwrap();
    assert_eq!(work.words(), "trends of 40 years of run, all months");
    let stopped = work.run(&|| Err(ClimateError::Invalid("stop".into())), |_| Ok(()));
    assert!(matches!(stopped, Err(ClimateError::Invalid(text)) if text == "stop"));
}
