//! Cores and memory of the machine, from kernel files.

use super::cores::{self, Core};
use std::path::{Path, PathBuf};

/// Cores and NUMA nodes, read from a folder laid out as `/sys/devices/system`.
#[derive(Debug)]
pub struct Topology {
    root: PathBuf,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryNode {
    /// Its number in the system.
    pub number: usize,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Its hardware threads, as a kernel list; empty for a node that has only memory.
    pub threads: String,
}

impl std::fmt::Display for MemoryNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gib = self.bytes as f64 / f64::from(1 << 30);
        write!(f, "{} ({gib:.1} GiB, ", self.number)?;
        match self.threads.as_str() {
            "" => f.write_str("no cores)"),
            threads => write!(f, "CPUs {threads})"),
        }
    }
}

impl Topology {
    /// The topology of this machine.
    pub fn of_this_machine() -> Self {
        Self::at("/sys/devices/system")
    }

    /// Reads the topology from a folder laid out as `/sys/devices/system`.
    pub fn at(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref().to_path_buf();
        Self { root }
    }

    /// Number of hardware threads of the machine; 0 if the kernel does not report it.
    pub fn online(&self) -> usize {
        cores::parse(&self.read("cpu/online")).len()
    }

    /// The cores of these hardware threads.
    pub fn cores(&self, threads: &[usize]) -> Vec<Core> {
        cores::group(threads, |thread| self.siblings(thread))
    }

    /// All hardware threads of a thread's core; empty if the kernel does not report it.
    fn siblings(&self, thread: usize) -> Vec<usize> {
        let file = |name: &str| self.read(&format!("cpu/cpu{thread}/topology/{name}"));
        // The second name is that of kernels before 5.3.
        let names = ["core_cpus_list", "thread_siblings_list"];
        let mut lists = names.iter().map(|name| cores::parse(&file(name)));
        let found = lists.find(|list| !list.is_empty());
        found.unwrap_or_default()
    }

    /// The machine's NUMA nodes, by number.
    pub fn memory_nodes(&self) -> Vec<MemoryNode> {
        let entries = std::fs::read_dir(self.root.join("node"));
        let names = entries.into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix("node")?.parse().ok();
        let mut nodes: Vec<MemoryNode> = names
            .filter_map(|entry| number(&entry.file_name().to_string_lossy()))
            .map(|number| MemoryNode {
                number,
                bytes: total(&self.read(&format!("node/node{number}/meminfo"))),
                threads: self.read(&format!("node/node{number}/cpulist")),
            })
            .collect();
        nodes.sort_by_key(|node| node.number);
        nodes
    }

    /// The contents of a file; empty if it does not exist.
    fn read(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.root.join(name)).unwrap_or_default();
        text.trim().to_string()
    }
}

/// A node's memory in bytes, from a line such as `Node 0 MemTotal: 98817152 kB`.
fn total(meminfo: &str) -> u64 {
    let value = |line: &str| {
        let (_, value) = line.split_once("MemTotal:")?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    meminfo.lines().find_map(value).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two cores with two threads each, the second's listed under the old name, and fast memory without
    /// cores.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write("cpu/online", "0-4\n");
        write("cpu/cpu0/topology/core_cpus_list", "0,2\n");
        write("cpu/cpu2/topology/core_cpus_list", "0,2\n");
        write("cpu/cpu1/topology/thread_siblings_list", "1,3\n");
        write("cpu/cpu3/topology/thread_siblings_list", "1,3\n");
        write("node/online", "0-1\n");
        write("node/node0/cpulist", "0-4\n");
        write(
            "node/node0/meminfo",
            "Node 0 MemTotal:       100663296 kB\nNode 0 MemFree: 1 kB\n",
        );
        write("node/node1/cpulist", "\n");
        write("node/node1/meminfo", "Node 1 MemTotal:       16777216 kB\n");
        folder
    }

    #[test]
    fn cores_are_read_from_siblings() {
        let folder = machine();
        let topology = Topology::at(folder.path());
        assert_eq!(topology.online(), 5);
        // The kernel says nothing of the last thread: it is a core of its own.
        let cores = topology.cores(&[0, 1, 2, 3, 4]);
        assert_eq!(cores, [vec![0, 2], vec![1, 3], vec![4]]);
        assert_eq!(topology.cores(&[2, 3]), [[2], [3]]);
    }

    #[test]
    fn memory_nodes_are_listed_with_sizes() {
        let folder = machine();
        let nodes = Topology::at(folder.path()).memory_nodes();
        let words: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["0 (96.0 GiB, CPUs 0-4)", "1 (16.0 GiB, no cores)"]);
    }

    #[test]
    fn a_kernel_that_shows_nothing_has_cores_of_one_thread() {
        let folder = tempfile::tempdir().expect("a folder");
        let topology = Topology::at(folder.path());
        assert_eq!(topology.online(), 0);
        assert_eq!(topology.cores(&[0, 1]), [[0], [1]]);
        assert_eq!(topology.memory_nodes(), []);
    }

    #[test]
    fn this_machine_shows_its_threads() {
        let topology = Topology::of_this_machine();
        assert!(topology.online() > 0);
    }
}
