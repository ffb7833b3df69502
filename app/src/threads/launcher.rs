//! The CPU affinity of the process that started the ranks.

use rustix::process::{Pid, getppid};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Programs that start the ranks of a node, by their names in the kernel (15 characters) up to the first dot:
/// `mpiexec.hydra`, and Debian's `mpirun.openmpi`. `jsmd` is the daemon of LSF's jsrun on each node.
const LAUNCHERS: [&str; 10] = [
    "mpirun",
    "mpiexec",
    "orterun",
    "orted",
    "prterun",
    "prte",
    "prted",
    "hydra_pmi_proxy",
    "jsmd",
    "slurmstepd",
];

/// Maximum number of processes, such as scripts, between a launcher and a rank.
const GENERATIONS: usize = 8;

/// Whether the affinity of this rank's launcher equals these hardware threads; `None` if the launcher is not found.
pub(super) fn may_use(threads: &CpuSet) -> Option<bool> {
    let launcher = ancestor(getppid()?, |process| {
        std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()
    })?;
    let its = sched_getaffinity(Some(launcher)).ok()?;
    Some(its == *threads)
}

/// The nearest launcher among a process and its ancestors; `stat` returns the line of `/proc/PID/stat` of a process.
fn ancestor(process: Pid, stat: impl Fn(Pid) -> Option<String>) -> Option<Pid> {
    let mut process = process;
    for _ in 0..GENERATIONS {
        let stat = stat(process)?;
        // The name is in parentheses and may contain parentheses itself; the state and the parent follow.
        let (_, rest) = stat.split_once('(')?;
        let (name, rest) = rest.rsplit_once(')')?;
        let stem = name.split('.').next().unwrap_or(name);
        if LAUNCHERS.contains(&stem) {
            return Some(process);
        }
        process = Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_found_behind_scripts() {
        let pid = |number: i32| Pid::from_raw(number).expect("not zero");
        let family = |process: Pid| match process.as_raw_nonzero().get() {
            40 => Some("40 (odd) name() S 30 40 40".to_string()),
            30 => Some("30 (bash) S 20 30 30".to_string()),
            20 => Some("20 (orted) S 1 20 20".to_string()),
            1 => Some("1 (init) S 0 1 1".to_string()),
            60 => Some("60 (squall) S 50 60 60".to_string()),
            50 => Some("50 (mpirun.openmpi) S 1 50 50".to_string()),
            80 => Some("80 (bash) S 70 80 80".to_string()),
            70 => Some("70 (jsmd) S 1 70 70".to_string()),
            _ => None,
        };
        assert_eq!(ancestor(pid(40), family), Some(pid(20)));
        assert_eq!(ancestor(pid(60), family), Some(pid(50)));
        assert_eq!(ancestor(pid(80), family), Some(pid(70)));
        assert_eq!(ancestor(pid(1), family), None);
        assert_eq!(ancestor(pid(7), family), None);
        // A process that says it is its own parent does not keep the search going for ever.
        assert_eq!(ancestor(pid(5), |_| Some("5 (sh) S 5 5".into())), None);
    }

    #[test]
    fn tests_have_no_launcher() {
        let own = sched_getaffinity(None).expect("what this thread may run on");
        assert_eq!(may_use(&own), None);
    }
}
