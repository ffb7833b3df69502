//! Resampling units other than years: whole members and pairs of members.

use super::*;
use squall_climate::compare::Unit;

fn with_unit(unit: Unit) -> CompareOptions {
    CompareOptions { unit, ..options() }
}

#[test]
fn members_of_a_year_are_drawn_like_years() {
    let folder = tempfile::tempdir().unwrap();
    let one = |label: &str, storms: usize, seed: u64| {
        let runs: Vec<Run> = (0..6)
            .map(|k| Run {
                storms,
                ..years(2001..=2001, seed + k)
            })
            .collect();
        ensemble(folder.path(), label, &runs)
    };
    let (a, b) = (one("a", 5, 10), one("b", 3, 20));
    let of = |unit| compare_with(a.clone(), b.clone(), &with_unit(unit)).unwrap();
    assert_eq!(numbers(&of(Unit::Year)), numbers(&of(Unit::Member)));
}

#[test]
fn a_member_is_one_unit_where_members_differ_in_more_than_weather() {
    let folder = tempfile::tempdir().unwrap();
    let of = |label: &str, count: u64, storms: usize| {
        let runs: Vec<Run> = (0..count)
            .map(|k| Run {
                storms,
                ..years(2001..=2003, 30 + k)
            })
            .collect();
        ensemble(folder.path(), label, &runs)
    };
    let (a, b) = (of("a", 5, 5), of("b", 5, 3));
    let found = compare_with(a.clone(), b.clone(), &with_unit(Unit::Member)).unwrap();
    assert_eq!((found.a.blocks, found.a.years.len()), (5, 15));
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL).change;
    // All members of one model have more storms on one side: only the original assignment is this extreme.
    assert!(tracks.interval.is_some_and(|i| i.high < 0.0), "{tracks:?}");
    assert!(tracks.p.unwrap() >= 2.0 / 252.0, "{tracks:?}");
    let text = found.text();
    assert!(
        text.contains("members are resampled and permuted as a whole")
            && text.contains("With 5 against 5 members and 1000 resamples"),
        "{text}"
    );
    assert!(
        text.contains("15 years of 5 members against 15 of 5 members"),
        "{text}"
    );
    let page = changes_page(&found, "members", "").unwrap();
    assert!(page.contains("Members with all their years are resampled as a whole"));
    let json = serde_json::to_string(&found).unwrap();
    let back: Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(back.unit, Unit::Member);

    let few = of("few", 4, 5);
    let found = compare_with(few, b.clone(), &with_unit(Unit::Member)).unwrap();
    assert!(
        found
            .text()
            .contains("few has only 4 members and at least 5 are needed"),
        "{}",
        found.text()
    );
    let blocks = CompareOptions {
        block_years: 2,
        ..with_unit(Unit::Member)
    };
    let error = compare_with(a, b, &blocks).unwrap_err();
    assert!(matches!(error, ClimateError::Invalid(_)), "{error}");
}

/// Models with many storms have many on both sides; pairing reveals the change that they share.
#[test]
fn pairs_of_members_tell_a_change_that_models_hide() {
    let folder = tempfile::tempdir().unwrap();
    let of = |label: &str, fewer: usize, seed: u64| {
        let runs: Vec<Run> = (0..6)
            .map(|k| Run {
                storms: 3 + 3 * k as usize - fewer,
                ..years(2001..=2003, seed + k)
            })
            .collect();
        ensemble(folder.path(), label, &runs)
    };
    let (a, b) = (of("a", 0, 40), of("b", 1, 60));
    let tracks = |unit| {
        let found = compare_with(a.clone(), b.clone(), &with_unit(unit)).unwrap();
        let change = row(&found, Quantity::CycloneTracks, Group::ALL).change;
        (change, found)
    };
    let (apart, _) = tracks(Unit::Member);
    let (paired, found) = tracks(Unit::Pair);
    assert_eq!(apart.difference, paired.difference);
    assert!(
        apart.interval.unwrap().holds(0.0) && apart.p.unwrap() > 0.3,
        "{apart:?}"
    );
    // Each member has one storm a month fewer, with a standard error of 1.6.
    assert!(
        (paired.difference.unwrap() + 12.0).abs() < 6.0,
        "{paired:?}"
    );
    assert!(paired.interval.unwrap().high < 0.0, "{paired:?}");
    let least = 2.0 / 64.0;
    assert!((least..0.06).contains(&paired.p.unwrap()), "{paired:?}");
    let note = "a has 6 members with 3 whole years each, b has 6 members with 3 whole years each. Members of both sides are \
                resampled and permuted in pairs, in this order: m1 with m1, m2 with m2, m3 with m3, m4 with m4, m5 with m5 \
                and 1 more.";
    assert_eq!(found.notes[0], note);
    let page = changes_page(&found, "pairs", "").unwrap();
    assert!(page.contains("Pairs of members, one of each side"));
    let mut odd = b.clone();
    odd.folders.pop();
    let error = compare_with(a, odd, &with_unit(Unit::Pair)).unwrap_err();
    let message = "members of b, each of which has one of a: expected 6, found 5";
    assert_eq!(error.to_string(), message);
}

/// Members are weighted by their years: what a pair has in common cancels only if its shares are the same on both
/// sides.
#[test]
fn pairs_with_other_shares_of_the_years_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let a = ensemble(
        folder.path(),
        "a",
        &[years(2001..=2003, 1), years(2001..=2006, 2)],
    );
    let b = ensemble(
        folder.path(),
        "b",
        &[years(2001..=2002, 3), years(2001..=2004, 4)],
    );
    let is_said = |a: &SideInput| {
        let found = compare_with(a.clone(), b.clone(), &with_unit(Unit::Pair)).unwrap();
        let words = "Some members have a larger share of the years";
        found.notes.iter().any(|note| note.contains(words))
    };
    // First the second member has twice as many years on both sides; then side a has equally many years of both.
    assert!(!is_said(&a));
    let mut even = a;
    even.years = Some((2001, 2003));
    assert!(is_said(&even));
}
