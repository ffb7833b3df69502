//! The ranks that this process is one of: by MPI where a launcher started several.

use crate::failure::Advice;
use squall_jobs::comm::launch::Launch;
use squall_jobs::comm::{AllReduce, CommError, Communicator};
use squall_jobs::train::Team;

/// What this process is part of.
pub enum World {
    /// No launcher started it, or it started one process.
    Alone,
    /// All processes of the job.
    Several(Box<Ranks>),
}

#[cfg(feature = "mpi")]
type Ranks = squall_jobs::comm::mpi::Mpi;
#[cfg(not(feature = "mpi"))]
type Ranks = squall_jobs::comm::Solo;

/// The rank that a launcher gave this process; the first where there is none.
pub fn number() -> usize {
    let launch = Launch::detect(|name| std::env::var(name).ok());
    launch.ok().flatten().map_or(0, |launch| launch.rank)
}

/// What this process is part of.
///
/// # Errors
/// Wrong usage if the launcher and the program do not belong together.
pub fn world() -> anyhow::Result<World> {
    let launch = Launch::detect(|name| std::env::var(name).ok()).map_err(mismatch)?;
    match launch {
        Some(launch) if launch.size > 1 => join(&launch).map(|all| World::Several(Box::new(all))),
        _ => Ok(World::Alone),
    }
}

/// The team of this process; alone unless a launcher started it.
///
/// # Errors
/// As [`world`].
pub fn team() -> anyhow::Result<Team> {
    let World::Several(world) = world()? else {
        return Ok(Team::solo());
    };
    let world = announce_cores(*world)?;
    Ok(Team::of(Box::new(world), Box::new(stalled)))
}

fn mismatch(error: CommError) -> anyhow::Error {
    let hint = "start it with the launcher of the MPI library that the program was built with";
    Advice::usage(error.to_string(), hint)
}

/// Says which cores each rank computes on.
fn announce_cores(mut world: Ranks) -> anyhow::Result<Ranks> {
    const LENGTH: usize = 64;
    let mut cores = crate::threads::cores().into_bytes();
    cores.resize(LENGTH, b' ');
    let all = squall_jobs::comm::collectives::tree::all_gather(&mut world, &cores)?;
    if world.rank() == 0 {
        for (rank, cores) in all.chunks(LENGTH).enumerate() {
            let cores = String::from_utf8_lossy(cores);
            tracing::info!("rank {rank} computes on cores {}", cores.trim());
        }
    }
    Ok(world)
}

#[cfg(feature = "mpi")]
fn join(launch: &Launch) -> anyhow::Result<Ranks> {
    squall_jobs::comm::mpi::abort_on_panic();
    let world = Ranks::init()?;
    let checked = launch.check(world.rank(), world.size(), &world.describe());
    checked.map_err(mismatch)?;
    Ok(world)
}

#[cfg(not(feature = "mpi"))]
fn join(launch: &Launch) -> anyhow::Result<Ranks> {
    let message = format!(
        "{} started {} processes, but this program was built without MPI",
        launch.launcher.name(),
        launch.size
    );
    Err(Advice::usage(message, "build with `--features mpi`"))
}

/// Ends the job because communication stands still.
fn stalled(stall: CommError) {
    tracing::error!("{stall}: ending the job");
    #[cfg(feature = "mpi")]
    squall_jobs::comm::mpi::abort(squall_jobs::comm::mpi::STALL_CODE);
}

/// The sums of the MPI library itself, by name.
///
/// # Errors
/// Those of the library.
#[cfg(feature = "mpi")]
pub fn library_methods(world: &Ranks) -> anyhow::Result<Vec<(&'static str, Box<dyn AllReduce>)>> {
    use squall_jobs::comm::mpi::MpiAllReduce;
    Ok(vec![
        ("MPI_Allreduce", Box::new(MpiAllReduce::new(world, None)?)),
        (
            "MPI_Allreduce in pieces",
            Box::new(MpiAllReduce::new(world, Some(1 << 20))?),
        ),
    ])
}

/// None: this program was built without MPI.
///
/// # Errors
/// None.
#[cfg(not(feature = "mpi"))]
pub fn library_methods(_: &Ranks) -> anyhow::Result<Vec<(&'static str, Box<dyn AllReduce>)>> {
    Ok(Vec::new())
}

/// What a rank's work gave; after an error of one of several ranks the whole job ends here, because the others would wait for
/// it for ever.
pub fn finish<T>(ranks: usize, result: anyhow::Result<T>) -> anyhow::Result<T> {
    #[cfg(feature = "mpi")]
    if let Err(error) = &result
        && ranks > 1
    {
        let (code, _) = crate::failure::classify(error);
        crate::failure::report(error);
        squall_jobs::comm::mpi::abort(i32::from(code));
    }
    let _ = ranks;
    result
}
