//! `squall tune`: searches for better recipe values with many short runs, most of which end early.

use crate::failure::Advice;
use crate::own_folder::{self, Holds};
use crate::plan::{Plan, counted, duration};
use crate::progress::Progress;
use crate::{device, interrupt, output, ranks};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use squall_data::store::Split;
use squall_data::{Store, atomic};
use squall_jobs::Outcome;
use squall_jobs::train::TrainEvent;
use squall_jobs::tune::{
    Dimension, Ladder, LeaderboardEntry, Search, Space, Trial, TuneEvent, distinct, share_of_memory,
};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a rank asked to stop waits for the others to save.
const OTHERS_SAVE: Duration = Duration::from_secs(60);

/// Maximum number of trials: all of them are drawn before the first begins.
const MOST_TRIALS: u64 = 100_000;

/// Search for better values of recipe keys by successive halving: many short runs, of which the best continue.
///
/// The first trial is the unchanged recipe. All trials use its full length and schedule, but halt after the first part
/// of their steps; at each of two halts, by default, one in three continues. If one of these fails, the next best
/// replaces it. Repeat the command after any interruption; further processes with the same command (`mpirun -n 4 squall
/// tune ...`, tasks of a job array) take trials that no other process has.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  squall tune --recipe small --data STORE --out TUNED --vary schedule.rate=1e-4..1e-2 \\\n      --vary training.batch=1,2,4"
)]
pub struct Tune {
    /// Recipe file, or the name of a built-in recipe.
    #[arg(long, value_name = "RECIPE")]
    recipe: PathBuf,
    /// Sample store of `squall stage`, with validation samples.
    #[arg(long, value_name = "STORE")]
    data: PathBuf,
    /// Output folder of the search: leaderboard.csv, best.toml, the runs of the trials.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Key and its values: KEY=LOW..HIGH (logarithmic if HIGH is at least ten times LOW; whole numbers stay whole) or
    /// KEY=A,B,C; repeatable.
    #[arg(long, required = true, value_name = "KEY=VALUES", value_parser = dimension)]
    vary: Vec<Dimension>,
    /// Number of trials, including the unchanged recipe; fewer if the lists have fewer combinations.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(..=MOST_TRIALS))]
    trials: usize,
    /// Number of halts, including the end; 1 runs all trials to the end.
    #[arg(long, value_name = "N", default_value_t = 3)]
    halts: usize,
    /// At each halt, the best of every N trials continue, to N times as many steps.
    #[arg(long, default_value_t = 3, value_name = "N")]
    keep_one_of: usize,
    /// Runs of each trial with different seeds, the recipe's own and those after it; trials are compared by the means.
    #[arg(long, default_value_t = 1, value_name = "N")]
    repeats: usize,
    /// Random seed: it selects among equally even spreads of values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Set a recipe key for all trials, such as training.steps=900; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    #[command(flatten)]
    device: device::Options,
    /// Print the leaderboard as one JSON document.
    #[arg(long)]
    json: bool,
}

fn dimension(text: &str) -> Result<Dimension, String> {
    text.parse()
}

