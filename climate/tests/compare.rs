//! Two runs with known storms, through the tables and statistics that `squall events` writes, to changes.

use ndarray::Array2;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use squall_climate::ClimateError;
use squall_climate::compare::{
    self, CompareOptions, Comparison, DrawOptions, Group, MapQuantity, NoInterval, Quantity,
    SideInput,
};
use squall_climate::report::changes::changes_page;
use squall_climate::statistics::{Basin, Statistics};
use squall_data::random::stream;
use squall_data::{Calendar, ClassMask, LatLonGrid, Time};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A run whose storms all follow one rule.
#[derive(Clone)]
struct Run {
    calendar: Calendar,
    grid: (usize, usize),
    years: std::ops::RangeInclusive<i64>,
    months: Vec<i64>,
    /// Cyclones in each month.
    storms: usize,
    wind_m_s: f64,
    /// Chance of a marked river cell at 42°N 202°E at a time.
    river_chance: f64,
    /// A month without times.
    gap: Option<(i64, i64)>,
    seed: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            calendar: Calendar::NoLeap,
            grid: (19, 36),
            years: 2001..=2012,
            months: (1..=12).collect(),
            storms: 5,
            wind_m_s: 40.0,
            river_chance: 0.2,
            gap: None,
            seed: 1,
        }
    }
}

impl Run {
    fn time(&self, year: i64, month: i64, day: i64) -> Time {
        Time::new(self.calendar, year, month, day, 0, 0, 0).unwrap()
    }

    /// Writes events.csv, tracks.csv and statistics.nc.
    fn write(&self, folder: &Path) {
        let grid = LatLonGrid::global(self.grid.0, self.grid.1).unwrap();
        let mut statistics = Statistics::new(&grid);
        let mut random = stream(self.seed, "compare test", &[]);
        let mut events = vec![
            "class,time,lon_deg,lat_deg,area_km2,track_id,max_wind_m_s,mean_prect_m_s".to_string(),
        ];
        let mut tracks = vec!["track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,min_psl_pa,max_wind_m_s".to_string()];
        let river = grid.nearest(42.0, 202.0);
        let mut id = 0;
        for year in self.years.clone() {
            for &month in self.months.iter().filter(|m| self.gap != Some((year, **m))) {
                for day in 1..=self.calendar.days_in_month(year, month) {
                    let mut codes = Array2::zeros(self.grid);
                    codes[river] = 2 * u8::from(random.random::<f64>() < self.river_chance);
                    let mask = ClassMask::new(self.time(year, month, day), codes).unwrap();
                    statistics.add_time(&mask, 24.0, []).unwrap();
                }
                let count = self.storms.saturating_sub(2)
                    + random.random_range(0..5usize.min(2 * self.storms + 1));
                for _ in 0..if self.storms == 0 { 0 } else { count } {
                    id += 1;
                    self.storm(id, (year, month), &mut random, &mut events, &mut tracks);
                }
            }
        }
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("events.csv"), events.join("\n") + "\n").unwrap();
        fs::write(folder.join("tracks.csv"), tracks.join("\n") + "\n").unwrap();
        statistics
            .write_netcdf(folder.join("statistics.nc"), &grid, self.calendar)
            .unwrap();
    }

    fn storm(
        &self,
        id: usize,
        (year, month): (i64, i64),
        random: &mut ChaCha8Rng,
        events: &mut Vec<String>,
        tracks: &mut Vec<String>,
    ) {
        let start = self.time(year, month, random.random_range(1..26));
        let lon = random.random_range(130.0..160.0);
        let strongest = self.wind_m_s * random.random_range(0.7..1.3);
        for day in 0..4 {
            let wind = strongest * [0.6, 0.8, 1.0, 0.7][day];
            let lat = 10.0 + 4.0 * day as f64;
            events.push(format!(
                "tropical_cyclone,{},{lon:.2},{lat:.2},90000,{id},{wind:.3},2e-7",
                start.add_seconds(day as i64 * 86_400)
            ));
        }
        let end = start.add_seconds(3 * 86_400);
        tracks.push(format!(
            "{id},tropical_cyclone,{start},{end},{lon:.2},10.00,{:.1},{strongest:.3}",
            101_000.0 - 2.0 * strongest * strongest
        ));
    }
}

fn side(folder: &Path, label: &str) -> SideInput {
    SideInput {
        folder: folder.into(),
        label: label.into(),
        years: None,
    }
}

