//! `squall supervise`: runs a command again until it finishes, as long as it advances.

use crate::arguments::number;
use crate::failure::{Advice, INPUT, INTERRUPTED, RUN, USAGE};
use crate::plan::counted;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use squall_jobs::RunDir;
use squall_jobs::lock::FolderLock;
use squall_jobs::train::checkpoint::newest_step;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Run a command, and again from its newest valid state when it fails, until it finishes or stops advancing.
///
/// Wrong usage and unusable input (exit codes 2 and 3) are not tried again, nor is what saved and asks to be run again
/// later (75); nothing is started beside another process that works in the folder (4). Signals go on to the command
/// (the first SIGTERM or SIGINT to Open MPI's mpirun as SIGUSR1, so that ranks have the time to save); what it then exits
/// with is what this exits with. Options of cores and memory act on the command only if they stand after `--`, or in the
/// environment.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: squall supervise -- mpirun -n 4 squall train --recipe R.toml --data STORE --out RUN"
)]
pub struct Supervise {
    /// Folder whose state must advance: a run, a search or an output of inference. Default: what --out of the command
    /// names.
    #[arg(long, value_name = "DIR")]
    pub watch: Option<PathBuf>,
    /// Give up after so many failures in a row without progress.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub tries: u32,
    /// Seconds between a failure and the next start, in which survivors of a killed job can go.
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    pub pause: f64,
    /// The command with its options, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl Supervise {
    /// Runs the command to its end.
    pub fn run(self) -> anyhow::Result<()> {
        let Some(watch) = self.watch.clone().or_else(|| out_of(&self.command)) else {
            let hint = "name the folder of its state with --watch, or let the command have --out";
            return Err(Advice::usage("there is nothing to watch", hint));
        };
        let relay = Relay::start(starts_by_open_mpi(&self.command))?;
        let mut without_progress = 0;
        loop {
            self.wait_for_others(&watch, &relay)?;
            let before = State::of(&watch);
            tracing::info!("starting {}, {before}", in_a_line(&self.command));
            let Some(status) = relay.run(&self.command)? else {
                return Err(ended(&self.command, NOT_STARTED, INTERRUPTED));
            };
            if status.success() {
                return Ok(());
            }
            let after = State::of(&watch);
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            let how = describe(status);
            // 75 without a signal to us: the batch system told the ranks themselves, or the time that the recipe gives
            // is over.
            if relay.was_told() || matches!(code, Some(USAGE | INPUT | INTERRUPTED)) {
                return Err(ended(&self.command, &how, code.unwrap_or(INTERRUPTED)));
            }
            without_progress = if after == before {
                without_progress + 1
            } else {
                0
            };
            if without_progress >= self.tries {
                let tries = counted(without_progress, "time");
                let how = format!("{how}, {tries} without progress ({after})");
                return Err(ended(&self.command, &how, code.unwrap_or(RUN)));
            }
            tracing::warn!("the command {how}; {after}: starting it again");
            if relay.comes_within(Duration::from_secs_f64(self.pause)) {
                return Err(ended(&self.command, &how, INTERRUPTED));
            }
        }
    }
}

/// How a command ends that a signal was faster than.
const NOT_STARTED: &str = "was not started: a signal came first";

impl Supervise {
    /// Waits for a process that works in the folder, as long as all tries would pause: what is left of a killed command
    /// ends by itself. What goes on outlived its supervisor, or has another: the command could not write there, and the
    /// other's progress would be taken for its own again and again.
    fn wait_for_others(&self, watch: &Path, relay: &Relay) -> anyhow::Result<()> {
        let pause = Duration::from_secs_f64(self.pause).max(LEAST_PATIENCE);
        let patience = pause * self.tries;
        let (begun, mut is_said) = (Instant::now(), false);
        while let Err(held) = FolderLock::check_free(watch) {
            if begun.elapsed() >= patience {
                let program = self.command.first().map_or("", String::as_str);
                return Err(Advice {
                    message: format!("{held}: `{program}` is not started beside it"),
                    hint: "another training or inference works in that folder, perhaps one whose supervisor was killed: wait for its end, \
                           or end it (`kill -USR1` and its process number, on the machine where it runs, lets a training save first), \
                           then give the same command again"
                        .into(),
                    code: RUN,
                }
                .into());
            }
            if !std::mem::replace(&mut is_said, true) {
                tracing::warn!("{held}: waiting {} s for its end", patience.as_secs());
            }
            if relay.comes_within(LEAST_PATIENCE / 10) {
                return Err(ended(&self.command, NOT_STARTED, INTERRUPTED));
            }
        }
        Ok(())
    }
}

/// How long another process has at least, for each try, to leave the folder.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// The longest pause, a day.
const LONGEST_PAUSE: f64 = 86_400.0;

/// Parses a pause.
fn seconds(text: &str) -> Result<f64, String> {
    let expected = format!("seconds from 0 to {LONGEST_PAUSE}, such as 10");
    number(
        text,
        |value: &f64| (0.0..=LONGEST_PAUSE).contains(value),
        &expected,
    )
}

