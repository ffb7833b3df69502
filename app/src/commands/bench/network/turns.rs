//! A network's work in turn with that of other programs.

use super::ours::Ours;
use super::{NetworkOptions, Work};
use crate::commands::bench::peer::Peer;
use crate::commands::bench::{Row, median, peak, row};
use std::time::Instant;

/// What the turns came to.
pub(super) struct Turns {
    /// Seconds of one of ours.
    times: Vec<f64>,
    /// Operations a second of matrix products, at each turn.
    rates: Vec<f64>,
    /// What each peer answered.
    theirs: Vec<Theirs>,
    /// Bytes of ours at most.
    highest: u64,
    /// Why there is no peer any more: the first that failed. Beside the others alone ours might look faster than it is.
    pub(super) failed: Option<anyhow::Error>,
}

/// Works in turn with the peers, `repeat` times that count; `rate` is that of matrix products if it is known, else it
/// is measured at each turn.
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
        // The first turn, which is not measured, writes down what this one does.
        ours.work()?;
    }
    // The first turn builds what is kept.
    for turn in 0..=repeat.max(1) {
        if turn == 1 {
            // Looking for algorithms takes working memory that no later step takes.
            ours.backend.forget_peak();
        }
        let started = Instant::now();
        ours.work()?;
        let seconds = started.elapsed().as_secs_f64();
        if turn == 1 {
            // Before the products of the ceiling take memory, too.
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

    /// The median of ours beside that of the fastest peer, as the time of a sample, which takes `flops`.
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

/// What a peer answered.
#[derive(Default)]
struct Theirs {
    /// Seconds of one of theirs.
    times: Vec<f64>,
    mode: String,
    peak_mb: f64,
}
