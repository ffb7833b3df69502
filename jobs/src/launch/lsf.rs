//! The LSF part of a script.

use super::check::{Plan, refused};
use super::{Job, System};
use crate::error::Result;
use crate::machine::Machine;

/// The exit code alone requeues the job under its number (`-Q 75`). When somebody cancels the job, another code must be
/// returned.
const AGAIN: &str = "code_when_ended=143\nrun_again() {\n    exit 75\n}\n";

pub(super) fn system(job: &Job, machine: &Machine, plan: &Plan) -> Result<System> {
    let mut directives = vec![
        format!("-J {}", job.name),
        format!("-W {}", plan.wall_time()),
        // LSF's own report. Requeueing a job discards its output, so the script keeps it itself.
        format!("-o {}.%J.lsf", job.name),
        "-Q 75".into(),
    ];
    if job.margin_seconds > 0 {
        // Whole minutes, rounded up.
        let minutes = job.margin_seconds.div_ceil(60);
        directives.push(format!("-wa USR1 -wt {minutes}"));
    }
    match job.exclude.is_empty() {
        true => directives.push(format!("-nnodes {}", plan.nodes)),
        false => directives.extend(without(job, machine, plan)?),
    }
    if let Some(queue) = &plan.queue {
        directives.push(format!("-q {queue}"));
    }
    if let Some(account) = &job.account {
        directives.push(format!("-P {account}"));
    }
    Ok(System {
        mark: "#BSUB",
        directives,
        begin: format!("exec >>\"{}.$LSB_JOBID.out\" 2>&1\n", job.name),
        again: AGAIN.into(),
        own_clock: false,
    })
}

/// Excludes nodes, which `-nnodes` cannot express: requests the node of the script and the others by name.
fn without(job: &Job, machine: &Machine, plan: &Plan) -> Result<Vec<String>> {
    let Some(cores) = machine.node.cores else {
        let expected = "a machine of which `node.cores` is known, which LSF counts";
        return refused("--exclude", expected, "none");
    };
    let hosts = job.exclude.iter();
    let hosts: String = hosts
        .map(|host| format!(" && (hname != '{host}')"))
        .collect();
    Ok(vec![
        "-csm y".into(),
        format!(
            "-R \"1*{{select[LN] span[hosts=1]}} + {}*{{select[CN{hosts}] span[ptile={cores}]}}\"",
            plan.nodes * cores
        ),
    ])
}
