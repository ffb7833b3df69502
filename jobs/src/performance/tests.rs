//! Predictions against what was measured.

use super::*;
use crate::machine::{FileSystem, LocalDisk, Price};
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
        facts: 5,
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
    // Of three of 2500 samples each.
    assert_eq!((alone.steps, alone.global_batch), (Some(834), 3));
    // Of 0.6 seconds each; five samples of a billion operations a second.
    let hours = 834.0 * 0.6 / 3600.0;
    assert!((alone.hours.unwrap() / hours - 1.0).abs() < 1e-9);
    assert_eq!(alone.node_hours, alone.hours);
    assert_eq!(alone.cost, None);
    assert!((alone.flops_per_second / 5e9 - 1.0).abs() < 1e-9);
    // All nodes are paid for, by the hour.
    let mut priced = machine.clone();
    priced.price = Some(Price {
        node_hour: 2.5,
        unit: "EUR".into(),
    });
    let paid = Question {
        machine: &priced,
        ..question
    };
    let paid = paid.predict(4).unwrap();
    let node_hours = 4.0 * paid.hours.unwrap();
    assert!((paid.node_hours.unwrap() / node_hours - 1.0).abs() < 1e-9);
    assert!((paid.cost.unwrap() / (2.5 * node_hours) - 1.0).abs() < 1e-9);
    let twice = Question {
        accumulate: 2,
        ..question
    };
    let twice = twice.predict(1).unwrap();
    assert_eq!((twice.steps, twice.global_batch), (Some(417), 6));
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

/// A million values beside the gradients: two messages of two megabytes each between the only ranks of two nodes.
#[test]
fn a_step_sums_its_facts_too() {
    let workload = Workload {
        network: "any".into(),
        precision: "f32".into(),
        layers: Vec::new(),
        facts: 1_000_000,
        training_flops: 1e9,
        sample_bytes: 0.0,
        pixels: 1,
        memory: (0, 0),
    };
    let mut machine = Machine::named("workstation").unwrap();
    machine.nodes = 2;
    machine.network.gb_s = 0.5;
    machine.network.latency_us = 100.0;
    let question = Question {
        workload: &workload,
        distributed: &Distributed::default(),
        batch: 1,
        accumulate: 1,
        unlabelled: 0,
        machine: &machine,
        rate: &Rate::given(1.0, &workload),
        length: Length::default(),
        staged: false,
        seed: 1,
    };
    let found = question.predict(2).unwrap();
    let expected = 2.0 * (0.0001 + 0.004);
    let off = found.communication_seconds / expected - 1.0;
    assert!(off.abs() < 1e-9, "{found:?}");
    let exposed = found.exposed_seconds / expected - 1.0;
    assert!(exposed.abs() < 1e-6, "{found:?}");
}

/// Two ranks of a node read four samples of a billion bytes in a step, and compute next to nothing.
#[test]
fn the_slowest_reader_sets_the_pace() {
    let workload = Workload {
        network: "any".into(),
        precision: "f32".into(),
        layers: Vec::new(),
        facts: 5,
        training_flops: 1e9,
        sample_bytes: 1e9,
        pixels: 1,
        memory: (100, 10),
    };
    let mut machine = Machine::named("workstation").unwrap();
    (machine.nodes, machine.node.ranks) = (8, 2);
    machine.inside.gb_s = 1e6;
    machine.network.gb_s = 4.0;
    machine.node.local_disk = Some(LocalDisk {
        path: "/disk".into(),
        capacity_gb: 100.0,
        read_gb_s: 0.5,
        write_gb_s: 0.25,
    });
    machine.file_system = Some(FileSystem {
        name: "shared".into(),
        gb_s: 10.0,
    });
    let seconds = |machine: &Machine, staged: bool, nodes: usize| {
        let question = Question {
            workload: &workload,
            distributed: &Distributed::default(),
            batch: 2,
            accumulate: 1,
            unlabelled: 0,
            machine,
            rate: &Rate::given(1e6, &workload),
            length: Length::default(),
            staged,
            seed: 1,
        };
        let found = question.predict(nodes).unwrap();
        assert_eq!(found.memory_bytes, 110, "a second sample takes 10 more");
        assert!(found.input_seconds > 0.99 * found.step_seconds || found.input_seconds == 0.0);
        found.step_seconds
    };
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, {expected}");
    };
    // Four GB by half a GB a second, whatever the other nodes do.
    near(seconds(&machine, true, 1), 8.0);
    near(seconds(&machine, true, 8), 8.0);
    // What eight nodes share is 1.25 GB/s for each; a node alone reads no faster than its link.
    near(seconds(&machine, false, 8), 3.2);
    near(seconds(&machine, false, 1), 1.0);
    // Without a disk the samples are read from where they are.
    machine.node.local_disk = None;
    near(seconds(&machine, true, 8), 3.2);
    machine.file_system = None;
    assert!(seconds(&machine, true, 1) < 0.1);
}

/// Nine million values, 36 MB, over links of 12 GB/s; nodes of two ranks.
#[test]
fn servers_are_as_busy_as_their_links() {
    let workload = Workload {
        network: "any".into(),
        precision: "f32".into(),
        layers: vec![
            workload::Layer {
                values: 4_000_000,
                at: 0.5,
            },
            workload::Layer {
                values: 5_000_000,
                at: 1.0,
            },
        ],
        facts: 5,
        training_flops: 1e9,
        sample_bytes: 0.0,
        pixels: 1,
        memory: (0, 0),
    };
    let mut machine = Machine::named("workstation").unwrap();
    (machine.nodes, machine.node.ranks) = (8, 2);
    machine.network.gb_s = 12.0;
    machine.network.latency_us = 100.0;
    let question = Question {
        workload: &workload,
        distributed: &Distributed::default(),
        batch: 1,
        accumulate: 1,
        unlabelled: 0,
        machine: &machine,
        rate: &Rate::given(1.0, &workload),
        length: Length::default(),
        staged: false,
        seed: 1,
    };
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
    };
    // Three servers lie on two nodes, and share their links: 36 MB by 24 GB/s.
    let three = question.servers(4, 3, 5);
    assert_eq!(three.groups, 4);
    near(three.busy, 0.0015);
    // To the server and back by one link of the group.
    near(three.exchange, 2.0 * (0.0001 + 0.003));
    // Five ranks have them after three rounds.
    near(three.hand_round, 3.0 * 0.0001 + 2.0 * 0.003);
    let one = question.servers(4, 1, 1);
    near(one.busy, 0.003);
    near(one.hand_round, 0.0);
}

#[test]
fn a_tenth_of_the_steps_take_less_and_a_tenth_more() {
    let times = Times::of((0..=100).rev().map(f64::from).collect());
    assert_eq!((times.mean, times.p10, times.p90), (50.0, 10.0, 90.0));
}
