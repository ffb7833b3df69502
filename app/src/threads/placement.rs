//! Describes where this process runs.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Cores and memory policy of this process, as reported by the system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Hardware threads for computation, as a kernel list.
    computing: String,
    /// Hardware threads reserved for communication, as a kernel list.
    communication: String,
    /// Description of the memory policy; `None` for the default, which allocates near the core that first writes.
    memory: Option<String>,
}

impl Placement {
    /// The current binding of this process.
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed =
            |line: &str| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_string());
        // Only the first line is read. It is the program's own mapping and shows the process's policy; the kernel takes
        // long for the rest.
        let mut line = String::new();
        if let Ok(maps) = File::open("/proc/self/numa_maps") {
            // Kernels without NUMA have neither the file nor a policy.
            let _ = BufReader::with_capacity(256, maps).read_line(&mut line);
        }
        Self {
            computing: status
                .lines()
                .find_map(allowed)
                .unwrap_or_else(|| "unknown".into()),
            communication: super::cores::list(&super::communication_cores()),
            memory: policy(&line),
        }
    }

    /// All hardware threads of this process.
    fn threads(&self) -> Vec<usize> {
        [&self.computing, &self.communication]
            .into_iter()
            .flat_map(|list| super::cores::parse(list))
            .collect()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "computes on cores {}", self.computing)?;
        if !self.communication.is_empty() {
            write!(f, ", communicates on {}", self.communication)?;
        }
        match &self.memory {
            Some(policy) => write!(f, ", {policy}"),
            None => Ok(()),
        }
    }
}

/// The first two ranks of one node that share a hardware thread although one of them reserved some; `None` if there are
/// none. `ranks` has each rank's node, and its placement if known.
pub fn sharing(ranks: &[(usize, Option<Placement>)]) -> Option<(usize, usize)> {
    let known = |rank: usize| ranks[rank].1.as_ref();
    let shares = |a: usize, b: usize| {
        let (a, b) = (known(a)?, known(b)?);
        let reserved = !(a.communication.is_empty() && b.communication.is_empty());
        let (a, b) = (a.threads(), b.threads());
        (reserved && a.iter().any(|thread| b.contains(thread))).then_some(())
    };
    let pairs = (0..ranks.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let mut of_a_node = pairs.filter(|&(a, b)| ranks[a].0 == ranks[b].0);
    of_a_node.find(|&(a, b)| shares(a, b).is_some())
}

/// Describes the memory policy in a line such as `55d0c000 prefer:1 file=/usr/bin/squall`; `None` for the default.
fn policy(line: &str) -> Option<String> {
    let (_, rest) = line.trim().split_once(' ')?;
    // Newer kernels have a policy that contains a space: `prefer (many):1`.
    let words = rest.split(' ');
    let words: Vec<&str> = words.take_while(|word| !word.contains('=')).collect();
    match words.join(" ").as_str() {
        "" | "default" | "local" => None,
        policy => Some(match policy.strip_prefix("prefer:") {
            Some(node) => format!("memory of NUMA node {node} first"),
            None => format!("memory policy {policy}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_told_unless_usual() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(policy(line).as_deref(), expected, "{line}");
        };
        check("55d0c000 default file=/usr/bin/squall mapped=2 N0=2", None);
        check("55d0c000 local file=/usr/bin/squall", None);
        let first = Some("memory of NUMA node 1 first");
        check("55d0c000 prefer:1 file=/usr/bin/squall", first);
        check("55d0c000 bind:0-1 anon=1", Some("memory policy bind:0-1"));
        let many = Some("memory policy prefer (many):0-1");
        check("55d0c000 prefer (many):0-1 file=/a", many);
        check("", None);
    }

    #[test]
    fn ranks_that_share_reserved_cores_are_found() {
        let rank = |node, computing: &str, communication: &str| {
            let placement = Placement {
                computing: computing.into(),
                communication: communication.into(),
                memory: None,
            };
            (node, Some(placement))
        };
        // As of a launcher that binds several ranks to one socket.
        let socket = [
            rank(0, "0-30", "31"),
            rank(1, "0-30", "31"),
            rank(0, "0-30", "31"),
        ];
        assert_eq!(sharing(&socket), Some((0, 2)));
        let apart = [rank(0, "0-14", "15"), rank(0, "16-30", "31"), (0, None)];
        assert_eq!(sharing(&apart), None);
        assert_eq!(sharing(&[rank(0, "0-1", ""), rank(0, "0-1", "")]), None);
    }

    #[test]
    fn words_name_what_is_unusual() {
        let mut placement = Placement {
            computing: "0-65".into(),
            ..Placement::default()
        };
        assert_eq!(placement.to_string(), "computes on cores 0-65");
        placement.communication = "66-67".into();
        placement.memory = policy("55d0c000 prefer:1 anon=1");
        assert_eq!(
            placement.to_string(),
            "computes on cores 0-65, communicates on 66-67, memory of NUMA node 1 first"
        );
    }

    #[test]
    fn this_process_runs_somewhere() {
        let placement = Placement::now();
        assert!(
            placement
                .computing
                .starts_with(|c: char| c.is_ascii_digit())
        );
    }
}
