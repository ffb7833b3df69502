//! Threads that wait without spinning, on cores of this process's own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use squall_jobs::comm::launch::Launch;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What GNU's OpenMP, under oneDNN, reads once, when it is loaded.
const POLICY: &str = "OMP_WAIT_POLICY";
/// Holds the process that was started anew: a program that this one starts inherits the variable, and is another process.
const PREPARED: &str = "SQUALL_PREPARED_PROCESS";

/// Starts the program anew with OpenMP's threads told to sleep between two operations, unless the user chose; and, as one of
/// several ranks of a node, on its share of the node's cores, unless the launcher bound it.
///
/// By default they spin for a while after each operation and take the cores from the loops that run between the
/// operations: a training step takes up to four times as long on a shared machine. The setting is read when the
/// library is loaded, before `main`; so the program replaces itself, once, in a few milliseconds.
pub fn prepare() {
    let process = std::process::id().to_string();
    if std::env::var(PREPARED).is_ok_and(|prepared| prepared == process) {
        return;
    }
    take_share();
    let policy = std::env::var_os(POLICY).unwrap_or_else(|| "passive".into());
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    // `exec` returns only if it fails; then the program goes on as it is.
    let _ = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(POLICY, policy)
        .env(PREPARED, process)
        .exec();
}

/// Takes an equal part of the cores that all ranks of a node may use. Threads are then as many as those cores.
fn take_share() {
    let Ok(Some(launch)) = Launch::detect(|name| std::env::var(name).ok()) else {
        return;
    };
    let (Some(rank), Some(ranks)) = (launch.local_rank, launch.local_size) else {
        return;
    };
    let Ok(all) = sched_getaffinity(None) else {
        return;
    };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&c| all.is_set(c)).collect();
    // A launcher that binds leaves a rank its own part already.
    if ranks < 2 || cores.len() < online() {
        return;
    }
    let mut mine = CpuSet::new();
    for core in share(&cores, rank, ranks) {
        mine.set(*core);
    }
    // Without it ranks share all cores, which is slower and not wrong.
    let _ = sched_setaffinity(None, &mine);
}

/// An equal part of the cores, in their order, for each rank; where ranks are more than cores, one core in turn.
fn share(cores: &[usize], rank: usize, ranks: usize) -> &[usize] {
    if cores.len() < ranks {
        let at = rank % cores.len().max(1);
        return &cores[at..(at + 1).min(cores.len())];
    }
    &cores[cores.len() * rank / ranks..cores.len() * (rank + 1) / ranks]
}

/// Cores of the machine.
fn online() -> usize {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    count(&listed)
}

/// The cores that this process may use, as the kernel lists them: `0-3,8`.
pub fn cores() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = (status.lines()).find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or("unknown").trim().to_string()
}

/// How many numbers a list such as `0-3,8` has.
fn count(list: &str) -> usize {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = (first.trim().parse::<usize>(), last.trim().parse::<usize>());
        match ends {
            (Ok(first), Ok(last)) if first <= last => last - first + 1,
            _ => 0,
        }
    };
    list.split(',').map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_dealt_once_each() {
        let cores = [0, 1, 2, 3, 8, 9, 10];
        let dealt: Vec<&[usize]> = (0..3).map(|rank| share(&cores, rank, 3)).collect();
        assert_eq!(dealt, [&[0, 1][..], &[2, 3], &[8, 9, 10]]);
        assert_eq!(share(&[4, 5], 2, 3), [4]);
        assert_eq!((count("0-3,8"), count(""), count("0-1\n")), (5, 0, 2));
    }
}
