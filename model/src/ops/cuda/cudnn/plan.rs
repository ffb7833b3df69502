//! Execution plans: a cuDNN engine with its knobs for one problem, made once and run any number of times.

use super::Cudnn;
use super::descriptor::{self as is, Descriptor, Kind};
use super::engine::Config;
use super::graph::{Graph, IDS};
use super::library::Answer;
use super::target::By;
use crate::error::Result;
use crate::ops::cuda::device::Gpu;
use candle_core::DType;
use std::sync::Arc;
use std::time::Instant;

/// An engine that is ready to run.
pub(super) struct Plan {
    plan: Descriptor,
    pub(super) config: Config,
    pub(super) graph: Arc<Graph>,
    /// Its workspace in bytes.
    pub(super) memory: usize,
}

impl Cudnn {
    /// Makes the plan of a configuration.
    pub(super) fn plan(&self, graph: &Arc<Graph>, config: Config) -> Answer<Plan> {
        let began = Instant::now();
        let plan = Descriptor::new(&self.functions, Kind::Plan)?;
        let by = By {
            handle: Some(is::PLAN_HANDLE),
            described: Some(is::PLAN_GPU),
        };
        self.target.set_on(&plan, by)?;
        plan.set_descriptors(is::PLAN_CONFIG, &[&config.config])?;
        let plan = plan.finalize()?;
        let memory = plan.number(is::PLAN_WORKSPACE_SIZE)?;
        // An invalid size counts as exceeding any limit.
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        tracing::debug!(
            "{}: planned in {:.1} ms, {memory} bytes of working memory",
            config.engine,
            1e3 * began.elapsed().as_secs_f64()
        );
        Ok(Plan {
            plan,
            config,
            graph: graph.clone(),
            memory,
        })
    }

    /// Launches a plan on the stream; addresses are in the order of [`IDS`], one per tensor of the problem.
    pub(super) fn run(&self, gpu: &Gpu, plan: &Plan, places: &[u64]) -> Result<()> {
        let work = match plan.memory {
            0 => None,
            bytes => Some(gpu.empty(&[bytes], DType::U8)?),
        };
        let room = work.as_ref().map(|work| gpu.address(work)).transpose()?;
        // A variant pack cannot be modified after finalization; a new one takes a microsecond.
        let pack = Descriptor::new(&self.functions, Kind::VariantPack)?;
        pack.set(is::PACK_IDS, &IDS[..places.len()])?;
        pack.set(is::PACK_ADDRESSES, places)?;
        pack.set(is::PACK_WORKSPACE, &[room.unwrap_or(0)])?;
        let pack = pack.finalize()?;
        // SAFETY: operands and result are as large as the problem says (checked by the caller), the working memory is
        // what the plan wants; freed memory is given out again in the stream's order only.
        unsafe { plan.plan.execute(self.target.handle(), &pack) }?;
        Ok(())
    }
}
