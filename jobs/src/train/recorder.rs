//! The files that a run writes as it proceeds.

use super::TrainPlan;
use super::evaluate::Scores;
use super::groups::StalenessSummary;
use super::step::StepResult;
use crate::code::{self, Builds};
use crate::error::Result;
use crate::metrics::{JsonLines, Metric, Timing, read_metrics, to_pretty_json, truncate_after};
use crate::run_dir::RunDir;
use crate::tensorboard::{self, EventWriter};
use squall_data::Store;
use squall_model::Backend;
use std::time::{SystemTime, UNIX_EPOCH};

/// Interval of `timing.jsonl`: a line ends with the first step after this many seconds of training, or with a
/// checkpoint.
const TIMING_SECONDS: f64 = 10.0;

/// Writes a run's metrics, times and TensorBoard files.
#[derive(Debug)]
pub(super) struct Recorder {
    metrics: JsonLines,
    timing: JsonLines,
    events: EventWriter,
    since: Since,
}

/// Sums since the last line of `timing.jsonl`.
#[derive(Debug, Default)]
struct Since {
    steps: f64,
    samples: f64,
    seconds: f64,
    wait_seconds: f64,
}

impl Recorder {
    /// Reopens the files of a run that has done this many steps. Removes what an interrupted part wrote about later
    /// steps, and the validations that will be repeated; of a run that begins, all event files of earlier tries.
    pub(super) fn open(run: &RunDir, step: u64, again: &[u64]) -> Result<Self> {
        truncate_after(&run.metrics(), step, again)?;
        if step == 0 {
            tensorboard::remove_all(run.folder())?;
        }
        // The entries of the last completed step stay, because it is not repeated. TensorBoard can only drop a step as
        // a whole: if only the validation of a step is repeated, its other numbers are written again.
        let first = again
            .iter()
            .fold(step + 1, |first, &at| first.min(at.max(1)));
        let mut events = EventWriter::create(run.folder(), now(), first)?;
        if first <= step {
            let metrics = read_metrics(&run.metrics())?;
            let forgotten = metrics.iter().filter(|metric| metric.step() >= first);
            for metric in forgotten {
                write_scalars(&mut events, metric)?;
            }
        }
        Ok(Self {
            metrics: JsonLines::open(&run.metrics())?,
            timing: JsonLines::open(&run.timing())?,
            events,
            since: Since::default(),
        })
    }

