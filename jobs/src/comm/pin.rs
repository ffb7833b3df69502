//! Pinning threads to cores.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{Error, ErrorKind, Result};

/// Pins the calling thread, and threads that it starts from then on, to these hardware threads. Does nothing if there
/// are none.
///
/// # Errors
/// The system's error if none of them is available to the job; an error for a number that exceeds the size of CPU sets.
pub fn stay_on(cores: &[usize]) -> Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &core in cores {
        if core >= CpuSet::MAX_CPU {
            let reason = format!("core {core}: the system counts below {}", CpuSet::MAX_CPU);
            return Err(Error::new(ErrorKind::InvalidInput, reason));
        }
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The hardware threads that the calling thread may use.
///
/// # Errors
/// The system's error.
#[cfg(test)]
pub fn stays_on() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put_and_so_do_those_that_it_starts() {
        let all = stays_on().expect("an affinity");
        let last = *all.last().expect("a core");
        let seen = std::thread::spawn(move || {
            stay_on(&[last]).expect("a core of ours");
            let child = std::thread::spawn(stays_on).join().expect("no panic");
            (
                stays_on().expect("an affinity"),
                child.expect("an affinity"),
            )
        });
        assert_eq!(seen.join().expect("no panic"), (vec![last], vec![last]));
        assert_eq!(
            stays_on().expect("an affinity"),
            all,
            "only that thread moved"
        );
    }

    #[test]
    fn no_cores_change_nothing_and_impossible_ones_are_refused() {
        let all = stays_on().expect("an affinity");
        stay_on(&[]).expect("nothing to do");
        assert!(stay_on(&[CpuSet::MAX_CPU]).is_err());
        assert_eq!(stays_on().expect("an affinity"), all);
    }
}
