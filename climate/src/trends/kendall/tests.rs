//! Slopes, tests and intervals against reference values, and their error rates.

use super::*;
use rand::Rng;
use squall_data::random::stream;

/// Values of consecutive years from 2001.
fn yearly(values: &[f64]) -> Vec<(i64, f64)> {
    (2001..).zip(values.iter().copied()).collect()
}

fn close(found: f64, expected: f64) {
    let off = (found - expected).abs();
    assert!(off <= 1e-9 * expected.abs().max(1.0), "{found} {expected}");
}

/// The flow of the Nile at Aswan from 1871 to 1970, 10⁸ m³ (Cobb 1978, Biometrika 65, 243-251): it decreases and is
/// serially correlated.
const NILE: [i32; 100] = [
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180,
    799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833,
    701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845,
    864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676,
    649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923,
    975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
];

#[test]
fn the_nile_falls_less_surely_than_if_its_years_were_independent() {
    let values: Vec<f64> = NILE.iter().copied().map(f64::from).collect();
    let series: Vec<(i64, f64)> = (1871..).zip(values).collect();
    // Python: numpy for S and its variance, scipy.stats.theilslopes and kendalltau for slope and τ_b.
    let pairs = Pairs::of(&series);
    assert_eq!((pairs.s, pairs.slopes.len()), (-1387, 4950));
    close(pairs.variance, 112_728.333_333_333_33);
    close(pairs.tau_b, -0.280_741_334_724_613_1);
    // theilslopes, without serial correlation: -3.627906976744186 to -1.4285714285714286 a year.
    let independent = pairs.interval(normal_quantile(0.975) * pairs.variance.sqrt());
    let independent = independent.unwrap();
    close(independent.low, -36.279_069_767_441_86);
    close(independent.high, -14.285_714_285_714_286);
    // Python, an independent implementation of the formulas: persistence, inflation 2.2689422704529525, p, interval.
    let found = Trend::of(&series, 0.95);
    close(found.slope.unwrap(), -26.0);
    close(found.mean.unwrap(), 919.35);
    close(found.sd.unwrap(), 169.227_500_630_650_95);
    close(found.persistence.unwrap(), 0.392_128_043_340_854_2);
    close(found.p.unwrap(), 0.006_133_970_650_304_06);
    let interval = found.interval.unwrap();
    close(interval.low, -42.5);
    close(interval.high, -8.0);
    let line = found.line.unwrap();
    close(line[0], 1025.7);
    close(line[1], 1025.7 - 2.6 * 99.0);
    let years = (found.years, found.first_year, found.last_year);
    assert_eq!(years, (100, Some(1871), Some(1970)));
    assert_eq!(found.no_trend, None);
}

#[test]
fn few_values_by_hand() {
    // 10 < 22 > 21 < 30 > 22 < 30 < 40 = 40: two of 28 pairs fall, three are equal.
    let pairs = Pairs::of(&yearly(&[10.0, 22.0, 21.0, 30.0, 22.0, 30.0, 40.0, 40.0]));
    assert_eq!(pairs.s, 21);
    // (8 · 7 · 21 - 3 · 2 · 1 · 9) / 18.
    close(pairs.variance, (1176.0 - 54.0) / 18.0);
    close(pairs.tau_b, 21.0 / (25.0f64 * 28.0).sqrt());
    close(median(&pairs.slopes), 3.9);
    // Three years: slopes 1, 2 and 1.5.
    let three = Pairs::of(&yearly(&[1.0, 2.0, 4.0]));
    assert_eq!(three.slopes, [1.0, 1.5, 2.0]);
    assert_eq!((three.s, three.tau_b), (3, 1.0));
    // With three slopes, an interval that excludes none extends from the first to the last; a wider one has no ends.
    let all = Interval {
        low: 10.0,
        high: 20.0,
    };
    assert_eq!(three.interval(0.5), Some(all));
    assert_eq!(three.interval(2.0), None);
}

#[test]
fn equal_values_and_gaps_count_as_elsewhere() {
    // Python as above. Neighbours are negatively correlated, so that nothing is inflated and scipy's intervals apply.
    let ties = [3.0, 5.0, 4.0, 6.0, 4.0, 7.0, 6.0, 5.0, 8.0, 7.0, 9.0, 8.0];
    let found = Trend::of(&yearly(&ties), 0.95);
    close(found.slope.unwrap(), 10.0 * 4.0 / 9.0);
    close(found.tau.unwrap(), 0.677_690_769_405_124_8);
    close(found.p.unwrap(), 0.003_562_447_554_507_426_4);
    let interval = found.interval.unwrap();
    close(interval.low, 2.5);
    close(interval.high, 6.25);
    assert_eq!(found.persistence, Some(0.0));
    let years = [2001, 2002, 2003, 2005, 2006, 2007, 2008, 2010, 2011, 2012];
    let values = [1.5, 1.1, 2.0, 1.9, 2.9, 2.2, 3.1, 2.6, 3.8, 3.3];
    let gaps: Vec<(i64, f64)> = years.into_iter().zip(values).collect();
    let found = Trend::of(&gaps, 0.95);
    close(found.slope.unwrap(), 2.2);
    close(found.p.unwrap(), 0.004_207_551_285_491_748);
    let interval = found.interval.unwrap();
    close(interval.low, 1.0);
    close(interval.high, 3.0);
    close(found.line.unwrap()[0], 1.26);
}

