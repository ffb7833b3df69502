//! A window whose sums read the neighbours' memory straight.

use super::ffi::Segments;
use super::library::Library;
use crate::comm::collectives::values::add_in_order;
use crate::comm::{Result, Window};
use rustix::process::{Resource, getrlimit};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Sums go over so many values at a time, so that they stay in the first-level cache between two ranks.
const BLOCK: usize = 2048;

/// Where MPI libraries keep memory that processes share.
const SHARED_MEMORY: &str = "/dev/shm";

/// What the library adds to a file of shared memory at most, besides an eighth: its own state, and what fills the pages
/// of each rank.
const OWN_BYTES: u64 = 1 << 20;

/// Whether so many bytes of shared memory are to be had, and some besides for the library's own.
///
/// A container may have as little as 64 MB of it. Where the system does not say, there is room. The memory is a file,
/// which the limit of this process may not let grow so large (`ulimit -f`).
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

    /// The memory goes when the library ends, which it does in a process that has retired while other threads are still
    /// at work.
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
                false => self.segments.of(rank, start..start + own.len()),
            });
        }
    }

    fn read(&self, rank: usize, range: Range<usize>, into: &mut [f32]) {
        let _turn = self.segments.group.library.turn();
        into.copy_from_slice(self.segments.of(rank, range));
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
