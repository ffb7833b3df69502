//! Days and dates of every calendar, there and back.

use super::*;
use proptest::prelude::*;

const ALL: [Calendar; 6] = [
    Calendar::Standard,
    Calendar::ProlepticGregorian,
    Calendar::NoLeap,
    Calendar::AllLeap,
    Calendar::Day360,
    Calendar::Julian,
];

#[test]
fn offsets_since_an_epoch_give_known_dates() {
    // Unix epoch to 2000-03-01 is 11,017 days (dated external fact: `date -d`).
    for spelling in ["Days Since 1970-01-01", "DAYS SINCE 1970-01-01T00:00:00Z"] {
        let capital = Time::from_cf(11_017.0, spelling, Calendar::Standard).unwrap();
        assert_eq!(capital.to_string(), "2000-03-01T00:00:00", "{spelling}");
    }
    let t = Time::from_cf(11_017.0, "days since 1970-01-01", Calendar::Standard).unwrap();
    assert_eq!(t.to_string(), "2000-03-01T00:00:00");
    // The Gregorian change: the day after 1582-10-04 is 1582-10-15.
    let t = Time::new(Calendar::Standard, 1582, 10, 4, 0, 0, 0)
        .unwrap()
        .add_seconds(DAY_SECONDS);
    assert_eq!(t.to_string(), "1582-10-15T00:00:00");
    // Year 0 is a leap year, and the next is year 1.
    let t = Time::from_cf(366.0, "days since 0000-01-01", Calendar::Standard).unwrap();
    assert_eq!(t.to_string(), "0001-01-01T00:00:00");
    let t = Time::from_cf(59.0, "days since 1995-01-01 00:00:00", Calendar::NoLeap).unwrap();
    assert_eq!(t.to_string(), "1995-03-01T00:00:00");
    let t = Time::from_cf(30.5, "days since 1995-02-01", Calendar::Day360).unwrap();
    assert_eq!(t.to_string(), "1995-03-01T12:00:00");
}

/// Leap days by the rules of each calendar: 1900 is one of the Julian calendar only, 1500 also of what was in use then.
#[test]
fn days_lie_between_dates_as_each_calendar_has_them() {
    use Calendar::*;
    for (calendar, [from, to], days) in [
        (Standard, ["1900-02-28", "1900-03-01"], 1),
        (Standard, ["2000-02-28", "2000-03-01"], 2),
        (Standard, ["1500-02-28", "1500-03-01"], 2),
        // Ten days were left out.
        (Standard, ["1582-01-01", "1583-01-01"], 355),
        (Standard, ["1900-01-01", "1901-01-01"], 365),
        (ProlepticGregorian, ["1500-02-28", "1500-03-01"], 1),
        (ProlepticGregorian, ["1582-01-01", "1583-01-01"], 365),
        (ProlepticGregorian, ["1904-02-28", "1904-03-01"], 2),
        (NoLeap, ["2000-02-28", "2000-03-01"], 1),
        (AllLeap, ["1901-02-28", "1901-03-01"], 2),
        (AllLeap, ["1901-01-01", "1902-01-01"], 366),
        (Day360, ["2000-02-28", "2000-03-01"], 3),
        (Day360, ["2000-01-01", "2001-01-01"], 360),
        (Julian, ["1900-02-28", "1900-03-01"], 2),
        (Julian, ["1901-02-28", "1901-03-01"], 1),
    ] {
        let [from, to] = [from, to].map(|date| Time::parse(date, calendar).unwrap());
        assert_eq!(to.days_since(from), f64::from(days), "{calendar} {from}");
    }
    for (calendar, year_days, february_days) in [
        (Standard, 365.2425, 28.2425),
        (ProlepticGregorian, 365.2425, 28.2425),
        (NoLeap, 365.0, 28.0),
        (AllLeap, 366.0, 29.0),
        (Day360, 360.0, 30.0),
        (Julian, 365.25, 28.25),
    ] {
        let at = |year| Time::new(calendar, year, 1, 1, 0, 0, 0).unwrap();
        // The Gregorian rules repeat after 400 years.
        let mean = at(2000).days_since(at(1600)) / 400.0;
        assert_eq!((mean, calendar.mean_year_days()), (year_days, year_days));
        let february = calendar.mean_month_days(2);
        assert!((february - february_days).abs() < 1e-9, "{calendar}");
        let sum: f64 = (1..=12).map(|month| calendar.mean_month_days(month)).sum();
        assert!((sum - year_days).abs() < 1e-9, "{calendar}: {sum}");
        assert_eq!(
            [0, 13].map(|month| calendar.mean_month_days(month)),
            [0.0; 2]
        );
    }
    for (calendar, day) in [(NoLeap, 59.5), (Standard, 60.5), (Day360, 60.5)] {
        let noon = Time::new(calendar, 2000, 3, 1, 12, 0, 0).unwrap();
        assert_eq!(noon.day_of_year(), day, "{calendar}");
    }
}

