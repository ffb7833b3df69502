//! Published scaling efficiencies of training on up to thousands of nodes, compared with the model's predictions for
//! the same runs.
//!
//! One parameter is fitted to one row: the `jitter` of Aries networks to CosmoFlow's efficiency. All others are in
//! `jobs/machines` with their sources, and were chosen independently of the other rows.

use super::workload::Layer;
use super::{Length, Question, Rate, Workload};
use crate::comm::Wire;
use crate::error::Result;
use crate::machine::Machine;
use crate::recipe::{Algorithm, Distributed};
use serde::Serialize;
use squall_model::networks::NetworkName;
use squall_model::{Backend, Network, NetworkConfig};

/// A published run beside its prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Machine and network.
    pub name: String,
    /// Nodes of the run.
    pub nodes: usize,
    /// Its ranks: GPUs, or processors.
    pub ranks: usize,
    /// Both efficiencies are relative to a run on this many nodes, or to one device if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<usize>,
    /// The efficiency that was measured.
    pub published_efficiency: f64,
    /// The efficiency that is predicted.
    pub predicted_efficiency: f64,
    /// Predicted minus measured efficiency.
    pub difference: f64,
    /// Whether a model parameter was fitted to this row, so that agreement is no evidence.
    pub fitted: bool,
    /// Where the measurement is published.
    pub source: &'static str,
}

/// A published run.
struct Run {
    name: &'static str,
    machine: &'static str,
    nodes: usize,
    relative_to: Option<usize>,
    efficiency: f64,
    fitted: bool,
    batch: usize,
    /// Samples per second of one device; `None` to use the machine file's rate.
    samples_s: Option<f64>,
    workload: Workload,
    distributed: Distributed,
    source: &'static str,
}

/// Every run with its prediction.
///
/// # Errors
/// Those of networks and machines: none, unless this file is wrong.
pub fn points() -> Result<Vec<Point>> {
    runs()?.iter().map(Run::point).collect()
}

impl Run {
    fn point(&self) -> Result<Point> {
        let machine = Machine::named(self.machine)?;
        let rate = match self.samples_s {
            Some(rate) => Rate::given(rate, &self.workload),
            None => Rate::of(&machine, &self.workload, self.batch, self.machine)?,
        };
        let question = Question {
            workload: &self.workload,
            distributed: &self.distributed,
            batch: self.batch,
            accumulate: 1,
            unlabelled: 0,
            machine: &machine,
            rate: &rate,
            length: Length::default(),
            staged: true,
            seed: 1,
        };
        let found = question.predict(self.nodes)?;
        let base = match self.relative_to {
            Some(nodes) => question.predict(nodes)?.efficiency,
            None => 1.0,
        };
        let predicted = found.efficiency / base;
        Ok(Point {
            name: self.name.to_string(),
            nodes: self.nodes,
            ranks: found.ranks,
            relative_to: self.relative_to,
            published_efficiency: self.efficiency,
            predicted_efficiency: predicted,
            difference: predicted - self.efficiency,
            fitted: self.fitted,
            source: self.source,
        })
    }
}

/// Values beside the gradients in a step of these programs, which leave running statistics to each rank.
const FACTS_OF_OTHERS: usize = 64;

/// The workload of one of our networks as published, on 768 x 1152 fields.
fn ours(name: NetworkName, channels: usize, precision: &str) -> Result<Workload> {
    let config = NetworkConfig {
        channels_in: channels,
        ..NetworkConfig::published(name)
    };
    let network = Network::outline(&config, Backend::Reference, 1)?;
    let summary = network.training_summary(768, 1152, true)?;
    let bytes = if precision == "f32" { 4 } else { 2 };
    Ok(Workload {
        facts: FACTS_OF_OTHERS,
        ..Workload::of_summary(&summary, precision, channels * bytes + 1)
    })
}