#[test]
fn values_that_differ_by_rounding_are_equal() {
    // Each year's mean is a sum divided by a count, so equal ones differ in their last bits. Only the middle year
    // differs.
    let rounded = |k: usize| 20.1 * (1.0 + 1e-15 * k as f64);
    let mut values: Vec<f64> = (0..21).map(rounded).collect();
    values[10] = 25.0;
    let found = Trend::of(&yearly(&values), 0.95);
    assert_eq!((found.slope, found.tau), (Some(0.0), Some(0.0)));
    close(found.p.unwrap(), 1.0);
    // The tied series from above gives the same result with any last bits.
    let ties = [3.0, 5.0, 4.0, 6.0, 4.0, 7.0, 6.0, 5.0, 8.0, 7.0, 9.0, 8.0];
    for last_bits in [1e-15, -1e-15] {
        let values: Vec<f64> = (ties.iter().zip(0..12))
            .map(|(value, k)| value * (1.0 + last_bits * f64::from(k)))
            .collect();
        let found = Trend::of(&yearly(&values), 0.95);
        close(found.slope.unwrap(), 10.0 * 4.0 / 9.0);
        close(found.tau.unwrap(), 0.677_690_769_405_124_8);
        close(found.p.unwrap(), 0.003_562_447_554_507_426_4);
    }
}

#[test]
fn a_straight_line_is_found_whatever_is_rounded() {
    let line: Vec<(i64, f64)> = (1900..2000)
        .map(|year| (year, 0.1 * year as f64 + 7.3))
        .collect();
    let found = Trend::of(&line, 0.95);
    close(found.slope.unwrap(), 1.0);
    let interval = found.interval.unwrap();
    close(interval.low, 1.0);
    close(interval.high, 1.0);
    // The residuals are rounding errors, not serial correlation.
    assert_eq!((found.persistence, found.tau), (Some(0.0), Some(1.0)));
    assert!(found.p.unwrap() < 1e-20);
}

#[test]
fn series_without_a_trend_say_why() {
    let why = |series: &[(i64, f64)]| {
        let trend = Trend::of(series, 0.95);
        assert!(trend.slope.is_none() && trend.p.is_none() && trend.interval.is_none());
        trend.no_trend
    };
    let rising = |years: std::ops::Range<i64>| -> Vec<(i64, f64)> {
        years.map(|year| (year, year as f64)).collect()
    };
    assert_eq!(why(&[]), Some(NoTrend::NoEvents));
    assert_eq!(why(&yearly(&[0.0; 30])), Some(NoTrend::NoEvents));
    assert_eq!(why(&yearly(&[7.0])), Some(NoTrend::TooFewYears));
    assert_eq!(why(&rising(0..9)), Some(NoTrend::TooFewYears));
    assert_eq!(why(&yearly(&[17.28; 30])), Some(NoTrend::Constant));
    // The same sums in another order of rows.
    let rounded: Vec<f64> = (0..30)
        .map(|k| 17.28 * (1.0 + 1e-15 * f64::from(k)))
        .collect();
    assert_eq!(why(&yearly(&rounded)), Some(NoTrend::Constant));
    // Ten of 15 years are less than 70 %; eleven are not.
    let mut gaps = rising(0..10);
    gaps[9].0 = 14;
    assert_eq!(why(&gaps), Some(NoTrend::MissingYears));
    gaps.insert(9, (10, 10.0));
    assert!(Trend::of(&gaps, 0.95).no_trend.is_none());
    assert!(Trend::of(&rising(0..10), 0.95).slope.is_some());
    // A line of ten years has the maximum S, 45, whose standard deviation is 11.2.
    let sure = Trend::of(&rising(0..10), 0.99999);
    assert_eq!(sure.no_trend, Some(NoTrend::TooFewYears));
    assert!(sure.slope.is_some() && sure.p.is_some() && sure.interval.is_none());
    // Two constant halves: each year equals the one before, and 15 years contain little information.
    let halves: Vec<f64> = (0..15).map(|k| f64::from(i32::from(k > 7))).collect();
    let found = Trend::of(&yearly(&halves), 0.95);
    assert_eq!(found.no_trend, Some(NoTrend::Persistence));
    assert!(found.slope.is_some() && found.p.unwrap() > 0.05 && found.interval.is_none());
    // The words in tables are those in JSON.
    for why in [
        NoTrend::NoEvents,
        NoTrend::TooFewYears,
        NoTrend::MissingYears,
        NoTrend::Constant,
        NoTrend::Persistence,
    ] {
        assert_eq!(serde_json::to_value(why).unwrap(), why.word());
    }
}

