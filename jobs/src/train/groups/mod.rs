//! Hybrid training: groups of ranks that do not wait for each other, and servers that hold the parameters.
//!
//! Inside a group, gradients are averaged as in synchronous training ([`super::step`] is the same code). Then its
//! leader sends each layer's gradient to the server that holds the layer (`plan`), the server applies it in order of
//! arrival, and fresh parameters are returned and distributed in the group (`link`). Meanwhile the parameters that a
//! gradient was computed from are a few updates old: this staleness is recorded. The first server assigns the steps of
//! the run (`ledger`), so that a slow group does fewer and a lost group's steps go to the others, and writes the run's
//! files (`coordinator`).
//!
//! A step here is a step of one group: all groups share `training.steps` of them, and the learning rate schedule counts
//! them. With one group this is synchronous training with the optimiser on another rank, and gives the same bits.
//!
//! # Source
//! Kurth et al. 2017 (arXiv:1708.05256), section III-E: synchronous groups, one parameter server for each layer.
//!
//! In round-robin order (`turns`) a run is a deterministic function of its start, and a checkpoint stores the state of
//! every group (`standing`), so that it resumes with the same bits.
//!
//! # Not done
//! Gradients are sent after the backward pass, not during it. Groups wait while the first server writes checkpoints.
//! With dynamic loss scaling every group has its own scale, which starts anew when a run resumes.

mod coordinator;
mod earlier_parts;
mod ending;
mod heartbeat_peers;
mod heartbeats;
mod last_message;
mod ledger;
mod link;
mod liveness;
mod mail;
mod message;
mod momentum;
mod part;
mod plan;
mod server;
mod staleness;
mod standing;
mod turns;
mod worker;

pub(super) use link::{Contribution, Link};
pub use staleness::StalenessSummary;
pub(super) use standing::Standing;

use super::share::{RankPosition, Share};
use super::team::OnStall;
use super::{Run, Team, TrainEvent, TrainReport};
use crate::comm::{CommError, Communicator};
use crate::error::{JobError, Result};
use crate::recipe::{Order, Recipe};
use crate::run_dir::RunDir;
use coordinator::Coordinator;
use ending::Ending;
use heartbeat_peers::Peer;
use heartbeats::{HeartbeatOrder, Heartbeats, OrderChannel};
use mail::Mail;
use part::Part;
use plan::{Layout, Role};
use server::Server;
use squall_data::Store;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Interval at which a waiting rank checks for a stop request.
const LOOK: Duration = Duration::from_millis(100);

/// What is trained, its output folder, and its stop flag.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub recipe: &'a Recipe,
    pub store: &'a Arc<Store>,
    pub folder: &'a Path,
    pub stop: &'a AtomicBool,
}

/// Trains as one of the ranks of `world`, which all call it.
///
/// # Errors
/// As [`super::train_together`].
pub(super) fn train(
    job: Job<'_>,
    groups: usize,
    run_dir: Option<RunDir>,
    progress: &mut dyn FnMut(&TrainEvent),
    world: &mut Team,
) -> Result<TrainReport> {
    let Job { recipe, store, .. } = job;
    let layout = Layout::of(world.size(), groups, recipe.distributed.servers);
    let layout = layout.map_err(JobError::recipe)?;
    let role = layout.role(world.rank());
    // A server plans steps and samples like the first rank of a group.
    let rank = match role {
        Role::Server(_) => 0,
        Role::Worker { rank, .. } => rank,
    };
    let place = RankPosition {
        rank,
        ranks: layout.ranks_per_group,
    };
    let share = Share::in_groups(store, recipe.seed, place, world)?;
    let run = Run::prepare(recipe, store, run_dir, share, world)?;
    let layers = plan::layers(run.learner.network.parameters());
    let slices = plan::deal(&layers, layout.servers).map_err(JobError::recipe)?;
    let assignment = Assignment {
        job,
        layout,
        role,
        place,
        comms: split(world, layout, role)?,
        slices,
    };
    match role {
        Role::Server(index) => assignment.serve_groups(index, run, progress, world),
        Role::Worker { group, .. } => assignment.work_in_group(group, run, progress, world),
    }
}

