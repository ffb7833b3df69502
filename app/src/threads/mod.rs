//! Prepares the process for computing: OpenMP threads wait without spinning, the ranks of a node run on separate cores,
//! and memory comes from the NUMA node that the user chose.
//!
//! Libraries read some of these settings when they are loaded, before `main`. So the program decides ([`prepare`]) and
//! re-executes itself with its decisions in the environment and in its bindings ([`Placement`],
//! [`communication_cores`]).

mod cores;
mod launcher;
mod memory;
mod options;
mod placement;
mod topology;

pub use options::Options;
pub use placement::{Placement, sharing};

use crate::failure::Advice;
use crate::ranks;
use cores::{Core, RankPosition};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::process::Command;
use topology::Topology;

/// How idle OpenMP threads wait. GNU's OpenMP, which oneDNN uses, reads it once, when loaded.
const POLICY: &str = "OMP_WAIT_POLICY";
/// Set if this program chose the policy rather than the user.
const OWN_POLICY: &str = "SQUALL_OWN_WAIT_POLICY";
/// Number of OpenMP threads; if unset, the number of hardware threads available to the process.
const COUNT: &str = "OMP_NUM_THREADS";
/// Set if this program chose that number rather than the user.
const OWN_COUNT: &str = "SQUALL_OWN_NUM_THREADS";
/// The id of the re-executed process. Child processes inherit the variable, but have other ids.
const PREPARED: &str = "SQUALL_PREPARED_PROCESS";
/// Passes the hardware threads reserved for communication to the re-executed process.
const COMMUNICATION: &str = "SQUALL_COMMUNICATION_CORES";

/// Re-executes the program once; in the second run it returns immediately. There, unless the user chose otherwise,
/// OpenMP threads sleep between operations and do not exceed a container's CPU quota; a rank that shares its node with
/// others runs on its share of the cores, unless the launcher bound it; and the options are applied.
///
/// By default OpenMP threads spin for a while after each operation and take the cores from the loops between
/// operations: on a shared machine a training step takes up to four times as long. The setting is read when the library
/// is loaded, before `main`; hence the re-execution, which takes a few milliseconds.
///
/// # Errors
/// Wrong usage if the options ask for resources that this machine does not have.
pub fn prepare(options: &Options) -> anyhow::Result<()> {
    if is_prepared() {
        return Ok(());
    }
    let communication = take_cores(options)?;
    let failed = match std::env::current_exe() {
        Ok(program) => {
            let mut command = match options.memory_node {
                Some(node) => memory::preferring(node, &program)?,
                None => Command::new(program),
            };
            start_anew(&mut command, &communication)
        }
        Err(error) => error,
    };
    // Re-execution failed. If no option needs it, the program continues without.
    if communication.is_empty() && options.memory_node.is_none() {
        return Ok(());
    }
    Err(Advice::run(
        format!("the program cannot start itself anew: {failed}"),
        "go on without --reserve-cores and --memory-node, which need it",
    ))
}

/// The hardware threads reserved for communication; usually none.
pub fn communication_cores() -> Vec<usize> {
    match std::env::var(COMMUNICATION) {
        Ok(list) if is_prepared() => cores::parse(&list),
        _ => Vec::new(),
    }
}

/// Warns if the user asks OpenMP for more threads than this process has hardware threads for. Of several ranks, which have
/// the same environment and as many cores, only the first one does.
pub fn warn_of_too_many() {
    if ranks::number() > 0 {
        return;
    }
    let asked = std::env::var(COUNT).unwrap_or_default();
    let there = std::thread::available_parallelism().map_or(usize::MAX, NonZeroUsize::get);
    if let Some(asked) = too_many(&asked, there) {
        tracing::warn!(
            "{COUNT} asks for {asked} threads and this process has {there}: they wait for each other, and a training step may take tens of times as long; leave it unset"
        );
    }
}

/// The number in a value of [`COUNT`], a list with a number for each level of nesting, if it is above this one.
fn too_many(asked: &str, there: usize) -> Option<usize> {
    let outermost = asked.split(',').next()?;
    let asked: usize = outermost.trim().parse().ok()?;
    (asked > there).then_some(asked)
}

/// Restores the user's environment for another program: removes this program's own choices and its process id. A
/// launcher or a batch system passes its environment to ranks on other machines and in containers, which have other
/// cores and reuse process ids.
pub fn leave_to_user(command: &mut Command) {
    for (variable, own) in [(POLICY, OWN_POLICY), (COUNT, OWN_COUNT)] {
        if std::env::var_os(own).is_some() {
            command.env_remove(variable).env_remove(own);
        }
    }
    command.env_remove(PREPARED);
}

/// Whether this process is the re-executed one.
fn is_prepared() -> bool {
    let process = std::process::id().to_string();
    std::env::var(PREPARED).is_ok_and(|prepared| prepared == process)
}

/// Replaces this process; returns only if that fails.
fn start_anew(command: &mut Command, communication: &[usize]) -> std::io::Error {
    tell_openmp(command, |name| std::env::var_os(name).is_some(), quota());
    command
        .args(std::env::args_os().skip(1))
        .env(PREPARED, std::process::id().to_string());
    match communication {
        [] => command.env_remove(COMMUNICATION),
        some => command.env(COMMUNICATION, cores::list(some)),
    };
    command.exec()
}

