//! Job scripts: turns a training, a machine and its batch system into the text of a shell script.
//!
//! Nothing is read or started here. A script stages the store, trains under `squall supervise`, stops before its time
//! is over, and requeues itself as long as the run advances. The common parts are in `functions.sh` and `ending.sh`;
//! `lsf`, `slurm`, `pbs` and `plain` add what each batch system needs, and `ranks` starts the ranks.

mod check;
mod lsf;
mod pbs;
mod plain;
mod ranks;
mod shell;
mod slurm;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_run;

use crate::error::Result;
use crate::machine::{Batch, DeviceKind, Machine};
use check::Plan;
use shell::{quote, quote_with_variables};

/// Number of cores per rank from which reserving one for communication pays off.
const CORES_TO_RESERVE_ONE: usize = 32;

/// A training job for a batch system.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// The command line that generated the script, quoted in a comment.
    pub made_by: String,
    /// Path of the script; PBS submits it again by this path.
    pub script: String,
    /// The program.
    pub program: String,
    /// A recipe file or the name of a built-in recipe.
    pub recipe: String,
    /// The sample store.
    pub store: String,
    /// Folder of the run.
    pub out: String,
    /// Recipe overrides, `key=value` each.
    pub overrides: Vec<String>,
    /// The recipe's own `training.max_seconds`, if set; an override of it is found in `overrides`.
    pub max_seconds: Option<f64>,
    /// Number of nodes.
    pub nodes: usize,
    /// Ranks per node; default: the machine's.
    pub ranks_per_node: Option<usize>,
    /// Time of one turn in hours, rounded down to whole minutes.
    pub hours: f64,
    /// Seconds at the end of each turn reserved for the last checkpoint.
    pub margin_seconds: u64,
    /// The account to charge.
    pub account: Option<String>,
    /// The queue or partition, `qos=NAME` for a quality of service of Slurm; default: the machine's.
    pub queue: Option<String>,
    /// Nodes to avoid.
    pub exclude: Vec<String>,
    /// Whether to copy the store to a disk of every node first.
    pub stage: bool,
    /// Number of training samples that each node gets, drawn at random; default: all.
    pub per_node: Option<usize>,
    /// Consecutive failures without progress after which `squall supervise` gives up.
    pub tries: u32,
}

impl Job {
    /// A job of this name with defaults for everything else: one node and one hour.
    #[must_use]
    pub fn new(name: &str, recipe: &str, store: &str, out: &str) -> Self {
        Self {
            name: name.into(),
            made_by: "squall submit".into(),
            script: format!("{name}.sh"),
            program: "squall".into(),
            recipe: recipe.into(),
            store: store.into(),
            out: out.into(),
            overrides: Vec::new(),
            max_seconds: None,
            nodes: 1,
            ranks_per_node: None,
            hours: 1.0,
            margin_seconds: 300,
            account: None,
            queue: None,
            exclude: Vec::new(),
            stage: false,
            per_node: None,
            tries: 3,
        }
    }
}

/// Returns the script of a job on a machine.
///
/// # Errors
/// [`JobError::Submit`](crate::JobError::Submit) naming the option: the machine lacks the nodes, ranks, hours or disk,
/// or the batch system would misread a value or does not support it.
///
/// # Example
/// ```
/// use squall_jobs::launch::{Job, script};
/// use squall_jobs::Machine;
/// let job = Job { nodes: 2, ..Job::new("century", "deepcam", "store", "run") };
/// let text = script(&job, &Machine::named("perlmutter")?)?;
/// assert!(text.contains("#SBATCH --nodes=2\n"));
/// # Ok::<(), squall_jobs::JobError>(())
/// ```
pub fn script(job: &Job, machine: &Machine) -> Result<String> {
    let plan = Plan::of(job, machine)?;
    let system = match machine.scheduler.kind {
        Batch::Lsf => lsf::system(job, machine, &plan)?,
        Batch::Slurm => slurm::system(job, machine, &plan)?,
        Batch::Pbs => pbs::system(job, machine, &plan)?,
        Batch::None => plain::system(job, &plan)?,
    };
    let mut parts = vec![head(job, machine, &system)];
    parts.push(times(job, &plan));
    parts.push(setup(machine, &plan, &system));
    parts.push(include_str!("functions.sh").to_string());
    if system.own_clock {
        parts.push(include_str!("clock.sh").to_string());
    }
    parts.push(system.again.clone());
    parts.push(data(job, machine, &plan, &system));
    parts.push(training(job, machine, &plan, &system));
    parts.push(include_str!("ending.sh").to_string());
    Ok(parts.join("\n"))
}

/// The parts of a script that depend on the batch system.
struct System {
    /// Prefix of its option lines.
    mark: &'static str,
    /// Its options.
    directives: Vec<String>,
    /// First commands, such as changing to the submission folder.
    begin: String,
    /// The shell function `run_again`, and the exit code of a job that was asked to end.
    again: String,
    /// Whether the script must send the signal before the end itself.
    own_clock: bool,
}

/// Shebang, origin and batch system options, which must precede all commands.
fn head(job: &Job, machine: &Machine, system: &System) -> String {
    let mut text = format!("#!/bin/bash\n# Written by: {}\n", job.made_by);
    for directive in system
        .directives
        .iter()
        .chain(&machine.scheduler.directives)
    {
        text += &format!("{} {directive}\n", system.mark);
    }
    text
}

