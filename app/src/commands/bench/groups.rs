//! `squall bench groups`: compares asynchronous groups with synchronous training, on threads.

use crate::failure::Advice;
use crate::output;
use clap::{Args, ValueEnum};
use serde::Serialize;
use squall_climate::compare::student_limit;
use squall_data::store::{Split, StoreMeta, StoreWriter};
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{Calendar, Store, Time, Variable};
use squall_jobs::comm::threads;
use squall_jobs::metrics::{Metric, read_metrics};
use squall_jobs::train::{Team, TrainReport, train_together};
use squall_jobs::{JobError, Recipe};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The training data: grid size and number of days. Every fifth block of days is for the validation loss, so that
/// training and validation cover all seasons.
const GRID: (usize, usize) = (32, 48);
const DAYS: usize = 750;
const BLOCK: usize = 15;

/// Confidence level of the interval of the loss change.
const CONFIDENCE: f64 = 0.95;

/// Momentum of batch normalisation's running statistics per sample, whichever rank trains on it.
const STATISTICS_KEPT: f64 = 0.98;

/// Which groups, and how slow the slowest rank is.
#[derive(Debug, Args)]
pub struct GroupOptions {
    /// Numbers of groups, comma-separated; synchronous training runs first.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["2", "4"])]
    groups: Vec<usize>,
    /// Threads that act as compute ranks.
    #[arg(long, value_name = "N", default_value = "4")]
    workers: usize,
    /// Threads that act as parameter servers.
    #[arg(long, value_name = "N", default_value = "1")]
    servers: usize,
    /// Sleep of the last rank, as a multiple of the others'; comma-separated.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "3"])]
    slow: Vec<u32>,
    /// Milliseconds that every rank sleeps in every step, to measure waiting rather than this machine's cores.
    #[arg(long, value_name = "MS", default_value = "100")]
    sleep_ms: u64,
    /// Samples that each training processes.
    #[arg(long, value_name = "N", default_value = "480")]
    samples: u64,
    /// Trainings of each kind; their losses are averaged.
    #[arg(long, value_name = "N", default_value = "1")]
    seeds: u64,
    /// Order in which the servers serve groups.
    #[arg(long, value_enum, default_value = "arrival")]
    order: Turn,
    /// Momentum of groups: the same as in synchronous training, or reduced by the momentum of asynchrony.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["same"])]
    momentum: Vec<Share>,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Turn {
    Arrival,
    RoundRobin,
}

/// How much of the optimiser's momentum groups use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Share {
    Same,
    Tuned,
}

/// Results of one way to train, over all seeds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Outcome {
    /// Number of asynchronous groups; `None` for synchronous training.
    groups: Option<usize>,
    /// Momentum of the groups; `None` for synchronous training.
    momentum: Option<Share>,
    slow: u32,
    steps_per_second: f64,
    samples_per_second: f64,
    /// Throughput relative to synchronous training.
    faster: f64,
    /// Mean number of other updates between reading parameters and applying their gradient.
    staleness_mean: Option<f64>,
    staleness_max: Option<u64>,
    /// Mean over seeds of the validation loss.
    loss: f64,
    /// The validation loss of each seed.
    losses: Vec<f64>,
    /// Geometric mean over seeds of the loss relative to synchronous training with the same seed.
    loss_change_percent: f64,
    /// 95 % interval of the change, by Student's t of the logarithms; `None` for a single seed.
    loss_change_interval: Option<[f64; 2]>,
}

