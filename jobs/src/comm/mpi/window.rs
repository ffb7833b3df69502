//! Shared memory of a node, whose sums read the other ranks' memory directly.

use super::ffi::Segments;
use super::library::Library;
use crate::comm::collectives::values::add_in_order;
use crate::comm::{Result, Window};
use rustix::process::{Resource, getrlimit};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Number of values summed at a time, so that they stay in the L1 cache from one rank to the next.
const BLOCK: usize = 2048;

/// Where MPI libraries create shared memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Upper bound of what the library adds to a shared memory file, besides an eighth: its own state, and padding of each
/// rank's pages.
const OWN_BYTES: u64 = 1 << 20;

/// Whether this many bytes of shared memory are available, plus the library's overhead.
///
/// A container may have as little as 64 MB. If the system does not report it, room is assumed. The memory is a file, so
/// the process's file size limit applies (`ulimit -f`).
pub(super) fn has_room(bytes: usize) -> bool {
    let needed = (bytes as u64 / 8).saturating_mul(9);
    let largest = getrlimit(Resource::Fsize).current;
    room_in(Path::new(SHARED_MEMORY)).is_none_or(|free| free >= needed)
        && largest.is_none_or(|largest| largest >= needed.saturating_add(OWN_BYTES))
}

fn room_in(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// Shared memory of one node's ranks.
pub(super) struct NodeWindow {
    segments: Segments,
}

impl NodeWindow {
    pub fn new(segments: Segments) -> Self {
        Self { segments }
    }

    /// Every access takes a turn: a retired process finalises the library, which frees the memory, while other threads
    /// are still running.
    fn library(&self) -> Arc<Library> {
        Arc::clone(&self.segments.group.library)
    }
}

impl Window for NodeWindow {
    fn write(&mut self, at: usize, values: &[f32]) {
        let library = self.library();
        let _turn = library.turn();
        let part = at..at + values.len();
        self.segments.own(part).copy_from_slice(values);
    }

    fn stream(&mut self, at: usize, values: &[f32]) {
        let library = self.library();
        let _turn = library.turn();
        self.segments.stream(at, values);
    }

    fn sum(&self, range: Range<usize>, values: &mut [f32]) {
        let group = &self.segments.group;
        let _turn = group.library.turn();
        let mut own = [0.0; BLOCK];
        for (start, block) in range.step_by(BLOCK).zip(values.chunks_mut(BLOCK)) {
            let own = &mut own[..block.len()];
            own.copy_from_slice(block);
            add_in_order(block, group.size, |rank| match rank == group.rank {
                true => own,
                false => self.segments.segment_of(rank, start..start + own.len()),
            });
        }
    }

    fn read(&self, rank: usize, range: Range<usize>, into: &mut [f32]) {
        let _turn = self.segments.group.library.turn();
        into.copy_from_slice(self.segments.segment_of(rank, range));
    }

    fn sync(&mut self) -> Result<()> {
        self.segments.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_system_says() {
        let Some(free) = room_in(Path::new(SHARED_MEMORY)) else {
            return assert!(
                has_room(usize::MAX),
                "an unknown size is no reason to refuse"
            );
        };
        assert!(has_room(0) && !has_room(2 * free as usize + (1 << 30)));
        assert_eq!(room_in(Path::new("/no/such/folder")), None);
    }
}
