//! The PBS part of a script, for PBS Professional and OpenPBS.

use super::check::{Plan, refused};
use super::shell::quote;
use super::{Job, System};
use crate::error::Result;
use crate::machine::{DeviceKind, Machine};

pub(super) fn system(job: &Job, machine: &Machine, plan: &Plan) -> Result<System> {
    if !job.exclude.is_empty() {
        let expected = "none: PBS has no word for nodes that must not be used";
        return refused("--exclude", expected, job.exclude.join(", "));
    }
    let cores = machine.node.cores.unwrap_or(plan.ranks_per_node);
    let gpus = match machine.device.kind {
        DeviceKind::Gpu => format!(":ngpus={}", machine.node.ranks),
        DeviceKind::Cpu => String::new(),
    };
    let mut directives = vec![
        "-S /bin/bash".into(),
        format!("-N {}", job.name),
        format!(
            "-l select={}:ncpus={cores}:mpiprocs={}{gpus}",
            plan.nodes, plan.ranks_per_node
        ),
        "-l place=scatter:excl".into(),
        format!("-l walltime={}:00", plan.wall_time()),
        // One output file, which PBS names after the job and its number.
        "-j oe".into(),
        "-r y".into(),
    ];
    if let Some(queue) = &plan.queue {
        directives.push(format!("-q {queue}"));
    }
    if let Some(account) = &job.account {
        directives.push(format!("-A {account}"));
    }
    Ok(System {
        mark: "#PBS",
        directives,
        begin: "cd \"${PBS_O_WORKDIR:-.}\" || exit 3\n".into(),
        again: again(&job.script),
        own_clock: true,
    })
}

/// Submits the same script as a new job: `qrerun` is for operators, and no exit code of a script requeues its job.
fn again(script: &str) -> String {
    format!(
        "code_when_ended=75\nrun_again() {{\n    if ! qsub {}; then\n        \
         say 'no further job could be submitted: submit the script again, it goes on from there'\n    \
         fi\n    exit 75\n}}\n",
        quote(script)
    )
}