impl Tune {
    /// Searches and reports the best trials.
    pub fn run(self) -> anyhow::Result<()> {
        let stop = interrupt::flag();
        // Before any process allocates much, so that all of them see the same free memory.
        let memory_bytes = share_of_memory(ranks::processes_on_node());
        self.device.open()?;
        let usage = |reason| Advice::usage(reason, "`squall tune --help` has an example");
        let store = Arc::new(Store::open(&self.data)?);
        own_folder::check(&self.out, Holds::Search)?;
        let space = Space::new(self.vary.clone(), self.seed).map_err(usage)?;
        if self.repeats > 1 && space.keys().any(|key| key == "seed") {
            let reason = "`seed` cannot be varied with --repeats, which gives every trial several";
            return Err(usage(reason.to_string()));
        }
        if store.ids(Split::Validation).is_empty() {
            return Err(Advice::input(
                format!("`{}` has no validation samples", self.data.display()),
                "trials are compared by them: `squall stage` makes a split with some",
            ));
        }
        let most = self.trials.max(1);
        let candidates = space.candidates(most);
        let trials = distinct(&self.recipe, &self.overrides, candidates, most)?;
        let ladder = Ladder::new(trials.len(), self.halts, self.keep_one_of)
            .and_then(|ladder| ladder.repeated(self.repeats))
            .map_err(usage)?;
        let search = Search {
            recipe: &self.recipe,
            overrides: &self.overrides,
            trials: &trials,
            ladder,
            store: &store,
            folder: &self.out,
            memory_bytes,
            stalled_after: ranks::stall_limit()?,
        };
        let (_, halts) = search.plan_of(&Trial::default())?;
        announce(&search.ladder, &halts);
        let keys: Vec<&str> = space.keys().collect();
        let own = search.own_values(&keys)?;
        let board = search.run(&stop, &mut teller())?;
        let Some(board) = board else {
            if ranks::of_a_launcher() {
                search.let_others_save(OTHERS_SAVE);
            }
            if self.json
                && ranks::number() == 0
                && let Err(error) = interrupted(&search, own).and_then(|all| output::json(&all))
            {
                tracing::warn!("the leaderboard is not printed: {error}");
            }
            return Err(interrupt::stopped());
        };
        let mut places = board.places();
        let best = Trial {
            values: places[0].values.clone(),
            ..Trial::default()
        };
        name_own_values(&mut places, own);
        atomic::write(
            self.out.join("leaderboard.csv"),
            table(&keys, &places).as_bytes(),
        )?;
        let leaderboard = Leaderboard::new(&self.out, &search, &board.trials, places)?;
        let (recipe, _) = search.plan_of(&best)?;
        atomic::write(&leaderboard.recipe, recipe.to_toml().as_bytes())?;
        // If ranks share the search, the first one reports how it ended.
        match ranks::number() {
            0 => output::result(&leaderboard, self.json),
            _ => Ok(()),
        }
    }
}

/// Gives trial 0 the values of the unchanged recipe.
fn name_own_values(places: &mut [LeaderboardEntry], own: Vec<(String, String)>) {
    if let Some(first) = places.iter_mut().find(|place| place.trial == 0) {
        first.values = own;
    }
}

/// The document of a search that a signal stopped: its trials as they stand, of which none is the best yet.
fn interrupted(
    search: &Search<'_>,
    own: Vec<(String, String)>,
) -> anyhow::Result<serde_json::Value> {
    let board = search.standing()?;
    let mut names = board.trials.iter().map(|trial| &trial.score_name);
    let mut places = board.places();
    name_own_values(&mut places, own);
    Ok(serde_json::json!({
        "outcome": Outcome::Interrupted,
        "score": names.find(|name| !name.is_empty()),
        "recipe": null,
        "model": null,
        "places": places,
    }))
}

/// Logs the amount of work, assuming that all trials are as long as the recipe.
fn announce(ladder: &Ladder, halts: &[u64]) {
    let rungs = halts.iter().enumerate();
    let rungs = rungs.map(|(rung, step)| format!("{} to step {step}", ladder.trials_at(rung)));
    let runs = (ladder.trials() * ladder.repeats()) as u64;
    let all = runs * halts.last().copied().unwrap_or(0);
    let work = ladder.work(halts);
    let seeds = match ladder.repeats() {
        1 => String::new(),
        repeats => format!(" with {repeats} seeds each"),
    };
    tracing::info!(
        "{}{seeds}: {}; {work} steps, {:.0} % of all to the end",
        counted(ladder.trials(), "trial"),
        rungs.collect::<Vec<_>>().join(", "),
        100.0 * work as f64 / all as f64
    );
}