/// The role of a rank and its resources.
struct Assignment<'a> {
    job: Job<'a>,
    layout: Layout,
    role: Role,
    place: RankPosition,
    comms: Communicators,
    /// The ranges of parameters that each server holds.
    slices: Vec<Vec<Range<usize>>>,
}

impl Assignment<'_> {
    /// Serves a part of the parameters to the groups until the end of the run.
    fn serve_groups(
        self,
        index: usize,
        run: Run<'_>,
        progress: &mut dyn FnMut(&TrainEvent),
        world: &mut Team,
    ) -> Result<TrainReport> {
        let Self {
            job, layout, comms, ..
        } = self;
        let (recipe, learner) = (job.recipe, &run.learner);
        let config = recipe.distributed.momentum;
        let how = momentum::of_servers(&recipe.optimiser, config, layout.groups);
        let part = Part::of(
            learner.network.parameters(),
            &learner.optimizer,
            &self.slices[index],
            how,
        );
        let part = world.all_or_none(part)?;
        run.announce(world, progress)?;
        let mail = Mail {
            between: comms.between.ok_or_else(nobody)?,
            layout,
            limit: recipe.distributed.longest_wait(),
            heartbeats: Heartbeats::default(),
        };
        let mut server = Server::new(run, mail, part, self.slices)?;
        let peers = Peer::of_role(layout, self.role);
        let on_stall = world.on_stall_shared();
        let orders = OrderChannel::open();
        server.mail.heartbeats =
            start_heartbeats(comms.heartbeats, peers, recipe, orders, on_stall)?;
        serve(server, job, progress)
    }

    /// Computes gradients in a group until there are no more steps.
    fn work_in_group(
        self,
        own_group: usize,
        run: Run<'_>,
        progress: &mut dyn FnMut(&TrainEvent),
        world: &mut Team,
    ) -> Result<TrainReport> {
        let Self {
            job, layout, comms, ..
        } = self;
        let recipe = job.recipe;
        let mut group = comms.group.ok_or_else(nobody)?;
        let inside = (group.size() > 1)
            .then(|| group.split(Some(0), self.place.rank))
            .transpose()?;
        let parameters = run.learner.network.parameters();
        let count = parameters.count();
        let link = Link {
            group: inside.flatten(),
            servers: comms.between,
            exchange: link::State::new(parameters, layout.servers),
            slices: self.slices,
            optimiser: recipe.optimiser.clone(),
            heartbeats: Heartbeats::default(),
        };
        // If there is another group, servers can continue without this one.
        let orders = OrderChannel::open();
        let dispensable = layout.groups > 1 && comms.heartbeats.is_some();
        let on_stall = world.on_stall_shared();
        let mut team = world.group(group, Some(link));
        // Dropped before the team, in the same order on all ranks.
        let mut run = run;
        if dispensable {
            let give_up = give_up_on_stall(world.rank(), orders.sender.clone());
            team.hears_of_stalls(Box::new(give_up));
        }
        let joined = run.learner.join(&recipe.distributed, &mut team);
        world.all_or_none(joined)?;
        let in_turns = recipe.distributed.order == Order::RoundRobin;
        let standing = run.standing.take();
        if let Some(standing) = standing.filter(|found| in_turns && found.fits(layout, count)) {
            run.restore_view(&standing, own_group, &mut team)?;
        }
        run.announce(world, progress)?;
        if dispensable {
            let give_up = give_up_on_stall(world.rank(), orders.sender.clone());
            let instead = Box::new(move |stall: &CommError| give_up(stall.clone()));
            world.control().on_stall(Some(instead));
        }
        let peers = Peer::of_role(layout, self.role);
        team.link()?.heartbeats =
            start_heartbeats(comms.heartbeats, peers, recipe, orders, on_stall)?;
        let report = worker::work(run, &mut team, job.folder, job.stop);
        world.control().on_stall(None);
        // A finished rank waits for those that are still scoring the last state.
        world.limit_waits(Duration::MAX);
        match dispensable {
            true => or_gives_up(report, team),
            false => report,
        }
    }
}

