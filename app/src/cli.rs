//! The command line. Help texts are the reference; `commands` does the work.

use crate::commands::*;
use crate::{output, ranks, threads};
use clap::{Parser, Subcommand};

/// Finds extreme weather in climate-model output: from simulation files to masks, events, tracks and a report.
#[derive(Debug, Parser)]
#[command(name = "squall", version = version::text(), propagate_version = false, max_term_width = 100)]
#[command(
    after_help = "Start with `squall demo`. Exit codes: 0 success, 1 a check failed, 2 wrong usage, 3 unusable input, \
    4 the run failed, 5 output could not be written, 75 interrupted: run the same command again to continue, \
    102 a rank stalled and the job was aborted.\n\n\
    Cores and memory of a node, for every command: --reserve-cores N keeps N cores of each rank's share for its \
    communication thread; --hyper-threads N computes with at most N hardware threads of each core, all with every one; \
    --memory-node N allocates memory from that NUMA node while it has any left, such as fast memory in flat mode \
    (needs numactl). SQUALL_RESERVE_CORES, SQUALL_HYPER_THREADS and SQUALL_MEMORY_NODE set them, too."
)]
pub struct Arguments {
    /// Log more (-v: decisions, -vv: everything).
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 900)]
    pub verbose: u8,
    /// Print only results, warnings and errors, no progress.
    #[arg(short, long, global = true, display_order = 901)]
    pub quiet: bool,
    #[command(flatten)]
    pub threads: threads::Options,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// The thread settings to prepare the process with. A supervised command chooses its own cores: its ranks divide
    /// those that are left to them.
    pub fn threads(&self) -> threads::Options {
        match self.command {
            Command::Supervise(_) => threads::Options::default(),
            _ => self.threads.clone(),
        }
    }

    /// Whether it repeats the same work, and so the same warnings: the trials of a search.
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
    /// Whether it only reads and prints, in a single process.
    fn only_prints(&self) -> bool {
        match self {
            Self::Inspect(_) | Self::Score(_) | Self::Summary(_) | Self::Scale(_) => true,
            Self::Model(model) => model.only_prints(),
            _ => false,
        }
    }

    /// Runs the chosen subcommand.
    pub fn run(self) -> anyhow::Result<()> {
        // Ranks would all print the same document, which would be invalid; but a task may write to its own file.
        if self.only_prints() && ranks::number() > 0 && !output::is_own_file() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::fs;
    use std::path::Path;

    /// All commands, each with the options that are common to all.
    fn commands() -> clap::Command {
        let mut commands = Arguments::command();
        commands.build();
        commands
    }

    fn has(command: &clap::Command, option: &str) -> bool {
        let mut arguments = command.get_arguments();
        arguments.any(|argument| {
            let names = argument.get_long_and_visible_aliases();
            names.is_some_and(|names| names.contains(&option))
        })
    }

    /// How many options the calls of the program in a text have, and which of them their command does not know.
    fn check(text: &str, commands: &clap::Command) -> (usize, Vec<String>) {
        let text = text.replace("\\\n", " ").replace("\"$squall\"", "squall");
        let (mut options, mut wrong) = (0, Vec::new());
        for line in text.lines() {
            // What stands in quotes may be the call of another program.
            let bare: Vec<&str> = line.split('"').step_by(2).collect();
            let bare = bare.join(" ");
            for call in bare.split("squall ").skip(1) {
                let call = call.split(['`', '|', ';', '#', '(', ')', '&']).next();
                let words = call.unwrap_or_default().split_whitespace();
                let mut words = words.skip_while(|word| word.starts_with('-'));
                let named = words.next().and_then(|word| commands.find_subcommand(word));
                let Some(mut command) = named else { continue };
                // What follows is a command that `supervise` starts.
                for word in words.take_while(|word| *word != "--") {
                    let Some(option) = word.strip_prefix("--") else {
                        command = command.find_subcommand(word).unwrap_or(command);
                        continue;
                    };
                    let option = option.split('=').next().unwrap_or_default();
                    let option = option.trim_end_matches(['.', ',', ':']);
                    options += 1;
                    // A script may name the part of a command by a variable.
                    let mut parts = command.get_subcommands();
                    if !has(command, option) && !parts.any(|part| has(part, option)) {
                        wrong.push(format!("{} has no --{option}: {line}", command.get_name()));
                    }
                }
            }
        }
        (options, wrong)
    }

    #[test]
    fn options_that_pages_and_scripts_give_are_known() {
        let commands = commands();
        let made_up =
            "squall supervise -- mpirun -n 2 --x squall infer run --modell m --out \\\n masks";
        let (options, wrong) = check(made_up, &commands);
        assert_eq!((options, wrong.len()), (2, 1), "{wrong:?}");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut pages = vec![root.join("README.md")];
        for folder in ["docs", "validation", "validation/gpu", "validation/peers"] {
            let entries = fs::read_dir(root.join(folder)).unwrap();
            pages.extend(entries.map(|entry| entry.unwrap().path()));
        }
        pages.retain(|page| {
            page.extension()
                .is_some_and(|end| end == "md" || end == "sh")
        });
        let (mut options, mut wrong) = (0, Vec::new());
        for page in pages {
            let (more, others) = check(&fs::read_to_string(&page).unwrap(), &commands);
            options += more;
            wrong.extend(others.into_iter().map(|other| (page.clone(), other)));
        }
        assert!(options > 300, "the search is broken: it finds {options}");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn every_command_has_an_example_with_options_that_it_knows() {
        let commands = commands();
        let is_ours = |command: &&clap::Command| command.get_name() != "help";
        for command in commands.get_subcommands().filter(is_ours) {
            let name = command.get_name();
            let parts = command.get_subcommands().filter(is_ours);
            // What is done with a model is told of each.
            let told: Vec<(String, &clap::Command)> = match name {
                "model" => parts
                    .map(|part| (format!("{name} {}", part.get_name()), part))
                    .collect(),
                _ => vec![(name.to_string(), command)],
            };
            for (call, command) in told {
                let text = command.get_after_help().map(ToString::to_string);
                let text = text.unwrap_or_default();
                assert!(text.starts_with("Example"), "{call} has none");
                assert!(text.contains(&format!("squall {call}")), "{text}");
                // Help breaks at 100 columns, and a command must survive copying.
                let longest = text.lines().map(str::len).max();
                assert!(longest.unwrap_or(0) <= 98, "{text}");
                let (_, wrong) = check(&text, &commands);
                assert!(wrong.is_empty(), "{wrong:?}");
            }
        }
    }

    /// Seven lines on NUMA nodes stood in the help of each command, also of those that only read and print.
    #[test]
    fn options_for_cores_are_told_by_the_program_alone() {
        let mut commands = commands();
        let names = ["--reserve-cores N", "--hyper-threads N", "--memory-node N"];
        let told = commands.render_help().to_string();
        let words: Vec<&str> = told.split_whitespace().collect();
        let words = words.join(" ");
        assert!(names.iter().all(|name| words.contains(*name)), "{told}");
        let is_ours = |command: &&mut clap::Command| command.get_name() != "help";
        for command in commands.get_subcommands_mut().filter(is_ours) {
            let told = command.render_long_help().to_string();
            assert!(!told.contains("--reserve-cores"), "{told}");
        }
    }

    #[test]
    fn options_that_hints_name_are_known() {
        let commands = commands();
        let all = || {
            let inner = commands.get_subcommands();
            inner.flat_map(|command| std::iter::once(command).chain(command.get_subcommands()))
        };
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let words = include_str!("failure/hints.rs").split(|letter| !is_part(letter));
        let options: Vec<&str> = words
            .filter_map(|word| word.strip_prefix("--"))
            .filter(|option| !option.is_empty())
            .collect();
        assert!(options.len() > 20, "{options:?}");
        for option in options {
            assert!(all().any(|command| has(command, option)), "--{option}");
        }
    }
}
