//! The supervised process, and signals forwarded to it.

use crate::failure::Advice;
use crate::{interrupt, threads};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::iterator::Signals;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether Open MPI launches the command's ranks.
pub(super) fn starts_by_open_mpi(command: &[String]) -> bool {
    command
        .first()
        .is_some_and(|program| is_of_open_mpi(Path::new(program)))
}

/// Whether a process has become Open MPI's launcher since it was started: `nice`, `env`, `numactl` and a shell's `exec`
/// replace themselves by the program that they start.
fn has_become_open_mpi(process: i32) -> bool {
    let program = std::fs::read_link(format!("/proc/{process}/exe"));
    program.is_ok_and(|program| is_of_open_mpi(&program))
}

fn is_of_open_mpi(program: &Path) -> bool {
    if !is_called_like_a_launcher(program) {
        return false;
    }
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|version| names_open_mpi(&String::from_utf8_lossy(&version.stdout)))
}

/// Whether a version text is Open MPI's: `orterun (OpenRTE) 4.1.4`, `prterun (PRRTE) 3.0.11`.
fn names_open_mpi(version: &str) -> bool {
    let names = ["Open MPI", "OpenRTE", "PRRTE"];
    names.iter().any(|name| version.contains(name))
}

/// Whether a program has the name of an Open MPI launcher, including Debian's variants: `mpirun.openmpi`.
fn is_called_like_a_launcher(program: &Path) -> bool {
    let name = program.file_name();
    let stem = name.and_then(|name| name.to_str()?.split('.').next());
    matches!(stem, Some("mpirun" | "mpiexec" | "orterun" | "prterun"))
}

/// Whether a signal asks a command to end now.
fn is_end(signal: i32) -> bool {
    matches!(signal, SIGTERM | SIGINT | SIGHUP)
}

/// The signal to forward; `gently` holds until the first of [`is_end`]. Open MPI forwards SIGUSR1 and waits; after
/// SIGTERM it kills ranks within two seconds, in the middle of a step and without a checkpoint, and exits with 1. Batch
/// systems send SIGUSR1 first if configured, and SIGTERM when the time is over. SIGXCPU would end a launcher, which
/// forwards SIGUSR1.
fn passed_on(signal: i32, gently: &mut bool) -> i32 {
    match signal {
        SIGXCPU => SIGUSR1,
        end if is_end(end) && std::mem::take(gently) => SIGUSR1,
        other => other,
    }
}

/// Forwards signals to the running command.
pub(super) struct Relay {
    /// Process id of the command, 0 between runs.
    child: Arc<AtomicI32>,
    told: Arc<AtomicBool>,
    /// Held while a process is started or reaped, so that signals never reach an unrelated process that reuses the id.
    changing: Arc<Mutex<()>>,
}

impl Relay {
    /// With `gently`, the first signal of [`is_end`] is forwarded as SIGUSR1; the same holds if the process has become
    /// Open MPI's launcher by then.
    pub(super) fn start(mut gently: bool) -> anyhow::Result<Self> {
        let relay = Self {
            child: Arc::default(),
            told: Arc::default(),
            changing: Arc::default(),
        };
        // A terminal that closes, unless `nohup` says that it does not matter.
        let hangup = (!interrupt::is_ignored(SIGHUP)).then_some(SIGHUP);
        let others = [SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU];
        let mut signals = Signals::new(others.into_iter().chain(hangup))?;
        let (child, told) = (relay.child.clone(), relay.told.clone());
        let changing = relay.changing.clone();
        std::thread::spawn(move || {
            let mut is_first_end = true;
            for signal in signals.forever() {
                told.store(true, Ordering::Relaxed);
                let _held = changing.lock().unwrap_or_else(PoisonError::into_inner);
                let number = child.load(Ordering::Relaxed);
                if is_end(signal) && std::mem::take(&mut is_first_end) {
                    gently = gently || has_become_open_mpi(number);
                }
                let signal = passed_on(signal, &mut gently);
                let process = Pid::from_raw(number);
                if let (Some(process), Some(signal)) = (process, Signal::from_named_raw(signal)) {
                    // It may have just exited.
                    let _ = kill_process(process, signal);
                }
            }
        });
        Ok(relay)
    }

    pub(super) fn has_signal(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether a signal has arrived, or arrives within this time.
    pub(super) fn comes_within(&self, time: Duration) -> bool {
        const SLICE: Duration = Duration::from_millis(100);
        let begun = Instant::now();
        while !self.has_signal() {
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(SLICE));
        }
        true
    }

    /// Runs the command and returns how it ended; `None` if a signal arrived before it could receive one.
    pub(super) fn run(&self, command: &[String]) -> anyhow::Result<Option<ExitStatus>> {
        let [program, arguments @ ..] = command else {
            return Err(Advice::usage("there is no command", "give one after `--`"));
        };
        let mut child = {
            let _held = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
            if self.has_signal() {
                return Ok(None);
            }
            let mut command = Command::new(program);
            threads::leave_to_user(&mut command);
            let child = command.args(arguments).spawn().map_err(|error| {
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

    /// Waits for the exit status by polling, so that the process is reaped while no signal can be sent to it.
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
    fn ranks_of_open_mpi_are_told_gently_first() {
        let told = |signals: &[i32], mut gently: bool| -> Vec<i32> {
            let each = signals.iter().map(|&signal| passed_on(signal, &mut gently));
            each.collect()
        };
        assert_eq!(told(&[SIGTERM, SIGTERM], true), [SIGUSR1, SIGTERM]);
        assert_eq!(told(&[SIGINT, SIGTERM], true), [SIGUSR1, SIGTERM]);
        assert_eq!(told(&[SIGHUP, SIGHUP], true), [SIGUSR1, SIGHUP]);
        // The system repeats it every second.
        assert_eq!(told(&[SIGXCPU, SIGXCPU], false), [SIGUSR1, SIGUSR1]);
        assert_eq!(told(&[SIGTERM, SIGUSR2], false), [SIGTERM, SIGUSR2]);
        // A batch system's warning does not use up the one gentle passing on.
        let warned = [SIGUSR1, SIGUSR2, SIGTERM, SIGTERM];
        assert_eq!(told(&warned, true), [SIGUSR1, SIGUSR2, SIGUSR1, SIGTERM]);
        assert!(!starts_by_open_mpi(&words("squall train --out RUN")));
        assert!(!starts_by_open_mpi(&words("/no/such/mpirun -n 2 squall")));
        assert!(!starts_by_open_mpi(&[]));
    }

    #[test]
    fn launchers_have_several_names() {
        for name in ["mpirun", "/usr/bin/mpiexec", "/usr/bin/mpirun.openmpi"] {
            assert!(is_called_like_a_launcher(Path::new(name)), "{name}");
        }
        for name in ["squall", "mpirunner", "./mpirun.d/run", ""] {
            assert!(!is_called_like_a_launcher(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn versions_of_open_mpi_have_several_names() {
        for version in [
            "mpirun (Open MPI) 5.0.8\n",
            "orterun (OpenRTE) 4.1.4\n",
            "prterun (PRRTE) 3.0.11a1\n",
        ] {
            assert!(names_open_mpi(version), "{version}");
        }
        assert!(!names_open_mpi(
            "HYDRA build details:\n    Version: 4.3.2\n"
        ));
    }
}
