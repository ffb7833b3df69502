//! Memory that the system leaves to a process.

use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};

/// Bytes that this process may use as one of `ranks` equal processes on its node: what it holds already plus its share
/// of free memory, within the limits of its control group and its address space; `None` if the system does not report
/// it.
pub fn available_memory(ranks: u64) -> Option<u64> {
    let status = read("/proc/self/status");
    let own = kilobytes(&status, "VmRSS:").unwrap_or(0);
    let host = kilobytes(&read("/proc/meminfo"), "MemAvailable:")?;
    let groups = read("/proc/self/cgroup");
    let left = VERSIONS.iter().flat_map(|version| {
        let folders = version.folders(&groups).into_iter();
        folders.filter_map(move |folder| {
            let file = |name: &str| read(folder.join(name));
            let (limit, current) = (file(version.limit), file(version.current));
            version.left(&limit, &current, &file("memory.stat"))
        })
    });
    let share = share_of(left.fold(host, u64::min), own, ranks);
    let reserved = kilobytes(&status, "VmSize:").unwrap_or(0);
    let limit = getrlimit(Resource::As).current;
    Some(limit.map_or(share, |limit| share.min(within(limit, own, reserved))))
}

/// Bytes that a process may use under a limit of its address space (`ulimit -v`), of which it has `reserved` some and
/// uses its `own`.
fn within(limit: u64, own: u64, reserved: u64) -> u64 {
    own + limit.saturating_sub(reserved)
}

/// Bytes that one of `ranks` processes may use: its `own`, plus its share of what is `left`.
fn share_of(left: u64, own: u64, ranks: u64) -> u64 {
    own + left / ranks.max(1)
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Parses a line `KEY 123 kB` into bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(1024 * number)
}

/// File names and keys of a control group version's memory accounting.
struct Version {
    root: &'static str,
    /// Name of the memory controller in the list of a process's groups.
    controller: &'static str,
    limit: &'static str,
    current: &'static str,
    /// Key of the file cache in `memory.stat`.
    cache: &'static str,
    /// Key of the part of it that is memory-backed files, which the kernel counts as cache.
    shared: &'static str,
}

/// Version 2, and version 1 of older systems.
const VERSIONS: [Version; 2] = [
    Version {
        root: "/sys/fs/cgroup",
        controller: "",
        limit: "memory.max",
        current: "memory.current",
        cache: "file ",
        shared: "shmem ",
    },
    Version {
        root: "/sys/fs/cgroup/memory",
        controller: "memory",
        limit: "memory.limit_in_bytes",
        current: "memory.usage_in_bytes",
        cache: "total_cache ",
        shared: "total_shmem ",
    },
];

impl Version {
    /// The folders of a process's control group and of its ancestors.
    fn folders(&self, groups: &str) -> Vec<PathBuf> {
        let root = Path::new(self.root);
        let own = groups.lines().find_map(|line| {
            let (_, group) = line.split_once(':')?;
            let (controllers, path) = group.split_once(":/")?;
            let mut controllers = controllers.split(',');
            controllers
                .any(|name| name == self.controller)
                .then(|| root.join(path))
        });
        let own = own.unwrap_or_else(|| root.to_path_buf());
        (own.ancestors()
            .take_while(|folder| folder.starts_with(root)))
        .map(Path::to_path_buf)
        .collect()
    }

    /// Bytes that a control group has left. Its file cache can be reclaimed, except memory-backed files: samples in
    /// /dev/shm, and memory shared by ranks.
    fn left(&self, limit: &str, current: &str, stat: &str) -> Option<u64> {
        let limit: u64 = limit.trim().parse().ok()?;
        let current: u64 = current.trim().parse().unwrap_or(0);
        let bytes = |key: &str| {
            let rest = stat.lines().find_map(|line| line.strip_prefix(key));
            rest.and_then(|bytes| bytes.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        let cache = bytes(self.cache).saturating_sub(bytes(self.shared));
        Some(limit.saturating_sub(current.saturating_sub(cache)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_share_what_is_left() {
        // 90 are left to three ranks that hold 10 each.
        assert_eq!(share_of(90, 10, 3), 40);
        assert_eq!(share_of(90, 10, 1), 100);
        assert_eq!(share_of(0, 10, 0), 10);
    }

    #[test]
    fn a_limit_of_the_address_space_counts_what_is_only_reserved() {
        assert_eq!(within(700, 50, 300), 450);
        assert_eq!(within(200, 50, 300), 50);
    }

    #[test]
    fn limits_of_the_system() {
        assert_eq!(
            kilobytes("A: 1 kB\nMemAvailable:   2 kB\n", "MemAvailable:"),
            Some(2048)
        );
        let [new, old] = &VERSIONS;
        assert_eq!(new.left("max\n", "5", ""), None);
        // 60 are in use, 20 of them cache: 40 are not to be had.
        let left = new.left("100\n", "60\n", "anon 40\nfile 20\n");
        assert_eq!(left, Some(60));
        // A copy of samples in /dev/shm, 15 of the 20, is in the cache of files and cannot be given back.
        let stat = "anon 40\nfile 20\nshmem 15\n";
        assert_eq!(new.left("100\n", "60\n", stat), Some(45));
        assert_eq!(new.left("10", "60", ""), Some(0));
        // With those of the groups inside.
        let stat = "cache 1\nshmem 1\ntotal_cache 20\ntotal_shmem 15\n";
        assert_eq!(old.left("100\n", "60\n", stat), Some(45));
        let check = |version: &Version, groups: &str, expected: &[&str]| {
            let folders = version.folders(groups);
            let shown: Vec<_> = folders.iter().filter_map(|f| f.to_str()).collect();
            assert_eq!(shown, expected);
        };
        let around = ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"];
        check(new, "0::/a/b\n", &around);
        let groups = "7:cpu,cpuacct:/y\n5:memory:/x\n1:name=systemd:/z\n";
        check(new, groups, &["/sys/fs/cgroup"]);
        let around = ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory"];
        check(old, groups, &around);
        #[cfg(target_os = "linux")]
        assert!(available_memory(1).is_some_and(|bytes| bytes > 1 << 20));
    }
}
