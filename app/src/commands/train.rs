//! `squall train`: trains a model with a recipe on a sample store.

use super::stage::origin::Origin;
use crate::failure;
use crate::own_folder::{self, Holds};
use crate::plan::{Plan, bytes, counted, duration};
use crate::progress::Progress;
use crate::{device, interrupt, logging, output, ranks};
use clap::Args;
use squall_climate::detect::Method;
use squall_data::store::Split;
use squall_data::{Class, Store};
use squall_jobs::recipe::Task;
use squall_jobs::staging::folder_of_node;
use squall_jobs::train::{Balance, Hardware, MlLog, Team};
use squall_jobs::{JobError, Outcome, Recipe, TrainEvent, TrainReport, train_together};
use squall_model::Backend;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Steps after the first one that the estimate of a run's time is taken from.
const MEASURED_STEPS: u64 = 4;
/// A run that takes fewer seconds needs no estimate.
const LEAST_ESTIMATE_SECONDS: f64 = 10.0;

/// Train a network on a sample store; repeat the command to continue an interrupted run.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall train --recipe small --data store --out model\n  squall train --recipe small --data store --out model --set training.batch=4 \\\n      --set training.epochs=5\n  mpirun -n 4 squall train --recipe R.toml --data store --out model"
)]
pub struct Train {
    /// Recipe file, or the name of a built-in recipe: small, full, deeplabv3plus-published, deepcam, tiramisu, cgnet,
    /// detect, detect-dense, detect-over-time, detect-published, masks-and-boxes. docs/recipe.md lists all keys.
    #[arg(long, value_name = "RECIPE")]
    pub recipe: PathBuf,
    /// Sample store of `squall stage`; {node} is replaced by the node's number, as for `squall stage --local`.
    #[arg(long, value_name = "STORE")]
    pub data: PathBuf,
    /// Folder of the run: best.safetensors, last.safetensors, metrics.jsonl, TensorBoard events.
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Set a recipe key, such as training.batch=2; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// Also write a log in the format of MLPerf HPC's DeepCAM benchmark (`:::MLLOG` lines), one file per run; a
    /// continued run appends. docs/training.md describes its contents.
    #[arg(long, value_name = "FILE")]
    pub mllog: Option<PathBuf>,
    #[command(flatten)]
    pub device: device::Options,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Whether a network learns masks of cyclones from mirrored fields although the rules that drew them would draw others
/// there. What drew them is known of stores whose origin says so.
fn learns_mirrored_cyclones(recipe: &Recipe, store: &Store) -> bool {
    let has_masks = recipe.task == Task::Segment || recipe.network.mask_classes > 0;
    let mut counts = Class::ALL.iter().zip(store.class_counts(Split::Train));
    let method = || Origin::read(store.folder())?.method();
    recipe.data.augmentation.mirror
        && has_masks
        && counts.any(|(class, count)| *class == Class::TropicalCyclone && count > 0)
        && method().is_some_and(Method::depends_on_wind_sign)
}

/// Training speed as a percentage of the matrix product rate of all `ranks`; `rate` is that of this one.
fn percent_of_peak(balance: &Balance, ranks: usize, rate: f64) -> f64 {
    100.0 * balance.flops_per_second / (rate * ranks as f64)
}

/// Describes the speed of the ranks compared with the matrix product rate of one of them, and their balance.
fn in_words(balance: &Balance, ranks: usize, rate: f64) -> String {
    let mut told = format!(
        "{:.2} samples/s, {:.1} GFLOP/s",
        balance.samples_per_second,
        balance.flops_per_second / 1e9,
    );
    let percent = percent_of_peak(balance, ranks, rate);
    let place = match ranks {
        1 => "here".to_string(),
        _ => format!("on {ranks} ranks like the first"),
    };
    if percent.is_finite() {
        told += &format!(": {percent:.0} % of what matrix products of that type reach {place}");
    }
    if ranks > 1 {
        told += &format!(
            "; rank {} computed {:.0} % longer than the mean",
            balance.slowest,
            100.0 * balance.imbalance
        );
    }
    told
}

/// The time that a run takes on, told once, when some steps were done: before, no rate is known. The first one does not
/// count, because it prepares the kernels.
#[derive(Debug, Default)]
struct Estimate {
    /// The first step of this part, and when it was done.
    first: Option<(u64, Instant)>,
    is_told: bool,
}

impl Estimate {
    /// The sentence, after the step from which on it is known.
    fn after(&mut self, step: u64, total: u64, now: Instant) -> Option<String> {
        let (first, began) = *self.first.get_or_insert((step, now));
        let steps = step.saturating_sub(first);
        if self.is_told || steps < MEASURED_STEPS {
            return None;
        }
        self.is_told = true;
        let others = total.saturating_sub(step);
        let each = now.duration_since(began).as_secs_f64() / steps as f64;
        let seconds = each * others as f64;
        (seconds >= LEAST_ESTIMATE_SECONDS).then(|| {
            format!(
                "the other {} take about {}, at the rate of the first",
                counted(others, "step"),
                duration(seconds)
            )
        })
    }
}

/// The final messages, compared with the matrix product rate of one rank. A run without new steps has no speed.
fn closing(report: &TrainReport, rate: f64) -> Vec<String> {
    let best = report
        .best
        .as_ref()
        .map(|best| format!(", best at step {}", best.step))
        .unwrap_or_default();
    let (steps, model) = (report.steps, report.model.display());
    if report.last_loss.is_none() {
        let all = match report.ended_early {
            None => "all ",
            Some(_) => "",
        };
        return vec![format!(
            "the run is finished: {all}{steps} steps were done before{best}: {model}"
        )];
    }
    // The seconds are those of this part.
    let done = match report.new_steps == steps {
        true => counted(steps, "step"),
        false => format!("{} of {}", report.new_steps, counted(steps, "step")),
    };
    let spent = &report.spent;
    let percent = |part: f64| 100.0 * part / report.seconds.max(f64::MIN_POSITIVE);
    vec![
        format!("{done} in {}{best}: {model}", duration(report.seconds)),
        in_words(&report.balance, report.ranks, rate),
        format!(
            "of the time {:.0} % forward, {:.0} % backward, {:.0} % update, {:.0} % waiting for data, {:.0} % waiting for other ranks{}",
            percent(spent.forward),
            percent(spent.backward),
            percent(spent.update),
            percent(spent.input),
            percent(spent.waiting()),
            spent.hidden().map_or(String::new(), |share| format!(
                " ({:.0} % of communication hidden)",
                100.0 * share
            ))
        ),
    ]
}

/// The report for programs; without a matrix product rate, `percent_of_peak` is null, and so is a model that is not there
/// before the first validation.
fn summary(report: &TrainReport, rate: f64) -> anyhow::Result<serde_json::Value> {
    let mut summary = serde_json::to_value(report)?;
    summary["percent_of_peak"] = percent_of_peak(&report.balance, report.ranks, rate).into();
    if !report.model.exists() {
        summary["model"] = serde_json::Value::Null;
    }
    Ok(summary)
}

impl Train {
    /// Trains and reports the result.
    pub fn run(self) -> anyhow::Result<()> {
        // Before ranks connect, which may take long, so that no signal of the batch system is lost.
        interrupt::flag();
        self.device.open()?;
        let mut team = ranks::team()?;
        let first = team.is_first();
        let report = self.train_as(&mut team)?;
        if report.outcome == Outcome::Interrupted {
            // At the end of a turn there is no time to measure rates.
            if first
                && self.json
                && let Err(error) = summary(&report, f64::NAN).and_then(|all| output::json(&all))
            {
                tracing::warn!("the summary is not printed: {error}");
            }
            return Err(interrupt::stopped());
        }
        if !self.json && logging::is_quiet() {
            return Ok(());
        }
        // On all ranks concurrently: cores that share caches and memory are slower together than alone.
        let rate = self.matrix_rate();
        if !first {
            return Ok(());
        }
        if self.json {
            return output::json(&summary(&report, rate)?);
        }
        for line in closing(&report, rate) {
            tracing::info!("{line}");
        }
        Ok(())
    }

