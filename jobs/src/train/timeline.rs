//! Where training time goes: totals for the report, and a Chrome trace of single steps.
//!
//! Open a trace in `chrome://tracing` or Perfetto. Every rank is a process; its reading, computation, communication and
//! phases are threads.

use crate::comm::reducer::Reduced;
use crate::error::Result;
use crate::metrics::to_json;
use serde::{Deserialize, Serialize};
use squall_model::gradients::Lent;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seconds of this rank by activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Spent {
    /// Waiting for a batch.
    pub input: f64,
    /// Forward pass and loss.
    pub forward: f64,
    /// Backward pass.
    pub backward: f64,
    /// Waiting for gradients of other ranks, and for parameter servers, after the backward pass: communication that
    /// computation does not hide.
    pub exchange: f64,
    /// Waiting for batch statistics of other ranks, in either pass.
    pub statistics: f64,
    /// Updating the parameters.
    pub update: f64,
    /// Reducing buckets, hidden or not; NaN if a GPU reduces them, because the host cannot measure that.
    pub communication: f64,
}

impl Spent {
    /// The mean of each number over ranks.
    pub(super) fn mean(ranks: &[Self]) -> Self {
        let mut mean = Self::default();
        let share = 1.0 / ranks.len().max(1) as f64;
        for rank in ranks {
            let sums: &mut [f64] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut mean));
            let values: &[f64] = bytemuck::cast_slice(std::slice::from_ref(rank));
            let pairs = sums.iter_mut().zip(values);
            pairs.for_each(|(sum, value)| *sum += share * value);
        }
        mean
    }

    /// Seconds of computation, which do not depend on other ranks.
    pub fn computing(&self) -> f64 {
        self.forward + self.backward + self.update
    }

    /// Seconds of waiting for other ranks.
    pub fn waiting(&self) -> f64 {
        self.exchange + self.statistics
    }

    /// Total seconds of steps.
    pub fn steps(&self) -> f64 {
        self.input + self.computing() + self.waiting()
    }

    /// The share of communication that was hidden by computation; `None` without communication, or if its time is
    /// unknown.
    pub fn hidden(&self) -> Option<f64> {
        (self.communication > 0.0).then(|| (1.0 - self.exchange / self.communication).max(0.0))
    }
}

/// How the ranks shared the work of this part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Balance {
    /// Samples per second of training steps, over all ranks.
    pub samples_per_second: f64,
    /// Floating-point operations per second over all ranks, counted from the network's shapes.
    pub flops_per_second: f64,
    /// How much the slowest rank's computing time exceeds the mean over ranks, as a share of the mean.
    pub imbalance: f64,
    /// The slowest rank.
    pub slowest: usize,
}

impl Balance {
    /// The balance of ranks with these times, for `samples` samples of `flops` operations each.
    pub(super) fn of(ranks: &[Spent], samples: f64, flops: f64) -> Self {
        let computing = |rank: &usize| ranks[*rank].computing();
        let slowest = (0..ranks.len()).max_by(|a, b| computing(a).total_cmp(&computing(b)));
        let slowest = slowest.unwrap_or(0);
        let total: f64 = ranks.iter().map(Spent::computing).sum();
        let mean = total / ranks.len().max(1) as f64;
        let seconds = ranks.iter().map(Spent::steps).fold(0.0, f64::max);
        let rate = if seconds > 0.0 {
            samples / seconds
        } else {
            0.0
        };
        Self {
            samples_per_second: rate,
            flops_per_second: rate * flops,
            imbalance: if mean > 0.0 {
                computing(&slowest) / mean - 1.0
            } else {
                0.0
            },
            slowest,
        }
    }
}

/// A phase of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepPhase {
    Input,
    Forward,
    Backward,
    Exchange,
    Update,
}

/// An entry of a Chrome trace.
#[derive(Debug, Serialize)]
struct Event {
    name: String,
    ph: &'static str,
    /// Start and duration in microseconds.
    ts: f64,
    dur: f64,
    pid: usize,
    tid: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Size>,
}

/// The size of what an entry describes.
#[derive(Debug, Clone, Copy, Serialize)]
struct Size {
    bytes: usize,
}

/// Where the time of one rank goes: totals over all steps, and a trace of some.
#[derive(Debug)]
pub(crate) struct Timeline {
    start: Instant,
    rank: usize,
    /// Number of steps still to trace.
    left: usize,
    /// Nanoseconds spent waiting for batch statistics since last read.
    waited: Arc<AtomicU64>,
    events: Vec<Event>,
    /// Totals since the start.
    pub spent: Spent,
}

