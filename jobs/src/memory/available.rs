//! What the system leaves to a process.

use std::path::{Path, PathBuf};

/// Bytes that this process may hold, one of so many alike on its node: what it holds, and its share of what the system
/// has left for them, within the limits of its control groups; nothing where the system does not say.
pub fn available_memory(ranks: u64) -> Option<u64> {
    let own = kilobytes(&read("/proc/self/status"), "VmRSS:").unwrap_or(0);
    let host = kilobytes(&read("/proc/meminfo"), "MemAvailable:")?;
    let groups = group_folders(&read("/proc/self/cgroup"));
    let left = groups.iter().filter_map(|folder| {
        let file = |name: &str| read(folder.join(name));
        left_in_group(
            &file("memory.max"),
            &file("memory.current"),
            &file("memory.stat"),
        )
    });
    Some(share_of(left.fold(host, u64::min), own, ranks))
}

/// What one of so many alike may hold: what it does now, and its share of what is left.
fn share_of(left: u64, own: u64, ranks: u64) -> u64 {
    own + left / ranks.max(1)
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The bytes of a line `KEY 123 kB`.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(1024 * number)
}

/// The folders of a process's control group (version 2) and of those around it.
fn group_folders(groups: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = own.map_or_else(|| root.to_path_buf(), |path| root.join(path));
    (own.ancestors()
        .take_while(|folder| folder.starts_with(root)))
    .map(Path::to_path_buf)
    .collect()
}

/// What a control group has left; its file cache can be given back, but for what lies in memory as in a file: copies of
/// samples in /dev/shm, and what ranks share.
fn left_in_group(limit: &str, current: &str, stat: &str) -> Option<u64> {
    let limit: u64 = limit.trim().parse().ok()?;
    let current: u64 = current.trim().parse().unwrap_or(0);
    let bytes = |key: &str| {
        let rest = stat.lines().find_map(|line| line.strip_prefix(key));
        rest.and_then(|bytes| bytes.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    // The kernel counts the second in the first.
    let cache = bytes("file ").saturating_sub(bytes("shmem "));
    Some(limit.saturating_sub(current.saturating_sub(cache)))
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
    fn limits_of_the_system() {
        assert_eq!(
            kilobytes("A: 1 kB\nMemAvailable:   2 kB\n", "MemAvailable:"),
            Some(2048)
        );
        assert_eq!(left_in_group("max\n", "5", ""), None);
        // 60 are in use, 20 of them cache: 40 are not to be had.
        assert_eq!(
            left_in_group("100\n", "60\n", "anon 40\nfile 20\n"),
            Some(60)
        );
        // A copy of samples in /dev/shm, 15 of the 20, is in the cache of files and cannot be given back.
        assert_eq!(
            left_in_group("100\n", "60\n", "anon 40\nfile 20\nshmem 15\n"),
            Some(45)
        );
        assert_eq!(left_in_group("10", "60", ""), Some(0));
        let folders = group_folders("0::/a/b\n");
        let shown: Vec<_> = folders.iter().filter_map(|f| f.to_str()).collect();
        assert_eq!(
            shown,
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        assert_eq!(group_folders("5:memory:/x").len(), 1);
        #[cfg(target_os = "linux")]
        assert!(available_memory(1).is_some_and(|bytes| bytes > 1 << 20));
    }
}