    /// Measures the matrix product rate, in operations per second, in the training's data type; NaN if that fails,
    /// which must not fail a completed training.
    ///
    /// Uses the recipe of the run: the file of --recipe may have changed or disappeared.
    fn matrix_rate(&self) -> f64 {
        let backend = Backend::best();
        let recipe = Recipe::named(&self.out.join("recipe.toml"), &[]).ok();
        let recipe = recipe.or_else(|| self.read_recipe().ok());
        let dtype = recipe.map(|recipe| recipe.precision.resolve(backend).0);
        let rate = dtype.and_then(|dtype| backend.matrix_rate(dtype).ok());
        rate.unwrap_or(f64::NAN)
    }

    pub(super) fn read_recipe(&self) -> anyhow::Result<Recipe> {
        Ok(Recipe::named(&self.recipe, &self.overrides)?)
    }

    /// Trains and reports the result; an error if a signal stopped it.
    pub fn train(&self) -> anyhow::Result<TrainReport> {
        let report = self.train_as(&mut Team::solo())?;
        match report.outcome {
            Outcome::Finished => Ok(report),
            Outcome::Interrupted => Err(interrupt::stopped()),
        }
    }

    /// Trains as one of several ranks and reports the result, also if a signal stopped it; an error ends the job.
    fn train_as(&self, team: &mut Team) -> anyhow::Result<TrainReport> {
        let report = self.train_with(team);
        if let Err(error) = &report
            && matches!(error.downcast_ref(), Some(JobError::GaveUp(_)))
        {
            failure::report(error);
            // The other ranks determine whether the job succeeds.
            team.retire();
        }
        let report = ranks::finish(team.size(), report)?;
        if report.outcome == Outcome::Interrupted && team.is_first() {
            let step = report.steps;
            tracing::info!("stopped after step {step}, which the checkpoint holds");
        }
        Ok(report)
    }

