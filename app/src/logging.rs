//! `tracing` to standard error: warnings always, decisions with -v.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts logging. `RUST_LOG` overrides the flags.
pub fn start(verbose: u8, quiet: bool) {
    let level = match (quiet, verbose) {
        (true, _) => "warn",
        (false, 0) => "warn,squall=info",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Of a standard error that nobody reads it would tell on standard error, and panic.
        .log_internal_errors(false)
        .with_ansi(colour)
        .with_target(false)
        .without_time()
        .with_span_events(FmtSpan::NONE)
        .finish();
    // A second start (tests in one process) keeps the first subscriber.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