fn options() -> CompareOptions {
    CompareOptions {
        draws: DrawOptions {
            draws: 1000,
            ..DrawOptions::default()
        },
        ..CompareOptions::default()
    }
}

fn compare_with(
    a: SideInput,
    b: SideInput,
    options: &CompareOptions,
) -> Result<Comparison, ClimateError> {
    compare::plan(a, b, options)?.run(options.draws, |_| Ok(()))
}

/// Writes two runs and compares them.
fn compare(a: &Run, b: &Run, options: &CompareOptions) -> Result<Comparison, ClimateError> {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    a.write(&paths[0]);
    b.write(&paths[1]);
    compare_with(side(&paths[0], "first"), side(&paths[1], "second"), options)
}

fn row(comparison: &Comparison, quantity: Quantity, group: Group) -> &compare::ChangeRow {
    let found =
        (comparison.changes.iter()).find(|row| row.quantity == quantity && row.group() == group);
    found.unwrap_or_else(|| panic!("no row of {quantity:?} {group:?}"))
}

#[test]
fn imposed_changes_are_found_where_they_are() {
    let a = Run::default();
    let b = Run {
        storms: 3,
        wind_m_s: 46.0,
        river_chance: 0.5,
        seed: 2,
        ..Run::default()
    };
    let found = compare(&a, &b, &options()).unwrap();
    let tracks = row(&found, Quantity::CycloneTracks, Group::All);
    assert!(
        tracks.significant && tracks.change.p.unwrap() < 0.002,
        "{tracks:?}"
    );
    // 3 to 7 storms a month become 1 to 5: -40 %.
    assert!(
        tracks.change.relative_interval.unwrap().holds(-0.4),
        "{tracks:?}"
    );
    let wind = row(&found, Quantity::CycloneWind, Group::All);
    assert!(
        wind.significant && wind.change.relative_interval.unwrap().holds(0.15),
        "{wind:?}"
    );
    let place = row(&found, Quantity::CycloneLatitude, Group::All);
    assert_eq!((place.change.a, place.change.b), (Some(18.0), Some(18.0)));
    assert!(!place.significant);
    let days = row(&found, Quantity::CycloneLifetime, Group::All);
    assert_eq!(days.change.a, Some(3.0));
    let rain = row(&found, Quantity::CycloneRain, Group::All);
    assert!((rain.change.a.unwrap() - 17.28).abs() < 1e-9);
    // All storms begin in the West Pacific.
    let pacific = row(
        &found,
        Quantity::CycloneTracks,
        Group::Basin(Basin::WestPacific),
    );
    assert_eq!(pacific.change.a, tracks.change.a);
    let atlantic = row(
        &found,
        Quantity::CycloneTracks,
        Group::Basin(Basin::NorthAtlantic),
    );
    assert_eq!(atlantic.change.no_interval, Some(NoInterval::NoEvents));
    let seasons: f64 = (0..4)
        .map(|s| {
            row(&found, Quantity::CycloneTracks, Group::Season(s))
                .change
                .a
                .unwrap()
        })
        .sum();
    assert!((seasons - tracks.change.a.unwrap()).abs() < 1e-9);
    // The map of rivers changes at its one cell, by the imposed 0.3 of the time over the cells of 5 degrees.
    let map = |quantity, class: u8| {
        let wanted = |m: &&compare::MapChange| m.quantity == quantity && m.class.code() == class;
        found.map_changes.iter().find(wanted).unwrap()
    };
    let rivers = map(MapQuantity::Frequency, 2);
    let significant: Vec<usize> = rivers
        .significant(0.05)
        .enumerate()
        .filter(|(_, yes)| *yes)
        .map(|(k, _)| k)
        .collect();
    assert_eq!((significant.len(), rivers.tested()), (1, 1));
    let cell = significant[0];
    assert!(
        rivers.low[cell] < 0.3 && rivers.high[cell] > 0.3,
        "{} {}",
        rivers.low[cell],
        rivers.high[cell]
    );
    assert!(
        map(MapQuantity::GenesisDensity, 1)
            .significant(0.05)
            .any(|yes| yes)
    );
    assert!(
        found.statements[0].starts_with("Tropical cyclones become 4"),
        "{}",
        found.statements[0]
    );
    assert!(
        found.statements[0].ends_with("12 years against 12."),
        "{}",
        found.statements[0]
    );
    // Twelve annual maxima make a fit.
    assert_eq!(found.return_levels.len(), 2);
    assert!(found.return_levels[0].changes[3].interval.unwrap().low > 0.0);
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let a = Run::default();
    let found = compare(&a, &a, &options()).unwrap();
    assert!(found.changes.iter().all(|row| !row.significant));
    assert!(
        found
            .maps
            .iter()
            .all(|map| map.increases + map.decreases == 0)
    );
    let tracks = row(&found, Quantity::CycloneTracks, Group::All);
    assert_eq!(
        (tracks.change.difference, tracks.change.p),
        (Some(0.0), Some(1.0))
    );
    assert!(found.statements.iter().all(|text| !text.contains("become")));
}