/// The workload of another network. Each layer has its number of gradients in millions and the share of the backward
/// pass after which they are ready.
fn other(network: &str, layers: &[(f64, f64)]) -> Workload {
    let layer = |(values, at): &(f64, f64)| Layer {
        values: (values * 1e6) as usize,
        at: *at,
    };
    Workload {
        network: network.to_string(),
        precision: "f32".to_string(),
        layers: layers.iter().map(layer).collect(),
        facts: FACTS_OF_OTHERS,
        training_flops: 1.0,
        sample_bytes: 0.0,
        pixels: 0,
        memory: (0, 0),
    }
}

/// The workload of another network with this many million parameters, whose gradients become ready evenly over the
/// backward pass.
fn evenly(network: &str, millions: f64) -> Workload {
    let layers: Vec<(f64, f64)> = (1..=20)
        .map(|i| (millions / 20.0, f64::from(i) / 20.0))
        .collect();
    other(network, &layers)
}

fn runs() -> Result<Vec<Run>> {
    let mut runs = of_kurth_2018()?;
    runs.extend(of_kurth_2017()?);
    runs.extend(of_mlperf()?);
    runs.extend(of_others());
    Ok(runs)
}

/// The runs of Kurth et al. 2018: segmentation of climate data.
fn of_kurth_2018() -> Result<Vec<Run>> {
    // Four of a node's six ranks communicate with other nodes; gradients are applied one step late.
    let sc18 = Distributed {
        algorithm: Algorithm::Hierarchical,
        leaders: Some(4),
        gradient_lag: 1,
        ..Distributed::default()
    };
    Ok(vec![
        Run {
            name: "Summit, DeepLabV3+ in f32",
            machine: "summit",
            nodes: 4560,
            relative_to: None,
            efficiency: 0.907,
            fitted: false,
            batch: 1,
            samples_s: None,
            workload: ours(NetworkName::DeepLabV3Plus, 16, "f32")?,
            distributed: sc18.clone(),
            source: "Kurth et al. 2018, arXiv:1810.01993, abstract",
        },
        Run {
            name: "Summit, DeepLabV3+ in f16",
            machine: "summit",
            nodes: 4560,
            relative_to: None,
            efficiency: 999.0 / (27.36 * 38.45),
            fitted: false,
            batch: 2,
            samples_s: None,
            workload: ours(NetworkName::DeepLabV3Plus, 16, "f16")?,
            distributed: Distributed {
                wire: Wire::F16,
                ..sc18
            },
            source: "the same: 999.0 PF/s of 27,360 times the 38.45 TF/s of one GPU",
        },
        Run {
            name: "Piz Daint, Tiramisu in f32",
            machine: "piz-daint",
            nodes: 5300,
            relative_to: None,
            efficiency: 0.79,
            fitted: false,
            batch: 1,
            samples_s: None,
            workload: ours(NetworkName::Tiramisu, 4, "f32")?,
            distributed: Distributed::default(),
            source: "Kurth et al. 2018, arXiv:1810.01993, abstract",
        },
    ])
}

/// The runs of Kurth et al. 2017: groups of ranks that exchange parameters through servers.
fn of_kurth_2017() -> Result<Vec<Run>> {
    let groups = |groups, servers| Distributed {
        groups: Some(groups),
        servers,
        ..Distributed::default()
    };
    Ok(vec![
        Run {
            name: "Cori KNL, detector of climate in 8 groups",
            machine: "cori-knl",
            nodes: 9622,
            relative_to: None,
            efficiency: 7205.0 / 9622.0,
            fitted: false,
            batch: 8,
            samples_s: None,
            workload: ours(NetworkName::Detector15pf, 16, "f32")?,
            distributed: groups(8, 14),
            source: "Kurth et al. 2017, arXiv:1708.05256: 7,205 times one node",
        },
        Run {
            name: "Cori KNL, particle physics in 9 groups",
            machine: "cori-knl",
            nodes: 9600,
            relative_to: None,
            efficiency: 6173.0 / 9600.0,
            fitted: false,
            batch: 8,
            samples_s: Some(8.0 / 0.106),
            workload: evenly("HEP", 0.594),
            distributed: groups(9, 6),
            source: "Kurth et al. 2017, arXiv:1708.05256: 6,173 times one node, 106 ms a step",
        },
    ])
}

