//! How this process was started: alone, or as one rank of many.
//!
//! Launchers set the rank in environment variables, before MPI starts. That is early enough to choose a device or
//! cores. It also reveals a program whose MPI library does not work with the launcher: otherwise every process would
//! believe it is alone.

use super::{CommError, Result};

/// A launcher of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// Open MPI's mpirun.
    OpenMpi,
    /// IBM's jsrun.
    Jsrun,
    /// Hydra of MPICH, Intel MPI and others; PALS of Cray.
    Hydra,
    /// Slurm's srun.
    Srun,
}

impl Launcher {
    /// The command's name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpirun of Open MPI",
            Self::Jsrun => "jsrun",
            Self::Hydra => "mpiexec of MPICH",
            Self::Srun => "srun",
        }
    }
}

/// What a launcher reports about this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub launcher: Launcher,
    /// This process's rank, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// The rank of this process on its node, from 0, if reported.
    pub local_rank: Option<usize>,
    /// The number of processes on the node, if reported.
    pub local_size: Option<usize>,
}

/// The variables of one launcher; of several names, the first that is set counts.
struct Names {
    launcher: Launcher,
    rank: &'static [&'static str],
    size: &'static [&'static str],
    local_rank: &'static [&'static str],
    local_size: &'static [&'static str],
}

/// The number of processes of a Slurm step.
const SLURM_SIZE: &str = "SLURM_STEP_NUM_TASKS";

/// In this order: an inner launcher (mpirun in a Slurm job) sets its own variables besides those of the outer one.
const LAUNCHERS: [Names; 4] = [
    Names {
        launcher: Launcher::Jsrun,
        rank: &["JSM_NAMESPACE_RANK"],
        size: &["JSM_NAMESPACE_SIZE"],
        local_rank: &["JSM_NAMESPACE_LOCAL_RANK"],
        local_size: &["JSM_NAMESPACE_LOCAL_SIZE"],
    },
    Names {
        launcher: Launcher::OpenMpi,
        rank: &["OMPI_COMM_WORLD_RANK"],
        size: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: &["OMPI_COMM_WORLD_LOCAL_RANK"],
        local_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
    },
    Names {
        launcher: Launcher::Hydra,
        rank: &["PMI_RANK"],
        size: &["PMI_SIZE"],
        local_rank: &["MPI_LOCALRANKID", "PMI_LOCAL_RANK"],
        local_size: &["MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"],
    },
    // SLURM_NTASKS is also set in a batch script, which is one process and not a step: steps have variables of their
    // own.
    Names {
        launcher: Launcher::Srun,
        rank: &["SLURM_PROCID"],
        size: &[SLURM_SIZE],
        local_rank: &["SLURM_LOCALID"],
        local_size: &[],
    },
];

impl Launch {
    /// Detects the launcher from the environment, read by `variable`; `None` for a program started by hand.
    ///
    /// # Errors
    /// [`CommError::Layout`] if a variable is not a number, or the rank is not below the size.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let number = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| variable(name).map(|text| (*name, text)))
                .map(|(name, text)| {
                    text.trim().parse::<usize>().map_err(|_| {
                        CommError::Layout(format!(
                            "the launcher's {name} is `{text}`, expected a number"
                        ))
                    })
                })
                .transpose()
        };
        for names in &LAUNCHERS {
            let (Some(rank), Some(size)) = (number(names.rank)?, number(names.size)?) else {
                continue;
            };
            if rank >= size {
                return Err(CommError::Layout(format!(
                    "{} says rank {rank} of {size}: a rank is below the size",
                    names.launcher.name()
                )));
            }
            let local_rank = number(names.local_rank)?;
            // srun also sets Hydra's variables (`--mpi=pmi2`), but the node-local rank only in its own. A process
            // started by Hydra's mpiexec in a job also has the Slurm variables of the surrounding step, whose ranks are
            // different.
            let slurm = || -> Result<bool> {
                let [of_rank, of_size] = [number(&["SLURM_PROCID"])?, number(&[SLURM_SIZE])?];
                Ok(of_rank == Some(rank) && of_size == Some(size))
            };
            if names.launcher == Launcher::Hydra && local_rank.is_none() && slurm()? {
                continue;
            }
            let local_size = match names.launcher {
                Launcher::Srun => slurm_tasks(&variable),
                _ => number(names.local_size)?,
            };
            return Ok(Some(Self {
                launcher: names.launcher,
                rank,
                size,
                local_rank,
                local_size,
            }));
        }
        Ok(None)
    }

    /// Checks that the backend sees the same ranks as the launcher.
    ///
    /// `backend` describes the communicator, as [`super::Communicator::describe`] does.
    ///
    /// # Errors
    /// [`CommError::Layout`] with advice: usually the launcher belongs to a different MPI library than the program.
    pub fn check(&self, rank: usize, size: usize, backend: &str) -> Result<()> {
        if size == self.size {
            return Ok(());
        }
        let (started, by) = (self.size, self.launcher.name());
        Err(CommError::Layout(if size == 1 {
            format!(
                "{by} started {started} processes, but each sees itself alone on {backend}: \
                 use the launcher that belongs to that library, or build with the library of this launcher"
            )
        } else {
            format!("rank {rank}: {by} started {started} processes, but {backend} has {size}")
        }))
    }
}