#[test]
fn the_order_of_rows_changes_nothing_and_a_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run {
        storms: 4,
        seed: 9,
        ..Run::default()
    }
    .write(&path("b"));
    let written = |out: &str| {
        let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
        found.write(path(out)).unwrap();
        ["changes.csv", "statements.txt", "return_levels.csv"]
            .map(|name| fs::read_to_string(path(out).join(name)).unwrap())
    };
    let first = written("one");
    assert_eq!(first, written("two"));
    let mut random = stream(3, "shuffle", &[]);
    for table in [
        "a/events.csv",
        "a/tracks.csv",
        "b/events.csv",
        "b/tracks.csv",
    ] {
        let text = fs::read_to_string(path(table)).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines[1..].shuffle(&mut random);
        fs::write(path(table), lines.join("\n")).unwrap();
    }
    assert_eq!(first, written("three"));
}

#[test]
fn files_hold_what_was_found_and_the_page_needs_no_network() {
    let folder = tempfile::tempdir().unwrap();
    let b = Run {
        storms: 3,
        seed: 2,
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    found.write(folder.path()).unwrap();
    let table = fs::read_to_string(folder.path().join("changes.csv")).unwrap();
    assert_eq!(table.lines().count(), found.changes.len() + 1);
    assert!(
        table.starts_with(
            "quantity,class,basin,season,unit,a,b,difference,low,high,relative_change"
        )
    );
    let line = table
        .lines()
        .find(|l| l.starts_with("tracks,tropical_cyclone,all,all"))
        .unwrap();
    assert!(line.ends_with("yes,"), "{line}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("changes.json")).unwrap()).unwrap();
    assert_eq!(
        json["changes"].as_array().unwrap().len(),
        found.changes.len()
    );
    assert_eq!(json["changes"][0]["name"], "tracks");
    let back: Comparison = serde_json::from_value(json).unwrap();
    assert_eq!(back.changes, found.changes);
    let file = netcdf::open(folder.path().join("maps.nc")).unwrap();
    let values: Vec<f64> = file
        .variable("genesis_density_difference")
        .unwrap()
        .get_values(..)
        .unwrap();
    assert_eq!(values.len(), 2 * 36 * 72);
    let flags: Vec<i8> = file
        .variable("frequency_significant")
        .unwrap()
        .get_values(..)
        .unwrap();
    assert!(flags.iter().all(|f| *f == 0 || *f == 1));
    let page = changes_page(&found, "A <title>", "squall compare a b").unwrap();
    assert!(
        page.contains("A &lt;title&gt;") && !page.contains("http://") && !page.contains("https://")
    );
    for part in [
        "What changes",
        "How large, and how sure",
        "Where it changes",
        "Extremes",
        "All numbers",
        "class=\"stipple\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let text = fs::read_to_string(folder.path().join("statements.txt")).unwrap();
    assert!(
        text.contains("Tropical cyclones become") && text.contains("To know:"),
        "{text}"
    );
}

#[test]
fn other_grids_are_refused_unless_wanted() {
    let b = Run {
        grid: (25, 48),
        ..Run::default()
    };
    let error = compare(&Run::default(), &b, &options()).unwrap_err();
    assert!(
        matches!(&error, ClimateError::Mismatch { what, .. } if what.starts_with("grid of")),
        "{error}"
    );
    assert!(
        error.to_string().contains("19 x 36") && error.to_string().contains("25 x 48"),
        "{error}"
    );
    let any = CompareOptions {
        any_grid: true,
        ..options()
    };
    let found = compare(&Run::default(), &b, &any).unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.starts_with("The grids differ")),
        "{:?}",
        found.notes
    );
}

#[test]
fn seasons_are_restricted_to_the_common_months_or_refused() {
    let summer = Run {
        months: vec![6, 7, 8],
        ..Run::default()
    };
    let found = compare(&Run::default(), &summer, &options()).unwrap();
    assert_eq!(found.months, [6, 7, 8]);
    let note = "first has all months, second has June to August: only June to August are compared.";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    assert!(found.changes.iter().all(|row| row.season == "all"));
    let tracks = row(&found, Quantity::CycloneTracks, Group::All);
    assert!(
        (12.0..18.0).contains(&tracks.change.a.unwrap()),
        "{tracks:?}"
    );
    let wanted = CompareOptions {
        months: vec![7, 12],
        ..options()
    };
    let error = compare(&Run::default(), &summer, &wanted).unwrap_err();
    assert!(
        matches!(&error, ClimateError::Period { reason, .. } if reason == "it has June to August, not December"),
        "{error}"
    );
    let winter = Run {
        months: vec![12, 1, 2],
        ..Run::default()
    };
    let error = compare(&winter, &summer, &options()).unwrap_err();
    assert!(error.to_string().starts_with("months of `"), "{error}");
    // Years from July on keep a winter together: one year fewer.
    let kept = CompareOptions {
        year_start: 7,
        ..options()
    };
    let found = compare(&winter, &winter, &kept).unwrap();
    assert_eq!(found.a.years.len(), 11);
}

#[test]
fn few_years_give_numbers_without_intervals() {
    let few = Run {
        years: 2001..=2003,
        ..Run::default()
    };
    let found = compare(&few, &Run::default(), &options()).unwrap();
    assert!(
        found
            .changes
            .iter()
            .all(|row| row.change.interval.is_none() && row.change.p.is_none() && !row.significant)
    );
    let text = found.text();
    assert!(
        text.contains(
            "no interval, because first has only 3 whole years and at least 5 are needed"
        ),
        "{text}"
    );
    assert!(
        text.contains("The map of the frequency of tropical cyclones is not tested"),
        "{text}"
    );
    assert!(changes_page(&found, "few", "").is_ok());
    // Blocks of three years make four of twelve years.
    let blocks = CompareOptions {
        block_years: 3,
        ..options()
    };
    let found = compare(&Run::default(), &Run::default(), &blocks).unwrap();
    assert_eq!((found.a.blocks, found.a.years.len()), (4, 12));
    assert!(found.text().contains("4 blocks of whole years"));
    let none = Run {
        years: 2001..=2001,
        months: vec![1],
        ..Run::default()
    };
    let error = compare(&none, &Run::default(), &options()).unwrap_err();
    assert!(
        matches!(&error, ClimateError::Period { reason, .. } if reason.contains("no month of the year is whole")),
        "{error}"
    );
}

#[test]
fn a_run_without_events_is_zero_and_not_unknown() {
    let none = Run {
        storms: 0,
        river_chance: 0.0,
        ..Run::default()
    };
    let found = compare(&Run::default(), &none, &options()).unwrap();
    let tracks = row(&found, Quantity::CycloneTracks, Group::All);
    assert_eq!(
        (tracks.change.b, tracks.change.relative),
        (Some(0.0), Some(-1.0))
    );
    assert!(tracks.significant);
    let wind = row(&found, Quantity::CycloneWind, Group::All);
    assert_eq!(
        (wind.change.b, wind.change.no_interval),
        (None, Some(NoInterval::TooFewEvents))
    );
    assert!(
        found.text().contains("cannot be compared: "),
        "{}",
        found.text()
    );
    let back = compare(&none, &Run::default(), &options()).unwrap();
    let tracks = row(&back, Quantity::CycloneTracks, Group::All);
    assert!(tracks.change.relative.is_none() && tracks.significant);
    let both = compare(&none, &none, &options()).unwrap();
    assert!(both.changes.iter().all(|row| !row.significant));
    assert!(changes_page(&both, "nothing", "").is_ok());
}

#[test]
fn calendars_of_other_lengths_are_scaled_to_one_year() {
    let b = Run {
        calendar: Calendar::Day360,
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|n| n.contains("noleap and 360_day") && n.contains("365.2425")),
        "{:?}",
        found.notes
    );
    let same = compare(&b, &b, &options()).unwrap();
    let (scaled, plain) = (
        row(&found, Quantity::CycloneTracks, Group::All),
        row(&same, Quantity::CycloneTracks, Group::All),
    );
    let ratio = scaled.change.b.unwrap() / plain.change.b.unwrap();
    assert!((ratio - 365.2425 / 360.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn gaps_leave_their_year_out_by_name() {
    let b = Run {
        gap: Some((2005, 9)),
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    assert_eq!(found.b.years.len(), 11);
    let note =
        "Years of second that are not whole are left out: 2005 (month 9 has 0 % of its times).";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    assert!(found.statements[0].ends_with("12 years against 11."));
}

#[test]
fn missing_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run::default().write(&path("b"));
    let again = || compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options());
    // A column that a quantity needs: the quantity is left out with a note, on the word of one run.
    let text = fs::read_to_string(path("b/tracks.csv")).unwrap();
    fs::write(
        path("b/tracks.csv"),
        text.replacen("min_psl_pa", "other", 1),
    )
    .unwrap();
    let found = again().unwrap();
    assert!(
        found
            .changes
            .iter()
            .all(|row| row.quantity != Quantity::CyclonePressure)
    );
    let note = found
        .notes
        .iter()
        .find(|n| n.starts_with("Left out"))
        .unwrap();
    assert!(
        note.contains("tropical_cyclone min_pressure")
            && note.contains("tropical_cyclone landfalls"),
        "{note}"
    );
    assert!(!note.contains("max_wind"), "{note}");
    // A column that everything needs.
    fs::write(
        path("b/tracks.csv"),
        text.replacen("start_time", "other", 1),
    )
    .unwrap();
    let error = again().unwrap_err();
    assert!(
        error.to_string().contains("expected a column `start_time`"),
        "{error}"
    );
    // A cell that is no number, with its line.
    let bad = text.replacen(",tropical_cyclone,", ",typhoon,", 1);
    fs::write(path("b/tracks.csv"), bad).unwrap();
    let error = again().unwrap_err();
    assert!(
        matches!(error, ClimateError::TableCell { line: 2, .. }),
        "{error}"
    );
    fs::remove_file(path("b/tracks.csv")).unwrap();
    assert!(again().unwrap_err().to_string().contains("tracks.csv"));
    fs::write(path("b/tracks.csv"), text).unwrap();
    fs::write(path("b/statistics.nc"), b"not netCDF").unwrap();
    assert!(again().unwrap_err().to_string().contains("statistics.nc"));
}

#[test]
fn tables_alone_are_enough_for_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run::default().write(&path("b"));
    fs::remove_file(path("b/statistics.nc")).unwrap();
    fs::rename(path("b/events.csv"), path("b/objects.csv")).unwrap();
    let noleap = CompareOptions {
        calendar: Calendar::NoLeap,
        ..options()
    };
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|n| n.starts_with("b has no statistics.nc")),
        "{:?}",
        found.notes
    );
    assert!(
        found
            .changes
            .iter()
            .all(|row| row.quantity != Quantity::CyclonesPresent)
    );
    // The first and last year begin and end with their storms, so that they are not whole.
    assert_eq!(found.b.years, (2002..=2011).collect::<Vec<i64>>());
    fs::write(path("b/objects.csv"), "class,time,lon_deg,lat_deg\n").unwrap();
    let error = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &noleap).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nobody knows which times were analysed"),
        "{error}"
    );
}

