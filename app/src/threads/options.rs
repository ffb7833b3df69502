//! User options for cores and memory, from the command line or the environment.

use std::num::NonZeroUsize;
use std::str::FromStr;

/// Options that every subcommand has. Their help is in that of the program alone (`cli.rs`): it was a third of some.
///
/// Without the first two, ranks share a node's hardware threads as the system numbers them; with either of them ranks
/// get whole cores.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// Cores of each rank's share to reserve for its communication thread.
    #[arg(long, global = true, value_name = "N", value_parser = cores, hide = true)]
    #[arg(env = "SQUALL_RESERVE_CORES", hide_env_values = true)]
    pub reserve_cores: Option<usize>,
    /// Maximum hardware threads to compute with on each core; `all` uses every one.
    #[arg(long, global = true, value_name = "N|all", hide = true)]
    #[arg(env = "SQUALL_HYPER_THREADS", hide_env_values = true)]
    pub hyper_threads: Option<HyperThreads>,
    /// NUMA node to allocate memory from while it has any left, such as fast memory in flat mode; needs numactl.
    #[arg(long, global = true, value_name = "N", value_parser = node, hide = true)]
    #[arg(env = "SQUALL_MEMORY_NODE", hide_env_values = true)]
    pub memory_node: Option<usize>,
}

impl Options {
    /// Whether the user gave any option about cores.
    pub fn say_cores(&self) -> bool {
        self.reserve_cores.is_some() || self.hyper_threads.is_some()
    }
}

/// How many hardware threads of a core compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HyperThreads {
    /// As many as there are.
    #[default]
    All,
    /// At most this many of each core.
    AtMost(NonZeroUsize),
}

impl HyperThreads {
    /// The hardware threads of a core that compute.
    pub fn computing(self, core: &[usize]) -> &[usize] {
        match self {
            Self::All => core,
            Self::AtMost(count) => &core[..count.get().min(core.len())],
        }
    }
}

impl FromStr for HyperThreads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let count = text.parse().map(Self::AtMost);
        count.map_err(|_| {
            "expected 1 or more hardware threads of each core, or `all`; \
             SQUALL_HYPER_THREADS sets it too"
                .into()
        })
    }
}

fn cores(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| {
        "expected a number of cores, such as 1, or 0 for none; SQUALL_RESERVE_CORES sets it too"
            .into()
    })
}

fn node(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| {
        "expected the number of a NUMA node, such as 1 (`ls -d /sys/devices/system/node/node*` lists them); \
         SQUALL_MEMORY_NODE sets it too"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Parser, Subcommand};

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        threads: Options,
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, Subcommand)]
    enum Command {
        Train,
        Supervise {
            #[arg(last = true)]
            command: Vec<String>,
        },
    }

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Program::try_parse_from(line.split(' ')).map(|program| program.threads)
    }

    fn number(count: usize) -> HyperThreads {
        HyperThreads::AtMost(NonZeroUsize::new(count).expect("not 0"))
    }

    #[test]
    fn options_stand_before_and_after_the_subcommand() {
        let expected = Options {
            reserve_cores: Some(2),
            hyper_threads: Some(number(1)),
            memory_node: Some(1),
        };
        for line in [
            "squall train --reserve-cores 2 --hyper-threads 1 --memory-node 1",
            "squall train --reserve-cores=2 --hyper-threads=1 --memory-node=1",
            "squall --reserve-cores=2 --memory-node 1 train --hyper-threads 1",
        ] {
            assert_eq!(parse(line).expect(line), expected, "{line}");
        }
        let all = parse("squall train --hyper-threads all").expect("valid");
        assert_eq!(all.hyper_threads, Some(HyperThreads::All));
        assert!(all.say_cores());
    }

    /// What a supervised command is told is not told to its supervisor.
    #[test]
    fn words_after_two_dashes_belong_to_another_program() {
        let line = "squall supervise -- squall train --reserve-cores 2 --memory-node x";
        let program = Program::try_parse_from(line.split(' ')).expect("valid");
        assert_eq!(program.threads, Options::default());
        assert!(!program.threads.say_cores());
        match program.command {
            Command::Supervise { command } => assert_eq!(command.len(), 6),
            Command::Train => panic!("supervise was asked for"),
        }
    }

    #[test]
    fn what_is_no_number_is_wrong_usage_with_a_hint() {
        let check = |line: &str, hint: &str| {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(hint), "{line}: {error}");
        };
        check("squall train --reserve-cores two", "such as 1");
        check("squall train --reserve-cores=-1", "SQUALL_RESERVE_CORES");
        check("squall train --hyper-threads 0", "or `all`");
        check("squall train --memory-node mcdram", "NUMA node");
        check("squall train --reserve-cores", "a value is required");
    }

    #[test]
    fn a_core_with_fewer_hardware_threads_gives_what_it_has() {
        assert_eq!(number(2).computing(&[0, 4, 8]), [0, 4]);
        assert_eq!(number(4).computing(&[3]), [3]);
        assert_eq!(HyperThreads::All.computing(&[0, 4, 8]), [0, 4, 8]);
    }
}