impl Timeline {
    /// Creates a timeline that traces the first `steps` steps.
    pub fn new(rank: usize, steps: usize, waited: Arc<AtomicU64>) -> Self {
        Self {
            start: Instant::now(),
            rank,
            left: steps,
            waited,
            events: Vec::new(),
            spent: Spent::default(),
        }
    }

    /// Records a phase that began at `since` and ends now; returns now.
    pub fn note(&mut self, phase: StepPhase, since: Instant) -> Instant {
        let now = Instant::now();
        let seconds = now.duration_since(since).as_secs_f64();
        let (sum, name) = match phase {
            StepPhase::Input => (&mut self.spent.input, "wait for a batch"),
            StepPhase::Forward => (&mut self.spent.forward, "forward"),
            StepPhase::Backward => (&mut self.spent.backward, "backward"),
            StepPhase::Exchange => (&mut self.spent.exchange, "wait for gradients"),
            StepPhase::Update => (&mut self.spent.update, "update"),
        };
        let waited = self.waited.swap(0, Ordering::Relaxed) as f64 * 1e-9;
        *sum += seconds - waited;
        self.spent.statistics += waited;
        self.push(name.to_string(), "computation", since, now);
        now
    }

    /// Records when the current batch was read, in parallel to other work.
    pub fn read(&mut self, when: &Range<Instant>) {
        self.push("read".to_string(), "reading", when.start, when.end);
    }

    /// Records a reduced bucket.
    pub fn bucket(&mut self, reduced: &Reduced) {
        let took = reduced.finished.duration_since(reduced.started);
        // A bucket on a GPU comes back as soon as its reduction has been launched.
        self.spent.communication += match reduced.lent.is_some() {
            true => f64::NAN,
            false => took.as_secs_f64(),
        };
        let name = format!("bucket {} of step {}", reduced.bucket, reduced.step + 1);
        if reduced.started > reduced.submitted {
            let queued = format!("{name} queued");
            self.push(queued, "queue", reduced.submitted, reduced.started);
        }
        let values = reduced
            .lent
            .as_ref()
            .map_or(reduced.values.len(), Lent::len);
        let bytes = values * size_of::<f32>();
        if let Some(event) = self.push(name, "communication", reduced.started, reduced.finished) {
            event.args = Some(Size { bytes });
        }
        for phase in &reduced.phases {
            self.push(phase.name.to_string(), "phases", phase.from, phase.to);
        }
    }

    /// Adds a trace entry, if steps are being traced.
    fn push(
        &mut self,
        name: String,
        tid: &'static str,
        from: Instant,
        to: Instant,
    ) -> Option<&mut Event> {
        if self.left == 0 {
            return None;
        }
        let micros = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1e6;
        self.events.push(Event {
            name,
            ph: "X",
            ts: micros(self.start, from),
            dur: micros(from, to),
            pid: self.rank,
            tid,
            args: None,
        });
        self.events.last_mut()
    }

