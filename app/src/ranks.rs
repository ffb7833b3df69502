//! This process as one of several MPI ranks, if a launcher started it.

use crate::failure::{Advice, INPUT, INTERRUPTED, USAGE, classify};
use crate::threads::{self, Placement};
use squall_jobs::JobError;
use squall_jobs::comm::launch::Launch;
use squall_jobs::comm::{self, AllReduce, CommError, Communicator, Processes, Stalls};
use squall_jobs::staging::node_number;
use squall_jobs::train::Team;
use std::time::Duration;

/// Default limit of waits between ranks: nodes may have to check copies of very different sizes.
const LONGEST_WAIT: Duration = Duration::from_secs(900);

/// How long a rank waits for a failed rank to report its error and end the job.
const WAIT_FOR_FAILED_RANK: Duration = Duration::from_secs(6);

/// How long a rank waits for the first rank to report an error that all ranks probably share, and to end the job, which
/// takes a second or two on a busy machine.
const WAIT_FOR_FIRST_RANK: Duration = Duration::from_secs(4);

/// How long an interrupted rank waits for the first rank to report the interruption: some launchers kill all ranks when
/// the first one exits.
const WAIT_FOR_INTERRUPT_REPORT: Duration = Duration::from_millis(500);

/// How long ranks that gave up have to print the reason, before the job ends because no group is left.
const TIME_TO_REPORT: Duration = Duration::from_secs(2);

/// Environment variable that overrides [`LONGEST_WAIT`], in seconds.
const STALL_VARIABLE: &str = "SQUALL_STALL_SECONDS";

/// The launcher's settings for this process; `None` without a launcher.
pub fn launch() -> Option<Launch> {
    let launch = Launch::detect(|name| std::env::var(name).ok());
    launch.ok().flatten()
}

/// This process's rank; 0 without a launcher.
pub fn number() -> usize {
    launch().map_or(0, |launch| launch.rank)
}

/// Whether a launcher started several processes, including this one.
pub fn of_a_launcher() -> bool {
    launch().is_some_and(|launch| launch.size > 1)
}

/// The number of the batch job that this process belongs to, if a batch system says so.
pub fn batch_job() -> Option<String> {
    let names = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];
    let mut numbers = names.iter().filter_map(|name| std::env::var(name).ok());
    numbers.find(|number| !number.is_empty())
}

/// Whether a command failed because another rank does the same work in the same folder. It should then exit
/// successfully: with a failure the launcher would kill the other rank, too.
pub fn another_rank_works(error: &anyhow::Error) -> bool {
    of_a_launcher() && matches!(error.downcast_ref(), Some(JobError::Locked { .. }))
}

/// The node-local rank of this process, or its global rank if the launcher does not report it.
pub fn local_number() -> usize {
    launch().map_or(0, |launch| launch.local_rank.unwrap_or(launch.rank))
}

/// Number of the job's processes on this node; 1 if the launcher does not report it.
pub fn processes_on_node() -> usize {
    launch().and_then(|launch| launch.local_size).unwrap_or(1)
}

/// All processes of the job; `None` if this is the only one.
///
/// # Errors
/// Wrong usage if launcher and program are incompatible.
pub fn processes() -> anyhow::Result<Option<Processes>> {
    let hint = "start it with the launcher of the MPI library that the program was built with";
    let stalls = Stalls {
        after: stall_limit()?,
        report: Box::new(|stall| tracing::error!("{stall}: ending the job")),
    };
    comm::processes_watched(|name| std::env::var(name).ok(), stalls)
        .map_err(|error| Advice::usage(error.to_string(), hint))
}

/// The limit of waits between ranks.
///
/// # Errors
/// Wrong usage if the environment variable is no number of seconds.
pub fn stall_limit() -> anyhow::Result<Duration> {
    longest_wait(std::env::var(STALL_VARIABLE).ok().as_deref())
}

/// The limit of waits, from the value of the environment variable, if set.
fn longest_wait(value: Option<&str>) -> anyhow::Result<Duration> {
    let Some(value) = value else {
        return Ok(LONGEST_WAIT);
    };
    let seconds = value.trim().parse::<f64>().ok().filter(|s| *s > 0.0);
    let wait = seconds.map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX));
    wait.ok_or_else(|| {
        let message = format!("{STALL_VARIABLE}: expected seconds above 0, found `{value}`");
        Advice::usage(message, "for example SQUALL_STALL_SECONDS=120")
    })
}

