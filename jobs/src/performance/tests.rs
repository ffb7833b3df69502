//! Predictions against what was measured.

use super::*;
use crate::recipe::Recipe;

/// A training on two hosts with a core each behind a shaped link, as `validation/scaling.sh` measured it.
struct Lab {
    recipe: &'static str,
    network: &'static str,
    mbit_s: f64,
    lag: usize,
    /// Seconds that a rank computes.
    compute: f64,
    /// Seconds of a step, with what was not hidden of the sums.
    step: f64,
}

impl Lab {
    fn predict(&self) -> Prediction {
        let settings = [
            "training.batch=8".to_string(),
            "distributed.bucket_mb=0.1".to_string(),
            format!("distributed.gradient_lag={}", self.lag),
            format!("network.name={}", self.network),
        ];
        let recipe = Recipe::named(self.recipe.as_ref(), &settings).unwrap();
        let workload = Workload::of(&recipe, (96, 144), 33, "f32").unwrap();
        let mut machine = Machine::named("workstation").unwrap();
        machine.nodes = 2;
        machine.network.gb_s = self.mbit_s / 8000.0;
        machine.network.latency_us = 50.0;
        let question = Question {
            workload: &workload,
            distributed: &recipe.distributed,
            batch: recipe.training.batch,
            accumulate: 1,
            unlabelled: 0,
            machine: &machine,
            rate: &Rate::given(8.0 / self.compute, &workload),
            length: Length::default(),
            staged: false,
            seed: 1,
        };
        question.predict(2).unwrap()
    }
}

/// The table of docs/scaling.md.
#[test]
fn measured_steps_of_two_hosts_are_predicted() {
    let bilinear = "deeplabv3plus-bilinear";
    let measured = [
        ("small", "deeplabv3plus", 74.0, 0, 0.225, 0.3312),
        ("cgnet", "cgnet", 107.0, 0, 0.202, 0.2112),
        ("small", bilinear, 283.0, 0, 0.066, 0.0746),
        ("small", "deeplabv3plus", 55.0, 1, 0.223, 0.2242),
        ("cgnet", "cgnet", 94.0, 1, 0.178, 0.1805),
        ("small", bilinear, 165.0, 1, 0.071, 0.0722),
    ];
    for (recipe, network, mbit_s, lag, compute, step) in measured {
        let lab = Lab {
            recipe,
            network,
            mbit_s,
            lag,
            compute,
            step,
        };
        let ratio = lab.predict().step_seconds / lab.step;
        assert!((0.9..1.06).contains(&ratio), "{network}, {lag}: {ratio}");
    }
}

/// Gradients are sent once for all batches of a step.
#[test]
fn several_batches_of_a_step_share_its_sums() {
    let lab = |accumulate: usize| {
        let recipe = Recipe::named("small".as_ref(), &[]).unwrap();
        let workload = Workload::of(&recipe, (96, 144), 33, "f32").unwrap();
        let mut machine = Machine::named("workstation").unwrap();
        machine.nodes = 2;
        machine.network.gb_s = 0.005;
        let question = Question {
            workload: &workload,
            distributed: &recipe.distributed,
            batch: 2,
            accumulate,
            unlabelled: 0,
            machine: &machine,
            rate: &Rate::given(40.0, &workload),
            length: Length::default(),
            staged: false,
            seed: 1,
        };
        question.predict(2).unwrap()
    };
    let (one, four) = (lab(1), lab(4));
    assert!(one.efficiency < 0.8, "{one:?}");
    assert!(four.efficiency > one.efficiency + 0.05, "{four:?}");
    assert_eq!(four.global_batch, 4 * one.global_batch);
    assert_eq!(four.memory_bytes, one.memory_bytes);
    let same = one.communication_seconds - four.communication_seconds;
    assert!(same.abs() < 1e-12, "{one:?} {four:?}");
}

#[test]
fn one_rank_is_as_fast_as_one_rank() {
    let workload = Workload {
        network: "any".into(),
        precision: "f32".into(),
        layers: vec![workload::Layer {
            values: 1000,
            at: 1.0,
        }],
        training_flops: 1e9,
        sample_bytes: 0.0,
        pixels: 1,
        memory: (0, 0),
    };
    let mut machine = Machine::named("summit").unwrap();
    machine.node.ranks = 1;
    let question = Question {
        workload: &workload,
        distributed: &Distributed::default(),
        batch: 3,
        accumulate: 1,
        unlabelled: 0,
        machine: &machine,
        rate: &Rate::given(5.0, &workload),
        length: Length {
            samples: Some(1000),
            epochs: Some(2.5),
            steps: None,
        },
        staged: true,
        seed: 1,
    };
    let alone = question.predict(1).unwrap();
    assert!((alone.efficiency - 1.0).abs() < 1e-9, "{alone:?}");
    assert!((alone.samples_per_second - 5.0).abs() < 1e-9, "{alone:?}");
    // 333 whole steps of three an epoch.
    assert_eq!((alone.steps, alone.global_batch), (Some(833), 3));
    let twice = Question {
        accumulate: 2,
        ..question
    };
    let twice = twice.predict(1).unwrap();
    assert_eq!((twice.steps, twice.global_batch), (Some(415), 6));
    assert!((twice.step_seconds / alone.step_seconds - 2.0).abs() < 1e-9);
    // Samples without labels come beside: two of three are of the epoch, 500 steps of them.
    let beside = Question {
        unlabelled: 1,
        ..question
    };
    let beside = beside.predict(1).unwrap();
    assert_eq!((beside.steps, beside.global_batch), (Some(1250), 3));
    // As in training 0.28 passes of 25 steps are 7, although their product is a little more.
    let short = Length {
        samples: Some(75),
        epochs: Some(0.28),
        steps: None,
    };
    assert_eq!(short.steps(3), Ok(Some(7)));
    let refused = |nodes| question.predict(nodes).unwrap_err().to_string();
    assert!(refused(4609).contains("`--nodes`: expected 1 to 4608"));
    let few = refused(400);
    assert!(few.contains("a step needs 1200 samples"), "{few}");
}