/// When the job started and when training must stop.
fn times(job: &Job, plan: &Plan) -> String {
    let usable = plan.wall_seconds() - job.margin_seconds;
    format!(
        "set -uo pipefail\n\
         # Training saves and stops then, {} s before the time is over.\n\
         stop_at=$(($(date +%s) + {usable}))\n",
        job.margin_seconds
    )
}

/// Environment of the ranks.
fn setup(machine: &Machine, plan: &Plan, system: &System) -> String {
    let scheduler = &machine.scheduler;
    let mut text = system.begin.clone();
    if !scheduler.setup.is_empty() {
        text += "# Scripts of modules read variables that are not set.\nset +u\n";
        for line in &scheduler.setup {
            text += &format!("{line}\n");
        }
        text += "set -u\n";
    }
    text += "# The program counts the cores that it gets; sites set these to 1, or tie all its threads to one core.\n\
             unset OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES\n";
    for (name, value) in &plan.environment {
        text += &format!("export {name}={}\n", quote(value));
    }
    text
}

/// Whether each rank reserves a core for communication: if it has many, and other ranks to communicate with.
fn reserved_cores(machine: &Machine, ranks_per_node: usize, ranks: usize) -> bool {
    let share = machine.node.cores.unwrap_or(0) / ranks_per_node;
    machine.device.kind == DeviceKind::Cpu && ranks > 1 && share >= CORES_TO_RESERVE_ONE
}

/// Where samples are read from; with staging, first copies them to each node.
fn data(job: &Job, machine: &Machine, plan: &Plan, system: &System) -> String {
    let mut text = format!(
        "run_folder={}\nstore={}\nbefore=$(newest_step)\n",
        quote(&job.out),
        quote(&job.store)
    );
    let Some(disk) = machine.node.local_disk.as_ref().filter(|_| job.stage) else {
        return text + "data=$store\n";
    };
    let name = job.store.trim_end_matches('/').rsplit('/').next();
    let name = shell::plain_letters(name.unwrap_or("store"));
    let part = job
        .per_node
        .map_or(String::new(), |samples| format!("-{samples}"));
    let path = quote_with_variables(&format!(
        "{}/squall-$USER/{name}-${{content%% *}}{part}",
        disk.path.trim_end_matches('/')
    ));
    text += &format!(
        "\n# A copy of other samples has another name; one of the same samples is used again.\n\
         if ! content=$(cksum <\"$store/store.json\"); then\n    say \"there is no store in $store\"\n    exit 3\nfi\n\
         : \"${{USER:=$(id -un)}}\"\ndata={path}\n\n"
    );
    let mut words = ranks::start(machine, plan, 1);
    words.push(format!("{} stage \"$store\"", quote(&job.program)));
    words.push("--local \"$data\"".into());
    if let Some(samples) = job.per_node {
        words.push(format!("--per-node {samples}"));
    }
    text += &shell::array("stage", &words);
    let clock = clock(system);
    text + &format!("run {clock}\"${{stage[@]}}\"\ncode=$?\n")
}

/// Sends SIGUSR1 when training must stop, if the batch system does not.
fn clock(system: &System) -> &'static str {
    match system.own_clock {
        true => "timeout --foreground --preserve-status --signal=USR1 \"$(seconds_left)\" ",
        false => "",
    }
}

/// The training command.
fn training(job: &Job, machine: &Machine, plan: &Plan, system: &System) -> String {
    let mut words = ranks::start(machine, plan, plan.ranks_per_node);
    words.push(format!("{} train", quote(&job.program)));
    words.push(format!("--recipe {}", quote(&job.recipe)));
    words.push("--data \"$data\" --out \"$run_folder\"".into());
    for change in &plan.overrides {
        words.push(format!("--set {}", quote(change)));
    }
    let supervise = format!(
        "{}{} supervise --tries {} --watch \"$run_folder\" --",
        clock(system),
        quote(&job.program),
        job.tries
    );
    // Without a copy on every node nothing is trained; `ending.sh` handles the exit code.
    let (if_staged, indent, end) = match job.stage {
        true => ("if [ \"$code\" -eq 0 ]; then\n", "    ", "fi\n"),
        false => ("", "", ""),
    };
    format!(
        "{}\n{}\n{if_staged}{indent}run {supervise} \\\n\
         {indent}    bash -c \"$starter\" \"${{train[0]}}\" \"$stop_at\" \"$summary\" \"${{train[@]}}\"\n\
         {indent}code=$?\n{end}",
        shell::array("train", &words),
        starter(plan)
    )
}

/// The command that `supervise` runs: the ranks, with the remaining time at their start.
fn starter(plan: &Plan) -> String {
    let limit = match plan.limit {
        // The remaining time is in whole seconds, so comparing it with the rounded-down limit is exact.
        Some(limit) => format!(
            "# The recipe's own limit, where it comes first.\n\
             if [ \"$left\" -gt {} ]; then\n    left={limit}\nfi\n",
            limit.floor()
        ),
        None => String::new(),
    };
    format!(
        "# Ranks that start anew after a failure have less time left than at first.\n\
         starter=$(\n    cat <<'END'\n\
         left=$(($1 - $(date +%s)))\n\
         if [ \"$left\" -lt 1 ]; then\n    exit 75\nfi\n\
         {limit}exec >\"$2\"\n\
         shift 2\n\
         exec \"$@\" --json --set \"training.max_seconds=$left\"\n\
         END\n)\n\
         mkdir -p \"$run_folder\" || exit 5\n\
         summary=$run_folder/.summary.json\n"
    )
}
