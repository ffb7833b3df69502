//! Properties of GPUs passed to cuDNN in place of a GPU, so that it lists its engines for them (tests).
//!
//! Since version 9.8, cuDNN selects engines and makes plans for a GPU given only by its properties, for ahead-of-time
//! compilation. This shows which engines the networks' convolutions get, and whether cuDNN accepts our graphs; it shows
//! neither speed nor results.

use super::descriptor::{self as is, Descriptor, Kind};
use super::engine::Engine;
use super::library::Functions;
use super::problem::{Alignment, Problem, ResultType};
use super::target::Target;
use super::{Cudnn, MOST_MEMORY};
use crate::error::Result;
use crate::ops::cuda::algorithms::Algorithms;
use std::collections::HashMap;
use std::sync::Arc;

/// The properties of GPUs on which cuDNN's choices depend.
#[derive(Debug, PartialEq)]
pub(in super::super) struct Described {
    name: &'static str,
    /// Compute capability: 90 means 9.0.
    capability: u32,
    multiprocessors: u32,
    /// Maximum bytes of shared memory per block.
    shared_memory: u32,
    l2_cache: u32,
    clock_khz: u32,
    memory_clock_khz: u32,
    memory: u64,
}

pub(in super::super) const H200: Described = Described {
    name: "NVIDIA H200",
    capability: 90,
    multiprocessors: 132,
    shared_memory: 232_448,
    l2_cache: 62_914_560,
    clock_khz: 1_980_000,
    memory_clock_khz: 3_201_000,
    memory: 150_000_000_000,
};

pub(in super::super) const A100: Described = Described {
    name: "NVIDIA A100-SXM4-40GB",
    capability: 80,
    multiprocessors: 108,
    shared_memory: 166_912,
    l2_cache: 41_943_040,
    clock_khz: 1_410_000,
    memory_clock_khz: 1_215_000,
    memory: 42_000_000_000,
};

impl Described {
    /// The properties in cuDNN's JSON format.
    fn json(&self) -> String {
        serde_json::json!({
            "deviceName": self.name,
            "deviceVer": 10 * self.capability,
            "driverVer": 13_000,
            "cudaDeviceId": 0,
            "pciDeviceId": 0,
            "multiProcessorCount": self.multiprocessors,
            "maxGridSize": [2_147_483_647, 65_535, 65_535],
            "maxBlockSize": [1024, 1024, 64],
            "regsPerBlock": 65_536,
            "maxRegistersPerSM": 65_536,
            "warpSize": 32,
            "maxSharedMemoryPerBlock": 49_152,
            "maxSharedMemoryPerBlockOptin": self.shared_memory,
            "reservedSharedMemoryPerBlock": 1024,
            "maxCtasPerSM": 32,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerSM": 2048,
            "isTccDriver": 0,
            "supportCoopLaunch": 1,
            "smClockRateKHz": self.clock_khz,
            "memClockRateKHz": self.memory_clock_khz,
            "l2CacheSize": self.l2_cache,
            "totalGlobalMem": self.memory,
        })
        .to_string()
    }
}

/// An engine that would be timed, with its workspace in bytes.
pub(in super::super) struct Candidate {
    pub(in super::super) engine: Engine,
    pub(in super::super) memory: usize,
}

impl Cudnn {
    /// A cuDNN instance for a GPU that is only described.
    pub(in super::super) fn described(gpu: &Described) -> Result<Self> {
        let functions = Arc::new(Functions::load()?);
        let properties = Descriptor::new(&functions, Kind::DeviceProperties)?;
        let json = std::ffi::CString::new(gpu.json()).expect("no zeros");
        properties.set(is::GPU_AS_JSON, json.as_bytes_with_nul())?;
        Ok(Self {
            target: Target::Described(properties.finalize()?),
            functions,
            ways: HashMap::new(),
            choices: Algorithms::read(None),
            most_memory: MOST_MEMORY,
        })
    }

    /// The engines that [`Self::find`] would time, excluding those that need compilation, for operands with the
    /// alignment of allocated memory.
    pub(in super::super) fn timed_of(&self, problem: &Problem) -> Result<Vec<Candidate>> {
        for &result in problem.results() {
            let Some(graph) = self.graph(problem, result, Alignment::common(&[]))? else {
                continue;
            };
            let plans = self.candidates(&graph, false)?;
            if !plans.is_empty() || result == ResultType::Same {
                let of = |plan: super::plan::Plan| Candidate {
                    engine: plan.config.engine,
                    memory: plan.memory,
                };
                return Ok(plans.into_iter().map(of).collect());
            }
        }
        Ok(Vec::new())
    }
}