/// The team of this process; of a single rank without a launcher.
///
/// # Errors
/// As [`processes`].
pub fn team() -> anyhow::Result<Team> {
    let cores = threads::communication_cores();
    let team = match processes()? {
        Some(world) => Team::of(Box::new(announce_placement(world)?), Box::new(stalled)),
        None => Team::solo(),
    };
    if team.size() == 1 && !cores.is_empty() {
        tracing::warn!("a single rank communicates with no other: its reserved cores stay idle");
    }
    Ok(team.communicating_on(cores))
}

/// Logs the cores on which each rank computes and communicates, and the source of its memory.
fn announce_placement(mut world: Processes) -> anyhow::Result<Processes> {
    const LENGTH: usize = 512;
    let mut placement = serde_json::to_vec(&Placement::now())?;
    placement.resize(LENGTH, b' ');
    let all = comm::collectives::tree::all_gather(&mut world, &placement)?;
    let node = node_number(&mut world)?.to_le_bytes();
    let nodes = comm::collectives::tree::all_gather(&mut world, &node)?;
    separate_gpus(&mut world)?;
    if world.rank() == 0 {
        let nodes = nodes
            .as_chunks()
            .0
            .iter()
            .map(|node| usize::from_le_bytes(*node));
        // A truncated text cannot be parsed, so its placement counts as unknown.
        let placements = all
            .chunks(LENGTH)
            .map(|text| serde_json::from_slice(text).ok());
        let ranks: Vec<(usize, Option<Placement>)> = nodes.zip(placements).collect();
        for (rank, (_, placement)) in ranks.iter().enumerate() {
            if let Some(placement) = placement {
                tracing::info!("rank {rank} {placement}");
            }
        }
        if let Some((a, b)) = threads::sharing(&ranks) {
            tracing::warn!(
                "ranks {a} and {b} share cores of their node although some are reserved: start with --bind-to none, or bind \
                 each rank to cores of its own"
            );
        }
    }
    Ok(world)
}

/// Fails if two ranks would compute on the same GPU.
///
/// # Errors
/// [`squall_model::GpuError::Shared`] naming both, on all ranks.
pub fn separate_gpus(world: &mut Processes) -> anyhow::Result<()> {
    #[cfg(feature = "cuda")]
    {
        const LENGTH: usize = 48;
        let own = squall_model::ops::cuda::identity();
        let own = own.map_or(String::new(), |(uuid, ordinal)| format!("{uuid} {ordinal}"));
        let mut text = own.into_bytes();
        text.resize(LENGTH, b' ');
        let all = comm::collectives::tree::all_gather(world, &text)?;
        let gpus = all
            .chunks(LENGTH)
            .map(|gpu| String::from_utf8_lossy(gpu).trim().to_string());
        if let Some(shared) = first_shared(&gpus.collect::<Vec<_>>()) {
            return Err(squall_model::ModelError::from(shared).into());
        }
    }
    let _ = world;
    Ok(())
}

/// The first two ranks with the same GPU, given each rank's "uuid number".
#[cfg(feature = "cuda")]
fn first_shared(gpus: &[String]) -> Option<squall_model::GpuError> {
    for (second, gpu) in gpus.iter().enumerate() {
        // A rank on the CPU has none.
        let Some((uuid, ordinal)) = gpu.split_once(' ') else {
            continue;
        };
        let same = |other: &String| {
            other
                .split_once(' ')
                .is_some_and(|(other, _)| other == uuid)
        };
        if let Some(first) = gpus[..second].iter().position(same) {
            return Some(squall_model::GpuError::Shared {
                first,
                second,
                ordinal: ordinal.parse().unwrap_or(0),
                uuid: uuid.to_string(),
            });
        }
    }
    None
}

/// Ends the job because communication has stalled.
fn stalled(stall: CommError) {
    tracing::error!("{stall}: ending the job");
    #[cfg(feature = "mpi")]
    comm::mpi::abort(comm::mpi::STALL_CODE);
}

/// The MPI library's own all-reduce methods, by name.
///
/// # Errors
/// Errors of the library.
#[cfg(feature = "mpi")]
pub fn library_methods(
    world: &Processes,
) -> anyhow::Result<Vec<(&'static str, Box<dyn AllReduce>)>> {
    use comm::mpi::MpiAllReduce;
    Ok(vec![
        ("MPI_Allreduce", Box::new(MpiAllReduce::new(world, None)?)),
        (
            "MPI_Allreduce in pieces",
            Box::new(MpiAllReduce::new(world, Some(1 << 20))?),
        ),
    ])
}

