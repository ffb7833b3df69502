//! Turns error chains into messages, hints and exit codes.

mod hints;

use crate::output::{self, printable};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// A check failed.
pub const CHECK: u8 = 1;
/// The command line or a recipe is wrong.
pub const USAGE: u8 = 2;
/// The input cannot be used.
pub const INPUT: u8 = 3;
/// The run failed.
pub const RUN: u8 = 4;
/// Output could not be written.
pub const OUTPUT: u8 = 5;
/// Interrupted by a signal; the same command continues (EX_TEMPFAIL of sysexits.h).
pub const INTERRUPTED: u8 = 75;
/// A rank waited too long for another.
pub const STALLED: u8 = 102;

/// An error with advice that only the program can give.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Advice {
    /// What is wrong.
    pub message: String,
    /// What to try.
    pub hint: String,
    /// The exit code.
    pub code: u8,
}

impl Advice {
    /// Wrong usage, with what to try.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self::with_code(USAGE, message, hint)
    }

    /// Input that cannot be used, with what to try.
    pub fn input(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self::with_code(INPUT, message, hint)
    }

    /// A run that failed, with what to try.
    pub fn run(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self::with_code(RUN, message, hint)
    }

    /// The same with another exit code.
    pub fn with_code(
        code: u8,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> anyhow::Error {
        Self {
            message: message.into(),
            hint: hint.into(),
            code,
        }
        .into()
    }
}

/// Prints a line to standard error. If its reader has gone (`2>&1 | head`), only the exit code reports the error.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints the error, its causes and a hint to standard error, and returns the exit code.
///
/// All lines are written at once, so that those of concurrently failing ranks do not interleave.
pub fn report(error: &anyhow::Error) -> u8 {
    let (code, text) = describe(error);
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    code
}

/// The exit code of an error, and the lines with its message, causes and hint.
fn describe(error: &anyhow::Error) -> (u8, String) {
    let (code, hint) = classify(error);
    let (mut shown, mut lines) = (String::new(), String::new());
    for (depth, cause) in error.chain().enumerate() {
        let text = cause.to_string();
        // Transparent wrappers repeat their cause, which is printed only once.
        if !shown.contains(&text) {
            let lead = if depth == 0 { "error: " } else { "  because: " };
            lines += &format!("{lead}{text}\n");
            shown.push_str(&text);
        }
    }
    if let Some(hint) = hint {
        lines += &format!("hint: {hint}\n");
    }
    (code, printable(&lines).into_owned())
}

/// Prints what is wrong with a command line, or the help that it asks for, and ends the process.
pub fn leave(error: &clap::Error) -> ! {
    use clap::error::{ContextKind, ContextValue};
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    // Help and version are results, on standard output.
    if !error.use_stderr()
        && let Err(error) = output::written(printed)
    {
        std::process::exit(report(&error).into());
    }
    if let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg)
        && let Some(hint) = hint_of_argument(found, &Vec::from_iter(std::env::args_os()))
    {
        say(format_args!("\nhint: {hint}"));
    }
    std::process::exit(error.exit_code())
}

/// A hint for an unexpected argument, if the reason can be guessed.
fn hint_of_argument(found: &str, line: &[OsString]) -> Option<&'static str> {
    let has = |word: &str| line.iter().any(|given| given == word);
    if has("supervise") && !has("--") {
        return Some("the command to run stands after `--`: squall supervise -- COMMAND");
    }
    // Probably an unquoted pattern, which the shell has expanded.
    Path::new(found).exists().then_some(
        "give one folder, or a pattern in quotes so that the shell leaves it alone, such as 'run/*.nc'",
    )
}

/// Exit code and hint of an error: those of its first cause that is an error of this program or its libraries.
pub fn classify(error: &anyhow::Error) -> (u8, Option<String>) {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref() {
        Some(Advice { hint, code, .. }) => Some((*code, Some(hint.clone()))),
        None => hints::code_and_hint(cause),
    };
    error.chain().find_map(of_cause).unwrap_or((RUN, None))
}

#[cfg(test)]
mod tests;
