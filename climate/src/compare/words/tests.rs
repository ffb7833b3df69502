//! Sentences in full.

use super::*;
use crate::compare::Quantity;

fn comparison([present, plus2k]: [usize; 2]) -> Comparison {
    Comparison::of_runs([("present", present), ("plus2k", plus2k)])
}

fn row(quantity: Quantity, group: Group, (a, b): (f64, f64), p: f64) -> ChangeRow {
    let about = quantity.about();
    let mut change = Change::of_values(Some(a), Some(b));
    change.p = Some(p);
    change.interval = Some(Interval {
        low: (b - a) * 0.5,
        high: (b - a) * 1.5,
    });
    change.relative_interval = change.relative.map(|r| Interval {
        low: r - 0.1,
        high: r + 0.1,
    });
    let (basin, season) = group.columns();
    ChangeRow {
        quantity,
        name: about.name.into(),
        class: about.class.name().into(),
        basin: basin.into(),
        season: season.into(),
        unit: about.unit.into(),
        change,
        years: None,
        adjusted_p: Some(p),
        significant: p < 0.05,
    }
}

#[test]
fn changes_read_as_sentences() {
    let of = comparison([30, 30]);
    let say = |row: &ChangeRow| statement(row, &of).unwrap();
    assert_eq!(
        say(&row(
            Quantity::CycloneTracks,
            Group::ALL,
            (100.0, 79.0),
            0.0001
        )),
        "Tropical cyclones become 21 % fewer (95 % interval -31 to -11 %, p < 0.001); 30 years against 30."
    );
    assert_eq!(
        say(&row(
            Quantity::RiverTracks,
            Group::of_season(0),
            (100.0, 120.0),
            0.012
        )),
        "Atmospheric rivers in December to February become 20 % more frequent (95 % interval +10 to +30 %, p = 0.012); 30 years against 30."
    );
    assert_eq!(
        say(&row(Quantity::CycloneWind, Group::ALL, (40.0, 42.0), 0.001)),
        "The mean lifetime-maximum wind of tropical cyclones rises by 5.0 % (95 % interval -5.0 to +15.0 %, p = 0.001); 30 years against 30."
    );
    assert_eq!(
        say(&row(
            Quantity::CyclonePressure,
            Group::ALL,
            (960.0, 956.0),
            0.01
        )),
        "The mean lifetime-minimum pressure of tropical cyclones falls by 4.00 hPa (95 % interval -2.00 to -6.00 hPa, p = 0.010); 30 years against 30."
    );
    let basin = Group::of_basin(crate::statistics::Basin::NorthAtlantic);
    assert_eq!(
        say(&row(Quantity::CycloneTracks, basin, (12.0, 11.7), 0.61)),
        "No significant change of the number of tropical cyclones in the North Atlantic: -2.5 % (95 % interval -12.5 to +7.5 %, p = 0.61); 30 years against 30."
    );
    let south = Group::of_region(crate::compare::Region::Southern);
    let said = say(&row(Quantity::CycloneTracks, south, (20.0, 16.0), 0.001));
    assert!(
        said.starts_with("Tropical cyclones in the southern hemisphere become 20 % fewer"),
        "{said}"
    );
}

#[test]
fn without_interval_the_text_says_why() {
    let of = comparison([3, 30]);
    let mut few = row(Quantity::CycloneTracks, Group::ALL, (87.0, 80.0), 0.5);
    (
        few.change.interval,
        few.change.relative_interval,
        few.change.p,
    ) = (None, None, None);
    few.change.no_interval = Some(NoInterval::TooFewYears);
    few.significant = false;
    assert_eq!(
        statement(&few, &of).unwrap(),
        "Tropical cyclones: 87.0 against 80.0 a year (-8.0 %); 3 years against 30."
    );
    assert_eq!(
        note_untested(&of).unwrap(),
        "No change is tested or has an interval, because present has only 3 whole years and at least 5 are needed."
    );
    few.change.no_interval = Some(NoInterval::TooFewEvents);
    assert_eq!(
        statement(&few, &comparison([30, 30])).unwrap(),
        "Tropical cyclones: 87.0 against 80.0 a year (-8.0 %); no interval, because too few years have such events; 30 years against 30."
    );
    assert_eq!(note_untested(&comparison([30, 30])), None);
    few.change.no_interval = Some(NoInterval::TooFewYears);
    let mut winter = comparison([1, 1]);
    winter.months = vec![1, 2, 12];
    assert_eq!(
        statement(&few, &winter).unwrap(),
        "Tropical cyclones: 87.0 against 80.0 each December to February (-8.0 %); 1 year against 1, December to February only."
    );
    assert_eq!(
        reason(few.change.no_interval, &winter),
        "present has only 1 year of December to February and at least 5 are needed"
    );
    let mut none = row(Quantity::CycloneTracks, Group::ALL, (0.0, 0.0), 0.5);
    none.change.no_interval = Some(NoInterval::NoEvents);
    assert_eq!(statement(&none, &of), None);
    let mut lacking = row(Quantity::CycloneWind, Group::ALL, (40.0, 42.0), 0.5);
    lacking.change = Change::of_values(Some(40.0), None);
    assert_eq!(
        statement(&lacking, &of).unwrap(),
        "The mean lifetime-maximum wind of tropical cyclones cannot be compared: 40.0 m/s in present, none known in plus2k; 3 years against 30."
    );
    // The relative change from almost nothing has no upper end, so the interval of the difference is shown.
    let mut rare = row(Quantity::CycloneTracks, Group::ALL, (0.1, 2.0), 0.01);
    rare.change.relative_interval = None;
    assert_eq!(
        statement(&rare, &of).unwrap(),
        "Tropical cyclones become 1900 % more frequent (95 % interval +0.950 to +2.85 a year, p = 0.010); 3 years against 30."
    );
    // A change from zero has no percentage.
    let first = row(Quantity::CycloneTracks, Group::ALL, (0.0, 2.5), 0.01);
    assert!(
        statement(&first, &of)
            .unwrap()
            .starts_with("Tropical cyclones rise by 2.50 a year")
    );
}

