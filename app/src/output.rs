//! Writes results to standard output: the only place that does.

use crate::failure::{Advice, OUTPUT};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

/// Writes a result as text.
pub fn text(result: &impl Display) -> anyhow::Result<()> {
    line(format_args!("{}", printable(&result.to_string())))
}

/// Escapes control characters except line ends and tabs: names from files could otherwise move a terminal's cursor or
/// alter its contents.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_harmless) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match is_harmless(c) {
            true => escaped.push(c),
            false => escaped.extend(c.escape_default()),
        }
    }
    escaped.into()
}

/// Writes a result as one JSON document.
pub fn json(result: &impl Serialize) -> anyhow::Result<()> {
    line(format_args!("{}", serde_json::to_string_pretty(result)?))
}

/// Writes a result as JSON if requested, otherwise as text.
pub fn result(result: &(impl Serialize + Display), for_programs: bool) -> anyhow::Result<()> {
    if for_programs {
        json(result)
    } else {
        text(result)
    }
}

/// Writes a result as one line of JSON.
pub fn json_line(result: &impl Serialize) -> anyhow::Result<()> {
    line(format_args!("{}", serde_json::to_string(result)?))
}

/// Whether standard output is a file, which processes of a job, unlike a terminal or a pipe, do not share.
pub fn is_own_file() -> bool {
    std::fs::metadata("/proc/self/fd/1").is_ok_and(|output| output.is_file())
}

fn line(text: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    written(writeln!(std::io::stdout().lock(), "{text}"))
}

/// The result of writing to standard output.
pub fn written(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        // A pipe's reader may stop early (`| head`): not an error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Advice::with_code(
            OUTPUT,
            format!("cannot write to standard output: {error}"),
            "send it elsewhere; files that the command was asked for are complete",
        )),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_a_file_commands_no_terminal() {
        let harmless = "Größe in km²\n\tà";
        assert!(matches!(printable(harmless), Cow::Borrowed(text) if text == harmless));
        let named = printable("w\u{1b}[2J\r\u{9b}1A\u{7f}\n");
        assert_eq!(named, "w\\u{1b}[2J\\r\\u{9b}1A\\u{7f}\n");
    }
}