/// Empty: this program was built without MPI.
///
/// # Errors
/// None.
#[cfg(not(feature = "mpi"))]
pub fn library_methods(_: &Processes) -> anyhow::Result<Vec<(&'static str, Box<dyn AllReduce>)>> {
    Ok(Vec::new())
}

/// How long a rank waits before it reports an error, so that the best informed rank reports first and ends the job.
pub fn patience(rank: usize, error: &anyhow::Error) -> Duration {
    match error.downcast_ref() {
        Some(JobError::Elsewhere) => return WAIT_FOR_FAILED_RANK,
        Some(JobError::NoGroup(_)) => return TIME_TO_REPORT,
        _ => (),
    }
    let (code, _) = classify(error);
    match code {
        _ if rank == 0 => Duration::ZERO,
        // All ranks read the same recipe and the same input.
        USAGE | INPUT => WAIT_FOR_FIRST_RANK,
        INTERRUPTED => WAIT_FOR_INTERRUPT_REPORT,
        _ => Duration::ZERO,
    }
}

/// Whether a rank leaves the report to the first rank. A signal ends all ranks, of which a large job has thousands.
pub fn leaves_report_to_first(rank: usize, error: &anyhow::Error) -> bool {
    rank > 0 && classify(error).0 == INTERRUPTED
}

/// Returns the result of a rank's work. If it is an error and there are several ranks, ends the whole job instead,
/// because the others would wait for this rank forever.
pub fn finish<T>(ranks: usize, result: anyhow::Result<T>) -> anyhow::Result<T> {
    #[cfg(feature = "mpi")]
    if let Err(error) = &result
        && ranks > 1
    {
        // The first rank to get here determines the job's message and exit code.
        std::thread::sleep(patience(number(), error));
        let (code, _) = classify(error);
        crate::failure::report(error);
        comm::mpi::abort(i32::from(code));
    }
    let _ = ranks;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_what_the_environment_says() {
        assert_eq!(longest_wait(None).unwrap(), LONGEST_WAIT);
        assert_eq!(longest_wait(Some(" 2.5")).unwrap().as_millis(), 2500);
        assert_eq!(longest_wait(Some("inf")).unwrap(), Duration::MAX);
        for nonsense in ["", "0", "-1", "NaN", "ten"] {
            let error = longest_wait(Some(nonsense)).unwrap_err().to_string();
            assert!(error.contains("above 0"), "{nonsense}: {error}");
        }
    }

    #[test]
    fn the_rank_that_knows_most_speaks_first() {
        let recipe = Advice::usage("unknown key", "see docs/recipe.md");
        assert_eq!(patience(0, &recipe), Duration::ZERO);
        assert_eq!(patience(3, &recipe), WAIT_FOR_FIRST_RANK);
        let full_disk = Advice::with_code(crate::failure::OUTPUT, "no space", "free some");
        assert_eq!(patience(3, &full_disk), Duration::ZERO);
        let stopped = crate::interrupt::stopped();
        assert!(leaves_report_to_first(3, &stopped) && !leaves_report_to_first(0, &stopped));
        assert!(!leaves_report_to_first(3, &recipe) && !leaves_report_to_first(3, &full_disk));
        assert_eq!(patience(0, &stopped), Duration::ZERO);
        assert_eq!(patience(3, &stopped), WAIT_FOR_INTERRUPT_REPORT);
        let lost = JobError::NoGroup("after 3 of 9 steps".into()).into();
        assert_eq!(patience(0, &lost), TIME_TO_REPORT);
        for rank in [0, 3] {
            let elsewhere = JobError::Elsewhere.into();
            assert!(patience(rank, &elsewhere) > WAIT_FOR_FIRST_RANK);
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn two_ranks_on_one_gpu_are_named() {
        let gpus = ["a1 0", "b2 1", "c3 0", "b2 0"].map(str::to_string);
        assert!(first_shared(&gpus[..3]).is_none());
        let error = first_shared(&gpus).unwrap().to_string();
        assert_eq!(error, "ranks 1 and 3 would both compute on GPU 0 (b2)");
        // Ranks on the CPU have none to share, and hide no others.
        assert!(first_shared(&[String::new(), String::new()]).is_none());
        let behind = ["", "b2 0", "b2 0"].map(str::to_string);
        let error = first_shared(&behind).unwrap().to_string();
        assert_eq!(error, "ranks 1 and 2 would both compute on GPU 0 (b2)");
    }
}