/// Tasks per node of a Slurm step, which Slurm compresses: `4(x2),3` means 4, 4 and 3; returns this node's.
fn slurm_tasks(variable: &impl Fn(&str) -> Option<String>) -> Option<usize> {
    let mut node: usize = variable("SLURM_NODEID")?.trim().parse().ok()?;
    let list = variable("SLURM_STEP_TASKS_PER_NODE")?;
    for part in list.trim().split(',') {
        let (tasks, times) = match part.split_once("(x") {
            Some((tasks, times)) => (tasks, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        if node < times {
            return tasks.parse().ok();
        }
        node -= times;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(environment: &[(&str, &str)]) -> Result<Option<Launch>> {
        Launch::detect(|name| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_string())
        })
    }

    fn launch(launcher: Launcher, rank: usize, size: usize) -> Launch {
        Launch {
            launcher,
            rank,
            size,
            local_rank: None,
            local_size: None,
        }
    }

    #[test]
    fn each_launcher_is_known_by_its_names() {
        let check = |environment: &[(&str, &str)], expected| {
            assert_eq!(detect(environment), Ok(expected), "{environment:?}");
        };
        check(&[], None);
        check(
            &[
                ("OMPI_COMM_WORLD_RANK", "3"),
                ("OMPI_COMM_WORLD_SIZE", "8"),
                ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ],
            Some(Launch {
                local_rank: Some(1),
                local_size: Some(2),
                ..launch(Launcher::OpenMpi, 3, 8)
            }),
        );
        check(
            &[
                ("PMI_RANK", "0"),
                ("PMI_SIZE", "4"),
                ("MPI_LOCALRANKID", "0"),
            ],
            Some(Launch {
                local_rank: Some(0),
                ..launch(Launcher::Hydra, 0, 4)
            }),
        );
        check(
            &[("JSM_NAMESPACE_RANK", "5"), ("JSM_NAMESPACE_SIZE", "6")],
            Some(launch(Launcher::Jsrun, 5, 6)),
        );
        check(
            &[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")],
            Some(launch(Launcher::Srun, 1, 2)),
        );
    }

    #[test]
    fn slurm_tells_tasks_node_by_node() {
        let on = |node: &str, list: &str| {
            let environment = [
                ("SLURM_PROCID", "9"),
                ("SLURM_STEP_NUM_TASKS", "12"),
                ("SLURM_LOCALID", "1"),
                ("SLURM_NODEID", node),
                ("SLURM_STEP_TASKS_PER_NODE", list),
            ];
            detect(&environment).unwrap().unwrap().local_size
        };
        assert_eq!(on("0", "4(x2),3,1"), Some(4));
        assert_eq!(on("1", "4(x2),3,1"), Some(4));
        assert_eq!(on("2", "4(x2),3,1"), Some(3));
        assert_eq!(on("3", "4(x2),3,1"), Some(1));
        // What cannot be understood is not known.
        for (node, list) in [("4", "4(x2),3,1"), ("0", "4(x"), ("0", ""), ("-1", "4")] {
            assert_eq!(on(node, list), None, "{node} of {list}");
        }
    }

    /// As `srun --mpi=pmi2 -n 4` on two nodes sets them; and mpiexec of MPICH in a job of two tasks.
    #[test]
    fn srun_is_known_where_it_speaks_hydras_language() {
        let slurm = |size: &'static str| {
            [
                ("SLURM_PROCID", "3"),
                ("SLURM_STEP_NUM_TASKS", size),
                ("SLURM_LOCALID", "1"),
                ("SLURM_NODEID", "1"),
                ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
            ]
        };
        let pmi = [("PMI_RANK", "3"), ("PMI_SIZE", "4")];
        let found = detect(&[&pmi[..], &slurm("4")].concat());
        let srun = Launch {
            local_rank: Some(1),
            local_size: Some(2),
            ..launch(Launcher::Srun, 3, 4)
        };
        assert_eq!(found, Ok(Some(srun)));
        // Slurm's names of the step around are of other ranks.
        let hydra = launch(Launcher::Hydra, 3, 4);
        assert_eq!(detect(&[&pmi[..], &slurm("8")].concat()), Ok(Some(hydra)));
        let hydra = [("MPI_LOCALRANKID", "3"), ("MPI_LOCALNRANKS", "4")];
        let found = detect(&[&pmi[..], &hydra, &slurm("4")].concat());
        let hydra = Launch {
            local_rank: Some(3),
            local_size: Some(4),
            ..launch(Launcher::Hydra, 3, 4)
        };
        assert_eq!(found, Ok(Some(hydra)));
    }

    /// A batch script has the job's variables, but is one process; mpirun inside it counts more than Slurm around it.
    #[test]
    fn a_batch_script_is_no_rank() {
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "64")];
        assert_eq!(detect(&batch), Ok(None));
        let inside = [
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "1"),
            ("OMPI_COMM_WORLD_RANK", "7"),
            ("OMPI_COMM_WORLD_SIZE", "8"),
        ];
        assert_eq!(detect(&inside), Ok(Some(launch(Launcher::OpenMpi, 7, 8))));
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_variable() {
        let error = detect(&[("PMI_RANK", "one"), ("PMI_SIZE", "4")]).expect_err("not a number");
        assert!(error.to_string().contains("PMI_RANK"), "{error}");
        assert!(detect(&[("PMI_RANK", "4"), ("PMI_SIZE", "4")]).is_err());
    }

    #[test]
    fn a_library_that_does_not_hear_its_launcher_is_an_error() {
        let four = launch(Launcher::Hydra, 2, 4);
        assert_eq!(four.check(2, 4, "MPICH 4.0.2"), Ok(()));
        let error = four.check(0, 1, "Open MPI v4.1.4").expect_err("alone");
        assert!(
            error
                .to_string()
                .contains("started 4 processes, but each sees itself alone on Open MPI v4.1.4"),
            "{error}"
        );
        assert!(four.check(0, 3, "MPICH 4.0.2").is_err());
    }
}
