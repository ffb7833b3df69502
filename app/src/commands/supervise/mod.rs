//! `squall supervise`: restarts a command until it finishes, as long as it makes progress.

mod relay;
mod state;

use crate::arguments::number;
use crate::failure::{Advice, INPUT, INTERRUPTED, RUN, USAGE};
use crate::plan::counted;
use clap::Args;
use relay::{Relay, starts_by_open_mpi};
use squall_jobs::lock::FolderLock;
use state::State;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Run a command and, when it fails, restart it from its newest valid state, until it finishes or stops advancing.
///
/// A command that exits with 2 (wrong usage), 3 (unusable input) or 75 (saved, to be run again later) is not restarted.
/// If another process works in the folder, nothing is started (exit code 4). Signals are forwarded to the command (for
/// Open MPI's mpirun, the first SIGTERM, SIGINT or SIGHUP as SIGUSR1, so that ranks have time to save), and its exit
/// code is passed on. Options for cores and memory (`squall --help`) affect the command only after `--` or in the
/// environment.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: squall supervise -- mpirun -n 4 squall train --recipe R.toml --data STORE --out RUN"
)]
pub struct Supervise {
    /// Folder whose state must advance: of a run, a search, an inference, labels or events [default: the command's --out].
    #[arg(long, value_name = "DIR")]
    pub watch: Option<PathBuf>,
    /// Give up after this many consecutive failures without progress.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub tries: u32,
    /// Seconds between a failure and the restart, for the survivors of a killed job to exit.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub pause: f64,
    /// Command with its options, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl Supervise {
    /// Runs the command until it finishes.
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
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            let how = describe(status);
            // Exit code 75 without a signal to us: the batch system signalled the ranks themselves, or the recipe's
            // time limit has passed.
            if relay.has_signal() || matches!(code, Some(USAGE | INPUT | INTERRUPTED)) {
                return Err(ended(&self.command, &how, code.unwrap_or(INTERRUPTED)));
            }
            let after = State::of(&watch);
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

/// How a command ended that a signal preceded.
const NOT_STARTED: &str = "was not started: a signal came first";

impl Supervise {
    /// Waits for a process that works in the folder, for as long as all tries would pause: leftovers of a killed
    /// command exit by themselves. A process that continues has outlived its supervisor or has another one: the command
    /// could not write there, and the other's progress would be mistaken for its own again and again.
    fn wait_for_others(&self, watch: &Path, relay: &Relay) -> anyhow::Result<()> {
        let pause = Duration::from_secs_f64(self.pause).max(LEAST_PATIENCE);
        let patience = pause * self.tries;
        let (begun, mut is_said) = (Instant::now(), false);
        while let Err(held) = FolderLock::check_free(watch) {
            if begun.elapsed() >= patience {
                let program = program_of(&self.command);
                return Err(Advice {
                    message: format!("{held}: `{program}` is not started beside it"),
                    hint: "another training or inference works in that folder, perhaps one whose supervisor was killed: wait for its end, \
                           or end it (`kill -USR1` and its process number, on the machine that is named, lets a training save first), \
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

/// Minimum time, per try, for another process to leave the folder.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// Maximum pause: a day.
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

/// The folder in the command's `--out`.
fn out_of(command: &[String]) -> Option<PathBuf> {
    let after = command.iter().skip_while(|word| *word != "--out").nth(1);
    let joined = || command.iter().find_map(|word| word.strip_prefix("--out="));
    after.map(String::as_str).or_else(joined).map(PathBuf::from)
}

/// The command for the log, without line breaks: scripts among its words have many lines.
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

/// The command's name in messages. For a shell's script it is the name passed to it (`bash -c SCRIPT srun ...`), as the
/// shell itself uses. Job scripts start launchers this way.
fn program_of(command: &[String]) -> &str {
    let is_shell = |path: &Path| path.ends_with("sh") || path.ends_with("bash");
    match command {
        [shell, option, _, name, ..] if option == "-c" && is_shell(Path::new(shell)) => name,
        [program, ..] => program,
        [] => "",
    }
}

fn ended(command: &[String], how: &str, code: u8) -> anyhow::Error {
    let program = program_of(command);
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

    /// That of a job script was called `bash`, where the launcher had failed.
    #[test]
    fn a_script_of_a_shell_has_its_own_name() {
        let of = |text| program_of(&words(text)).to_string();
        assert_eq!(
            of("/bin/bash -c SCRIPT srun 1000 summary srun -n 4"),
            "srun"
        );
        assert_eq!(of("bash -c SCRIPT"), "bash");
        assert_eq!(of("bash job.sh a b"), "bash");
        assert_eq!(of("mpirun -c 2 squall train"), "mpirun");
        assert_eq!(program_of(&[]), "");
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
}
