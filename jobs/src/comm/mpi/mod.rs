//! Ranks as processes, on one node or many, connected by MPI.
//!
//! Tested with Open MPI 4.1 and 5.0, MPICH 4.0 and 5.0. All calls of the library are in `ffi`. Waits are our own
//! (`wait`), so that the communication thread leaves its core to computation and stalls can be diagnosed.
//!
//! Open MPI 5 with UCX, but without a UCX device, prints "OSC UCX component priority set inside component query failed"
//! for every window. This is harmless; `OMPI_MCA_osc=^ucx` in the environment silences it.

mod all_reduce;
#[allow(unsafe_code, reason = "the C interface of MPI")]
mod ffi;
mod library;
mod wait;
mod watch;
mod window;

pub use all_reduce::MpiAllReduce;
pub use library::{PANIC_CODE, STALL_CODE, abort_on_panic};

use super::error::check_peer;
use super::{Arrival, CommError, Communicator, Payload, Result, StallReport, Window, agree};
use ffi::Group;
use library::Library;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::Watch;
use window::NodeWindow;

/// One rank's handle to a group of MPI processes.
///
/// Dropping the last handle finalises MPI after success. After a panic or a failed call it aborts, because finalising
/// would wait forever for ranks that wait for this one.
#[derive(Debug)]
pub struct Mpi {
    group: Group,
}

impl Mpi {
    /// All processes of the job; a process without a launcher is alone.
    ///
    /// Errors of the library are returned instead of ending the process. Install [`abort_on_panic`] first.
    ///
    /// # Errors
    /// [`CommError::Layout`] if MPI is already running in this process or supports only a single thread;
    /// [`CommError::Library`].
    pub fn init() -> Result<Self> {
        Self::start(Watch::new(), None)
    }

    /// Like [`Mpi::init`], but the job ends with [`STALL_CODE`] when this rank has waited for others for longer than
    /// `after`, including the start of MPI. First `report` receives a [`CommError::Stalled`], which uses the number
    /// `rank` until MPI has assigned one.
    ///
    /// # Errors
    /// As [`Mpi::init`].
    pub fn init_watched(rank: usize, after: Duration, report: StallReport) -> Result<Self> {
        let watch = Watch::new();
        watch.start(after, report);
        Self::start(watch, Some(rank))
    }

    fn start(watch: Arc<Watch>, rank: Option<usize>) -> Result<Self> {
        let library = Arc::new(Library::start(watch, rank)?);
        Group::world(library).map(|group| Self { group })
    }

    /// Ends the job with [`STALL_CODE`] when this rank has waited for another for longer than `after`.
    ///
    /// First `report` receives a [`CommError::Stalled`] that describes what this thread is doing ([`super::doing`]). A
    /// message in flight cannot be withdrawn from the library, so returning an error would not be safe. Only a
    /// process's first call has an effect; returns whether this was the first.
    pub fn abort_when_stalled(
        &self,
        after: Duration,
        report: impl Fn(&CommError) + Send + Sync + 'static,
    ) -> bool {
        self.group.library.watch.start(after, Box::new(report))
    }

    fn peer(&self, peer: usize) -> Result<usize> {
        check_peer(self.group.rank, peer, self.group.size).map(|()| peer)
    }
}

/// Immediately ends all ranks of the job with this exit code; may be called from any thread, such as a watchdog.
///
/// If MPI is not running, only this process ends.
pub fn abort(code: i32) -> ! {
    ffi::abort(code)
}

impl Communicator for Mpi {
    fn rank(&self) -> usize {
        self.group.rank
    }

    fn size(&self) -> usize {
        self.group.size
    }

    fn send_receive(
        &mut self,
        to: usize,
        sent: &[u8],
        from: usize,
        received: &mut [u8],
    ) -> Result<()> {
        let (to, from) = (self.peer(to)?, self.peer(from)?);
        self.group
            .exchange(Some((to, sent)), Some((from, received)))
    }

    fn receive_while(
        &mut self,
        from: usize,
        bytes: &mut [u8],
        there: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let from = self.peer(from)?;
        self.group.receive_while(from, bytes, there)
    }

    fn send_while(
        &mut self,
        to: usize,
        payload: Payload,
        there: &dyn Fn() -> bool,
    ) -> Result<Option<Payload>> {
        let to = self.peer(to)?;
        self.group.send_while(to, payload, there)
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        let to = self.peer(to)?;
        self.group.exchange(Some((to, bytes)), None)
    }

    fn receive(&mut self, from: usize, bytes: &mut [u8]) -> Result<()> {
        let from = self.peer(from)?;
        self.group.exchange(None, Some((from, bytes)))
    }

    fn wait_any(&mut self, from: &[usize], at_most: Duration) -> Result<Arrival> {
        let peers = from.iter().map(|&peer| self.peer(peer));
        let peers = peers.collect::<Result<Vec<usize>>>()?;
        let start = Instant::now();
        loop {
            for &peer in &peers {
                if self.group.has_message(peer)? {
                    return Ok(Arrival::Message(peer));
                }
            }
            let waited = start.elapsed();
            if waited >= at_most {
                return Ok(Arrival::Nothing);
            }
            wait::rest(waited);
        }
    }

    fn barrier(&mut self) -> Result<()> {
        self.group.barrier()
    }

    fn split(&mut self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Communicator>>> {
        let group = self.group.split(colour, key)?;
        Ok(group.map(|group| Box::new(Self { group }) as Box<dyn Communicator>))
    }

    fn split_by_node(&mut self) -> Result<Box<dyn Communicator>> {
        let group = self.group.split_by_node()?;
        Ok(Box::new(Self { group }))
    }

    fn window(&mut self, floats: usize) -> Result<Option<Box<dyn Window>>> {
        let node = self.group.split_by_node()?;
        if node.size != self.group.size {
            return Ok(None);
        }
        // Checks for room on all ranks before allocating. If the first rank of a node cannot allocate, Open MPI leaves
        // the others waiting; and pages beyond the limit end the process when first touched.
        let needed = (node.size * size_of::<f32>()).saturating_mul(floats);
        if agree::any(self, !window::has_room(needed))? {
            return Ok(None);
        }
        let made = node.segments(floats)?;
        let failed = made.is_none();
        if agree::any(self, failed)? {
            made.into_iter().for_each(|made| made.abandon());
            return Ok(None);
        }
        match made {
            Some(mut segments) => {
                segments.clear()?;
                Ok(Some(Box::new(NodeWindow::new(segments))))
            }
            None => Ok(None),
        }
    }

    fn are_processes(&self) -> bool {
        true
    }

    fn limit_waits(&self, after: Duration) {
        self.group.library.watch.limit_waits(after);
    }

    fn on_stall(&self, instead: Option<StallReport>) {
        self.group.library.watch.replace_report(instead);
    }

    fn retire(&self) -> ! {
        self.group.library.retire()
    }

    fn abort(&self, code: i32) -> ! {
        ffi::abort(code)
    }

    fn describe(&self) -> String {
        format!("{}, {} ranks", self.group.library.version, self.group.size)
    }
}
