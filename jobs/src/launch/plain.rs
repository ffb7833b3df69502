//! The script for a machine without a batch system: the user starts it, and restarts it if it exits with 75.

use super::check::{Plan, refused};
use super::{Job, System};
use crate::error::Result;

const AGAIN: &str = "code_when_ended=75\nrun_again() {\n    \
     say 'start the script again: it goes on from there'\n    exit 75\n}\n";

pub(super) fn system(job: &Job, plan: &Plan) -> Result<System> {
    let given = [
        ("--account", job.account.as_deref()),
        ("--queue", job.queue.as_deref()),
        ("--exclude", job.exclude.first().map(String::as_str)),
    ];
    for (option, value) in given {
        if let Some(value) = value {
            return refused(option, "none, without a batch system", format!("`{value}`"));
        }
    }
    let mut begin = "# Ctrl-C reaches this script alone, which passes on what leaves ranks the time to save.\nset -m\n"
        .to_string();
    if plan.nodes > 1 {
        begin += &format!(
            "hosts=${{1:?give a file that lists {} hosts, as the launcher wants it}}\n",
            plan.nodes
        );
    }
    Ok(System {
        mark: "#",
        directives: Vec::new(),
        begin,
        again: AGAIN.into(),
        own_clock: true,
    })
}
