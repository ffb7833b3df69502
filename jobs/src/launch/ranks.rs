//! The command that starts ranks: the same number on every node.

use super::check::Plan;
use crate::machine::{Batch, DeviceKind, Machine, Starter};

/// Lines of words before the program, with so many ranks on each node; none where one process is all.
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

/// Slurm counts hardware threads of nodes, of which a machine's description does not know. Without the last option the
/// others wait for a rank that was killed until their own limit ends them.
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

/// One resource set a node, so that every rank sees all GPUs and reaches those of the others directly.
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

/// Not bound: the program takes its share of a node's cores itself, and Open MPI has as many slots as ranks.
fn mpirun(machine: &Machine, plan: &Plan, per_node: usize) -> Vec<String> {
    let ranks = plan.nodes * per_node;
    let hosts = hosts(machine, plan);
    let mut lines = vec![format!(
        "mpirun -n {ranks} --map-by ppr:{per_node}:node --bind-to none{hosts}"
    )];
    if plan.nodes > 1 {
        // Ranks of other nodes get the variables that are named here, and no others.
        let names = plan.environment.iter().map(|(name, _)| name.as_str());
        let names: Vec<String> = names.map(|name| format!("-x {name}")).collect();
        if !names.is_empty() {
            lines.push(names.join(" "));
        }
    }
    lines
}

/// Where nodes are listed if no batch system lists them. The option that Open MPI, MPICH's Hydra and Cray's PALS have in
/// common: `-f` is Hydra's alone.
fn hosts(machine: &Machine, plan: &Plan) -> String {
    match machine.scheduler.kind {
        Batch::None if plan.nodes > 1 => " --hostfile \"$hosts\"".into(),
        _ => String::new(),
    }
}