/// The names of CF 1.10, section 4.4.1.
#[test]
fn calendars_are_known_by_all_their_names() {
    for (name, calendar) in [
        ("standard", Calendar::Standard),
        ("gregorian", Calendar::Standard),
        ("proleptic_gregorian", Calendar::ProlepticGregorian),
        ("noleap", Calendar::NoLeap),
        ("365_day", Calendar::NoLeap),
        ("all_leap", Calendar::AllLeap),
        ("366_day", Calendar::AllLeap),
        ("360_day", Calendar::Day360),
        ("julian", Calendar::Julian),
    ] {
        let upper = name.to_ascii_uppercase();
        for name in [name, upper.as_str(), calendar.cf_name()] {
            assert_eq!(Calendar::from_cf(name), Some(calendar), "{name}");
        }
    }
    assert_eq!(Calendar::from_cf("none"), None);
}

#[test]
fn times_since_an_origin_have_units_of_many_lengths() {
    for (value, unit, expected) in [
        (1.5, "days", "2000-03-01T12:00:00"),
        (-1.0, "d", "2000-02-28T00:00:00"),
        (30.0, "hours", "2000-03-01T06:00:00"),
        (6.0, "h", "2000-02-29T06:00:00"),
        (90.0, "minutes", "2000-02-29T01:30:00"),
        (90.0, "seconds", "2000-02-29T00:01:30"),
        (2000.0, "milliseconds", "2000-02-29T00:00:02"),
        (2e6, "microseconds", "2000-02-29T00:00:02"),
        (3.6e12, "nanoseconds", "2000-02-29T01:00:00"),
    ] {
        let units = format!("{unit} since 2000-02-29");
        let found = Time::from_cf(value, &units, Calendar::Standard).unwrap();
        assert_eq!(found.to_string(), expected, "{value} {units}");
    }
    // And back, for the axes of files that are written.
    let time = Time::new(Calendar::NoLeap, 1996, 8, 26, 3, 0, 0).unwrap();
    assert_eq!(time.stamp(), "1996-08-26-10800");
    assert_eq!(time.cf_units(), "days since 1996-08-26 00:00:00");
    assert_eq!(time.days_since(time.midnight()), 0.125);
    let again = Time::from_cf(0.125, &time.cf_units(), Calendar::NoLeap);
    assert_eq!(again.unwrap(), time);
}

#[test]
fn dates_may_be_numbers() {
    let read = |value, calendar| Time::from_cf(value, "day as %Y%m%d.%f", calendar);
    for (value, expected) in [
        (20_000_701.25, "2000-07-01T06:00:00"),
        // To the nearest second.
        (19_991_231.999_996, "2000-01-01T00:00:00"),
        (19_991_231.999_99, "1999-12-31T23:59:59"),
        (18_500_101.0, "1850-01-01T00:00:00"),
        (101.5, "0000-01-01T12:00:00"),
    ] {
        let found = read(value, Calendar::ProlepticGregorian).unwrap();
        assert_eq!(found.to_string(), expected, "{value}");
    }
    assert!(read(20_000_230.0, Calendar::Day360).is_ok());
    for value in [20_000_230.0, 20_001_301.0, 0.0, -1.0, f64::NAN, 1e15] {
        assert!(read(value, Calendar::Standard).is_err(), "{value}");
    }
}

#[test]
fn dates_keep_their_name_in_another_calendar() {
    let t = Time::new(Calendar::NoLeap, 2001, 3, 1, 21, 30, 5).unwrap();
    let standard = t.in_calendar(Calendar::Standard).unwrap();
    assert_eq!(
        (standard.to_string(), standard.calendar()),
        (t.to_string(), Calendar::Standard)
    );
    assert_eq!(standard.in_calendar(Calendar::NoLeap).unwrap(), t);
    let leap = Time::new(Calendar::Standard, 2000, 2, 29, 0, 0, 0).unwrap();
    assert!(leap.in_calendar(Calendar::NoLeap).is_err());
}