/// Reports events to the user.
fn teller() -> impl FnMut(&TuneEvent<'_>) {
    let mut progress: Option<Progress> = None;
    let mut announced = false;
    move |event| match event {
        TuneEvent::Trial { trial, until } => {
            tracing::info!(
                "{} to step {until}: {}",
                trial.name(),
                in_words(&trial.values)
            );
            progress = Some(Progress::new("tune", *until as usize));
        }
        TuneEvent::Train(TrainEvent::Started(plan)) => {
            if !std::mem::replace(&mut announced, true) {
                Plan {
                    work: format!("a trial to the end ({}, {})", plan.dtype, plan.backend),
                    read: plan.read_bytes,
                    write: plan.write_bytes,
                    memory: plan.memory_bytes,
                    seconds: None,
                }
                .announce();
            }
            if let Some(progress) = &mut progress {
                progress.start(plan.total_steps as usize, plan.done_steps as usize);
            }
        }
        TuneEvent::Train(TrainEvent::Step { step, result, .. }) => {
            if let Some(progress) = &mut progress {
                progress.set(*step as usize, format!("loss {:.4}", result.loss));
            }
        }
        TuneEvent::Halted(trial) => {
            if let Some(progress) = progress.take() {
                progress.finish();
            }
            match (&trial.failed, trial.score()) {
                (Some(reason), _) => tracing::warn!("{} is out: {reason}", trial.name()),
                (None, Some(score)) => {
                    let nothing = match trial.finds_nothing() {
                        true => ", that of the background: it finds no storm",
                        false => "",
                    };
                    tracing::info!("{}: {} {score:.4}{nothing}", trial.name(), trial.score_name);
                }
                (None, None) => {}
            }
        }
        TuneEvent::Waiting => tracing::info!("waiting for trials of other processes"),
        TuneEvent::StandsStill {
            trial,
            holder,
            idle,
        } => tracing::warn!(
            "trial {trial} has not advanced for {:.0} s: {} trains it. If that is stopped, let it go on or end it, and another takes \
             the trial over; SQUALL_STALL_SECONDS sets after how long this is told",
            idle.as_secs_f64(),
            holder.as_deref().unwrap_or("another process")
        ),
        _ => {}
    }
}

