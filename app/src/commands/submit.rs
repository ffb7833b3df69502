//! `squall submit`: writes the script of a batch job for a recipe and a machine, and optionally submits it.

use super::scale::auto_precision;
use crate::failure::Advice;
use crate::plan::{bytes, duration};
use crate::{output, threads};
use clap::Args;
use squall_data::{DataError, Store, atomic};
use squall_jobs::launch::{Job, script};
use squall_jobs::machine::{Batch, DeviceKind};
use squall_jobs::performance::Workload;
use squall_jobs::performance::sums::{self, Shape};
use squall_jobs::{Machine, Recipe};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Write a batch script that trains a recipe on a machine, for LSF, Slurm, PBS or no batch system.
///
/// The script copies the store to a disk of every node, trains under `squall supervise`, saves before its time is up,
/// and resubmits itself until the training is done, as long as each turn makes progress.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  squall submit --recipe deepcam --machine perlmutter --nodes 64 --hours 6 --account m1234 \\\n      --data STORE --out RUN --script job.sh"
)]
pub struct Submit {
    /// Recipe file, or the name of a built-in recipe.
    #[arg(long, value_name = "RECIPE")]
    recipe: PathBuf,
    /// Machine file, or a built-in machine (jobs/machines): summit, piz-daint, cori-knl, juwels-booster, perlmutter,
    /// h100-pbs, roce-p100, workstation.
    #[arg(long, value_name = "MACHINE")]
    machine: String,
    /// Sample store, by its path on the nodes.
    #[arg(long, value_name = "STORE")]
    data: PathBuf,
    /// Folder of the run, which all turns of the job continue.
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: usize,
    /// Ranks per node [default: the machine's, one per GPU or processor].
    #[arg(long, value_name = "N")]
    ranks_per_node: Option<usize>,
    /// Time limit of one turn, in hours [default: 1, or a year without a batch system; at most the machine's limit].
    #[arg(long)]
    hours: Option<f64>,
    /// Seconds at the end of each turn reserved for the last checkpoint.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    margin: u64,
    /// Name of the job [default: the recipe's].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Account to charge.
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Queue or partition; `qos=NAME` is a Slurm quality of service [default: the machine's].
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Nodes to avoid, comma-separated; repeatable. Slurm also takes ranges such as nid[001-004].
    #[arg(long, value_delimiter = ',', value_name = "HOST,HOST")]
    exclude: Vec<String>,
    /// Read samples in place, without copying them to the nodes' disks.
    #[arg(long)]
    no_staging: bool,
    /// Training samples to copy to each node, drawn at random [default: all].
    #[arg(long, value_name = "N")]
    per_node: Option<usize>,
    /// End a turn after this many consecutive failures without progress.
    #[arg(long, value_name = "N", default_value_t = 3)]
    tries: u32,
    /// Squall program, by its path on the nodes.
    #[arg(long, value_name = "PATH", default_value = "squall")]
    program: String,
    /// Set a recipe key, such as training.batch=2; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Write the script to this file instead of printing it.
    #[arg(long, value_name = "JOB.sh")]
    script: Option<PathBuf>,
    /// Also submit the script to the batch system.
    #[arg(long, requires = "script")]
    send: bool,
}

impl Submit {
    /// Writes the script, and submits it if requested.
    pub fn run(self) -> anyhow::Result<()> {
        let recipe = Recipe::named(&self.recipe, &self.overrides)?;
        let machine = Machine::named(&self.machine)?;
        let text = script(&self.job(&recipe, &machine)?, &machine)?;
        let each = self.ranks_per_node.unwrap_or(machine.node.ranks);
        let samples = self.check_ranks(&recipe, each).map_err(|reason| {
            let hint = "another --nodes or --ranks-per-node, or another value of that key";
            Advice::usage(reason, hint)
        })?;
        self.warn_of_memory(&recipe, &machine, each, samples)?;
        self.warn(&recipe, self.hours(&machine), machine.scheduler.kind);
        let Some(path) = &self.script else {
            return output::text(&text.trim_end());
        };
        refuse_other(path)?;
        atomic::write(path, text.as_bytes())?;
        make_executable(path)?;
        let sender = sender(machine.scheduler.kind);
        if self.send {
            return send(sender, path);
        }
        let how = match sender {
            Some(Sender {
                program,
                by_input: true,
            }) => format!("{program} < {}", path.display()),
            Some(Sender { program, .. }) => format!("{program} {}", path.display()),
            None if self.nodes > 1 => format!("bash {} HOSTS", path.display()),
            None => format!("bash {}", path.display()),
        };
        let hosts = match sender {
            None if self.nodes > 1 => format!(", with a file that lists {} hosts", self.nodes),
            _ => String::new(),
        };
        tracing::info!("{} is written: `{how}` starts it{hosts}", path.display());
        Ok(())
    }