#[test]
fn two_periods_of_one_run_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    Run::default().write(folder.path());
    let period = |from, to| SideInput {
        years: Some((from, to)),
        ..side(folder.path(), "period")
    };
    let found = compare_with(period(2001, 2006), period(2007, 2012), &options()).unwrap();
    assert_eq!((found.a.years.len(), found.b.years[0]), (6, 2007));
    let error = compare_with(period(1950, 1960), period(2007, 2012), &options()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it has no year from 1950 to 1960"),
        "{error}"
    );
}

#[test]
fn options_without_meaning_are_refused_before_reading() {
    let nowhere = Path::new("/nonexistent");
    let mut message = String::new();
    for wrong in [
        CompareOptions {
            months: vec![13],
            ..options()
        },
        CompareOptions {
            block_years: 0,
            ..options()
        },
        CompareOptions {
            draws: DrawOptions {
                confidence: 95.0,
                ..DrawOptions::default()
            },
            ..options()
        },
    ] {
        let error = compare::plan(side(nowhere, "a"), side(nowhere, "b"), &wrong).unwrap_err();
        assert!(matches!(error, ClimateError::Invalid(_)), "{error}");
        let _ = writeln!(message, "{error}");
    }
    assert!(
        message.contains("months [13]") && message.contains("found 95"),
        "{message}"
    );
    let error = compare::plan(side(nowhere, "a"), side(nowhere, "b"), &options()).unwrap_err();
    assert!(matches!(error, ClimateError::Table { .. }), "{error}");
}
