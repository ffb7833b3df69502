//! Intervals have the nominal coverage; p-values are uniform under the null hypothesis.

use super::*;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use squall_data::random::stream;

/// Repetitions of each experiment. 570 of 600 intervals of 95 % are expected to contain the truth; the standard error
/// is 5.3.
const REPETITIONS: u64 = 600;

fn normal(random: &mut ChaCha8Rng) -> f64 {
    normal_quantile(random.random_range(1e-12..1.0))
}

fn poisson(random: &mut ChaCha8Rng, mean: f64) -> f64 {
    let (limit, mut product, mut count) = ((-mean).exp(), random.random::<f64>(), 0.0);
    while product > limit {
        product *= random.random::<f64>();
        count += 1.0;
    }
    count
}

fn rate(values: Vec<f64>) -> Statistic {
    let years = vec![1.0; values.len()];
    Statistic::ratio(values, years)
}

fn options(method: IntervalMethod, seed: u64) -> DrawOptions {
    DrawOptions {
        draws: 1000,
        method,
        seed,
        ..DrawOptions::default()
    }
}

const METHODS: [IntervalMethod; 2] = [IntervalMethod::Percentile, IntervalMethod::Bca];

/// Number of intervals of the difference and of the relative change that contain the truth, for each method. Both
/// methods use the same resamples.
fn held(
    years: (usize, usize),
    means: (f64, f64),
    draw: impl Fn(&mut ChaCha8Rng, f64) -> f64,
) -> [(usize, usize); 2] {
    let mut held = [(0, 0); 2];
    for repetition in 0..REPETITIONS {
        let mut random = stream(17, "coverage", &[repetition]);
        let mut side = |n: usize, mean| rate((0..n).map(|_| draw(&mut random, mean)).collect());
        let (a, b) = (side(years.0, means.0), side(years.1, means.1));
        let mut design = Design::new(years, options(METHODS[0], repetition)).unwrap();
        for (method, (difference, relative)) in METHODS.into_iter().zip(&mut held) {
            design.options.method = method;
            let change = design.change(&a, &b);
            let holds =
                |interval: Option<Interval>, truth| interval.is_some_and(|i| i.holds(truth));
            *difference += usize::from(holds(change.interval, means.1 - means.0));
            *relative += usize::from(holds(change.relative_interval, means.1 / means.0 - 1.0));
        }
    }
    held
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    // 95 % of 600 ± 3.2 standard errors; 12 years against 9 and skewed values are the hard cases.
    for years in [(30, 30), (12, 9)] {
        for (method, (difference, relative)) in
            METHODS.into_iter().zip(held(years, (40.0, 36.0), poisson))
        {
            assert!(
                (553..=592).contains(&difference),
                "{method:?} {years:?}: {difference}"
            );
            assert!(
                (553..=592).contains(&relative),
                "{method:?} {years:?}: {relative}"
            );
        }
    }
    let bell = |random: &mut ChaCha8Rng, mean| mean + 4.0 * normal(random);
    for (method, (difference, _)) in METHODS.into_iter().zip(held((20, 40), (30.0, 33.0), bell)) {
        assert!(
            (553..=592).contains(&difference),
            "{method:?}: {difference}"
        );
    }
    // Five years against five: without widening, the coverage would be only 85 %.
    let [(difference, _), _] = held((5, 5), (20.0, 30.0), poisson);
    assert!((546..=596).contains(&difference), "{difference}");
}

#[test]
fn p_is_even_where_nothing_changed() {
    // Expected: 60 of 600 p-values per tenth, standard error 7.3; 30 below 0.05, standard error 5.3.
    let mut tenths = [0usize; 10];
    let mut significant = 0;
    for repetition in 0..REPETITIONS {
        let mut random = stream(23, "null", &[repetition]);
        let mut side = |n: usize| rate((0..n).map(|_| normal(&mut random).exp()).collect());
        let (a, b) = (side(15), side(20));
        let design =
            Design::new((15, 20), options(IntervalMethod::Percentile, repetition)).unwrap();
        let p = design.change(&a, &b).p.unwrap();
        tenths[((p * 10.0) as usize).min(9)] += 1;
        significant += usize::from(p < 0.05);
    }
    assert!(tenths.iter().all(|n| (34..=86).contains(n)), "{tenths:?}");
    assert!((14..=46).contains(&significant), "{significant}");
}

#[test]
fn p_is_never_below_that_of_all_deals() {
    // The years of both sides are disjoint in value: two of all 252 permutations are as extreme, possibly none of 200
    // random ones.
    let (a, b) = (
        rate((0..5).map(f64::from).collect()),
        rate((10..15).map(f64::from).collect()),
    );
    for seed in 0..40 {
        let draws = DrawOptions {
            draws: 200,
            seed,
            ..DrawOptions::default()
        };
        let design = Design::new((5, 5), draws).unwrap();
        assert!(design.change(&a, &b).p.unwrap() >= 2.0 / 252.0, "{seed}");
    }
}