/// Sets the OpenMP variables that the user has not set; `quota` is the maximum number of busy threads.
fn tell_openmp(command: &mut Command, is_set: impl Fn(&str) -> bool, quota: Option<usize>) {
    if !is_set(POLICY) {
        command.env(POLICY, "passive").env(OWN_POLICY, "1");
    }
    if let Some(threads) = quota.filter(|_| !is_set(COUNT)) {
        command.env(COUNT, threads.to_string()).env(OWN_COUNT, "1");
    }
}

/// The number of threads that a CPU quota (a container's `cpu.max`) keeps busy, counted like this program's loops count
/// them; `None` if it is no less than the number of hardware threads available to this process.
fn quota() -> Option<usize> {
    let may_use = sched_getaffinity(None).ok()?.count() as usize;
    let busy = std::thread::available_parallelism().ok()?.get();
    (busy < may_use).then_some(busy)
}

/// Binds this process to its computing hardware threads and returns those reserved for communication. Both come from
/// this rank's equal share of the cores available to all ranks of the node, or from those that a launcher bound it to.
/// Thread pools take their size from this binding.
fn take_cores(options: &Options) -> anyhow::Result<Vec<usize>> {
    let all = match sched_getaffinity(None) {
        Ok(all) => all,
        Err(error) if options.say_cores() => return Err(refused(error)),
        Err(_) => return Ok(Vec::new()),
    };
    let threads: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&t| all.is_set(t)).collect();
    let topology = Topology::of_this_machine();
    // A rank with fewer threads than the machine was bound by its launcher and keeps its cores. The exception is a
    // launcher that has no more threads itself, as in a container with few cores: then it bound nobody, and ranks must
    // share.
    let place = node_place()
        .filter(|_| threads.len() >= topology.online() || launcher::may_use(&all) == Some(true));
    let (place, cores) = match (place, options.say_cores()) {
        (None, false) => return Ok(Vec::new()),
        (place, true) => (
            place.unwrap_or(RankPosition::ALONE),
            topology.cores(&threads),
        ),
        // Without options each hardware thread is assigned like a core, in the system's numbering.
        (Some(place), false) => (place, threads.iter().map(|&t| Core::from([t])).collect()),
    };
    let division = cores::divide(&cores, place, options).map_err(|error| {
        let hint = "reserve fewer cores, or start fewer ranks on each node or with more cores each";
        Advice::usage(error.to_string(), hint)
    })?;
    let mut mine = CpuSet::new();
    division
        .computing
        .iter()
        .for_each(|&thread| mine.set(thread));
    match sched_setaffinity(None, &mine) {
        Err(error) if options.say_cores() => Err(refused(error)),
        // Unbound ranks share all cores, which is slower but not wrong.
        _ => Ok(division.communication),
    }
}

/// The error for a system that does not let processes choose their cores.
fn refused(error: rustix::io::Errno) -> anyhow::Error {
    Advice::run(
        format!("the system does not let the program choose its cores: {error}"),
        "go on without --reserve-cores and --hyper-threads",
    )
}

/// This process's position among the ranks of its node; `None` if it is alone there, or the launcher does not report
/// it.
fn node_place() -> Option<RankPosition> {
    let launch = ranks::launch()?;
    let (rank, ranks) = (launch.local_rank?, launch.local_size?);
    (ranks > 1).then_some(RankPosition { rank, ranks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn more_threads_than_cores_are_said() {
        let cases = [
            ("64", Some(64)),
            (" 8,2", Some(8)),
            ("4", None),
            ("1,9", None),
        ];
        for (asked, expected) in cases {
            assert_eq!(too_many(asked, 4), expected, "{asked}");
        }
        assert_eq!(too_many("", 4), None);
        assert_eq!(too_many("many", 4), None);
    }

    /// Before, on 64 cores with a quota of two, oneDNN had 64 threads, which the system stopped for most of every tenth
    /// of a second.
    #[test]
    fn openmp_keeps_to_the_quota_of_a_container() {
        let told = |set: &[&str], quota: Option<usize>| {
            let mut command = Command::new("squall");
            tell_openmp(&mut command, |name| set.contains(&name), quota);
            [COUNT, OWN_COUNT, POLICY].map(|name| {
                let mut variables = command.get_envs();
                let found = variables.find(|(variable, _)| *variable == name);
                found.and_then(|(_, value)| value.and_then(OsStr::to_str).map(String::from))
            })
        };
        let words = |words: [Option<&str>; 3]| words.map(|word| word.map(String::from));
        let passive = Some("passive");
        assert_eq!(told(&[], Some(2)), words([Some("2"), Some("1"), passive]));
        assert_eq!(told(&[], None), words([None, None, passive]));
        // The user's own number stays.
        assert_eq!(told(&[COUNT], Some(2)), words([None, None, passive]));
        assert_eq!(told(&[COUNT, POLICY], Some(2)), words([None; 3]));
    }
}
