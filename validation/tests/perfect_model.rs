//! Catalogues of synthetic runs, whose changes are known: intervals hold them, and nothing is found where nothing
//! changed.
//!
//! `validation/perfect_model.sh` does the same once through fields, rules and events.

use squall_climate::compare::{Change, Design, DrawOptions, Statistic, adjusted_p};
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{Calendar, Time};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Years of each run.
const YEARS: usize = 30;
/// Pairs of runs.
const REPETITIONS: u64 = 200;
/// Names and imposed relative changes: number of cyclones, wind (as the root of the deepest pressure deficit), rivers.
const IMPOSED: [(&str, f64); 3] = [("cyclones", -0.1), ("wind", 0.05), ("rivers", 0.2)];

/// Births, sum of winds and rivers of each year.
fn years(scenario: Scenario, seed: u64) -> [Statistic; 3] {
    let config = SyntheticConfig {
        rows: 8,
        columns: 8,
        start: Time::new(Calendar::NoLeap, 2001, 1, 1, 0, 0, 0).unwrap(),
        step_hours: 24,
        steps: 365 * YEARS,
        scenario,
        seed,
    };
    let run = SyntheticRun::new(config).unwrap();
    let year =
        |hours: f64| Some((hours / 8760.0).floor()).filter(|y| *y >= 0.0 && *y < YEARS as f64);
    let mut sums = [(); 3].map(|()| vec![0.0; YEARS]);
    for storm in run.tropical_cyclones() {
        if let Some(year) = year(storm.birth_hours) {
            let deepest_pa = storm.deficit_pa.iter().copied().fold(0.0, f64::max);
            sums[0][year as usize] += 1.0;
            sums[1][year as usize] += deepest_pa.sqrt();
        }
    }
    for storm in run
        .extratropical_cyclones()
        .iter()
        .filter(|s| s.river.is_some())
    {
        if let Some(year) = year(storm.birth_hours) {
            sums[2][year as usize] += 1.0;
        }
    }
    let [births, winds, rivers] = sums;
    let one = vec![1.0; YEARS];
    [
        Statistic::ratio(births.clone(), one.clone()),
        Statistic::ratio(winds, births),
        Statistic::ratio(rivers, one),
    ]
}

/// The changes of every repetition: of `present` against another `present`, and of `plus2k` against `present`.
fn experiments() -> Vec<[[Change; 3]; 2]> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let repetition = next.fetch_add(1, Ordering::Relaxed);
            if repetition >= REPETITIONS {
                return;
            }
            let options = DrawOptions {
                draws: 2000,
                seed: repetition,
                ..DrawOptions::default()
            };
            let design = Design::new((YEARS, YEARS), options).unwrap();
            let a = years(Scenario::PRESENT, 3 * repetition + 1);
            let others = [
                years(Scenario::PRESENT, 3 * repetition + 2),
                years(Scenario::PLUS_2K, 3 * repetition + 3),
            ];
            let changes = others.map(|b| [0, 1, 2].map(|k| design.change(&a[k], &b[k])));
            found.lock().unwrap().push(changes);
        }
    };
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().unwrap()
}

#[test]
fn imposed_changes_lie_in_their_intervals_and_no_change_is_not_found() {
    let found = experiments();
    assert_eq!(found.len() as u64, REPETITIONS);
    let mut report = String::new();
    let mut wrong = Vec::new();
    for (k, (name, imposed)) in IMPOSED.into_iter().enumerate() {
        let count = |of: &dyn Fn(&[[Change; 3]; 2]) -> bool| found.iter().filter(|c| of(c)).count();
        let false_positives = count(&|[null, _]| null[k].p.unwrap() < 0.05);
        let excluded = count(&|[null, _]| !null[k].interval.unwrap().holds(0.0));
        let held = count(&|[_, warm]| warm[k].relative_interval.unwrap().holds(imposed));
        let power = count(&|[_, warm]| warm[k].p.unwrap() < 0.05);
        report += &format!(
            "{name}: {false_positives} false positives, {excluded} intervals without 0, {held} with {imposed}, {power} found, of {REPETITIONS}\n"
        );
        // Of 200 a rate of 5 % gives 10 with a standard deviation of 3.1: 19 and fewer with a probability of 0.998.
        if false_positives > 19 || excluded > 19 || held < 181 || power < 170 {
            wrong.push(name);
        }
    }
    // What the program calls significant: p adjusted for the number of quantities. Where nothing changed any such call
    // is false, and at most 5 % of the pairs may have one.
    let calls = |changes: &[Change; 3]| {
        let p = changes.map(|change| change.p.unwrap());
        adjusted_p(&p).into_iter().filter(|p| *p < 0.05).count()
    };
    let pairs = found.iter().filter(|[null, _]| calls(null) > 0).count();
    let called: [usize; 2] = [0, 1].map(|k| found.iter().map(|pair| calls(&pair[k])).sum());
    report += &format!(
        "called significant: {} of 600 without a change, in {pairs} of {REPETITIONS} pairs; {} of 600 with one\n",
        called[0], called[1]
    );
    if pairs > 19 || called[0] > 30 || called[1] < 540 {
        wrong.push("calls");
    }
    // Where one can read by how much the test passed.
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/perfect_model.txt");
    std::fs::write(path, &report).unwrap();
    assert!(wrong.is_empty(), "{wrong:?}:\n{report}");
}