    /// Rejects what training, with `each` ranks per node, would reject after waiting in the queue; returns the samples
    /// of a rank's batch.
    fn check_ranks(&self, recipe: &Recipe, each: usize) -> Result<usize, String> {
        let distributed = &recipe.distributed;
        let found = recipe.detection.pseudo_labels.is_some();
        let whole = [
            ("distributed.groups", distributed.groups.is_some()),
            ("detection.pseudo_labels", found),
        ];
        let key = whole.iter().find(|(_, set)| *set);
        if let (Some(samples), Some((key, _))) = (self.per_node, key) {
            return Err(format!(
                "`--per-node`: expected none with `{key}`, for which every node needs all samples, found {samples}"
            ));
        }
        let ranks = distributed.step_ranks(self.nodes.saturating_mul(each))?;
        let batch = recipe.local_batch(ranks)?;
        if ranks > 1 {
            sums::check(&Shape::on_nodes_of(each, ranks), distributed)?;
        }
        Ok(batch.samples())
    }

    /// Warns if a rank needs more memory than it has for batches of this many samples, as `squall scale` would. That
    /// depends on the grid, so there is no warning if the store cannot be read from here.
    fn warn_of_memory(
        &self,
        recipe: &Recipe,
        machine: &Machine,
        each: usize,
        samples: usize,
    ) -> anyhow::Result<()> {
        let (Some(gb), Ok(store)) = (machine.device.memory_gb, Store::open(&self.data)) else {
            return Ok(());
        };
        let mut recipe = recipe.clone();
        let known = &store.meta().channels;
        recipe.data.channels.get_or_insert_with(|| known.clone());
        let [rows, columns, _] = store.shape();
        let of_pixel = known.len() * store.meta().encoding.bytes() + 1;
        let auto = auto_precision(machine);
        let workload = Workload::of(&recipe, (rows, columns), of_pixel, auto)?;
        let needed = workload.memory_bytes(samples);
        let shared = match machine.device.kind {
            DeviceKind::Gpu => 1.0,
            // More ranks than the machine's file has for these processors share their memory.
            DeviceKind::Cpu => machine.node.ranks as f64 / each as f64,
        };
        let room = (gb * 1e9 * shared) as u64;
        if needed > room {
            tracing::warn!(
                "a rank needs about {} of memory and has {}: take a smaller batch, or training.recompute",
                bytes(needed),
                bytes(room)
            );
        }
        Ok(())
    }

    fn hours(&self, machine: &Machine) -> f64 {
        let usual: f64 = match machine.scheduler.kind {
            Batch::None => 8760.0,
            _ => 1.0,
        };
        let longest = machine.scheduler.max_hours.unwrap_or(usual);
        self.hours.unwrap_or(usual.min(longest))
    }

    fn job(&self, recipe: &Recipe, machine: &Machine) -> anyhow::Result<Job> {
        let name = self.name.clone().unwrap_or_else(|| recipe.name.clone());
        let arguments = std::env::args_os().skip(1);
        let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
        let arguments: Vec<String> = arguments.collect();
        Ok(Job {
            made_by: format!("squall {}", arguments.join(" ")).replace('\n', " "),
            // PBS submits it again by its absolute path.
            script: match &self.script {
                Some(script) => word(
                    "--script",
                    &std::path::absolute(script).unwrap_or(script.clone()),
                )?,
                None => format!("{name}.sh"),
            },
            program: self.program.clone(),
            overrides: self.overrides.clone(),
            max_seconds: recipe.training.max_seconds,
            nodes: self.nodes,
            ranks_per_node: self.ranks_per_node,
            hours: self.hours(machine),
            margin_seconds: self.margin,
            account: self.account.clone(),
            queue: self.queue.clone(),
            exclude: self.exclude.clone(),
            // Nodes without disks cannot hold a copy.
            stage: !self.no_staging && machine.node.local_disk.is_some(),
            per_node: self.per_node,
            tries: self.tries,
            ..Job::new(
                &name,
                &word("--recipe", &self.recipe)?,
                &word("--data", &self.data)?,
                &word("--out", &self.out)?,
            )
        })
    }

