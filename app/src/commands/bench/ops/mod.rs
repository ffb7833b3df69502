//! `squall bench ops`: times every operation of a network separately, compared with the bounds of the machine's matrix
//! units and memory.

mod cases;
mod work;

use super::ceilings::{LONG, Triad};
use super::network::{dtype, threads};
use super::peer::Peer;
use super::{Row, median, peak, row};
use crate::arguments::grid;
use crate::failure::Advice;
use crate::plan::bytes;
use candle_core::DType;
use cases::Case;
use clap::Args;
use squall_model::networks::NetworkName;
use squall_model::{Backend, Network, NetworkConfig};
use std::time::{Duration, Instant};
use work::Work;

/// Minimum time in seconds for which an operation is repeated: with less, launching and waiting would dominate.
const LEAST_SECONDS: f64 = 0.005;
/// Maximum number of repetitions.
const MOST_TIMES: f64 = 1000.0;
/// How long a measured machine rate is reused: operations within this time meet the same background load.
const FRESH: Duration = Duration::from_secs(1);

/// Which network, on which fields.
#[derive(Debug, Args)]
pub struct OpsOptions {
    /// Network whose convolutions are timed.
    #[arg(long, default_value = "deeplabv3plus")]
    network: NetworkName,
    /// Input size, latitudes x longitudes.
    #[arg(long, visible_alias = "grid", default_value = "192x288", value_parser = grid)]
    size: (usize, usize),
    /// Samples per batch.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    /// Precision of fields; kernels are f32, as in a training step.
    #[arg(long, value_parser = dtype(), default_value = "f32")]
    precision: DType,
    /// Only operations whose name contains this text, such as `1x1`, `gradient of kernel` or `batch norm`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Program to run the same operations alternately, such as `validation/peers/ops.py`.
    #[arg(long, value_name = "COMMAND")]
    peer: Option<String>,
}

/// Adds a row for each operation; those before an error are kept.
pub(super) fn measure(
    options: &OpsOptions,
    repeat: usize,
    found: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let backend = Backend::best();
    let config = NetworkConfig::of(options.network);
    let (rows, columns) = options.size;
    let summary = Network::outline(&config, backend, 1)?.summary(rows, columns)?;
    let batch = usize::from(options.batch);
    let mut cases = cases::of_network(summary.convolutions(), batch, config.classes);
    if let Some(text) = &options.only {
        cases.retain(|case| case.name().contains(text));
        if cases.is_empty() {
            return Err(Advice::usage(
                format!(
                    "no operation of {} has `{text}` in its name",
                    options.network.as_str()
                ),
                "leave --only out to see all names",
            ));
        }
    }
    check_memory(&cases, options.precision, backend)?;
    let peer = options.peer.as_deref();
    let mut peer = peer.map(|command| start(command, options)).transpose()?;
    let mut rates = Rates {
        backend,
        dtype: options.precision,
        triad: Triad::new(backend, LONG)?,
        known: None,
    };
    for (number, case) in cases.iter().enumerate() {
        let name = case.name();
        tracing::debug!("{} of {}: {name}", number + 1, cases.len());
        let mut measured = Measured::default();
        measured.take_turns(case, options.precision, peer.as_mut(), repeat)?;
        // Both ceilings under the load that the operation met.
        let [of_products, of_memory] = rates.now()?;
        let products = case.flops() / of_products;
        let passes = case.bytes(options.precision.size_in_bytes()) / of_memory;
        let (ceiling, what) = match products > passes {
            true => (products, "its products at the rate of matrix products"),
            false => (passes, rates.triad.words()),
        };
        let mut line = row(name, median(&mut measured.ours), Some(ceiling), what);
        line.peak_mb = measured.highest as f64 / 1e6;
        line.flops_per_second = (products > 0.0).then(|| case.flops() / line.ours);
        if let Some(seconds) = measured.peer_seconds() {
            line.peer = Some(seconds);
            line.ratio = Some(seconds / line.ours);
            (line.peer_mode, line.peer_peak_mb) = (measured.mode, measured.peer_peak_mb);
        }
        found.push(line);
    }
    Ok(())
}

/// The machine's rates under its current load.
struct Rates {
    backend: Backend,
    dtype: DType,
    triad: Triad,
    /// The last measurement and its time.
    known: Option<(Instant, [f64; 2])>,
}