fn in_words(values: &[(String, String)]) -> String {
    if values.is_empty() {
        return "the recipe as it is".to_string();
    }
    let pairs = values.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// The values of a place; for trial 0 those of the recipe.
fn in_words_of(place: &LeaderboardEntry) -> String {
    let values = in_words(&place.values);
    match place.trial {
        0 if !place.values.is_empty() => format!("{} ({values})", in_words(&[])),
        _ => values,
    }
}

/// The current ranking.
#[derive(Debug, Serialize)]
struct Leaderboard {
    outcome: Outcome,
    /// The score that trials are compared by.
    score: String,
    /// The recipe of the best trial.
    recipe: PathBuf,
    /// The model of the best trial.
    model: PathBuf,
    places: Vec<LeaderboardEntry>,
}

impl Leaderboard {
    fn new(
        out: &Path,
        search: &Search<'_>,
        trials: &[Trial],
        places: Vec<LeaderboardEntry>,
    ) -> anyhow::Result<Self> {
        let name = trials
            .iter()
            .map(|trial| &trial.score_name)
            .find(|name| !name.is_empty());
        let first = places.first().filter(|place| place.score.is_some());
        let (Some(name), Some(first)) = (name, first) else {
            let why = places.iter().find_map(|place| place.failed.clone());
            return Err(Advice::run(
                format!("every trial broke down: {}", why.unwrap_or_default()),
                "narrower or lower values may help",
            ));
        };
        if trials[first.trial].finds_nothing() {
            let seeds = match search.ladder.repeats() {
                1 => "",
                _ => " with at least one of its seeds",
            };
            tracing::warn!(
                "the best trial finds no storm{seeds}: its score is that of the background, and best.toml may be no better than the \
                 recipe. More steps, another `loss.weighting` or lower rates may help"
            );
        }
        Ok(Self {
            outcome: Outcome::Finished,
            score: name.clone(),
            recipe: out.join("best.toml"),
            model: search.folder_of(first.trial).join("best.safetensors"),
            places,
        })
    }

    /// The score of the best trial's model, if it differs from the score that determines its place: the model is the
    /// trial's best one so far, with the recipe's own seed, while the place depends on the score at the end, the mean
    /// over seeds.
    fn write_score_of_model(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.places[0];
        if let (false, Some(best), Some(step)) =
            (first.scores.is_empty(), first.best_score, first.best_step)
        {
            return write!(
                f,
                "\n{}: mean ± standard deviation over {} seeds; the model is that of the recipe's own seed, {best:.4} at step {step}",
                self.score,
                first.scores.len()
            );
        }
        match (first.score, first.best_score, first.best_step) {
            (Some(score), Some(best), Some(step)) if step < first.steps => write!(
                f,
                "\n{}: {score:.4} at the end, best {best:.4} at step {step}, which is that of the model",
                self.score
            ),
            _ => Ok(()),
        }
    }
}

/// The contents of leaderboard.csv; its last two columns only if trials are repeated.
fn table(keys: &[&str], places: &[LeaderboardEntry]) -> String {
    let repeated = places.iter().any(|place| !place.scores.is_empty());
    let more = if repeated { ",spread,scores" } else { "" };
    let mut table = format!(
        "place,trial,steps,score,seconds,{},failed,best_score,best_step,skipped_steps{more}\n",
        quoted(keys)
    );
    for place in places {
        let value = |key: &&str| {
            let found = place.values.iter().find(|(k, _)| k == key);
            found.map_or("", |(_, value)| value.as_str())
        };
        let values: Vec<&str> = keys.iter().map(value).collect();
        let number = |score: Option<f64>| score.map_or(String::new(), |score| score.to_string());
        let best_step = place
            .best_step
            .map_or(String::new(), |step| step.to_string());
        let more = match repeated {
            true => {
                let scores: Vec<String> = place.scores.iter().map(f64::to_string).collect();
                format!(",{},{}", number(place.spread), scores.join(" "))
            }
            false => String::new(),
        };
        table += &format!(
            "{},{},{},{},{:.1},{},{},{},{best_step},{}{more}\n",
            place.place,
            place.trial,
            place.steps,
            number(place.score),
            place.seconds,
            quoted(&values),
            quoted(&[place.failed.as_deref().unwrap_or("")]),
            number(place.best_score),
            place.skipped_steps
        );
    }
    table
}

/// Formats the fields of a table row.
fn quoted(fields: &[&str]) -> String {
    let field = |text: &&str| {
        if text.contains([',', '"', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            (*text).to_string()
        }
    };
    fields.iter().map(field).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Leaderboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeated = self.places.iter().any(|place| place.spread.is_some());
        let width = if repeated { 15 } else { 9 };
        write!(
            f,
            "place trial  steps  {:>width$}  {:>16}   time",
            self.score, "best at step"
        )?;
        for place in &self.places {
            let score = match (place.score, place.spread) {
                (Some(score), Some(spread)) => format!("{score:.4} ± {spread:.4}"),
                (Some(score), None) => format!("{score:.4}"),
                (None, _) => "out".to_string(),
            };
            let best = match (place.best_score, place.best_step) {
                (Some(score), Some(step)) => format!("{score:.4} at {step}"),
                _ => String::new(),
            };
            write!(
                f,
                "\n{:>5} {:>5} {:>6}  {score:>width$}  {best:>16} {:>6}   {}",
                place.place,
                place.trial,
                place.steps,
                duration(place.seconds),
                in_words_of(place)
            )?;
        }
        write!(
            f,
            "\n\nbest recipe: {}; its model: {}",
            self.recipe.display(),
            self.model.display()
        )?;
        self.write_score_of_model(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of lists and reasons have commas and quotes.
    #[test]
    fn every_place_has_a_line_of_as_many_fields() {
        let place = |place: usize, blocks: &str| LeaderboardEntry {
            place,
            trial: 7,
            steps: 30,
            score: Some(0.5),
            values: vec![("network.blocks".to_string(), blocks.to_string())],
            failed: None,
            seconds: 1.5,
            best_score: Some(0.75),
            best_step: Some(20),
            skipped_steps: 2,
            spread: None,
            scores: Vec::new(),
        };
        let lost = LeaderboardEntry {
            score: None,
            failed: Some("diverged: a \"loss\", say".into()),
            best_score: None,
            best_step: None,
            ..place(2, "x")
        };
        let keys = ["schedule.rate", "network.blocks"];
        let repeated = LeaderboardEntry {
            spread: Some(0.25),
            scores: vec![0.75, 0.25],
            ..place(1, "x")
        };
        assert_eq!(
            table(&keys[1..], &[repeated, lost.clone()]),
            "place,trial,steps,score,seconds,network.blocks,failed,best_score,best_step,skipped_steps,spread,scores\n\
             1,7,30,0.5,1.5,x,,0.75,20,2,0.25,0.75 0.25\n\
             2,7,30,,1.5,x,\"diverged: a \"\"loss\"\", say\",,,2,,\n"
        );
        assert_eq!(
            table(&keys, &[place(1, "[1, 2]"), lost]),
            "place,trial,steps,score,seconds,schedule.rate,network.blocks,failed,best_score,best_step,skipped_steps\n\
             1,7,30,0.5,1.5,,\"[1, 2]\",,0.75,20,2\n\
             2,7,30,,1.5,,x,\"diverged: a \"\"loss\"\", say\",,,2\n"
        );
    }
}