/// Two runs of one model share its climate: pairs reveal what changes alike in all models.
#[test]
fn pairs_hold_what_they_say_whatever_their_runs_have_in_common() {
    let (mut held, mut significant) = ([0; 2], 0);
    for repetition in 0..REPETITIONS {
        let mut random = stream(37, "pairs", &[repetition]);
        let models = (0..12).map(|_| 100.0 + 20.0 * normal(&mut random));
        let models: Vec<f64> = models.collect();
        let mut side = |shift: f64| {
            let runs = models.iter().map(|m| m + shift + normal(&mut random));
            rate(runs.collect())
        };
        let (a, b, same) = (side(0.0), side(1.0), side(0.0));
        let mut design = Design::of_pairs(12, options(METHODS[0], repetition)).unwrap();
        for (method, held) in METHODS.into_iter().zip(&mut held) {
            design.options.method = method;
            let change = design.change(&a, &b);
            assert!(change.relative_interval.is_some());
            *held += usize::from(change.interval.unwrap().holds(1.0));
        }
        // p does not depend on the method.
        significant += usize::from(design.change(&a, &same).p.unwrap() < 0.05);
    }
    // As above: 570 with a standard error of 5.3, and 30 with the same.
    for (method, held) in METHODS.into_iter().zip(held) {
        assert!((546..=592).contains(&held), "{method:?}: {held}");
    }
    assert!((12..=48).contains(&significant), "{significant}");
    // For five pairs that all change alike, one permutation in sixteen is as extreme.
    let five = |shift: f64| rate((0..5).map(|k| 10.0 * f64::from(k) + shift).collect());
    let design = |pairs| Design::of_pairs(pairs, options(IntervalMethod::Percentile, 1)).unwrap();
    let change = design(5).change(&five(0.0), &five(2.0));
    assert!((change.p.unwrap() - 1.0 / 16.0).abs() < 0.03, "{change:?}");
    assert!(change.p.unwrap() >= 1.0 / 16.0);
    let few = design(4).change(&rate(vec![1.0; 4]), &rate(vec![2.0; 4]));
    assert_eq!(few.no_interval, Some(NoInterval::TooFewYears));
}

#[test]
fn medians_have_intervals_too() {
    let mut held = 0;
    for repetition in 0..REPETITIONS {
        let mut random = stream(29, "median", &[repetition]);
        let mut side = |shift: f64| {
            // Values of a year are correlated: without resampling whole years the interval would be too narrow.
            let values = (0..25u32).flat_map(|year| {
                let year_shift = 2.0 * normal(&mut random);
                let of_year: Vec<_> = (0..12)
                    .map(|_| (shift + year_shift + 5.0 * normal(&mut random), year))
                    .collect();
                of_year
            });
            Statistic::quantile(0.5, values.collect(), 25)
        };
        let (a, b) = (side(40.0), side(43.0));
        let design =
            Design::new((25, 25), options(IntervalMethod::Percentile, repetition)).unwrap();
        held += usize::from(design.change(&a, &b).interval.unwrap().holds(3.0));
    }
    assert!((553..=592).contains(&held), "{held}");
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let a = rate((0..10).map(f64::from).collect());
    let b = rate((0..12).map(|k| f64::from(k) * 0.7).collect());
    let change = |seed| {
        let options = options(IntervalMethod::Percentile, seed);
        Design::new((10, 12), options).unwrap().change(&a, &b)
    };
    assert_eq!(change(4), change(4));
    assert_ne!(change(4), change(5));
    // Swapping the sides gives the same p, and a mirrored interval up to sampling noise.
    let there = change(4);
    let back = Design::new((12, 10), options(IntervalMethod::Percentile, 4))
        .unwrap()
        .change(&b, &a);
    assert_eq!(there.difference, back.difference.map(|d| -d));
    assert!((there.p.unwrap() - back.p.unwrap()).abs() < 0.06);
    assert!((there.interval.unwrap().low + back.interval.unwrap().high).abs() < 0.5);
}

