//! What a run writes down while it goes.

use super::TrainPlan;
use super::evaluate::Scores;
use super::groups::StalenessSummary;
use super::step::StepResult;
use crate::error::Result;
use crate::metrics::{JsonLines, Metric, Timing, to_pretty_json, truncate_after};
use crate::run_dir::RunDir;
use crate::tensorboard::EventWriter;
use squall_data::Store;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most seconds of training of a line of `timing.jsonl`, beside those of its last step; a checkpoint ends one, too.
const TIMING_SECONDS: f64 = 10.0;

/// Metrics, times and TensorBoard.
#[derive(Debug)]
pub(super) struct Recorder {
    metrics: JsonLines,
    timing: JsonLines,
    events: EventWriter,
    since: Since,
}

/// What was done since the last line of `timing.jsonl`.
#[derive(Debug, Default)]
struct Since {
    steps: f64,
    samples: f64,
    seconds: f64,
    wait_seconds: f64,
}

impl Recorder {
    /// Continues the files of a run that has done so many steps; what an interrupted part wrote after them goes, and so
    /// do the validations that come again.
    pub(super) fn open(run: &RunDir, step: u64, again: &[u64]) -> Result<Self> {
        truncate_after(&run.metrics(), step, again)?;
        Ok(Self {
            metrics: JsonLines::open(&run.metrics())?,
            timing: JsonLines::open(&run.timing())?,
            // The last step that was done stays: it does not come again.
            events: EventWriter::create(run.folder(), now(), step + 1)?,
            since: Since::default(),
        })
    }

    /// Writes what the numbers depend on besides recipe and data.
    pub(super) fn facts(&self, run: &RunDir, plan: &TrainPlan, store: &Store) -> Result<()> {
        let facts = serde_json::json!({
            "code_version": crate::code::version(),
            "data": store.folder().display().to_string(),
            "data_hash": store.data_hash(),
            "grid": store.grid().describe(),
            "threads": std::thread::available_parallelism().map_or(1, usize::from),
            "plan": plan,
        });
        let text = to_pretty_json(&facts, &run.facts())?;
        squall_data::atomic::write(run.facts(), text.as_bytes())?;
        Ok(())
    }

    pub(super) fn step(&mut self, step: u64, epoch: u64, result: &StepResult) -> Result<()> {
        let number = |value: f64| value.is_finite().then_some(value);
        self.metrics.push(&Metric::Step {
            step,
            epoch,
            loss: number(result.loss),
            gradient_norm: number(result.gradient_norm),
            learning_rate: result.learning_rate,
            skipped: result.skipped,
        })?;
        let scalars = [
            ("train/loss", result.loss),
            ("train/gradient_norm", result.gradient_norm),
            ("train/learning_rate", f64::from(result.learning_rate)),
        ];
        self.events.scalars(now(), step, &scalars)
    }

    /// Whose gradient a step used, and how stale it was.
    pub(super) fn update(&mut self, step: u64, group: usize, staleness: u64) -> Result<()> {
        self.metrics.push(&Metric::Update {
            step,
            group,
            staleness,
        })?;
        let scalars = [("train/staleness", staleness as f64)];
        self.events.scalars(now(), step, &scalars)
    }

    /// Writes down how stale gradients were so far.
    pub(super) fn staleness(&mut self, step: u64, staleness: &StalenessSummary) -> Result<()> {
        let staleness = staleness.clone();
        self.metrics.push(&Metric::Staleness { step, staleness })
    }

    pub(super) fn validation(&mut self, step: u64, scores: &Scores, best: bool) -> Result<()> {
        self.metrics.push(&Metric::Validation {
            step,
            scores: scores.clone(),
            best,
        })?;
        let scalars = scores.scalars();
        self.events.scalars(now(), step, &scalars)
    }

    pub(super) fn timing(
        &mut self,
        step: u64,
        seconds: f64,
        wait_seconds: f64,
        samples: usize,
    ) -> Result<()> {
        let since = &mut self.since;
        since.steps += 1.0;
        since.samples += samples as f64;
        since.seconds += seconds;
        since.wait_seconds += wait_seconds;
        match since.seconds < TIMING_SECONDS {
            true => Ok(()),
            false => self.end_line(step),
        }
    }

    /// Writes a line of `timing.jsonl` about the steps since the last one, if there are any.
    fn end_line(&mut self, step: u64) -> Result<()> {
        let since = std::mem::take(&mut self.since);
        if since.steps == 0.0 {
            return Ok(());
        }
        self.timing.push(&Timing {
            step,
            step_seconds: since.seconds / since.steps,
            wait_seconds: since.wait_seconds / since.steps,
            samples_per_second: since.samples / since.seconds,
        })
    }

    /// Before a checkpoint of this step: what was measured until then, and all metrics on the disk.
    pub(super) fn sync(&mut self, step: u64) -> Result<()> {
        self.end_line(step)?;
        self.metrics.sync()
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of less than ten seconds, with two checkpoints after the same step.
    #[test]
    fn a_checkpoint_ends_a_line_of_times() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::open(folder.path()).unwrap();
        let mut recorder = Recorder::open(&run, 0, &[]).unwrap();
        for step in 1..=4 {
            recorder.timing(step, 0.5, 0.125, 2).unwrap();
        }
        recorder.sync(4).unwrap();
        recorder.sync(4).unwrap();
        let lines = std::fs::read_to_string(run.timing()).unwrap();
        assert_eq!(lines.lines().count(), 1, "{lines}");
        let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
        assert_eq!(line["step"], 4);
        assert_eq!(line["step_seconds"], 0.5);
        assert_eq!(line["wait_seconds"], 0.125);
        assert_eq!(line["samples_per_second"], 4.0);
    }

    /// TensorBoard forgets what an event file before had from the step of the session's start on.
    #[test]
    fn tensorboard_keeps_the_step_that_a_run_goes_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::open(folder.path()).unwrap();
        for done in [0, 7] {
            let recorder = Recorder::open(&run, done, &[]).unwrap();
            let bytes = std::fs::read(recorder.events.path()).unwrap();
            // Field 2, the step; field 7, a session whose status is START.
            let start = [0x10, done as u8 + 1, 0x3a, 2, 0x08, 1];
            assert!(bytes.windows(start.len()).any(|found| found == start));
        }
    }
}
