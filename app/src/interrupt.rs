//! Handles SIGINT, SIGTERM, the SIGHUP of a closed terminal, and the SIGUSR1, SIGUSR2 and SIGXCPU that batch systems send
//! near a limit of time: finishes the current step, saves, and exits with the code that means "run me again".

use crate::failure::{Advice, INTERRUPTED};
use squall_data::DataError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Signals within this time after the first count as the same one; a later one ends the program at once. A process
/// under `squall supervise` or a launcher receives a terminal's Ctrl-C twice: directly, and forwarded.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// Returns the flag that the first signal sets; a second signal, at least a second later, ends the program at once.
pub fn flag() -> Arc<AtomicBool> {
    let stop = STOP.get_or_init(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let again = Arc::new(AtomicBool::new(false));
        let (heard, armed) = (stop.clone(), again.clone());
        std::thread::spawn(move || {
            while !heard.load(Ordering::Relaxed) {
                std::thread::sleep(ONE_SIGNAL / 4);
            }
            std::thread::sleep(ONE_SIGNAL);
            armed.store(true, Ordering::Relaxed);
        });
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
        // Beyond a limit of CPU time the system sends SIGXCPU every second: a second one must not end the program.
        for signal in [SIGUSR1, SIGUSR2, SIGXCPU] {
            if let Err(error) = signal_hook::flag::register(signal, stop.clone()) {
                tracing::warn!("a batch system's signals end the program at once ({error})");
            }
        }
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            let armed = signal_hook::flag::register_conditional_shutdown(
                signal,
                INTERRUPTED.into(),
                again.clone(),
            )
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
            if let Err(error) = armed {
                tracing::warn!(
                    "signals end the program at once ({error}); what is finished is kept"
                );
            }
        }
        stop
    });
    stop.clone()
}

/// Whether this process was started to ignore a signal, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.is_ok_and(|status| ignores(&status, signal))
}

/// Whether a process of this status, as in `/proc`, ignores a signal.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1_u64 << (signal - 1)) != 0)
}

/// Makes writes beyond the file size limit of a shell or batch system (`ulimit -f`) fail like on a full disk. By
/// default the system's signal would end the program without a message.
pub fn outlive_file_size_limit() {
    let passed = Arc::new(AtomicBool::new(false));
    // Without the handler the default behaviour remains.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, passed);
}

/// Returns [`DataError::Interrupted`] if a signal has arrived.
pub fn check() -> Result<(), DataError> {
    if flag().load(Ordering::Relaxed) {
        Err(DataError::Interrupted)
    } else {
        Ok(())
    }
}

/// Like [`check`], for work that starts over the next time, as the hint says.
pub fn check_whole() -> anyhow::Result<()> {
    check().map_err(|interrupted| {
        let hint = "run the same command again: it begins anew";
        Advice::with_code(INTERRUPTED, interrupted.to_string(), hint)
    })
}

/// The error for a run ended by a signal.
pub fn stopped() -> anyhow::Error {
    DataError::Interrupted.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGHUP, SIGPIPE, SIGTERM};

    #[test]
    fn what_nohup_ignores_stays_ignored() {
        let status = "Name:\tsquall\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        for (signal, ignored) in [(SIGHUP, true), (SIGPIPE, true), (SIGTERM, false)] {
            assert_eq!(ignores(status, signal), ignored, "{signal}");
        }
        assert!(!ignores("Name:\tsquall\n", SIGHUP));
    }
}
