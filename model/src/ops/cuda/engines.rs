//! Tests which engines the real cuDNN selects for the networks' convolutions, for GPUs given only by their properties.
//!
//! Needs cuDNN 9 but no GPU (`./run.sh cuda-test` installs it). The stand-in cannot show whether cuDNN accepts our
//! graphs, and whether it has more than its slowest engine for a convolution at its real extents.

use super::convolution::asked;
use super::cudnn::{A100, Cudnn, Described, Direction, Ending, H200, MOST_MEMORY, Problem};
use crate::networks::NetworkName;
use crate::{Backend, Network, NetworkConfig};
use candle_core::DType;
use std::collections::BTreeMap;

const DETECTORS: [NetworkName; 3] = [
    NetworkName::Detector2d,
    NetworkName::Detector2dHalf,
    NetworkName::Detector15pf,
];
const DIRECTIONS: [Direction; 3] = [
    Direction::Forward,
    Direction::BackwardData,
    Direction::BackwardFilter,
];

/// Every problem in the networks' steps at 768 x 1152, by name.
fn problems(batch: usize, dtype: DType) -> BTreeMap<String, Problem> {
    let mut all = BTreeMap::new();
    for name in NetworkName::SEGMENTATION.into_iter().chain(DETECTORS) {
        let network = Network::build(&NetworkConfig::published(name), Backend::Reference, 1);
        let summary = network.unwrap().summary(768, 1152).unwrap();
        for mut case in summary.convolutions().iter().copied() {
            (case.x[0], case.y[0]) = (batch, batch);
            if case.spec.groups == case.x[3] {
                // These run on kernels of our own.
                continue;
            }
            for direction in DIRECTIONS {
                let problem = asked(direction, dtype, &case);
                let parts: Vec<Problem> = match direction {
                    Direction::BackwardFilter => {
                        let bands = problem.bands(MOST_MEMORY).into_iter();
                        bands.map(|band| band.problem).collect()
                    }
                    _ => {
                        let parts = problem.parts(MOST_MEMORY).into_iter();
                        parts.map(|(_, part)| part).collect()
                    }
                };
                for part in parts {
                    all.insert(part.text(), part);
                    for ending in endings(direction) {
                        let part = Problem {
                            ending: Some(ending),
                            ..part
                        };
                        all.insert(part.text(), part);
                    }
                }
            }
        }
    }
    all
}

/// The epilogues of a convolution with a bias.
fn endings(direction: Direction) -> Vec<Ending> {
    if direction != Direction::Forward {
        return Vec::new();
    }
    let of = |(residual, relu)| Ending { residual, relu };
    [(false, false), (false, true), (true, false), (true, true)]
        .map(of)
        .to_vec()
}

/// Problems for which cuDNN 9.19 has nothing better: on an A100, dilated kernels in f32 without TF32.
fn is_known(gpu: &Described, problem: &Problem) -> bool {
    gpu == &A100 && problem.dtype == DType::F32 && problem.dilation > 1
}

/// Whether tensor cores are worthwhile: for few channels or pixels they are not, and cuDNN suggests other engines.
fn is_large(problem: &Problem) -> bool {
    let [_, p, q, o] = problem.y;
    problem.x[3].min(o) >= 64 && p * q >= 1000
}

/// Problems for which the only candidate is cuDNN's slowest engine or, for large ones in half precision, engines
/// without tensor cores.
fn slow(gpu: &Described, batch: usize, dtype: DType) -> Vec<String> {
    let cudnn = Cudnn::described(gpu).unwrap();
    let mut slow = Vec::new();
    for (name, problem) in problems(batch, dtype) {
        let candidates = cudnn.timed_of(&problem).unwrap();
        let fast = match dtype != DType::F32 && is_large(&problem) {
            true => candidates.iter().any(|c| c.engine.has_matrix_units()),
            false => candidates.iter().any(|c| c.engine.number != 0),
        };
        if !fast && !is_known(gpu, &problem) {
            let told: Vec<String> = (candidates.iter())
                .map(|c| format!("{} ({} MB)", c.engine, c.memory / 1_000_000))
                .collect();
            slow.push(format!("{name}: {}", told.join("; ")));
        }
    }
    slow
}

#[test]
#[ignore = "needs cuDNN 9 where the loader looks: ./run.sh cuda-test"]
fn real_cudnn_has_fast_engines_for_every_convolution() {
    for gpu in [H200, A100] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            for batch in [1, 8] {
                let slow = slow(&gpu, batch, dtype);
                assert!(
                    slow.is_empty(),
                    "{gpu:?}, {dtype:?}, batch {batch}: {slow:#?}"
                );
            }
        }
    }
}