/// Ends a rank's work in a dispensable group: after an error of its own this rank gives up, and the other groups
/// continue.
fn or_gives_up(report: Result<TrainReport>, mut team: Team) -> Result<TrainReport> {
    match report {
        Err(error) if is_of_this_rank(&error) && team.link()?.heartbeats.give_up() => {
            // Its threads may wait for ranks that will not answer.
            std::mem::forget(team);
            Err(JobError::GaveUp(Box::new(error)))
        }
        report => report,
    }
}

/// The communicators of this rank.
struct Communicators {
    /// Communicator for exchanging parameters: servers first, then leaders.
    between: Option<Box<dyn Communicator>>,
    /// Communicator of all ranks for heartbeats, if ranks can fall silent individually.
    heartbeats: Option<Box<dyn Communicator>>,
    /// Communicator of this rank's group.
    group: Option<Box<dyn Communicator>>,
}

/// Splits the ranks of `world` by role; all of them call it.
fn split(world: &mut Team, layout: Layout, role: Role) -> Result<Communicators> {
    let place = world.rank();
    let control = world.control();
    let between = match role {
        Role::Server(_) | Role::Worker { rank: 0, .. } => Some(0),
        Role::Worker { .. } => None,
    };
    let between = control.split(between, place)?;
    let heartbeats = match control.are_processes() {
        true => control.split(Some(0), place)?,
        false => None,
    };
    let colour = match role {
        Role::Server(_) => layout.groups,
        Role::Worker { group, .. } => group,
    };
    let colour = u32::try_from(colour).unwrap_or(u32::MAX);
    Ok(Communicators {
        between,
        heartbeats,
        group: control.split(Some(colour), place)?,
    })
}

/// Starts the heartbeats of this rank, if there is a communicator for them.
fn start_heartbeats(
    comm: Option<Box<dyn Communicator>>,
    peers: Vec<(usize, Peer)>,
    recipe: &Recipe,
    orders: OrderChannel,
    on_stall: OnStall,
) -> Result<Heartbeats> {
    let limit = recipe.distributed.longest_wait();
    comm.map_or_else(
        || Ok(Heartbeats::default()),
        |comm| Heartbeats::start(comm, peers, limit, orders, on_stall),
    )
}

/// A stall callback for a rank that has waited too long for its group: it gives up, and the job continues without the
/// group.
fn give_up_on_stall(
    rank: usize,
    orders: Sender<HeartbeatOrder>,
) -> impl Fn(CommError) + Send + Sync + 'static {
    move |stall| {
        tracing::error!("{stall}: rank {rank} gives up, and its group with it");
        // A thread that has ended no longer needs the order: the run is over.
        let _ = orders.send(HeartbeatOrder::Retire);
    }
}

/// Whether an error concerns only this rank, so that others may continue without it; false if ranks cannot communicate
/// or hold different parameters.
fn is_of_this_rank(error: &JobError) -> bool {
    !matches!(
        error,
        JobError::Comm(_) | JobError::Apart(_) | JobError::Elsewhere
    )
}

fn nobody() -> JobError {
    CommError::Layout("a rank without others cannot be one of a group: this is a bug".into()).into()
}

/// Serves as the coordinator on the first rank, which has the run's folder, and as an ordinary server on the others.
fn serve(
    mut server: Server<'_>,
    job: Job<'_>,
    progress: &mut dyn FnMut(&TrainEvent),
) -> Result<TrainReport> {
    let start = Instant::now();
    if server.run.run_dir.is_some() {
        let pending = std::mem::take(&mut server.run.pending);
        return Coordinator::new(server, &pending, progress).serve(job.folder, job.stop);
    }
    let last_words = server.serve()?;
    let ending: Ending = link::parsed(&last_words)?;
    Ok(ending.report(job.folder, start, None, 0))
}