/// DeepCAM of MLPerf HPC: the same code with the same batch on more GPUs.
fn of_mlperf() -> Result<Vec<Run>> {
    let workload = ours(NetworkName::DeepCam, 16, "f16")?;
    let run = |name, machine, (nodes, base), efficiency, batch, rate| Run {
        name,
        machine,
        nodes,
        relative_to: Some(base),
        efficiency,
        fitted: false,
        batch,
        samples_s: rate,
        workload: workload.clone(),
        distributed: Distributed {
            wire: Wire::F16,
            bucket_mb: 25.0,
            ..Distributed::default()
        },
        source: "MLPerf HPC, step times of submitted logs",
    };
    let juwels = |nodes, efficiency| {
        run(
            "JUWELS Booster, DeepCAM",
            "juwels-booster",
            (nodes, 32),
            efficiency,
            1,
            None,
        )
    };
    Ok(vec![
        run(
            "Piz Daint, DeepCAM",
            "piz-daint",
            (1024, 128),
            0.928,
            2,
            Some(2.43),
        ),
        juwels(256, 1.0),
        juwels(512, 0.946),
    ])
}

/// The runs of other networks.
fn of_others() -> Vec<Run> {
    let tuned = Distributed {
        bucket_mb: 64.0,
        ..Distributed::default()
    };
    let horovod = Distributed {
        algorithm: Algorithm::Ring,
        ..tuned.clone()
    };
    let on_roce = |name, efficiency, rate, workload| Run {
        name,
        machine: "roce-p100",
        nodes: 128,
        relative_to: None,
        efficiency,
        fitted: false,
        batch: 64,
        samples_s: Some(rate),
        workload,
        distributed: horovod.clone(),
        source: "Horovod's documentation of benchmarks",
    };
    // VGG's last layers, where the backward pass begins, hold nine tenths of its parameters but almost none of its
    // operations.
    let vgg = [
        (4.1, 0.001),
        (16.8, 0.002),
        (102.8, 0.01),
        (7.1, 0.1),
        (5.9, 0.45),
        (1.5, 0.8),
        (0.3, 1.0),
    ];
    vec![
        Run {
            name: "Cori KNL, CosmoFlow",
            machine: "cori-knl",
            nodes: 8192,
            relative_to: None,
            efficiency: 0.77,
            fitted: true,
            batch: 1,
            // 69.3 GFLOP per sample at 535 GFLOP/s.
            samples_s: Some(7.7),
            workload: evenly("CosmoFlow", 7.04),
            distributed: Distributed::default(),
            source: "Mathuriya et al. 2018, arXiv:1808.04728",
        },
        Run {
            name: "Summit, DeepLabV3+ by Horovod on MVAPICH2",
            machine: "summit",
            nodes: 22,
            relative_to: None,
            efficiency: 0.92,
            fitted: false,
            batch: 8,
            samples_s: Some(6.7),
            workload: evenly("DeepLabV3+ (Xception)", 41.0),
            distributed: tuned,
            source: "Anthony et al. 2020, 132 GPUs",
        },
        on_roce(
            "25 Gbit/s, Inception V3 by Horovod",
            0.9,
            142.0,
            evenly("Inception V3", 23.9),
        ),
        on_roce(
            "25 Gbit/s, ResNet-101 by Horovod",
            0.9,
            103.6,
            evenly("ResNet-101", 44.6),
        ),
        on_roce(
            "25 Gbit/s, VGG-16 by Horovod",
            0.68,
            154.0,
            other("VGG-16", &vgg),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds are those of docs/scaling.md. That of groups is wide: their papers do not tell enough of how groups
    /// exchange with servers.
    #[test]
    fn published_runs_are_predicted() {
        let points = points().unwrap();
        assert_eq!(points.len(), 13);
        for point in &points {
            let bound = match point.name.as_str() {
                _ if point.fitted => 0.01,
                name if name.contains("groups") => 0.2,
                name if name.contains("VGG") => 0.11,
                _ => 0.05,
            };
            assert!(point.difference.abs() < bound, "{point:?}");
            assert!(point.predicted_efficiency <= 1.0, "{point:?}");
        }
        assert_eq!(points.iter().filter(|point| point.fitted).count(), 1);
    }
}
