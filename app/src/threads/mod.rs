//! Prepares the process for computing: OpenMP's threads wait without spinning, ranks of a node run on cores of their
//! own, and memory comes from the NUMA node that the user chose.
//!
//! Libraries read some of this when they are loaded, before `main`. So the program decides ([`prepare`]) and replaces
//! itself by a new start, which finds the decisions in its environment and bindings ([`Placement`],
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
use cores::{Core, Place};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::os::unix::process::CommandExt;
use std::process::Command;
use topology::Topology;

/// How OpenMP's idle threads wait. GNU's OpenMP, which oneDNN uses, reads it once, when it is loaded.
const POLICY: &str = "OMP_WAIT_POLICY";
/// Set if the policy is this program's choice and not the user's.
const OWN_POLICY: &str = "SQUALL_OWN_WAIT_POLICY";
/// How many threads OpenMP has; where it is not set, as many as the hardware threads that it may run on.
const COUNT: &str = "OMP_NUM_THREADS";
/// Set if that number is this program's choice and not the user's.
const OWN_COUNT: &str = "SQUALL_OWN_NUM_THREADS";
/// The id of the process that was started anew. Programs that this one starts inherit the variable, but have other ids.
const PREPARED: &str = "SQUALL_PREPARED_PROCESS";
/// Tells the process that was started anew which hardware threads are reserved for communication.
const COMMUNICATION: &str = "SQUALL_COMMUNICATION_CORES";

/// Starts the program anew, once; in the new start it returns at once. There, unless the user chose otherwise, OpenMP's
/// threads sleep between two operations and are no more than a container's quota keeps busy; a rank that shares its
/// node with others runs on its share of the cores, unless the launcher bound it; and the options are carried out.
///
/// By default OpenMP's threads spin for a while after each operation and take the cores from the loops that run between
/// the operations: a training step takes up to four times as long on a shared machine. The setting is read when the
/// library is loaded, before `main`; so the program replaces itself, in a few milliseconds.
///
/// # Errors
/// Wrong usage if the options ask for what this machine does not have.
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
    // The new start failed. If no option needs it, the program goes on without.
    if communication.is_empty() && options.memory_node.is_none() {
        return Ok(());
    }
    Err(Advice::run(
        format!("the program cannot start itself anew: {failed}"),
        "go on without --reserve-cores and --memory-node, which need it",
    ))
}

/// The hardware threads that are reserved for communication; usually none.
pub fn communication_cores() -> Vec<usize> {
    match std::env::var(COMMUNICATION) {
        Ok(list) if is_prepared() => cores::parse(&list),
        _ => Vec::new(),
    }
}

/// Gives another program the environment in which the user would start it: without what this one chose for itself, and
/// without the number of its process. A launcher or a batch system hands its environment to ranks on other machines and
/// in containers, which have other cores, and where another process may have that number.
pub fn leave_to_user(command: &mut Command) {
    for (variable, own) in [(POLICY, OWN_POLICY), (COUNT, OWN_COUNT)] {
        if std::env::var_os(own).is_some() {
            command.env_remove(variable).env_remove(own);
        }
    }
    command.env_remove(PREPARED);
}

/// Whether this process was started anew already.
fn is_prepared() -> bool {
    let process = std::process::id().to_string();
    std::env::var(PREPARED).is_ok_and(|prepared| prepared == process)
}

/// Replaces this process; comes back only if that fails.
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

/// Sets the variables of OpenMP that the user has not set; `quota` is the most threads that can be busy.
fn tell_openmp(command: &mut Command, is_set: impl Fn(&str) -> bool, quota: Option<usize>) {
    if !is_set(POLICY) {
        command.env(POLICY, "passive").env(OWN_POLICY, "1");
    }
    if let Some(threads) = quota.filter(|_| !is_set(COUNT)) {
        command.env(COUNT, threads.to_string()).env(OWN_COUNT, "1");
    }
}

/// How many threads a quota of processor time (a container's, `cpu.max`) lets be busy, counted as the loops of this
/// program count them; `None` if no fewer than the hardware threads that this process may run on.
fn quota() -> Option<usize> {
    let may_use = sched_getaffinity(None).ok()?.count() as usize;
    let busy = std::thread::available_parallelism().ok()?.get();
    (busy < may_use).then_some(busy)
}

/// Binds this process to the hardware threads that it computes on, and returns those that are reserved for
/// communication. Both come from this rank's equal share of the cores that all ranks of the node may use, or from those
/// that a launcher bound it to. Thread pools take their size from this binding.
fn take_cores(options: &Options) -> anyhow::Result<Vec<usize>> {
    let all = match sched_getaffinity(None) {
        Ok(all) => all,
        Err(error) if options.say_cores() => return Err(refused(error)),
        Err(_) => return Ok(Vec::new()),
    };
    let threads: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&t| all.is_set(t)).collect();
    let topology = Topology::of_this_machine();
    // A rank on fewer threads than the machine has was bound by its launcher and is left its part, unless the launcher
    // itself may run on no more than the rank, as in a container of a few cores: then it bound nobody, and ranks must
    // share.
    let place = node_place()
        .filter(|_| threads.len() >= topology.online() || launcher::may_use(&all) == Some(true));
    let (place, cores) = match (place, options.say_cores()) {
        (None, false) => return Ok(Vec::new()),
        (place, true) => (place.unwrap_or(Place::ALONE), topology.cores(&threads)),
        // Without options each hardware thread is dealt like a core, as the system numbers them.
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

/// The error for a system that does not let a process choose its cores.
fn refused(error: rustix::io::Errno) -> anyhow::Error {
    Advice::run(
        format!("the system does not let the program choose its cores: {error}"),
        "go on without --reserve-cores and --hyper-threads",
    )
}

/// This process's place among the ranks of its node; `None` if it is alone there, or the launcher does not tell.
fn node_place() -> Option<Place> {
    let launch = ranks::launch()?;
    let (rank, ranks) = (launch.local_rank?, launch.local_size?);
    (ranks > 1).then_some(Place { rank, ranks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

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
