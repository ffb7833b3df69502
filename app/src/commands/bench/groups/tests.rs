//! Changes against training in step, and what each way learns from.

use super::*;
use crate::arguments::parsed;
use squall_jobs::recipe::Order;

#[test]
fn changes_are_those_of_ratios_seed_by_seed() {
    let outcome = |samples_per_second, losses: [f64; 2]| Outcome {
        samples_per_second,
        losses: losses.to_vec(),
        ..Outcome::default()
    };
    let in_step = outcome(4.0, [1.0, 3.0]);
    // Twice as bad and half as bad are no change together.
    let mut even = outcome(6.0, [2.0, 1.5]);
    even.compare(&in_step);
    assert_eq!(even.faster, 1.5);
    assert!(even.loss_change_percent.abs() < 1e-9);
    // Their logarithms are ln 2 on either side of 0, with a standard error of ln 2: Student's t of one degree of
    // freedom is 12.706.
    let [low, high] = even.loss_change_interval.expect("two seeds");
    let logs = [low, high].map(|percent| (percent / 100.0).ln_1p());
    let half = 12.706 * 2_f64.ln();
    assert!((logs[0] + half).abs() < 1e-3 && (logs[1] - half).abs() < 1e-3);
    let mut worse = outcome(2.0, [2.0, 6.0]);
    worse.compare(&in_step);
    assert!((worse.loss_change_percent - 100.0).abs() < 1e-9);
    let mut alone = Outcome {
        losses: vec![2.0],
        ..outcome(4.0, [0.0; 2])
    };
    alone.compare(&in_step);
    assert_eq!(alone.loss_change_interval, None);
}

/// As many samples in every row, whoever does them together.
#[test]
fn every_way_learns_from_as_many_samples() {
    let words = "--groups 2,4 --workers 8 --servers 3 --samples 800 --order round-robin --momentum same,tuned";
    let options: GroupOptions = parsed(words.split(' ')).unwrap();
    assert!(options.check().is_ok());
    for (way, ranks) in [
        (None, 8),
        (Some((2, Share::Same)), 4),
        (Some((4, Share::Tuned)), 2),
    ] {
        assert_eq!(options.ranks_of_step(way), ranks);
        let recipe = options.recipe(way, 5).unwrap();
        assert_eq!(recipe.seed, 5);
        assert_eq!(recipe.training.steps, Some(800 / ranks as u64));
        let distributed = &recipe.distributed;
        assert_eq!(distributed.groups, way.map(|(groups, _)| groups));
        if let Some((_, momentum)) = way {
            assert_eq!(distributed.servers, 3);
            assert_eq!(distributed.order, Order::RoundRobin);
            assert_eq!(distributed.momentum.is_some(), momentum == Share::Tuned);
        }
    }
    for wrong in [
        "--groups 3",
        "--workers 0",
        "--servers 0",
        "--slow 0",
        "--samples 39",
    ] {
        let options: GroupOptions = parsed(wrong.split(' ')).unwrap();
        assert!(options.check().is_err(), "{wrong}");
    }
}