    /// Opens the MLPerf log on the first rank, if requested. All ranks call it.
    fn open_mllog(&self, recipe: &Recipe, team: &mut Team) -> anyhow::Result<Option<MlLog>> {
        let Some(path) = &self.mllog else {
            return Ok(None);
        };
        let (ranks, nodes) = (team.size(), team.nodes()?);
        if !team.is_first() {
            return Ok(None);
        }
        let hardware = Hardware {
            ranks,
            nodes,
            // One GPU per rank.
            accelerators_per_node: match Backend::best().is_gpu() {
                true => ranks.div_ceil(nodes),
                false => 0,
            },
        };
        Ok(Some(MlLog::open(path, recipe, hardware)?))
    }

    fn train_with(&self, team: &mut Team) -> anyhow::Result<TrainReport> {
        let recipe = self.read_recipe()?;
        let mut log = self.open_mllog(&recipe, team)?;
        let store = Store::open(folder_of_node(&self.data, team.node_number()?))?;
        let store = Arc::new(store);
        if team.is_first() {
            own_folder::check(&self.out, Holds::Training)?;
            if learns_mirrored_cyclones(&recipe, &store) {
                tracing::warn!(
                    "`data.augmentation.mirror` is true and deepcam drew the masks: its cyclones follow the sign of the northward wind, and \
                     those of a mirrored field are not the mirrored masks. Expected false: networks find cyclones less well for it"
                );
            }
        }
        let stop = interrupt::flag();
        let first = team.is_first();
        let mut progress = Progress::new("train", 1);
        let (mut score, mut estimate) = (String::new(), Estimate::default());
        let mut tell = |event: &TrainEvent| match event {
            _ if !first => {}
            TrainEvent::Started(plan) => {
                Plan {
                    work: format!(
                        "train {:.2} M parameters for {} on {} ({}, {})",
                        plan.parameters as f64 / 1e6,
                        counted(plan.total_steps, "step"),
                        counted(plan.training_samples, "sample"),
                        plan.dtype,
                        plan.backend
                    ),
                    read: plan.read_bytes,
                    write: plan.write_bytes,
                    memory: plan.memory_bytes,
                    seconds: None,
                }
                .announce();
                progress.start(plan.total_steps as usize, plan.done_steps as usize);
            }
            TrainEvent::Step {
                step,
                total,
                result,
                ..
            } => {
                progress.set(*step as usize, format!("loss {:.4}{score}", result.loss));
                if let Some(told) = estimate.after(*step, *total, Instant::now()) {
                    progress.note(&told);
                }
            }
            TrainEvent::Validated { step, scores, best } => {
                // It stands in the lines of all steps up to the next validation.
                let (name, value) = (scores.score_name(), scores.score());
                score = format!(", validation of step {step}: {name} {value:.3}");
                let mark = if *best { " (best)" } else { "" };
                progress.note(&format!("step {step}: validation {scores}{mark}"));
            }
            _ => {}
        };
        let mut hear = |event: &TrainEvent| {
            log.iter_mut().for_each(|log| log.observe(event));
            tell(event);
        };
        let report = train_together(&recipe, &store, &self.out, &mut hear, &stop, team);
        let report = match log {
            Some(log) => log.end(report),
            None => report,
        }?;
        progress.finish();
        if first && report.missing_values > 0 {
            tracing::warn!(
                "{} missing values were replaced by the channel's mean",
                report.missing_values
            );
        }
        tracing::debug!("peak memory {}", bytes(crate::plan::peak_memory()));
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_jobs::train::Spent;
    use std::time::Duration;

    /// Two ranks that reach a quarter of what their matrix products do.
    #[test]
    fn speed_is_told_beside_that_of_all_ranks() {
        let balance = Balance {
            samples_per_second: 3.0,
            flops_per_second: 5e9,
            imbalance: 0.25,
            slowest: 1,
        };
        assert_eq!(percent_of_peak(&balance, 2, 1e10), 25.0);
        let told = in_words(&balance, 2, 1e10);
        assert_eq!(
            told,
            "3.00 samples/s, 5.0 GFLOP/s: 25 % of what matrix products of that type reach on 2 ranks like the first; \
             rank 1 computed 25 % longer than the mean"
        );
        let told = in_words(&balance, 1, 1e10);
        assert!(
            told.ends_with(": 50 % of what matrix products of that type reach here"),
            "{told}"
        );
    }

    /// A run that goes on from step 100, whose first step takes long, and those that follow two seconds.
    #[test]
    fn the_first_steps_tell_how_long_a_run_takes() {
        let start = Instant::now();
        let told = |total: u64| {
            let mut estimate = Estimate::default();
            let steps = 101..=107u64;
            let told = steps.map(|step| {
                let at = start + Duration::from_secs(30 + 2 * (step - 101));
                (step, estimate.after(step, total, at))
            });
            told.filter_map(|(step, said)| Some((step, said?)))
                .collect::<Vec<(u64, String)>>()
        };
        let said = "the other 195 steps take about 6 min 30 s, at the rate of the first";
        assert_eq!(told(300), [(105, said.to_string())]);
        // Of a short one nobody needs it.
        assert!(told(109).is_empty());
    }

    #[test]
    fn a_run_that_was_finished_before_has_no_rate() {
        let mut report = TrainReport {
            outcome: Outcome::Finished,
            ended_early: None,
            steps: 12,
            new_steps: 0,
            total_steps: 12,
            skipped_steps: 0,
            best: None,
            last_loss: None,
            seconds: 0.25,
            ranks: 1,
            spent: Spent::default(),
            balance: Balance {
                samples_per_second: 0.0,
                flops_per_second: 0.0,
                imbalance: 0.0,
                slowest: 0,
            },
            missing_values: 0,
            staleness: None,
            model: "run/best.safetensors".into(),
        };
        let expected =
            "the run is finished: all 12 steps were done before: run/best.safetensors".to_string();
        assert_eq!(closing(&report, 1e9), [expected]);
        report.last_loss = Some(0.5);
        // Of a part, the seconds stood beside the steps of all parts.
        report.new_steps = 5;
        assert!(closing(&report, 1e9)[0].starts_with("5 of 12 steps in "));
        report.new_steps = 12;
        let said = closing(&report, 1e9);
        assert!(said[0].starts_with("12 steps in "), "{said:?}");
        assert!(said[1].contains("samples/s"), "{said:?}");
        assert!(said[1].contains(" % of what"), "{said:?}");
        // Where nobody knows how fast products are, the rest is told.
        let said = closing(&report, f64::NAN);
        assert_eq!(said[1], "0.00 samples/s, 0.0 GFLOP/s");
    }
}
