//! Alternates a network's work with that of other programs.

use super::ours::Ours;
use super::{NetworkOptions, Work};
use crate::commands::bench::peer::Peer;
use crate::commands::bench::{Row, median, peak, row};
use std::time::Instant;

/// Results of the turns.
pub(super) struct Turns {
    /// Seconds of each of our runs.
    times: Vec<f64>,
    /// Matrix product rate at each turn, in operations per second.
    rates: Vec<f64>,
    /// Answers of each peer.
    theirs: Vec<Theirs>,
    /// Our peak memory in bytes.
    highest: u64,
    /// The first failure of a peer, after which no peer is used: compared with the rest alone, ours might look faster
    /// than it is.
    pub(super) failed: Option<anyhow::Error>,
}

/// Alternates with the peers for `repeat` counted turns; `rate` is the matrix product rate if known, otherwise it is
/// measured at each turn.
pub(super) fn take_turns(
    ours: &mut Ours,
    peers: &mut [Peer],
    work: Work,
    repeat: usize,
    rate: Option<f64>,
) -> anyhow::Result<Turns> {
    let mut turns = Turns {
        times: Vec::new(),
        rates: Vec::new(),
        theirs: peers.iter().map(|_| Theirs::default()).collect(),
        highest: 0,
        failed: None,
    };
    if ours.graphs {
        // One plain step first; the unmeasured turn then captures the graphs.
        ours.work()?;
    }
    // The first turn is a warm-up.
    for turn in 0..=repeat.max(1) {
        if turn == 1 {
            // Algorithm selection takes workspace that later steps do not.
            ours.backend.forget_peak();
        }
        let started = Instant::now();
        ours.work()?;
        let seconds = started.elapsed().as_secs_f64();
        if turn == 1 {
            // Before the matrix products of the ceiling allocate memory.
            turns.highest = peak();
        }
        if turn > 0 {
            turns.times.push(seconds);
            turns.rates.push(match rate {
                Some(rate) => rate,
                None => ours.backend.matrix_rate(ours.storage.dtype)?,
            });
        }
        if turns.failed.is_none()
            && let Err(error) = turns.ask(peers, work, turn, seconds)
        {
            turns.theirs.clear();
            turns.failed = Some(error);
        }
    }
    Ok(turns)
}

impl Turns {
    /// Lets every peer work once, after ours took this many seconds.
    fn ask(
        &mut self,
        peers: &mut [Peer],
        work: Work,
        turn: usize,
        seconds: f64,
    ) -> anyhow::Result<()> {
        for (peer, theirs) in peers.iter_mut().zip(&mut self.theirs) {
            let answer = peer.time(work.name())?;
            tracing::info!(
                "{} {turn}: {seconds:.3} s; PyTorch {} {} {:.3} s, peak {:.0} MB",
                work.name(),
                answer.torch,
                answer.mode,
                answer.seconds,
                answer.peak_mb
            );
            if turn > 0 {
                theirs.times.push(answer.seconds);
                (theirs.mode, theirs.peak_mb) = (answer.mode, answer.peak_mb);
            }
        }
        Ok(())
    }

    /// Our median compared with the fastest peer's, per sample of `flops` operations.
    pub(super) fn row(
        mut self,
        options: &NetworkOptions,
        work: Work,
        batch: usize,
        flops: f64,
    ) -> Row {
        let verb = match work {
            Work::Step => "train",
            Work::Infer => "infer",
        };
        let (network, precision) = (&options.network, options.precision.as_str());
        let (rows, columns) = options.size;
        let graphs = if options.graphs { ", as graphs" } else { "" };
        let all = if options.all_layers {
            ", all layers"
        } else {
            ""
        };
        let mut line = row(
            format!("{verb} a sample, {network} {rows} x {columns}, {precision}{all}{graphs}"),
            median(&mut self.times) / batch as f64,
            Some(flops / median(&mut self.rates)),
            "its operations at the rate of matrix products of that type",
        );
        line.peak_mb = self.highest as f64 / 1e6;
        line.flops_per_second = Some(flops / line.ours);
        let medians = self
            .theirs
            .iter_mut()
            .map(|theirs| (median(&mut theirs.times) / batch as f64, theirs));
        if let Some((seconds, theirs)) = medians.min_by(|a, b| a.0.total_cmp(&b.0)) {
            line.peer = Some(seconds);
            line.ratio = Some(seconds / line.ours);
            line.peer_mode = Some(std::mem::take(&mut theirs.mode));
            line.peer_peak_mb = Some(theirs.peak_mb);
        }
        line
    }
}

/// The answers of a peer.
#[derive(Default)]
struct Theirs {
    /// Seconds of each of its runs.
    times: Vec<f64>,
    mode: String,
    peak_mb: f64,
}