    /// Writes the facts that the numbers depend on besides recipe and data; `computes_on` is what this program does steps
    /// on, `None` if there are none left. Warns if another build began the run, or, where threads compute, another number of
    /// them.
    pub(super) fn facts(
        &self,
        run: &RunDir,
        plan: &TrainPlan,
        store: &Store,
        computes_on: Option<Backend>,
    ) -> Result<()> {
        let version = code::version();
        let mut builds = builds_before(run, plan.done_steps);
        let threads = computes_on.unwrap_or_else(Backend::best).threads() as u64;
        let mut all_threads = threads_before(run, plan.done_steps);
        if let Some(backend) = computes_on {
            builds = builds.continued_by(&version, run.folder());
            if let Some(first) = begun_on_others(&all_threads, threads, backend.is_gpu()) {
                tracing::warn!(
                    "`{}` was begun on {first} threads and is continued on {threads}: its numbers differ, in the last digits at first, \
                     from those of a run on the same number throughout",
                    run.folder().display()
                );
            }
            if !all_threads.contains(&threads) {
                all_threads.push(threads);
            }
        }
        let facts = serde_json::json!({
            "code_version": version,
            "builds": builds,
            "data": store.folder().display().to_string(),
            "data_hash": store.data_hash(),
            "grid": store.grid().describe(),
            "threads": threads,
            "all_threads": all_threads,
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
        let scalars = of_step(result.loss, result.gradient_norm, result.learning_rate);
        self.events.scalars(now(), step, &scalars)
    }

    /// Records whose gradient a step used, and its staleness.
    pub(super) fn update(&mut self, step: u64, group: usize, staleness: u64) -> Result<()> {
        self.metrics.push(&Metric::Update {
            step,
            group,
            staleness,
        })?;
        self.events.scalars(now(), step, &of_update(staleness))
    }

    /// Records the staleness of gradients so far.
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

    /// Writes a line of `timing.jsonl` about the steps since the last one, if any.
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

    /// Writes the measurements up to this step and syncs all metrics to disk; called before its checkpoint is saved.
    pub(super) fn sync(&mut self, step: u64) -> Result<()> {
        self.end_line(step)?;
        self.metrics.sync()
    }
}

/// The builds that did this many steps of a run, as far as it records them; earlier versions recorded the last one.
fn builds_before(run: &RunDir, steps: u64) -> Builds {
    if steps == 0 {
        return Builds::default();
    }
    let facts = facts_before(run);
    match (facts.get("builds"), facts["code_version"].as_str()) {
        (None, Some(version)) => Builds::of(version),
        _ => Builds::of_json(&facts, "builds"),
    }
}

/// The numbers of threads that trained a run which has done this many steps, in the order in which they began.
fn threads_before(run: &RunDir, steps: u64) -> Vec<u64> {
    if steps == 0 {
        return Vec::new();
    }
    let facts = facts_before(run);
    match facts["all_threads"].as_array() {
        Some(all) => all.iter().filter_map(serde_json::Value::as_u64).collect(),
        // Earlier versions recorded those of the last call alone.
        None => facts["threads"].as_u64().into_iter().collect(),
    }
}

/// The number of threads that a run began on, if another one continues it and that makes a difference: sums over other
/// numbers of threads round differently, but not those of a GPU.
fn begun_on_others(before: &[u64], threads: u64, on_gpu: bool) -> Option<u64> {
    let first = before.first().copied();
    first.filter(|&first| first != threads && !on_gpu)
}

/// What an earlier call recorded of a run; null if that cannot be read.
fn facts_before(run: &RunDir) -> serde_json::Value {
    let text = std::fs::read(run.facts()).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The numbers of a step, with their TensorBoard names.
fn of_step(loss: f64, gradient_norm: f64, learning_rate: f32) -> [(&'static str, f64); 3] {
    [
        ("train/loss", loss),
        ("train/gradient_norm", gradient_norm),
        ("train/learning_rate", f64::from(learning_rate)),
    ]
}

fn of_update(staleness: u64) -> [(&'static str, f64); 1] {
    [("train/staleness", staleness as f64)]
}

/// Writes a metric to TensorBoard.
fn write_scalars(events: &mut EventWriter, metric: &Metric) -> Result<()> {
    let step = metric.step();
    match metric {
        Metric::Step {
            loss,
            gradient_norm,
            learning_rate,
            ..
        } => {
            let [loss, norm] = [loss, gradient_norm].map(|value| value.unwrap_or(f64::NAN));
            events.scalars(now(), step, &of_step(loss, norm, *learning_rate))
        }
        Metric::Validation { scores, .. } => events.scalars(now(), step, &scores.scalars()),
        Metric::Update { staleness, .. } => events.scalars(now(), step, &of_update(*staleness)),
        // Cumulative counts are not for TensorBoard, which plots per-step values.
        Metric::Staleness { .. } => Ok(()),
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
    use crate::recipe::BestBy;
    use crate::train::evaluate::MaskScores;
    use std::ffi::OsString;

    /// A GPU's sums are the same whatever the number of threads beside it.
    #[test]
    fn other_threads_are_told_where_threads_compute() {
        assert_eq!(begun_on_others(&[8, 4], 4, false), Some(8));
        assert_eq!(begun_on_others(&[8, 4], 8, false), None);
        assert_eq!(begun_on_others(&[], 8, false), None);
        assert_eq!(begun_on_others(&[8], 4, true), None);
    }

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

    /// They stayed where checkpoints were deleted, and whoever reads all files of a run found the losses of two.
    #[test]
    fn a_run_that_begins_anew_keeps_no_event_files_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::open(folder.path()).unwrap();
        // As of PyTorch, process 7 on a machine that is called `squall`.
        let of_others = folder
            .path()
            .join("events.out.tfevents.1700000000.squall.7.0");
        std::fs::write(&of_others, "of another program").unwrap();
        let files = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            let is_events = |name: &OsString| name.to_string_lossy().contains("tfevents");
            names.filter(is_events).count()
        };
        for (done, expected) in [(0, 2), (0, 2), (7, 3), (0, 2)] {
            Recorder::open(&run, done, &[]).unwrap();
            assert_eq!(files(), expected, "{done}");
        }
        assert!(of_others.exists());
    }

    /// It stood there twice where the run was killed after it and before the checkpoint that tells of it.
    #[test]
    fn tensorboard_forgets_a_validation_that_comes_again_and_keeps_its_step() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::open(folder.path()).unwrap();
        let mut killed = Recorder::open(&run, 0, &[]).unwrap();
        for step in 1..=7 {
            let result = StepResult {
                loss: 0.5,
                gradient_norm: 1.0,
                learning_rate: 1e-3,
                skipped: false,
            };
            killed.step(step, 0, &result).unwrap();
        }
        let scores = Scores::Masks(MaskScores {
            samples: 1,
            loss: 0.5,
            mean_iou: 0.5,
            sample_mean_iou: 0.5,
            area_mean_iou: 0.5,
            iou: [None; 3],
            area_iou: [None; 3],
            best_by: BestBy::default(),
        });
        killed.validation(7, &scores, true).unwrap();
        drop(killed);
        let recorder = Recorder::open(&run, 7, &[7]).unwrap();
        let bytes = std::fs::read(recorder.events.path()).unwrap();
        let count = |part: &[u8]| {
            bytes
                .windows(part.len())
                .filter(|&found| found == part)
                .count()
        };
        assert_eq!(count(&[0x10, 7, 0x3a, 2, 0x08, 1]), 1);
        assert_eq!((count(b"train/loss"), count(b"validation/loss")), (1, 0));
    }
}
