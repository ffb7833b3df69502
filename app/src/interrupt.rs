//! SIGINT, SIGTERM, and SIGUSR1 and SIGUSR2 of batch systems near a job's time limit: finish the step at hand, save,
//! leave with the exit code that says "run me again".

use crate::failure::{Advice, INTERRUPTED};
use squall_data::DataError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Signals so soon after the first are taken for the same one; a later one ends the program at once. What is started
/// under `squall supervise` or a launcher hears a Ctrl-C of the terminal twice: itself, and from above.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// The flag that the first signal sets; a second signal, a second later or more, ends the program at once.
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
        use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
        for signal in [SIGUSR1, SIGUSR2] {
            if let Err(error) = signal_hook::flag::register(signal, stop.clone()) {
                tracing::warn!("a batch system's signals end the program at once ({error})");
            }
        }
        for signal in [SIGINT, SIGTERM] {
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

/// Lets the limit of a shell or a batch system on the size of a file (`ulimit -f`) fail the write that passes it, which
/// is told like a full disk. The system's signal would end the program without a word.
pub fn outlive_file_size_limit() {
    let passed = Arc::new(AtomicBool::new(false));
    // Where the handler cannot be set, all is as without it.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, passed);
}

/// [`DataError::Interrupted`] if a signal has arrived.
pub fn check() -> Result<(), DataError> {
    if flag().load(Ordering::Relaxed) {
        Err(DataError::Interrupted)
    } else {
        Ok(())
    }
}

/// As [`check`], for work that begins anew the next time, as the hint says.
pub fn check_whole() -> anyhow::Result<()> {
    check().map_err(|interrupted| {
        let hint = "run the same command again: it begins anew";
        Advice::with_code(INTERRUPTED, interrupted.to_string(), hint)
    })
}

/// The error of a run that a signal ended.
pub fn stopped() -> anyhow::Error {
    DataError::Interrupted.into()
}