#[test]
fn without_years_or_events_there_is_a_reason_instead_of_an_interval() {
    let design = |blocks| Design::new(blocks, options(IntervalMethod::Bca, 1)).unwrap();
    let few = design((4, 30)).change(&rate(vec![3.0; 4]), &rate(vec![2.0; 30]));
    assert_eq!(
        (few.difference, few.interval, few.p),
        (Some(-1.0), None, None)
    );
    assert_eq!(few.no_interval, Some(NoInterval::TooFewYears));
    let six = design((6, 6));
    let none = six.change(&rate(vec![0.0; 6]), &rate(vec![0.0; 6]));
    assert_eq!(
        (none.difference, none.no_interval),
        (Some(0.0), Some(NoInterval::NoEvents))
    );
    assert_eq!((none.p, none.relative), (None, None));
    // With few years as well, the reason is the lack of events.
    let none = design((4, 30)).change(&rate(vec![0.0; 4]), &rate(vec![0.0; 30]));
    assert_eq!(none.no_interval, Some(NoInterval::NoEvents));
    // A mean over no events on one side; a mean that is known in only one of six years.
    let mean =
        |values: [f64; 6], counts: [f64; 6]| Statistic::ratio(values.to_vec(), counts.to_vec());
    let known = mean([10.0; 6], [1.0; 6]);
    let undefined = six.change(&mean([0.0; 6], [0.0; 6]), &known);
    assert_eq!(
        (undefined.a, undefined.no_interval),
        (None, Some(NoInterval::TooFewEvents))
    );
    // Means over events of four and of five of the six years.
    let some = |years: usize| {
        let counts = [0, 1, 2, 3, 4, 5].map(|k| f64::from(u8::from(k < years)));
        six.change(&mean(counts.map(|n| 12.0 * n), counts), &known)
    };
    assert_eq!(
        (some(4).difference, some(4).interval, some(4).p),
        (Some(-2.0), None, None)
    );
    assert_eq!(some(4).no_interval, Some(NoInterval::TooFewEvents));
    assert!(some(5).interval.is_some() && some(5).p.is_some());
    let few = Statistic::quantile(0.5, (0..40).map(|k| (f64::from(k), k % 4)).collect(), 6);
    let many = Statistic::quantile(0.5, (0..40).map(|k| (f64::from(k), k % 6)).collect(), 6);
    let high = six.change(&many, &few);
    assert_eq!(
        (high.p, high.no_interval),
        (None, Some(NoInterval::TooFewEvents))
    );
    let empty = Statistic::quantile(0.5, Vec::new(), 6);
    assert_eq!(
        six.change(&empty, &empty).no_interval,
        Some(NoInterval::NoEvents)
    );
    // From none to some: a difference with an interval, but no relative change.
    let first = six.change(
        &rate(vec![0.0; 6]),
        &rate(vec![1.0, 2.0, 3.0, 2.0, 1.0, 2.0]),
    );
    assert!(first.interval.is_some() && first.relative.is_none() && first.p.unwrap() < 0.05);
    assert!(
        Design::new(
            (9, 9),
            DrawOptions {
                confidence: 95.0,
                ..DrawOptions::default()
            }
        )
        .is_err()
    );
}

/// Regression: numbers of resamples beyond memory aborted the program.
#[test]
fn neither_too_few_nor_too_many_draws_are_made() {
    for draws in [99, 1_000_001, usize::MAX] {
        let options = DrawOptions {
            draws,
            ..DrawOptions::default()
        };
        for design in [Design::new((9, 9), options), Design::of_pairs(9, options)] {
            let said = design.map(|_| ()).unwrap_err().to_string();
            assert!(said.contains("100 to 1000000 resamples"), "{said}");
        }
    }
    let options = DrawOptions {
        draws: 100,
        ..DrawOptions::default()
    };
    assert!(Design::new((9, 9), options).unwrap().has_draws());
}

/// In a third of the resamples of `a` there is no event, so the relative change has no upper limit.
#[test]
fn a_relative_change_from_next_to_nothing_has_no_upper_end() {
    let of = |events: usize| {
        let values = (0..30).map(|k| f64::from(u8::from(k < events))).collect();
        rate(values)
    };
    for method in [IntervalMethod::Percentile, IntervalMethod::Bca] {
        let design = Design::new((30, 30), options(method, 3)).unwrap();
        let rare = design.change(&of(1), &of(20));
        assert_eq!(rare.relative.map(f64::round), Some(19.0));
        assert!(rare.interval.is_some() && rare.relative_interval.is_none());
        assert!(design.change(&of(15), &of(20)).relative_interval.is_some());
    }
    assert_eq!(relative_change(2.0, 3.0), 0.5);
    assert_eq!(relative_change(0.0, 3.0), f64::INFINITY);
    assert!(relative_change(0.0, 0.0).is_nan());
}

/// Coverage would hardly reveal a wrong sign of either correction.
#[test]
fn bca_reads_draws_where_its_formula_says() {
    let mut design = Design::new((9, 9), options(IntervalMethod::Bca, 1)).unwrap();
    design.limit = 1.96;
    // 600 of 1000 resamples are below the value: a bias of 0.2533. Influences -1, -1 and 2 give an acceleration of (6 /
    // 27) / (6 (6 / 9)^1.5) = 0.0680. Python, statistics.NormalDist: Φ(z + (z ± 1.96) / (1 - a (z ± 1.96))).
    let draws: Vec<f64> = (0..1000).map(f64::from).collect();
    let (low, high) = design.bca_shares(599.5, &draws, &[vec![-1.0, -1.0, 2.0]]);
    assert!((low - 0.101_023_155).abs() < 1e-7, "{low}");
    assert!((high - 0.997_875_922).abs() < 1e-7, "{high}");
    // For a symmetric sample without bias they equal percentiles.
    let (low, high) = design.bca_shares(499.5, &draws, &[vec![-1.0, 0.0, 1.0]]);
    assert!((low - normal_cdf(-1.96)).abs() < 1e-9 && (high - normal_cdf(1.96)).abs() < 1e-9);
}
