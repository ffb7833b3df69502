//! Which months and years are compared.

use super::*;

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
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
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
    // Years that start in July keep a winter together, which leaves one year fewer.
    let kept = CompareOptions {
        year_start: 7,
        ..options()
    };
    let found = compare(&winter, &winter, &kept).unwrap();
    assert_eq!(found.a.years.len(), 11);
    let parted = |found: &Comparison| {
        let keeps = |note: &String| note.contains("`--year-start 12` keeps");
        found.notes.iter().any(keeps)
    };
    assert!(!parted(&found), "{:?}", found.notes);
    let found = compare(&winter, &winter, &options()).unwrap();
    assert!(parted(&found), "{:?}", found.notes);
}

#[test]
fn it_is_said_what_years_are_that_do_not_begin_with_january() {
    let pages = [1, 7, 12].map(|year_start| {
        let wanted = CompareOptions {
            year_start,
            ..options()
        };
        let found = compare(&Run::default(), &Run::default(), &wanted).unwrap();
        // A comparison read back for a report keeps the start of the year.
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(text.contains("year_start"), year_start != 1);
        let read: Comparison = serde_json::from_str(&text).unwrap();
        assert_eq!(read.year_start, year_start);
        changes_page(&read, "years", "").unwrap()
    });
    let says = |text: &str| pages.each_ref().map(|page| page.contains(text));
    let one_year = "December, January and February of one calendar year make one season.";
    assert_eq!(says(one_year), [true, false, false]);
    assert_eq!(
        says("July, August and June of one such year, in this order, make one season."),
        [false, true, false]
    );
    assert_eq!(
        says("Years begin with December, so that each season is in one piece."),
        [false, false, true]
    );
    assert_eq!(
        says("11 years (2001 to 2011, each from July on)"),
        [false, true, false]
    );
    assert_eq!(
        says("2001 is July 2001 to June 2002."),
        [false, true, false]
    );
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
    // Once, not in every sentence.
    let why = "No change is tested or has an interval, because first has only 3 whole years and at least 5 are needed.";
    assert_eq!(found.notes[0], why);
    assert!(!text.contains("no interval, because"), "{text}");
    assert!(
        text.contains("The map of the frequency of tropical cyclones is not tested"),
        "{text}"
    );
    // Regression: the page called everything "not significant" and mentioned resamples.
    let page = changes_page(&found, "few", "").unwrap();
    assert!(page.contains("not tested</li>"), "{page}");
    for claim in [
        "not significant",
        "resamples",
        "White dots",
        "randomly assigned",
    ] {
        assert!(!page.contains(claim), "{claim} in {page}");
    }
    // Twelve years make four blocks of three.
    let blocks = CompareOptions {
        block_years: 3,
        ..options()
    };
    let found = compare(&Run::default(), &Run::default(), &blocks).unwrap();
    assert_eq!((found.a.blocks, found.a.years.len()), (4, 12));
    assert!(found.text().contains("4 blocks of whole years"));
    // A single whole month makes one year, too few to resample.
    let one = Run {
        years: 2001..=2001,
        months: vec![1],
        ..Run::default()
    };
    let found = compare(&one, &one, &options()).unwrap();
    assert_eq!(
        (found.months.as_slice(), found.a.years.len()),
        ([1].as_slice(), 1)
    );
    assert!((found.changes.iter()).all(|row| row.change.interval.is_none()));
    // Regression: one month was "1 whole year", and its cyclones were those "a year".
    let said = found.statements.join(" ");
    assert!(said.contains(" each January"), "{said}");
    assert!(
        !said.contains(" a year") && !said.contains("whole year"),
        "{said}"
    );
    let page = changes_page(&found, "one", "").unwrap();
    assert!(page.contains("January of 1 year (2001)"), "{page}");
}

#[test]
fn half_months_are_not_whole_however_many_there_are() {
    for times_per_day in [1, 2] {
        let half = Run {
            last_day: 15,
            times_per_day,
            ..Run::default()
        };
        let error = compare(&half, &Run::default(), &options()).unwrap_err();
        // The fullest is a February.
        assert!(
            matches!(&error, ClimateError::Period { reason, .. } if reason.starts_with("no month of the year is whole; February") && reason.ends_with(" has 54 % of its times")),
            "{error}"
        );
    }
    let twice = Run {
        times_per_day: 2,
        ..Run::default()
    };
    let found = compare(&Run::default(), &twice, &options()).unwrap();
    assert_eq!(found.months.len(), 12);
    assert!(
        (found.notes.iter()).any(|n| n.starts_with("There are 1 times a day against 2")),
        "{:?}",
        found.notes
    );
}

#[test]
fn years_are_not_compared_with_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    Run::default().write(&path);
    let period = |from, to| SideInput {
        years: Some((from, to)),
        ..side(&path, "run")
    };
    let between = |a, b| compare_with(a, b, &options());
    let error = between(period(2001, 2008), period(2005, 2012)).unwrap_err();
    assert!(
        matches!(
            error,
            ClimateError::SharedYears {
                first: 2005,
                last: 2008,
                ..
            }
        ),
        "{error}"
    );
    assert!(between(side(&path, "all"), side(&path, "all")).is_err());
    assert!(between(period(2001, 2006), period(2007, 2012)).is_ok());
}

#[test]
fn calendars_of_other_lengths_are_scaled_to_one_calendar() {
    let b = Run {
        calendar: Calendar::Day360,
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|n| n.contains("noleap and 360_day") && n.contains("Gregorian months")),
        "{:?}",
        found.notes
    );
    let same = compare(&b, &b, &options()).unwrap();
    let winter = Group {
        region: None,
        season: Some(0),
    };
    for (group, expected) in [(Group::ALL, 365.2425 / 360.0), (winter, 90.2425 / 90.0)] {
        let of = |found: &Comparison| row(found, Quantity::CycloneTracks, group).change.b.unwrap();
        let ratio = of(&found) / of(&same);
        assert!((ratio - expected).abs() < 1e-9, "{group:?}: {ratio}");
    }
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
fn a_first_month_that_keeps_more_years_is_advised() {
    // Like a model started on 1 December: December 2000 and eleven months of 2012.
    let late = Run {
        from: (2000, 12),
        years: 2000..=2012,
        gap: Some((2012, 12)),
        ..Run::default()
    };
    let found = compare(&Run::default(), &late, &options()).unwrap();
    assert_eq!(found.b.years.len(), 11);
    let note = "Years of second that are not whole are left out: 2000 (month 1 has 0 % of its times), 2012 (month 12 has 0 % of \
                its times). 12 are whole if they begin with December (`--year-start 12`).";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    let winters = CompareOptions {
        year_start: 12,
        ..options()
    };
    let found = compare(&late, &late, &winters).unwrap();
    assert_eq!(found.b.years, Vec::from_iter(2000..=2011));
    assert!(!found.notes.iter().any(|n| n.contains("are whole if")));
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