    /// Warns of surprises in the job that are visible from here.
    fn warn(&self, recipe: &Recipe, hours: f64, kind: Batch) {
        let file = Some(&self.recipe).filter(|recipe| recipe.is_file());
        let paths = [Some(&self.data), Some(&self.out), file];
        if paths.into_iter().flatten().any(|path| path.is_relative()) {
            tracing::warn!(
                "relative paths are those of the folder that the job is sent from: absolute ones are safer"
            );
        }
        if kind == Batch::Pbs && self.script.is_none() {
            tracing::warn!(
                "a job of PBS sends its next turn itself: save this as the file that it names after `qsub`, or give --script"
            );
        }
        let every = recipe.training.checkpoint_every_seconds;
        if every > 3600.0 * hours {
            tracing::warn!(
                "checkpoints come every {}, turns end after {}",
                duration(every),
                duration(3600.0 * hours)
            );
        }
    }
}

/// Converts a path for the script, which is UTF-8.
fn word(option: &str, path: &Path) -> anyhow::Result<String> {
    path.to_str().map(String::from).ok_or_else(|| {
        Advice::usage(
            format!("{option} {}: the path is not UTF-8", path.display()),
            "rename it, or give the name of a symbolic link to it",
        )
    })
}

/// The command that submits scripts.
#[derive(Clone, Copy)]
struct Sender {
    program: &'static str,
    /// Whether it reads scripts from standard input.
    by_input: bool,
}

fn sender(kind: Batch) -> Option<Sender> {
    let by = |program, by_input| Some(Sender { program, by_input });
    match kind {
        Batch::Lsf => by("bsub", true),
        Batch::Slurm => by("sbatch", false),
        Batch::Pbs => by("qsub", false),
        Batch::None => None,
    }
}

fn send(sender: Option<Sender>, path: &Path) -> anyhow::Result<()> {
    let Some(Sender { program, by_input }) = sender else {
        let hint = "start the script yourself: bash JOB.sh";
        return Err(Advice::usage(
            "this machine has no batch system to send to",
            hint,
        ));
    };
    let mut command = Command::new(program);
    threads::leave_to_user(&mut command);
    if by_input {
        let script = std::fs::File::open(path).map_err(DataError::io("open", path))?;
        command.stdin(script);
    } else {
        command.arg(path);
    }
    let status = command.status().map_err(|error| {
        Advice::run(
            format!("`{program}` does not start: {error}"),
            format!("send {} from a login node of the machine", path.display()),
        )
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Advice::run(
            format!("`{program}` refused {}", path.display()),
            "its own message says why",
        ))
    }
}

/// Rejects a missing folder, most likely a typing error, and an existing file that is not a script, such as a table
/// that was meant as input.
fn refuse_other(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    if !folder.as_os_str().is_empty() && !folder.is_dir() {
        let folder = folder.display();
        return Err(Advice::usage(
            format!("--script {}: there is no folder `{folder}`", path.display()),
            format!("make it first: mkdir -p {folder}"),
        ));
    }
    if !path.is_file() {
        return Ok(());
    }
    let there = std::fs::read(path).map_err(DataError::io("read", path))?;
    if there.is_empty() || there.starts_with(b"#!") {
        Ok(())
    } else {
        Err(Advice::usage(
            format!("--script {} is there and is no script", path.display()),
            "choose another name, or remove that file",
        ))
    }
}

fn make_executable(path: &Path) -> Result<(), DataError> {
    use std::os::unix::fs::PermissionsExt;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, executable).map_err(DataError::io("make executable", path))
}