impl Outcome {
    /// Fills in the comparison with synchronous training.
    fn compare(&mut self, in_step: &Self) {
        self.faster = self.samples_per_second / in_step.samples_per_second;
        // Geometric mean: an arithmetic mean of ratios would favour those above 1, although twice as good and twice as
        // bad should cancel.
        let pairs = self.losses.iter().zip(&in_step.losses);
        let logs: Vec<f64> = pairs.map(|(one, other)| (one / other).ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let percent = |log: f64| 100.0 * log.exp_m1();
        self.loss_change_percent = percent(mean);
        self.loss_change_interval = (logs.len() > 1).then(|| {
            let error = (squares / (n - 1.0) / n).sqrt();
            let half = student_limit(CONFIDENCE, logs.len() - 1) * error;
            [percent(mean - half), percent(mean + half)]
        });
    }
}

/// Groups and their momentum; `None` is synchronous training.
type Way = Option<(usize, Share)>;

/// All ways to train.
#[derive(Debug, Serialize)]
struct Table(Vec<Outcome>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<15} {:>12} {:>8} {:>10} {:>10} {:>16} {:>9} {:>24}",
            "training",
            "slowest rank",
            "steps/s",
            "samples/s",
            "faster by",
            "staleness",
            "loss",
            "change"
        )?;
        for row in &self.0 {
            let name = match row.groups {
                None => "in step".to_string(),
                Some(1) => "1 group".to_string(),
                Some(groups) => format!("{groups} groups"),
            };
            let tuned = match row.momentum {
                Some(Share::Tuned) => ", tuned",
                _ => "",
            };
            let interval = row.loss_change_interval;
            let interval = interval.map(|[low, high]| format!(" ({low:+.1} to {high:+.1})"));
            let change = format!(
                "{:+.1}{} %",
                row.loss_change_percent,
                interval.unwrap_or_default()
            );
            let name = name + tuned;
            let stale = match (row.staleness_mean, row.staleness_max) {
                (Some(mean), Some(max)) => format!("{mean:.2}, at most {max}"),
                _ => "-".to_string(),
            };
            writeln!(
                f,
                "{name:<15} {:>11}x {:>8.2} {:>10.2} {:>9.2}x {stale:>16} {:>9.4} {change:>24}",
                row.slow, row.steps_per_second, row.samples_per_second, row.faster, row.loss,
            )?;
        }
        write!(
            f,
            "a step is one of a group; faster: by samples; staleness: updates by others between reading parameters and using their gradient; \
             loss: on samples not learnt from, as many learnt from in every row; change: against training in step with the same seed, \
             geometric mean and its 95 % interval over seeds"
        )
    }
}

/// Trains in every way and prints the results.
pub(super) fn run(options: &GroupOptions, json: bool) -> anyhow::Result<()> {
    options.check()?;
    let folder = tempfile::tempdir()?;
    store(&folder.path().join("store"))?;
    let mut rows: Vec<Outcome> = Vec::new();
    let mut learnt: Option<Outcome> = None;
    for &slow in &options.slow {
        // Synchronous ranks produce the same bits whichever rank is slow, so later runs only measure speed, with one
        // seed.
        let in_step = match &learnt {
            None => options.mean(folder.path(), None, slow, options.seeds)?,
            Some(first) => Outcome {
                loss: first.loss,
                losses: first.losses.clone(),
                ..options.mean(folder.path(), None, slow, 1)?
            },
        };
        learnt.get_or_insert_with(|| in_step.clone());
        let mut all = vec![in_step.clone()];
        for &groups in &options.groups {
            for &momentum in &options.momentum {
                let way = Some((groups, momentum));
                all.push(options.mean(folder.path(), way, slow, options.seeds)?);
            }
        }
        for row in &mut all {
            row.compare(&in_step);
        }
        rows.append(&mut all);
    }
    output::result(&Table(rows), json)
}

impl GroupOptions {
    fn check(&self) -> anyhow::Result<()> {
        let uneven = |groups: &usize| *groups == 0 || !self.workers.is_multiple_of(*groups);
        let bad = if let Some(groups) = self.groups.iter().find(|groups| uneven(groups)) {
            format!("{} ranks do not divide into {groups} groups", self.workers)
        } else if self.workers == 0 || self.servers == 0 || self.seeds == 0 {
            "a rank, a server and a seed are the least".to_string()
        } else if self.slow.is_empty() || self.slow.contains(&0) {
            "the slowest rank sleeps at least as long as the others".to_string()
        } else if self.samples < 10 * self.workers as u64 {
            format!(
                "{} samples are under ten steps of {} ranks",
                self.samples, self.workers
            )
        } else {
            return Ok(());
        };
        Err(Advice::usage(
            bad,
            "for example --workers 4 --groups 2,4 --servers 1 --slow 1,3 --samples 480",
        ))
    }

    /// The result of one way to train, as the mean over this many seeds.
    fn mean(&self, folder: &Path, way: Way, slow: u32, seeds: u64) -> anyhow::Result<Outcome> {
        let mut mean = Outcome {
            groups: way.map(|(groups, _)| groups),
            momentum: way.map(|(_, momentum)| momentum),
            slow,
            ..Outcome::default()
        };
        let part = 1.0 / seeds as f64;
        for seed in 1..=seeds {
            let (report, loss) = self.train(folder, way, slow, seed)?;
            let rate = report.steps as f64 / report.seconds;
            mean.steps_per_second += part * rate;
            mean.samples_per_second += part * rate * self.ranks_of_step(way) as f64;
            mean.loss += part * loss;
            mean.losses.push(loss);
            if let Some(stale) = report.staleness {
                let so_far = mean.staleness_mean.unwrap_or(0.0);
                mean.staleness_mean = Some(so_far + part * stale.mean);
                mean.staleness_max = mean.staleness_max.max(Some(stale.max));
            }
        }
        Ok(mean)
    }

