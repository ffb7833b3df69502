//! Another program that runs the same network, timed in alternation with ours.

use crate::failure::Advice;
use crate::threads;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Threads of a peer may spin for a while after their last operation, on the cores of the program whose turn is next.
const QUIET: Duration = Duration::from_millis(20);

/// A running peer: it answers `step` and `infer` with one JSON line each.
pub struct Peer {
    command: String,
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What a peer answers.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// How long it took.
    pub seconds: f64,
    /// Highest memory use of the peer so far, where it computes.
    pub peak_mb: f64,
    /// Which version of PyTorch.
    pub torch: String,
    /// How it runs the network: eager, compile or graphs.
    pub mode: String,
}

impl Peer {
    /// Starts `command` (split at blanks) with further arguments, and waits until it is ready.
    ///
    /// # Errors
    /// Wrong usage if it cannot be started or says nothing.
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

    /// Lets it do `work` once; it is quiet again when this returns.
    ///
    /// # Errors
    /// If it ends or answers something else.
    pub fn time(&mut self, work: &str) -> anyhow::Result<Answer> {
        let hint =
            "what it wrote to standard error says why; without --peer ours is measured alone";
        let mut line = String::new();
        // To one that has ended nothing can be written, and of one that ends nothing can be read.
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

    /// How it ended; one that has closed its output and goes on is ended.
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
        // It may be in the middle of something; nothing of it is needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