/// What the command's `--out` names.
fn out_of(command: &[String]) -> Option<PathBuf> {
    let after = command.iter().skip_while(|word| *word != "--out").nth(1);
    let joined = || command.iter().find_map(|word| word.strip_prefix("--out="));
    after.map(String::as_str).or_else(joined).map(PathBuf::from)
}

/// The command, for the log: scripts among its words have many lines.
fn in_a_line(command: &[String]) -> String {
    let words = command.iter().flat_map(|word| word.split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}

fn ended(command: &[String], how: &str, code: u8) -> anyhow::Error {
    let program = command.first().map_or("", String::as_str);
    let hint = match code {
        USAGE => "the options after `--` are wrong, as it says above: it was not tried again",
        INPUT => {
            "its input cannot be used, as it says above; once that is mended, the same command goes on from the newest valid state"
        }
        INTERRUPTED => "the same command goes on from the newest valid state",
        _ => {
            "do what its own hint above says; where it gives none, the same command goes on from the newest valid state"
        }
    };
    Advice::with_code(code, format!("`{program}` {how}"), hint)
}

/// How far the work in a folder has come.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Steps of the newest checkpoint that can be read.
    Step(u64),
    /// Steps of the newest checkpoints of all trials of a search, and bytes of what is known of the trials.
    Trials(u64, u64),
    /// Files and bytes, but for what is being written.
    Files(u64, u64),
}

impl State {
    fn of(folder: &Path) -> Self {
        if let Some(step) = newest_step(folder) {
            return Self::Step(step);
        }
        if folder.join("search.json").is_file() {
            return Self::of_trials(folder);
        }
        // What a training writes before its first checkpoint, every start writes anew.
        if RunDir::metrics_of(folder).exists() {
            return Self::Files(0, 0);
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let finished = entries.filter(|e| !e.file_name().to_string_lossy().starts_with('.'));
        let sizes: Vec<u64> = finished
            .filter_map(|entry| entry.metadata().ok())
            .map(|data| data.len())
            .collect();
        Self::Files(sizes.len() as u64, sizes.iter().sum())
    }

    /// Of a search, whose trials advance in folders of their own.
    fn of_trials(search: &Path) -> Self {
        let trials = std::fs::read_dir(search.join("trials"));
        let (mut steps, mut bytes) = (0_u64, 0);
        for trial in trials.into_iter().flatten().flatten() {
            let trial = trial.path();
            steps = steps.saturating_add(newest_step(&trial).unwrap_or(0));
            let known = std::fs::metadata(trial.join("trial.json"));
            bytes += known.map_or(0, |data| data.len());
        }
        Self::Trials(steps, bytes)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step(step) => write!(f, "newest valid checkpoint at step {step}"),
            Self::Trials(steps, _) => {
                write!(
                    f,
                    "{} in the newest valid checkpoints of all trials",
                    counted(*steps, "step")
                )
            }
            Self::Files(0, _) => f.write_str("nothing there yet"),
            Self::Files(files, bytes) => {
                write!(f, "{} of {bytes} bytes there", counted(*files, "file"))
            }
        }
    }
}

/// Whether Open MPI starts the command's ranks.
fn starts_by_open_mpi(command: &[String]) -> bool {
    let Some(program) = command.first() else {
        return false;
    };
    let name = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str());
    if !matches!(name, Some("mpirun" | "mpiexec" | "orterun" | "prterun")) {
        return false;
    }
    let version = Command::new(program).arg("--version").output();
    let says = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        text.contains("Open MPI") || text.contains("OpenRTE") || text.contains("PRTE")
    };
    version.is_ok_and(|version| says(&version.stdout))
}

/// What the command is told for a signal. Open MPI passes SIGUSR1 on and waits; after SIGTERM it kills ranks within two
/// seconds, in the middle of a step and without their checkpoint, and exits with 1.
fn passed_on(signal: i32, gently: bool) -> i32 {
    match signal {
        SIGTERM | SIGINT if gently => SIGUSR1,
        other => other,
    }
}

/// Passes signals on to the command that runs.
struct Relay {
    /// The command's process, 0 between two.
    child: Arc<AtomicI32>,
    told: Arc<AtomicBool>,
    /// Held while a process is started or reaped, so that no signal goes to another one of the same number.
    changing: Arc<Mutex<()>>,
}

