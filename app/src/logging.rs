//! `tracing` to standard error: warnings always, decisions with -v.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FmtSpan, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Whether only warnings are logged.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether nothing below warnings is logged, on any rank: purely informative work can then be skipped.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Starts logging on this rank. `RUST_LOG` overrides the flags. With `warnings_once`, repeated identical warnings are
/// dropped.
pub fn start(rank: usize, (verbose, quiet): (u8, bool), warnings_once: bool) {
    // With several ranks, the first one logs on behalf of all.
    let level = match (quiet || rank > 0, verbose) {
        (true, _) => "warn",
        (false, 0) => "warn,squall=info",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let (filter, fault) = match std::env::var(EnvFilter::DEFAULT_ENV).as_deref() {
        Err(_) | Ok("") => {
            QUIET.store(quiet, Ordering::Relaxed);
            (EnvFilter::new(level), None)
        }
        Ok(asked) => match EnvFilter::try_new(asked) {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::new(level), Some(error)),
        },
    };
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let colour = terminal && !is_uncoloured(|name| std::env::var_os(name));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would report on standard error that standard error has no reader, and panic.
        .log_internal_errors(false)
        .with_ansi(colour)
        .with_target(false)
        .without_time()
        .with_span_events(FmtSpan::NONE)
        .map_event_format(|format| Lines {
            format,
            rank,
            seen: warnings_once.then(Mutex::default),
        })
        .finish();
    // A second start (tests in one process) keeps the first subscriber.
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let Some(fault) = fault {
        tracing::warn!("{}: {fault}; it is ignored", EnvFilter::DEFAULT_ENV);
    }
}

/// Whether the environment disables colours: `NO_COLOR` with any value (no-color.org), or a terminal without colour
/// support.
fn is_uncoloured(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    variable("NO_COLOR").is_some_and(|value| !value.is_empty())
        || variable("TERM").is_some_and(|name| name == "dumb")
}

/// A log format that adds the rank, unless it is the first, and drops repeated warnings. Warnings with fields besides
/// their text, such as a step, are never dropped: they belong to one trial, and others may have the same text.
struct Lines<F> {
    format: F,
    rank: usize,
    /// Warnings logged so far; `None` if repetitions are kept.
    seen: Option<Mutex<HashSet<String>>>,
}

impl<S, N, F> FormatEvent<S, N> for Lines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if let Some(seen) = &self.seen
            && *event.metadata().level() == Level::WARN
            && event.metadata().fields().len() == 1
        {
            let mut line = String::new();
            (self.format).format_event(context, Writer::new(&mut line), event)?;
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !seen.insert(line) {
                return Ok(());
            }
        }
        if self.rank > 0 {
            write!(writer, "rank {} ", self.rank)?;
        }
        self.format.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::Arc;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn colours_can_be_switched_off() {
        for (name, value, expected) in [
            ("NO_COLOR", "1", true),
            ("NO_COLOR", "", false),
            ("TERM", "dumb", true),
            ("TERM", "xterm-256color", false),
        ] {
            let found = is_uncoloured(|asked| (asked == name).then(|| value.into()));
            assert_eq!(found, expected, "{name}={value}");
        }
    }

    /// What a rank logs of two rounds of warnings.
    fn logged_by(rank: usize) -> String {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .map_event_format(|format| Lines {
                format,
                rank,
                seen: Some(Mutex::default()),
            })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2 {
                tracing::warn!("the recipe is odd");
                tracing::warn!(step = 3, "the loss is not finite");
            }
        });
        String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn warnings_of_steps_are_repeated_for_every_trial() {
        let said = logged_by(0);
        assert_eq!(said.matches("the recipe is odd").count(), 1, "{said}");
        assert_eq!(said.matches("the loss is not finite").count(), 2, "{said}");
        assert!(!said.contains("rank"), "{said}");
    }

    #[test]
    fn lines_say_which_rank_they_are_of() {
        let said = logged_by(3);
        assert!(
            said.starts_with("rank 3  WARN the recipe is odd\n"),
            "{said}"
        );
        assert_eq!(said.matches("rank 3 ").count(), 3, "{said}");
    }
}
