//! The Slurm part of a script.

use super::check::{Plan, refused};
use super::{Job, System};
use crate::error::Result;
use crate::machine::Machine;

/// The earliest warning signal, in seconds before the end, that Slurm supports.
const LONGEST_NOTICE: u64 = 65_535;

/// The owner may requeue a job without operator rights, and it keeps its number. A cancelled job is still completing at
/// that point and would come back.
const AGAIN: &str = r#"code_when_ended=75
run_again() {
    case $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) in
        COMPLETING | CANCELLED)
            say 'somebody ended the job, so it is not requeued here'
            exit 75
            ;;
    esac
    if ! scontrol requeue "$SLURM_JOB_ID"; then
        say 'the job could not be requeued: submit it again, it goes on from there'
    fi
    exit 75
}
"#;

pub(super) fn system(job: &Job, machine: &Machine, plan: &Plan) -> Result<System> {
    if job.margin_seconds > LONGEST_NOTICE {
        let expected = format!("at most {LONGEST_NOTICE} s, the longest that Slurm knows");
        return refused("--margin", expected, job.margin_seconds);
    }
    let mut directives = vec![
        format!("--job-name={}", job.name),
        format!("--nodes={}", plan.nodes),
        format!("--ntasks-per-node={}", plan.ranks_per_node),
        "--exclusive".into(),
        format!("--time={}:00", plan.wall_time()),
        format!("--output={}.%j.out", job.name),
        // Appends the output of each turn to that of the previous one.
        "--open-mode=append".into(),
        "--requeue".into(),
    ];
    // Whole nodes come with all cores, but only with the memory that is requested: all of it, unless the machine
    // description says otherwise.
    let options = &machine.scheduler.directives;
    if !options.iter().any(|option| option.starts_with("--mem")) {
        directives.push("--mem=0".into());
    }
    if job.margin_seconds > 0 {
        // Sent to the script only, which forwards it: it also reaches ranks of launchers other than Slurm's.
        directives.push(format!("--signal=B:USR1@{}", job.margin_seconds));
    }
    if let Some(queue) = &plan.queue {
        directives.push(match queue.strip_prefix("qos=") {
            Some(quality) => format!("--qos={quality}"),
            None => format!("--partition={queue}"),
        });
    }
    if let Some(account) = &job.account {
        directives.push(format!("--account={account}"));
    }
    if !job.exclude.is_empty() {
        directives.push(format!("--exclude={}", job.exclude.join(",")));
    }
    Ok(System {
        mark: "#SBATCH",
        directives,
        begin: String::new(),
        again: AGAIN.into(),
        own_clock: false,
    })
}
