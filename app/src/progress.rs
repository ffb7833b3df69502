//! Progress display: a bar on a terminal, plain lines otherwise, nothing with --quiet.

use crate::plan::duration;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The progress of a long command.
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
    name: &'static str,
    last_line: Instant,
    last_position: usize,
    /// Start position and time of this call, for its rate: a continued run does not start at 0.
    first: (usize, Instant),
}

impl Progress {
    /// A progress display of `total` steps called `name`.
    pub fn new(name: &'static str, total: usize) -> Self {
        let quiet = !tracing::enabled!(tracing::Level::INFO);
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template(
            "{prefix:>9} {wide_bar} {pos}/{len} {elapsed} (left {eta}) {msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name);
        bar.set_draw_target(if terminal && !quiet {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let now = Instant::now();
        let plain = !terminal && !quiet;
        Self {
            bar,
            plain,
            name,
            last_line: now,
            last_position: 0,
            first: (0, now),
        }
    }

    /// Sets the total and the amount already done, at the start or before a further pass over the same steps.
    pub fn start(&mut self, total: usize, done: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.reset_eta();
        self.last_position = 0;
        self.first = (done, Instant::now());
    }

    /// Sets the position and a short message such as the loss.
    pub fn set(&mut self, position: usize, message: String) {
        self.bar.set_position(position as u64);
        self.bar.set_message(message);
        let total = self.bar.length().unwrap_or(0) as usize;
        let ends = position == total && self.last_position != total;
        self.last_position = position;
        if self.plain && (self.last_line.elapsed() > LINE_INTERVAL || ends) {
            self.last_line = Instant::now();
            let elapsed = self.first.1.elapsed().as_secs_f64();
            let done = position.saturating_sub(self.first.0).max(1);
            let left = elapsed / done as f64 * total.saturating_sub(position) as f64;
            let message = self.bar.message();
            tracing::info!(
                "{}",
                line(self.name, [position, total], [elapsed, left], &message)
            );
        }
    }

    /// Prints a note without disturbing the bar.
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| tracing::info!("{text}"));
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// A plain line: how much of the total is done, the seconds that it took, those that are left, and the message.
fn line(
    name: &str,
    [position, total]: [usize; 2],
    [elapsed, left]: [f64; 2],
    message: &str,
) -> String {
    let time = |seconds: f64| match seconds < 0.5 {
        true => "0 s".to_string(),
        false => duration(seconds),
    };
    let comma = if message.is_empty() { "" } else { ", " };
    format!(
        "{name}: {position}/{total}, {}, {} left{comma}{message}",
        time(elapsed),
        time(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It read "2376 s left loss 0.9805".
    #[test]
    fn lines_tell_times_in_words_and_set_the_message_apart() {
        assert_eq!(
            line("train", [6, 1300], [11.0, 2376.0], "loss 0.9805"),
            "train: 6/1300, 11 s, 39 min 36 s left, loss 0.9805"
        );
        assert_eq!(
            line("label", [3, 3], [0.2, 0.0], ""),
            "label: 3/3, 0 s, 0 s left"
        );
    }
}