#[test]
fn where_nothing_can_be_significant_the_text_says_so() {
    let unsure = row(Quantity::CycloneTracks, Group::ALL, (100.0, 79.0), 0.0079);
    let unsure = ChangeRow {
        significant: false,
        ..unsure
    };
    let say = |blocks, confidence, draws| {
        let mut of = comparison([blocks; 2]);
        (of.draws.confidence, of.draws.draws) = (confidence, draws);
        statement(&unsure, &of).unwrap()
    };
    // There are 252 ways to divide ten years into five and five, and in two of them the sides differ most: p is at
    // least 2/252 = 0.0079, more than the required 0.005.
    let said = say(5, 0.995, 10_000);
    assert!(
        said.starts_with(
            "Too few years to tell a change of the number of tropical cyclones: -21 %"
        ),
        "{said}"
    );
    assert!(say(5, 0.95, 10_000).starts_with("No significant change"));
    assert!(say(30, 0.995, 100).starts_with("Too few resamples to tell"));
    let map = MapSummary {
        name: "frequency".into(),
        class: "tropical_cyclone".into(),
        tested: 9,
        increases: 0,
        decreases: 0,
    };
    let mut of = comparison([5, 5]);
    of.draws.confidence = 0.995;
    assert!(of_map(&map, &of).contains("cannot have a significant change"));
}

#[test]
fn high_confidence_is_not_rounded_to_all_percent() {
    for (share, text) in [
        (0.95, "95"),
        (0.9, "90"),
        (0.6827, "68.27"),
        (0.999, "99.9"),
        (0.99999, "99.999"),
        (0.05, "5"),
        (0.00001, "0.001"),
    ] {
        assert_eq!(in_percent(share), text);
    }
    let mut of = comparison([30, 30]);
    of.draws.confidence = 0.99999;
    let row = row(Quantity::CycloneTracks, Group::ALL, (100.0, 79.0), 1e-6);
    let said = statement(&row, &of).unwrap();
    assert!(said.contains("(99.999 % interval -31 to -11 %, "), "{said}");
}

#[test]
fn amounts_of_some_months_are_not_those_of_a_year() {
    let units: [(&str, Vec<i64>, &str); 5] = [
        ("a year", (1..=12).collect(), "a year"),
        ("a year", vec![8, 9, 10], "each August to October"),
        ("km³ a year", vec![8], "km³ each August"),
        ("a year", vec![1, 3], "in January, March of each year"),
        ("m/s", vec![8], "m/s"),
    ];
    for (unit, months, text) in units {
        assert_eq!(unit_of(unit, &months), text);
    }
    let mut autumn = comparison([30, 30]);
    autumn.months = vec![8, 9, 10];
    let rare = row(Quantity::CycloneTracks, Group::ALL, (0.0, 2.5), 0.01);
    let said = statement(&rare, &autumn).unwrap();
    let begin = "Tropical cyclones rise by 2.50 each August to October (95 % interval +1.25 to +3.75 each August to October, p";
    assert!(said.starts_with(begin), "{said}");
}

#[test]
fn months_read_well() {
    for (list, text) in [
        (vec![6, 7, 8, 9, 10, 11], "June to November"),
        (vec![1, 2, 12], "December to February"),
        (vec![1, 3], "January, March"),
        (vec![8], "August"),
        ((1..=12).collect(), "all months"),
    ] {
        assert_eq!(months(&list), text);
    }
}

#[test]
fn many_years_are_said_in_short() {
    assert_eq!(years_in_words(&[2001]), "2001");
    let years: Vec<i64> = (1952..=1975).chain([1980]).collect();
    assert_eq!(years_in_words(&years), "1952 to 1975, 1980");
    let apart: Vec<i64> = (1950..1970).step_by(2).collect();
    let said = "1950, 1952, 1954, 1956, 1958 and 5 more";
    assert_eq!(years_in_words(&apart), said);
}
