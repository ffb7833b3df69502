//! The command line. Help texts are the reference; the work is in `commands`.

use crate::commands::*;
use crate::{output, ranks, threads};
use clap::{Parser, Subcommand};

/// Finds extreme weather in climate-model output: from simulation files to masks, events, tracks and a report.
#[derive(Debug, Parser)]
#[command(name = "squall", version = version::text(), propagate_version = false, max_term_width = 100)]
#[command(
    after_help = "Start with `squall demo`. Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 unusable input, \
    4 the run failed, 5 output could not be written, 75 interrupted: run the same command again to go on, \
    102 a rank stalled: the job was ended."
)]
pub struct Arguments {
    /// Say more (-v: what is decided, -vv: everything).
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 900)]
    pub verbose: u8,
    /// No progress, only results, warnings and errors.
    #[arg(short, long, global = true, display_order = 901)]
    pub quiet: bool,
    #[command(flatten)]
    pub threads: threads::Options,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// What the process is to be prepared with. Cores of a supervised command are its own: its ranks divide what is
    /// left to them.
    pub fn threads(&self) -> threads::Options {
        match self.command {
            Command::Supervise(_) => threads::Options::default(),
            _ => self.threads.clone(),
        }
    }

    /// Whether it does the same many times, each time with the same warnings: the trials of a search.
    pub fn repeats_itself(&self) -> bool {
        matches!(self.command, Command::Tune(_))
    }
}

/// One subcommand per arrow of the main path, in its order.
#[derive(Debug, Subcommand)]
pub enum Command {
    Simulate(simulate::Simulate),
    Inspect(inspect::Inspect),
    Label(label::Label),
    Stage(stage::Stage),
    Train(train::Train),
    Tune(tune::Tune),
    Supervise(supervise::Supervise),
    Infer(infer::Infer),
    Events(events::Events),
    Compare(compare::Compare),
    Trends(trends::Trends),
    Score(score::Score),
    Report(report::Report),
    Summary(summary::Summary),
    Scale(scale::Scale),
    Submit(submit::Submit),
    Model(model::Model),
    Bench(bench::Bench),
    Demo(demo::Demo),
}

impl Command {
    /// Whether it reads, prints and leaves nothing behind, as one process.
    fn only_tells(&self) -> bool {
        match self {
            Self::Inspect(_) | Self::Score(_) | Self::Summary(_) | Self::Scale(_) => true,
            Self::Model(model) => model.only_tells(),
            _ => false,
        }
    }

    /// Runs the chosen subcommand.
    pub fn run(self) -> anyhow::Result<()> {
        // Ranks would all print the same, and a document that is there twice is none; but a task may have a file of its
        // own.
        if self.only_tells() && ranks::number() > 0 && !output::is_own_file() {
            tracing::warn!(
                "process {} does nothing: this command works in one process, and the first of those started tells",
                ranks::number()
            );
            return Ok(());
        }
        match self {
            Self::Simulate(command) => command.run(),
            Self::Inspect(command) => command.run(),
            Self::Label(command) => command.run(),
            Self::Stage(command) => command.run(),
            Self::Train(command) => command.run(),
            Self::Tune(command) => command.run(),
            Self::Supervise(command) => command.run(),
            Self::Infer(command) => command.run(),
            Self::Events(command) => command.run(),
            Self::Compare(command) => command.run(),
            Self::Trends(command) => command.run(),
            Self::Score(command) => command.run(),
            Self::Report(command) => command.run(),
            Self::Summary(command) => command.run(),
            Self::Scale(command) => command.run(),
            Self::Submit(command) => command.run(),
            Self::Model(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Demo(command) => command.run(),
        }
    }
}