    /// Records the end of a step; after the last traced step, writes `trace.rankN.json` into the run's folder.
    pub fn step(&mut self, folder: &Path) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        if self.left > 0 {
            return Ok(());
        }
        self.write(folder)
    }

    /// Records the end of the run; if some steps were still to be traced, writes the trace so far.
    pub fn end(&mut self, folder: &Path) -> Result<()> {
        if self.left == 0 || self.events.is_empty() {
            return Ok(());
        }
        self.left = 0;
        self.write(folder)
    }

    fn write(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join(format!("trace.rank{}.json", self.rank));
        let events = std::mem::take(&mut self.events);
        let text = to_json(&serde_json::json!({ "traceEvents": events }), &path)?;
        squall_data::atomic::write(path, text.as_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Phase;
    use std::time::Duration;

    #[test]
    fn the_slowest_rank_is_named() {
        let spent = |input, forward, exchange| Spent {
            input,
            forward,
            exchange,
            ..Spent::default()
        };
        let ranks = [
            spent(0.5, 2.0, 1.5),
            spent(0.0, 4.0, 0.0),
            spent(0.0, 3.0, 1.0),
        ];
        let balance = Balance::of(&ranks, 12.0, 5.0);
        assert_eq!(
            (
                balance.slowest,
                balance.samples_per_second,
                balance.flops_per_second
            ),
            (1, 3.0, 15.0)
        );
        assert!((balance.imbalance - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn parts_of_a_step_add_up() {
        let one = Spent {
            input: 1.0,
            forward: 2.0,
            backward: 4.0,
            exchange: 8.0,
            statistics: 16.0,
            update: 32.0,
            communication: 64.0,
        };
        assert_eq!(one.computing(), 2.0 + 4.0 + 32.0);
        assert_eq!(one.waiting(), 8.0 + 16.0);
        // Communication is hidden, or counted as waiting.
        assert_eq!(one.steps(), 63.0);
        let mean = Spent::mean(&[one, Spent::default()]);
        let half = Spent {
            input: 0.5,
            forward: 1.0,
            backward: 2.0,
            exchange: 4.0,
            statistics: 8.0,
            update: 16.0,
            communication: 32.0,
        };
        assert_eq!(mean, half);
        // Nothing is hidden of what is waited for longer than it takes, and none of what is not there.
        let late = Spent {
            communication: 4.0,
            ..one
        };
        assert_eq!(
            (late.hidden(), Spent::default().hidden()),
            (Some(0.0), None)
        );
    }

    #[test]
    fn a_trace_is_json_of_what_was_noted() {
        let folder = tempfile::tempdir().unwrap();
        let waited = Arc::new(AtomicU64::new(0));
        let mut timeline = Timeline::new(3, 1, Arc::clone(&waited));
        waited.store(2_000_000_000, Ordering::Relaxed);
        let start = Instant::now();
        let begun = start.checked_sub(Duration::from_secs(3)).unwrap_or(start);
        timeline.note(StepPhase::Backward, begun);
        assert!(
            (timeline.spent.backward - 1.0).abs() < 0.1
                && (timeline.spent.statistics - 2.0).abs() < 1e-9
        );
        let submitted = timeline.note(StepPhase::Forward, Instant::now());
        let (started, finished) = (
            submitted + Duration::from_millis(2),
            submitted + Duration::from_millis(10),
        );
        timeline.bucket(&Reduced {
            step: 0,
            bucket: 2,
            values: vec![0.0; 25],
            lent: None,
            submitted,
            started,
            finished,
            phases: vec![
                Phase {
                    name: "inside nodes",
                    from: started,
                    to: started + Duration::from_millis(1),
                },
                Phase {
                    name: "between nodes",
                    from: started + Duration::from_millis(1),
                    to: started + Duration::from_millis(6),
                },
            ],
        });
        timeline.read(&(submitted..started));
        timeline.spent.exchange = 0.002;
        assert!((timeline.spent.communication - 0.008).abs() < 1e-9);
        assert!((timeline.spent.hidden().unwrap() - 0.75).abs() < 1e-9);
        timeline.step(folder.path()).unwrap();
        // Only so many steps are traced.
        timeline.note(StepPhase::Update, Instant::now());
        timeline.step(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join("trace.rank3.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let names: Vec<&str> = events.iter().map(|e| e["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "backward",
                "forward",
                "bucket 2 of step 1 queued",
                "bucket 2 of step 1",
                "inside nodes",
                "between nodes",
                "read"
            ]
        );
        assert_eq!(events[3]["pid"], 3);
        assert_eq!(events[3]["args"]["bytes"], 100);
        assert!(events[2]["args"].is_null());
        let took = |event: usize| events[event]["dur"].as_f64().unwrap();
        assert!((took(3) - 8000.0).abs() < 1.0 && (took(5) - 5000.0).abs() < 1.0);
    }

    #[test]
    fn a_run_that_ends_early_leaves_the_trace_of_its_steps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.rank0.json");
        let mut timeline = Timeline::new(0, 5, Arc::default());
        timeline.note(StepPhase::Forward, Instant::now());
        timeline.step(folder.path()).unwrap();
        assert!(!path.exists());
        timeline.end(folder.path()).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("forward"));
        // What is written stays as it is.
        std::fs::remove_file(&path).unwrap();
        timeline.note(StepPhase::Forward, Instant::now());
        timeline.end(folder.path()).unwrap();
        assert!(!path.exists());
        // A run without steps, and one that traces none, leave nothing.
        Timeline::new(0, 5, Arc::default())
            .end(folder.path())
            .unwrap();
        Timeline::new(0, 0, Arc::default())
            .end(folder.path())
            .unwrap();
        assert!(!path.exists());
    }
}
