//! The processes that a launcher started: where a program that runs alone and under `mpirun` begins.

use super::launch::Launch;
use super::{Result, StallReport};
use std::time::Duration;

/// The communicator of processes in this build: MPI's, or a single rank without the feature `mpi`.
#[cfg(feature = "mpi")]
pub type Processes = super::mpi::Mpi;
/// The communicator of processes in this build: MPI's, or a single rank without the feature `mpi`.
#[cfg(not(feature = "mpi"))]
pub type Processes = super::Solo;

/// All processes of the job; none if no launcher started this one, or this one alone. From then on a panic of any rank
/// ends the job.
///
/// `variable` reads the environment, in which launchers say what they started: `|name| std::env::var(name).ok()`.
///
/// # Errors
/// [`super::CommError::Layout`] if launcher and program do not belong together; [`super::CommError::Library`].
pub fn processes(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Processes>> {
    start(variable, None)
}

/// How long ranks wait for each other, and who hears of it when it was too long: then the job ends.
pub struct Stalls {
    /// The longest wait, until [`super::Communicator::limit_waits`] says otherwise.
    pub after: Duration,
    /// Called before the job ends.
    pub report: StallReport,
}

/// As [`processes`], but with a limit on all waits, the one for the other ranks to start included.
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