impl Relay {
    /// `gently`: the first SIGTERM or SIGINT goes on as SIGUSR1.
    fn start(gently: bool) -> anyhow::Result<Self> {
        let relay = Self {
            child: Arc::default(),
            told: Arc::default(),
            changing: Arc::default(),
        };
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGUSR2])?;
        let (child, told) = (relay.child.clone(), relay.told.clone());
        let changing = relay.changing.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let again = told.swap(true, Ordering::Relaxed);
                let signal = passed_on(signal, gently && !again);
                let _held = changing.lock().unwrap_or_else(PoisonError::into_inner);
                let process = Pid::from_raw(child.load(Ordering::Relaxed));
                if let (Some(process), Some(signal)) = (process, Signal::from_named_raw(signal)) {
                    // It may have ended by itself in this moment.
                    let _ = kill_process(process, signal);
                }
            }
        });
        Ok(relay)
    }

    fn was_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether a signal comes, or came before; waits so long for one.
    fn comes_within(&self, time: Duration) -> bool {
        const SLICE: Duration = Duration::from_millis(100);
        let begun = Instant::now();
        while !self.was_told() {
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(SLICE));
        }
        true
    }

    /// How the command ended; none if a signal came before it could hear one.
    fn run(&self, command: &[String]) -> anyhow::Result<Option<ExitStatus>> {
        let [program, arguments @ ..] = command else {
            return Err(Advice::usage("there is no command", "give one after `--`"));
        };
        let mut child = {
            let _held = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
            if self.was_told() {
                return Ok(None);
            }
            let child = Command::new(program)
                .args(arguments)
                .spawn()
                .map_err(|error| {
                    Advice::usage(
                        format!("`{program}` does not start: {error}"),
                        "check the name of the program after `--`",
                    )
                })?;
            self.child.store(child.id() as i32, Ordering::Relaxed);
            child
        };
        self.wait(&mut child).map(Some)
    }

    /// The exit status; polled, so that the process is reaped while no signal can go to it.
    fn wait(&self, child: &mut Child) -> anyhow::Result<ExitStatus> {
        loop {
            {
                let _held = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(status) = child.try_wait()? {
                    self.child.store(0, Ordering::Relaxed);
                    return Ok(status);
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn the_folder_is_that_of_out() {
        let of = |text| out_of(&words(text));
        let run = Some(PathBuf::from("RUN"));
        assert_eq!(of("mpirun -n 2 squall train --out RUN --json"), run);
        assert_eq!(of("squall infer --out=RUN"), run);
        assert_eq!(of("squall demo"), None);
    }

    #[test]
    fn a_pause_is_a_number_of_seconds_up_to_a_day() {
        assert_eq!(seconds("0"), Ok(0.0));
        assert_eq!(seconds("2.5"), Ok(2.5));
        assert_eq!(seconds("86400"), Ok(86_400.0));
        for text in ["inf", "NaN", "1e30", "-1", "86401", "soon", ""] {
            let error = seconds(text).unwrap_err();
            assert!(error.contains("from 0 to 86400"), "{text}: {error}");
        }
    }

    #[test]
    fn ranks_of_open_mpi_are_told_gently_first() {
        assert_eq!(passed_on(SIGTERM, true), SIGUSR1);
        assert_eq!(passed_on(SIGTERM, false), SIGTERM);
        assert_eq!(passed_on(SIGUSR2, true), SIGUSR2);
        assert!(!starts_by_open_mpi(&words("squall train --out RUN")));
        assert!(!starts_by_open_mpi(&words("/no/such/mpirun -n 2 squall")));
        assert!(!starts_by_open_mpi(&[]));
    }

    #[test]
    fn what_is_being_written_is_no_progress() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::of(folder.path()), State::Files(0, 0));
        std::fs::write(folder.path().join(".a.nc.7.tmp"), "half").unwrap();
        assert_eq!(State::of(folder.path()), State::Files(0, 0));
        std::fs::write(folder.path().join("a.nc"), "whole").unwrap();
        assert_eq!(State::of(folder.path()), State::Files(1, 5));
    }

    /// Each start writes another file for TensorBoard, and other seconds.
    #[test]
    fn a_training_advances_with_its_checkpoints_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("recipe.toml", "").unwrap();
        write("metrics.jsonl", "{}\n").unwrap();
        let before = State::of(folder.path());
        assert_eq!(before.to_string(), "nothing there yet");
        write("metrics.jsonl", "{}\n{}\n").unwrap();
        write("events.out.tfevents.1.squall.0", "more").unwrap();
        assert_eq!(State::of(folder.path()), before);
        checkpoint(folder.path(), 5);
        assert_eq!(State::of(folder.path()), State::Step(5));
    }

    #[test]
    fn a_search_advances_with_any_of_its_trials() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("search.json"), "{}").unwrap();
        let trial = |number: u64| folder.path().join(format!("trials/{number:04}"));
        assert_eq!(State::of(folder.path()), State::Trials(0, 0));
        for number in [0, 1] {
            std::fs::create_dir_all(trial(number)).unwrap();
            checkpoint(&trial(number), 5 + number);
        }
        assert_eq!(State::of(folder.path()), State::Trials(11, 0));
        std::fs::write(trial(1).join("trial.json"), "known").unwrap();
        assert_eq!(State::of(folder.path()), State::Trials(11, 5));
    }

    /// A checkpoint of so many steps, without weights.
    fn checkpoint(folder: &Path, step: u64) {
        let facts = format!(
            r#"{{"progress":{{"step":{step},"skipped_in_row":0,"skipped":0}},"best":null,"validation_due":false,"data_hash":"","ranks":[1,1]}}"#
        );
        let mut file = squall_model::ModelFile::default();
        file.facts.insert("checkpoint".to_string(), facts);
        file.tensors.insert("a".to_string(), (vec![1], vec![0.0]));
        file.write(&folder.join("checkpoint.safetensors")).unwrap();
    }
}
