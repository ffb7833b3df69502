//! Another program that runs the same network, timed in alternation with ours.

use crate::failure::Advice;
use crate::threads;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A peer's threads may spin for a while after their last operation, on the cores of the next program.
const QUIET: Duration = Duration::from_millis(20);

/// A running peer: it answers `step` and `infer` with one line of JSON each.
pub struct Peer {
    command: String,
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// An answer of a peer.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// Seconds that the work took.
    pub seconds: f64,
    /// Peak memory of the peer so far, on its compute device.
    pub peak_mb: f64,
    /// PyTorch version.
    pub torch: String,
    /// How it runs the network: eager, compile or graphs.
    pub mode: String,
}

impl Peer {
    /// Starts `command` (split at spaces) with further arguments, and waits until it is ready.
    ///
    /// # Errors
    /// Wrong usage if it cannot be started or does not answer.
    pub fn start(command: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let hint = "for example: --peer \"python validation/peers/step.py\" (see validation/peers/README.md)";
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or_default();
        let mut started = Command::new(program);
        threads::leave_to_user(&mut started);
        let mut child = started
            .args(words)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Advice::usage(format!("`{command}` does not start: {error}"), hint))?;
        let (Some(ask), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for");
        };
        let mut answers = BufReader::new(answers);
        let mut ready = String::new();
        if answers.read_line(&mut ready)? == 0 {
            return Err(Advice::usage(
                format!("`{command}` ended without a word"),
                hint,
            ));
        }
        Ok(Self {
            command: command.to_string(),
            child,
            ask,
            answers,
        })
    }

    /// Lets it do `work` once; it is idle again when this returns.
    ///
    /// # Errors
    /// If it exits or gives an invalid answer.
    pub fn time(&mut self, work: &str) -> anyhow::Result<Answer> {
        let hint =
            "what it wrote to standard error says why; without --peer ours is measured alone";
        let mut line = String::new();
        // If it has exited, writing fails; if it is exiting, reading does.
        let asked = writeln!(self.ask, "{work}");
        if asked.is_err() || self.answers.read_line(&mut line)? == 0 {
            let how = self.ending()?;
            let command = &self.command;
            return Err(Advice::run(
                format!("the peer `{command}` ended before it answered ({how})"),
                hint,
            ));
        }
        let answered = |what: String| {
            let command = &self.command;
            let line = line.trim();
            Advice::run(
                format!("the peer `{command}` answered `{line}`: {what}"),
                hint,
            )
        };
        let answer: Answer =
            serde_json::from_str(&line).map_err(|error| answered(error.to_string()))?;
        if !(answer.seconds.is_finite() && answer.seconds > 0.0) {
            return Err(answered("a time is above 0 s".to_string()));
        }
        std::thread::sleep(QUIET);
        Ok(answer)
    }

    /// Its exit status; kills it if it has closed its output but continues to run.
    fn ending(&mut self) -> std::io::Result<ExitStatus> {
        for _ in 0..50 {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be busy, but is no longer needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