    /// Ranks per step, each with one sample.
    fn ranks_of_step(&self, way: Way) -> usize {
        self.workers / way.map_or(1, |(groups, _)| groups)
    }

    fn train(
        &self,
        folder: &Path,
        way: Way,
        slow: u32,
        seed: u64,
    ) -> anyhow::Result<(TrainReport, f64)> {
        let recipe = self.recipe(way, seed)?;
        let name = match way {
            None => format!("in-step-{slow}-{seed}"),
            Some((groups, momentum)) => format!("{groups}-{momentum:?}-{slow}-{seed}"),
        };
        let out = folder.join(name);
        std::fs::create_dir_all(&out)?;
        let servers = way.map_or(0, |_| self.servers);
        let ranks = servers + self.workers;
        let sleep = Duration::from_millis(self.sleep_ms);
        let reports = threads::run(threads::ranks(ranks), |rank| {
            let last = rank.member() + 1 == ranks;
            let sleep = sleep * if last { slow } else { 1 };
            let store = Arc::new(Store::open(folder.join("store"))?);
            let mut team = Team::of(Box::new(rank), Box::new(|_| ())).slowed(sleep);
            let stop = AtomicBool::new(false);
            train_together(&recipe, &store, &out, &mut |_| {}, &stop, &mut team)
        });
        let reports: Result<Vec<TrainReport>, JobError> = reports.into_iter().collect();
        let report = reports?.swap_remove(0);
        let metrics = read_metrics(&out.join("metrics.jsonl"))?;
        let loss = metrics.iter().rev().find_map(|metric| match metric {
            Metric::Validation { scores, .. } => Some(scores.loss()),
            _ => None,
        });
        Ok((report, loss.unwrap_or(f64::NAN)))
    }

    /// The smallest network, one sample per rank and step, and a learning rate proportional to the ranks of a step.
    fn recipe(&self, way: Way, seed: u64) -> anyhow::Result<Recipe> {
        let ranks = self.ranks_of_step(way);
        let steps = self.samples / ranks as u64;
        let kept = STATISTICS_KEPT.powi(ranks as i32);
        let order = match self.order {
            Turn::Arrival => "arrival",
            Turn::RoundRobin => "round-robin",
        };
        let groups = way.map_or_else(String::new, |(groups, momentum)| {
            let servers = self.servers;
            let momentum = match momentum {
                Share::Same => "",
                Share::Tuned => "momentum = 'tuned'",
            };
            format!("groups = {groups}\nservers = {servers}\norder = '{order}'\n{momentum}")
        });
        let warmup = steps / 50 + 1;
        let text = format!(
            "
            name = 'groups'
            seed = {seed}
            precision = 'f32'
            [training]
            batch = 1
            steps = {steps}
            validate_every_steps = 1000000
            checkpoint_every_steps = 1000000
            [distributed]
            rate_scaling = 'linear'
            {groups}
            [optimiser]
            rule = 'sgd'
            momentum = 0.9
            [schedule]
            rate = 5e-3
            warmup_steps = {warmup}
            [network]
            name = 'deeplabv3plus-bilinear'
            width = 0.05
            blocks = [1, 1]
            atrous_rates = [1, 2]
            dropout = 0.0
            batch_norm_decay = {kept:.4}"
        );
        Ok(Recipe::parse(&text, &[])?)
    }
}

/// Writes a sample store of a small synthetic run.
fn store(folder: &Path) -> anyhow::Result<()> {
    let run = SyntheticRun::new(SyntheticConfig {
        rows: GRID.0,
        columns: GRID.1,
        start: Time::parse("2000-08-01", Calendar::NoLeap)?,
        step_hours: 24,
        steps: DAYS,
        scenario: Scenario::PRESENT,
        seed: 1,
    })?;
    let channels = Variable::CHANNELS.to_vec();
    let meta = StoreMeta::new(run.grid().clone(), Calendar::NoLeap, channels);
    let mut writer = StoreWriter::create(folder, meta)?;
    for index in 0..run.len() {
        let (snapshot, truth) = run.snapshot(index);
        let split = match (index / BLOCK) % 5 {
            4 => Split::Validation,
            _ => Split::Train,
        };
        writer.push(&snapshot, &truth.mask, split)?;
    }
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests;
