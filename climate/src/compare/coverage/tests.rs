//! Tests of complete months and years.

use super::*;

fn coverage(months: &[((i64, i64), f64)]) -> Coverage {
    let months: BTreeMap<_, _> = months.iter().copied().collect();
    Coverage {
        path: "run".into(),
        calendar: Calendar::NoLeap,
        grid: None,
        times_per_day: times_per_day(&months, Calendar::NoLeap),
        months,
        counted: true,
        classes: Class::EVENTS.to_vec(),
        wind: None,
        transport: None,
        rules: BTreeMap::new(),
        missing_share: 0.0,
        ends: None,
        with_rows: BTreeSet::new(),
    }
}

fn whole(years: std::ops::RangeInclusive<i64>, months: &[i64]) -> Vec<((i64, i64), f64)> {
    let one = |year, month| {
        (
            (year, month),
            4.0 * Calendar::NoLeap.days_in_month(year, month) as f64,
        )
    };
    years
        .flat_map(|year| months.iter().map(move |&month| one(year, month)))
        .collect()
}

const YEAR: [i64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

fn selection(months: &[i64], year_start: i64) -> Selection {
    Selection {
        months: months.to_vec(),
        year_start,
    }
}

#[test]
fn the_span_is_from_the_first_analysed_time_to_the_last() {
    let mut months = whole(2000..=2002, &YEAR);
    let span = |months: &[((i64, i64), f64)]| {
        let span = coverage(months).span()?;
        Some((span.0.to_string(), span.1.to_string()))
    };
    let text = |first: &str, last: &str| Some((first.to_string(), last.to_string()));
    let years = text("2000-01-01T00:00:00", "2003-01-01T00:00:00");
    assert_eq!(span(&months), years);
    // From 12 March to 10 June.
    months.retain(|((year, month), _)| *year == 2000 && (3..=6).contains(month));
    (months[0].1, months[3].1) = (4.0 * 20.0, 4.0 * 10.0);
    assert_eq!(
        span(&months),
        text("2000-03-12T00:00:00", "2000-06-11T00:00:00")
    );
    // With a single incomplete month, which part of it was analysed is unknown.
    assert_eq!(span(&months[..1]), None);
    assert_eq!(span(&[]), None);
}

#[test]
fn statistics_say_their_first_and_last_time() {
    let grid = LatLonGrid::global(13, 24).unwrap();
    let mut statistics = crate::statistics::Statistics::new(&grid);
    let at = |day| Time::new(Calendar::NoLeap, 2000, 3, day, 6, 0, 0).unwrap();
    for day in [12, 10, 17] {
        statistics.add_time(at(day), None, 24.0, []).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("statistics.nc");
    (statistics.write_netcdf(&path, &grid, Calendar::NoLeap)).unwrap();
    let coverage = Coverage::read(folder.path(), None).unwrap();
    assert_eq!(coverage.span(), Some((at(10), at(17))));
}

/// Regression: the fullest month was taken to be complete, so that months with 86 % of their times counted as complete.
#[test]
fn times_that_every_month_lacks_are_missing() {
    let grid = LatLonGrid::global(13, 24).unwrap();
    let of = |has: &dyn Fn(i64) -> bool| {
        let mut statistics = crate::statistics::Statistics::new(&grid);
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        for step in (0..4 * 365).filter(|step| has(*step)) {
            let time = start.add_seconds(6 * 3600 * step);
            statistics.add_time(time, None, 6.0, []).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("statistics.nc");
        (statistics.write_netcdf(&path, &grid, Calendar::NoLeap)).unwrap();
        Coverage::read(folder.path(), None).unwrap()
    };
    let whole = of(&|_| true);
    assert_eq!((whole.times_per_day, whole.seasons().len()), (4.0, 12));
    let lacking = of(&|step| step % 7 != 3);
    assert_eq!((lacking.times_per_day, lacking.seasons().len()), (4.0, 0));
    let years = lacking.years(&selection(&YEAR, 1), None);
    let reason = "month 1 has 85 % of its times".to_string();
    assert_eq!((years.used, years.left_out), (vec![], vec![(2000, reason)]));
    // Data with only 0, 6 and 12 UTC are complete.
    let three = of(&|step| step % 4 != 3);
    assert_eq!((three.times_per_day, three.seasons().len()), (3.0, 12));
}

#[test]
fn incomplete_years_and_gaps_are_left_out_with_their_reason() {
    let mut months = whole(2000..=2005, &YEAR);
    months.retain(|((year, month), _)| (*year, *month) > (2000, 5));
    let gap = months
        .iter_mut()
        .find(|(key, _)| *key == (2003, 7))
        .unwrap();
    gap.1 = 62.0;
    let run = coverage(&months);
    assert_eq!(run.times_per_day, 4.0);
    let years = run.years(&selection(&YEAR, 1), None);
    assert_eq!(years.used, [2001, 2002, 2004, 2005]);
    assert_eq!(
        years.left_out[0],
        (2000, "month 1 has 0 % of its times".into())
    );
    assert_eq!(
        years.left_out[1],
        (2003, "month 7 has 50 % of its times".into())
    );
    // Years starting in June: one more at the beginning, none at the end.
    let june = run.years(&selection(&YEAR, 6), None);
    assert_eq!(june.used, [2000, 2001, 2002, 2004]);
    // January of the year that starts in June 2005 would be in 2006.
    let last = (2005, "month 1 of 2006 has 0 % of its times".into());
    assert_eq!(june.left_out.last(), Some(&last));
    assert_eq!(
        run.years(&selection(&YEAR, 1), Some((2002, 2004))).used,
        [2002, 2004]
    );
    assert_eq!(run.times(&selection(&YEAR, 1), 2001, |_| true), 4.0 * 365.0);
    assert_eq!(
        run.times(&selection(&YEAR, 6), 2001, |m| m == 2),
        4.0 * 28.0
    );
}

#[test]
fn years_part_seasons_that_go_on_into_the_next() {
    let from = |months: &[i64], year_start| selection(months, year_start).split_season();
    assert_eq!(from(&[1, 2, 12], 1), Some(12));
    assert_eq!(from(&[1, 2, 3, 4, 11, 12], 1), Some(11));
    assert_eq!(from(&[1, 2, 12], 2), Some(12));
    assert_eq!(from(&[6, 7, 8], 8), Some(6));
    for year_start in [3, 7, 12] {
        assert_eq!(from(&[1, 2, 12], year_start), None);
    }
    // Two seasons, each within a year; a single month; whole years.
    assert_eq!(from(&[6, 7, 8, 12], 1), None);
    assert_eq!(from(&[1], 1), None);
    assert_eq!(from(&YEAR, 7), None);
}

#[test]
fn seasons_are_the_months_that_most_years_have() {
    assert_eq!(coverage(&whole(2000..=2009, &YEAR)).seasons(), YEAR);
    assert_eq!(
        coverage(&whole(2000..=2009, &[6, 7, 8])).seasons(),
        [6, 7, 8]
    );
    let mut odd = whole(2000..=2009, &[6, 7]);
    odd.extend(whole(2003..=2003, &[2]));
    assert_eq!(coverage(&odd).seasons(), [6, 7]);
}

#[test]
fn months_of_data_every_few_days_are_whole_with_the_times_that_fall_into_them() {
    for step in [4, 5, 7, 10] {
        let start = Time::new(Calendar::NoLeap, 2001, 1, 1, 0, 0, 0).unwrap();
        let mut months: BTreeMap<(i64, i64), f64> = BTreeMap::new();
        for day in (0..4 * 365).step_by(step) {
            let (year, month, _) = start.add_seconds(day * DAY_SECONDS).date();
            *months.entry((year, month)).or_default() += 1.0;
        }
        let months: Vec<_> = months.into_iter().collect();
        let mut run = coverage(&months);
        run.times_per_day = 1.0 / step as f64;
        let years = run.years(&selection(&YEAR, 1), None);
        assert_eq!(years.used, [2001, 2002, 2003, 2004], "{step}: {years:?}");
        // Two missing times make a month incomplete.
        let may = run.months.get_mut(&(2003, 5)).unwrap();
        *may -= 2.0;
        let years = run.years(&selection(&YEAR, 1), None);
        assert_eq!(years.used, [2001, 2002, 2004], "{step}: {years:?}");
    }
}

#[test]
fn ten_days_are_no_month() {
    let run = coverage(&[((2000, 1), 80.0)]);
    assert!(run.seasons().is_empty());
    assert!(run.years(&selection(&[1], 1), None).used.is_empty());
}