/// A series with a random start: each year keeps a share `memory` of the one before, and rises by `slope` per year.
fn noise(random: &mut impl Rng, years: usize, memory: f64, slope: f64) -> Vec<(i64, f64)> {
    let mut now = 0.0;
    // The sum of twelve uniform numbers is approximately normal.
    let mut next = || {
        let step = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        now = memory * now + step;
        now
    };
    (0..30).for_each(|_| {
        next();
    });
    (2001..)
        .take(years)
        .map(|year| (year, next() + slope * (year - 2001) as f64))
        .collect()
}

/// The rate of p below 0.05 without and with inflation for serial correlation, and the coverage of the interval.
fn shares(name: &str, years: usize, memory: f64) -> [f64; 3] {
    const SERIES: usize = 600;
    let mut random = stream(11, name, &[]);
    let mut counts = [0.0; 3];
    for _ in 0..SERIES {
        let series = noise(&mut random, years, memory, 0.0);
        let pairs = Pairs::of(&series);
        let limit = 1.0 + normal_quantile(0.975) * pairs.variance.sqrt();
        counts[0] += f64::from(u8::from(pairs.s.abs() as f64 > limit));
        let found = Trend::of(&series, 0.95);
        counts[1] += f64::from(u8::from(found.p.unwrap() < 0.05));
        // All values differ, so interval and p agree.
        if let Some(interval) = found.interval {
            assert_eq!(interval.holds(0.0), found.p.unwrap() >= 0.05, "{found:?}");
        }
        let rising = noise(&mut random, years, memory, 0.2);
        let interval = Trend::of(&rising, 0.95).interval;
        counts[2] += f64::from(u8::from(interval.is_none_or(|i| i.holds(2.0))));
    }
    counts.map(|count| count / SERIES as f64)
}

#[test]
fn about_a_twentieth_of_series_without_a_trend_has_one() {
    // Python, with other random numbers: 0.036 of 3000 series of 30 years, 0.043 of 1200 series of 120 years.
    let [plain, found, holds] = shares("white", 40, 0.0);
    assert!((0.025..0.085).contains(&plain), "{plain}");
    assert!((0.012..0.065).contains(&found), "{found}");
    assert!((0.93..0.99).contains(&holds), "{holds}");
}

#[test]
fn persistence_is_hardly_taken_for_a_trend() {
    // Python: 0.187 of 3000 series of 60 years with lag-one correlation 0.4; 0.062 after inflation.
    let [plain, found, holds] = shares("persistent", 60, 0.4);
    assert!(plain > 0.13, "{plain}");
    assert!(found < 0.1, "{found}");
    assert!(holds > 0.9, "{holds}");
}

/// The rates stated in docs/compare.md.
#[test]
fn of_thirty_years_as_many_have_a_trend_as_the_docs_say() {
    for (memory, without, with) in [(0.0, 0.05, 0.04), (0.4, 0.17, 0.06), (0.6, 0.30, 0.08)] {
        let [plain, found, _] = shares(&format!("thirty, {memory}"), 30, memory);
        // For 600 series three standard errors are at most 0.06, and 0.03 for the smaller rates.
        assert!((plain - without).abs() < 0.06, "{memory}: {plain}");
        assert!((found - with).abs() < 0.03, "{memory}: {found}");
    }
}

#[test]
fn counts_with_many_equal_years_have_intervals_that_agree_with_p() {
    let mut random = stream(12, "counts", &[]);
    let mut significant = 0;
    for _ in 0..300 {
        let values: Vec<f64> = (0..30)
            .map(|year| {
                let chance = 0.3 + 0.01 * f64::from(year);
                let draws = (0..3).filter(|_| random.random::<f64>() < chance);
                draws.count() as f64
            })
            .collect();
        let found = Trend::of(&yearly(&values), 0.95);
        let (Some(interval), Some(p)) = (found.interval, found.p) else {
            continue;
        };
        // 0 may be an end of the interval of a significant trend, but is not inside.
        if p < 0.05 {
            significant += 1;
            assert!(interval.low >= 0.0 || interval.high <= 0.0, "{found:?}");
        } else {
            assert!(interval.holds(0.0), "{found:?}");
        }
    }
    // Python, with other random numbers: 68.
    assert!(significant > 30, "{significant}");
}
