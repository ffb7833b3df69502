//! The command that starts the same number of ranks on every node.

use super::check::Plan;
use crate::machine::{Batch, DeviceKind, Machine, Starter};

/// Lines of words that precede the program, with this many ranks per node; empty for a single process.
pub(super) fn start(machine: &Machine, plan: &Plan, per_node: usize) -> Vec<String> {
    let ranks = plan.nodes * per_node;
    if machine.scheduler.kind == Batch::None && ranks == 1 {
        return Vec::new();
    }
    match machine.scheduler.launcher {
        Starter::Srun => vec![srun(plan, per_node)],
        Starter::Jsrun => vec![jsrun(machine, plan, per_node)],
        Starter::Mpirun => mpirun(machine, plan, per_node),
        Starter::Mpiexec => {
            let hosts = hosts(machine, plan);
            vec![format!("mpiexec -n {ranks} -ppn {per_node}{hosts}")]
        }
    }
}

/// Slurm counts hardware threads, which a machine description does not include. Without the last option, when a rank is
/// killed, the others wait until their own limit ends them.
fn srun(plan: &Plan, per_node: usize) -> String {
    let cpus = match per_node {
        1 => "\"$SLURM_CPUS_ON_NODE\"".to_string(),
        _ => format!("$((SLURM_CPUS_ON_NODE / {per_node}))"),
    };
    format!(
        "srun --nodes={} --ntasks={} --ntasks-per-node={per_node} --cpus-per-task={cpus} \
         --cpu-bind=cores --kill-on-bad-exit=1",
        plan.nodes,
        plan.nodes * per_node
    )
}

/// One resource set per node, so that every rank sees all GPUs and can reach those of the others directly.
fn jsrun(machine: &Machine, plan: &Plan, per_node: usize) -> String {
    let gpus = match machine.device.kind {
        DeviceKind::Gpu => machine.node.ranks,
        DeviceKind::Cpu => 0,
    };
    let cores = match machine.node.cores {
        Some(cores) => format!("-c {cores} --bind=proportional-packed:{}", cores / per_node),
        None => "-c ALL_CPUS --bind=none".to_string(),
    };
    format!(
        "jsrun -n {} -a {per_node} -g {gpus} {cores} --launch_distribution=packed",
        plan.nodes
    )
}

/// Unbound: the program selects its share of a node's cores itself, and Open MPI gets as many slots as ranks.
fn mpirun(machine: &Machine, plan: &Plan, per_node: usize) -> Vec<String> {
    let ranks = plan.nodes * per_node;
    let hosts = hosts(machine, plan);
    let mut lines = vec![format!(
        "mpirun -n {ranks} --map-by ppr:{per_node}:node --bind-to none{hosts}"
    )];
    if plan.nodes > 1 {
        // Ranks on other nodes only get the variables named here.
        let names = plan.environment.iter().map(|(name, _)| name.as_str());
        let names: Vec<String> = names.map(|name| format!("-x {name}")).collect();
        if !names.is_empty() {
            lines.push(names.join(" "));
        }
    }
    lines
}

/// Names the host file if no batch system lists the nodes. Uses the option common to Open MPI, MPICH's Hydra and Cray's
/// PALS; `-f` is Hydra's only.
fn hosts(machine: &Machine, plan: &Plan) -> String {
    match machine.scheduler.kind {
        Batch::None if plan.nodes > 1 => " --hostfile \"$hosts\"".into(),
        _ => String::new(),
    }
}