#[test]
fn instants_of_the_gregorian_calendars_are_the_same_since_the_change() {
    let of = |calendar, year| Time::new(calendar, year, 10, 20, 6, 0, 0).unwrap();
    for year in [1582, 2000] {
        let (mixed, pure) = (
            of(Calendar::Standard, year),
            of(Calendar::ProlepticGregorian, year),
        );
        assert_eq!(mixed.instant_in(Calendar::ProlepticGregorian), Some(pure));
        assert_eq!(pure.instant_in(Calendar::Standard), Some(mixed));
    }
    let julian = of(Calendar::Standard, 1500);
    assert_eq!(julian.instant_in(Calendar::ProlepticGregorian), None);
    assert_eq!(julian.instant_in(Calendar::Standard), Some(julian));
    let noleap = of(Calendar::NoLeap, 2000);
    assert_eq!(noleap.instant_in(Calendar::Standard), None);
}

#[test]
fn impossible_dates_are_refused() {
    assert!(Time::new(Calendar::NoLeap, 2000, 2, 29, 0, 0, 0).is_err());
    assert!(Time::new(Calendar::Day360, 2000, 1, 31, 0, 0, 0).is_err());
    assert!(Time::new(Calendar::Standard, 1582, 10, 10, 0, 0, 0).is_err());
    assert!(Time::from_cf(f64::NAN, "days since 2000-01-01", Calendar::Standard).is_err());
    assert!(Time::from_cf(1.0, "fortnights since 2000-01-01", Calendar::Standard).is_err());
    // What follows a date or a time of day must not be passed over.
    for text in ["1996-08-26-10800", "1996-08-26T03:00:00:30"] {
        assert!(Time::parse(text, Calendar::NoLeap).is_err(), "{text}");
    }
}

/// `12:nan` had been 12:00, and half an hour had gone from 12.5.
#[test]
fn parts_of_a_clock_are_digits() {
    for clock in [
        "12:nan",
        "nan",
        "1e1",
        "12.5",
        "12:30.5",
        "12::30",
        "12:",
        ":30",
        "12:30:.5",
        "12:30:5e0",
        "12:30:05.1.2",
    ] {
        let text = format!("2000-01-01T{clock}");
        assert!(Time::parse(&text, Calendar::Standard).is_err(), "{text}");
    }
    for (clock, expected) in [
        ("6", "06:00:00"),
        ("06:5", "06:05:00"),
        ("6:5:7.499", "06:05:07"),
        ("6:5:7.5", "06:05:08"),
        ("05:59:59.999999999", "06:00:00"),
        ("06:05:07.", "06:05:07"),
    ] {
        let found = Time::parse(&format!("2000-01-01 {clock}"), Calendar::Standard);
        assert_eq!(found.unwrap().to_string(), format!("2000-01-01T{expected}"));
    }
}

/// The seconds of some of them are more than a number holds.
#[test]
fn years_beyond_all_archives_are_no_dates() {
    for calendar in ALL {
        let at = |year: i64| Time::new(calendar, year, 1, 1, 0, 0, 0);
        for year in [MOST_YEARS + 1, -MOST_YEARS - 1, i64::MAX, i64::MIN] {
            assert!(at(year).is_err(), "{calendar} {year}");
        }
        let seconds = at(MOST_YEARS)
            .unwrap()
            .seconds_since(at(-MOST_YEARS).unwrap());
        assert!(seconds / DAY_SECONDS >= 720 * MOST_YEARS, "{calendar}");
    }
    let units = "hours since 9999999999999999-01-01";
    assert!(Time::from_cf(0.0, units, Calendar::NoLeap).is_err());
}

proptest! {
    #[test]
    fn a_day_number_names_one_date(number in -400_000i64..1_500_000, which in 0usize..6) {
        let calendar = ALL[which];
        let (y, m, d) = calendar.date_of(number);
        prop_assert!(calendar.valid_date(y, m, d));
        prop_assert_eq!(calendar.day_number(y, m, d), number);
    }

    #[test]
    fn text_round_trips(seconds in 0i64..100_000_000_000, which in 0usize..6) {
        let t = Time::new(ALL[which], 0, 1, 1, 0, 0, 0).unwrap().add_seconds(seconds);
        prop_assert_eq!(Time::parse(&t.to_string(), t.calendar()).unwrap(), t);
    }
}
