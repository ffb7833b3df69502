//! Progress: a bar on a terminal, plain lines otherwise, nothing with --quiet.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// How far a long command is.
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
    name: &'static str,
    last_line: Instant,
    started: Instant,
}

impl Progress {
    /// A progress display of `total` steps called `name`.
    pub fn new(name: &'static str, total: usize) -> Self {
        let quiet = !tracing::enabled!(tracing::Level::INFO);
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template("{prefix:>9} {wide_bar} {pos}/{len} {elapsed} (left {eta}) {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name);
        bar.set_draw_target(if terminal && !quiet {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let now = Instant::now();
        Self { bar, plain: !terminal && !quiet, name, last_line: now, started: now }
    }

    /// Sets the position and a short message such as the loss.
    pub fn set(&mut self, position: usize, message: String) {
        self.bar.set_position(position as u64);
        self.bar.set_message(message);
        let total = self.bar.length().unwrap_or(0) as usize;
        if self.plain && (self.last_line.elapsed() > LINE_INTERVAL || position == total) {
            self.last_line = Instant::now();
            let elapsed = self.started.elapsed().as_secs_f64();
            let left = elapsed / position.max(1) as f64 * total.saturating_sub(position) as f64;
            let message = self.bar.message();
            tracing::info!("{}: {position}/{total}, {elapsed:.0} s, {left:.0} s left {message}", self.name);
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
