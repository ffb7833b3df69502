//! Allocates memory from a chosen NUMA node, using numactl.

use super::topology::{MemoryNode, Topology};
use crate::failure::Advice;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// A command that runs a program with memory from a node, as long as the node has any.
///
/// # Errors
/// Wrong usage if there is no such node or no numactl; a failed run if the system refuses.
pub fn preferring(node: usize, program: &Path) -> anyhow::Result<Command> {
    check(node, &Topology::of_this_machine().memory_nodes())?;
    let numactl = || {
        let mut command = Command::new("numactl");
        command.arg(format!("--preferred={node}"));
        command
    };
    // Tried with `true` first: once the program has replaced it, a refusal by numactl would look like a failure of the
    // program.
    let tried = numactl().arg("true").output();
    let refused = match tried {
        Ok(output) if output.status.success() => {
            let mut command = numactl();
            command.arg(program);
            return Ok(command);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Advice::usage(
                format!("--memory-node {node} needs numactl, which is not here"),
                "install it or load its module (Debian/Ubuntu: numactl), or go on without the option",
            ));
        }
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            words
                .lines()
                .next()
                .unwrap_or("no reason given")
                .to_string()
        }
        Err(error) => error.to_string(),
    };
    Err(Advice::run(
        format!("numactl cannot take memory from node {node}: {refused}"),
        "go on without --memory-node, or start where the system lets programs choose",
    ))
}

/// Wrong usage unless the node has memory.
fn check(wanted: usize, nodes: &[MemoryNode]) -> anyhow::Result<()> {
    let found = nodes.iter().find(|node| node.number == wanted);
    if found.is_some_and(|node| node.bytes > 0) {
        return Ok(());
    }
    let message = match found {
        Some(_) => format!("NUMA node {wanted} has no memory"),
        None => format!("this machine has no NUMA node {wanted}"),
    };
    let hint = if nodes.is_empty() {
        "the system shows no NUMA nodes: go on without --memory-node".to_string()
    } else {
        let listed: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        format!("it has {}", listed.join(", "))
    };
    Err(Advice::usage(message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, classify};

    fn node(number: usize, gib: u64, threads: &str) -> MemoryNode {
        MemoryNode {
            number,
            bytes: gib << 30,
            threads: threads.into(),
        }
    }

    #[test]
    fn a_node_without_memory_is_refused_with_those_that_have() {
        let nodes = [node(0, 96, "0-271"), node(1, 16, ""), node(2, 0, "")];
        check(1, &nodes).expect("fast memory");
        let refuse = |wanted, nodes: &[MemoryNode], message: &str, hint: &str| {
            let error = check(wanted, nodes).expect_err(message);
            assert_eq!(error.to_string(), message);
            let (code, told) = classify(&error);
            assert_eq!((code, told.as_deref()), (USAGE, Some(hint)));
        };
        let listed =
            "it has 0 (96.0 GiB, CPUs 0-271), 1 (16.0 GiB, no cores), 2 (0.0 GiB, no cores)";
        refuse(3, &nodes, "this machine has no NUMA node 3", listed);
        refuse(2, &nodes, "NUMA node 2 has no memory", listed);
        let none = "the system shows no NUMA nodes: go on without --memory-node";
        refuse(0, &[], "this machine has no NUMA node 0", none);
    }
}