impl Rates {
    /// Floating-point operations of matrix products, and bytes of memory, per second.
    fn now(&mut self) -> anyhow::Result<[f64; 2]> {
        if let Some((measured, rates)) = self.known
            && measured.elapsed() < FRESH
        {
            return Ok(rates);
        }
        let rates = [self.backend.matrix_rate(self.dtype)?, self.triad.rate()?];
        self.known = Some((Instant::now(), rates));
        Ok(rates)
    }
}

/// Rejects operations whose operands and result exceed free memory.
fn check_memory(cases: &[Case], dtype: DType, backend: Backend) -> anyhow::Result<()> {
    let free = squall_jobs::free_memory(backend);
    // Operands are drawn in f32, and an operation may keep a converted copy of one.
    let needs = |case: &Case| 2.0 * (case.held(4) + case.held(dtype.size_in_bytes()));
    let most = cases.iter().max_by(|a, b| needs(a).total_cmp(&needs(b)));
    let (Some(free), Some(most)) = (free, most) else {
        return Ok(());
    };
    // The triad's arrays are allocated throughout.
    let needed = needs(most) as u64 + 12 * LONG as u64;
    if needed <= free {
        return Ok(());
    }
    Err(Advice::usage(
        format!(
            "`{}` needs {}, this process may have {}",
            most.name(),
            bytes(needed),
            bytes(free)
        ),
        "give a smaller --batch or --size",
    ))
}

fn start(command: &str, options: &OpsOptions) -> anyhow::Result<Peer> {
    let words = [
        "--serve".to_string(),
        "--precision".to_string(),
        options.precision.as_str().to_string(),
        "--threads".to_string(),
        threads().to_string(),
    ];
    Peer::start(command, &words)
}

/// Times of one operation and of a peer's.
#[derive(Default)]
struct Measured {
    ours: Vec<f64>,
    peer: Vec<f64>,
    /// Our peak memory in bytes.
    highest: u64,
    mode: Option<String>,
    peer_peak_mb: Option<f64>,
}

impl Measured {
    /// Alternates the operation with the peer's, after warm-up runs.
    fn take_turns(
        &mut self,
        case: &Case,
        dtype: DType,
        mut peer: Option<&mut Peer>,
        repeat: usize,
    ) -> anyhow::Result<()> {
        let backend = Backend::best();
        let mut work = work::ready(case, backend, dtype)?;
        // The first run is a warm-up. The fastest of three more then determines the number of repetitions: background
        // load can slow a single run a hundredfold.
        seconds_of(&mut work, backend, 1)?;
        let mut once = f64::INFINITY;
        for _ in 0..3 {
            once = once.min(seconds_of(&mut work, backend, 1)?);
        }
        let times = (LEAST_SECONDS / once).ceil().clamp(1.0, MOST_TIMES) as usize;
        // Operands were drawn in f32, and algorithm selection takes workspace: neither is the operation's own memory.
        backend.forget_peak();
        let question = serde_json::to_string(case)?;
        for turn in 0..repeat.max(1) {
            if turn > 0 && peer.is_some() {
                seconds_of(&mut work, backend, 1)?;
            }
            self.ours.push(seconds_of(&mut work, backend, times)?);
            if let Some(peer) = &mut peer {
                let answer = peer.time(&question)?;
                self.peer.push(answer.seconds);
                (self.mode, self.peer_peak_mb) = (Some(answer.mode), Some(answer.peak_mb));
            }
        }
        self.highest = peak();
        drop(work);
        // A peer on the same GPU can then use the memory of the operands.
        Ok(backend.give_back_memory()?)
    }

    fn peer_seconds(&mut self) -> Option<f64> {
        (!self.peer.is_empty()).then(|| median(&mut self.peer))
    }
}

/// Seconds per operation out of `times` consecutive ones: on the CPU their median, which is robust to a single
/// interruption; on a GPU, which must not synchronise in between, their mean.
fn seconds_of(work: &mut Work, backend: Backend, times: usize) -> anyhow::Result<f64> {
    if !backend.is_gpu() {
        let mut each = Vec::with_capacity(times);
        for _ in 0..times {
            let started = Instant::now();
            work()?;
            each.push(started.elapsed().as_secs_f64());
        }
        return Ok(median(&mut each));
    }
    backend.wait()?;
    let started = Instant::now();
    for _ in 0..times {
        work()?;
    }
    backend.wait()?;
    Ok(started.elapsed().as_secs_f64() / times as f64)
}
