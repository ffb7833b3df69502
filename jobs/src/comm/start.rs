//! The processes started by a launcher: entry point of a program that runs alone or under `mpirun`.

use super::launch::Launch;
use super::{Result, StallReport};
use std::time::Duration;

/// The communicator of processes in this build: MPI's, or a single rank without the feature `mpi`.
#[cfg(feature = "mpi")]
pub type Processes = super::mpi::Mpi;
/// The communicator of processes in this build: MPI's, or a single rank without the feature `mpi`.
#[cfg(not(feature = "mpi"))]
pub type Processes = super::Solo;

/// All processes of the job; `None` without a launcher, or if it started only this process. From then on a panic of any
/// rank ends the job.
///
/// `variable` reads the environment, which launchers use to describe the job: `|name| std::env::var(name).ok()`.
///
/// # Errors
/// [`super::CommError::Layout`] if launcher and program are incompatible; [`super::CommError::Library`].
pub fn processes(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Processes>> {
    start(variable, None)
}

/// The limit of waits between ranks, and the report of a wait that exceeds it and ends the job.
pub struct Stalls {
    /// The longest wait, until [`super::Communicator::limit_waits`] says otherwise.
    pub after: Duration,
    /// Called before the job ends.
    pub report: StallReport,
}

/// Like [`processes`], but with a limit on all waits, including the one for the other ranks to start.
///
/// # Errors
/// As [`processes`].
pub fn processes_watched(
    variable: impl Fn(&str) -> Option<String>,
    stalls: Stalls,
) -> Result<Option<Processes>> {
    start(variable, Some(stalls))
}

fn start(
    variable: impl Fn(&str) -> Option<String>,
    stalls: Option<Stalls>,
) -> Result<Option<Processes>> {
    match Launch::detect(variable)? {
        Some(launch) if launch.size > 1 => join(&launch, stalls).map(Some),
        _ => Ok(None),
    }
}

#[cfg(feature = "mpi")]
fn join(launch: &Launch, stalls: Option<Stalls>) -> Result<Processes> {
    use super::Communicator;
    super::mpi::abort_on_panic();
    let world = match stalls {
        Some(Stalls { after, report }) => Processes::init_watched(launch.rank, after, report)?,
        None => Processes::init()?,
    };
    launch.check(world.rank(), world.size(), &world.describe())?;
    Ok(world)
}

#[cfg(not(feature = "mpi"))]
fn join(launch: &Launch, _: Option<Stalls>) -> Result<Processes> {
    Err(super::CommError::Layout(format!(
        "{} started {} processes, but this program was built without MPI (its feature `mpi`)",
        launch.launcher.name(),
        launch.size
    )))
}
