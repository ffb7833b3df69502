//! Memory that the ranks of a node share.

use super::{Group, SUCCESS, c, running};
use crate::comm::mpi::wait::Patience;
use crate::comm::{CommError, Result};
use std::ffi::{c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Floats of a cache line. The counter of each rank has a line of its own, so that writing it does not slow readers of
/// other data.
const LINE: usize = 16;

/// A segment of f32 for each rank of a node, all of them mapped into this process. Behind each segment lies a cache
/// line that counts how often its rank has come to [`Segments::sync`].
pub(in super::super) struct Segments {
    window: c::MPI_Win,
    starts: Vec<*mut f32>,
    floats: usize,
    pub group: Group,
}

/// Floats of a segment with its counter's line; `None` if there are too many.
fn with_line(floats: usize) -> Option<usize> {
    floats.checked_next_multiple_of(LINE)?.checked_add(LINE)
}

// SAFETY: the memory is mapped for the whole process and the handle belongs to it (see `Group`); nothing here is bound
// to the thread that made it.
unsafe impl Send for Segments {}

impl Group {
    /// Shared memory with a segment of so many f32 for each rank; all ranks must be on one node. `None` if there is too
    /// little memory: other ranks may still have got it, so ranks must agree before they use it. [`Segments::clear`]
    /// comes before the first use.
    ///
    /// # Errors
    /// [`CommError::Differs`] if ranks ask for different sizes, [`CommError::Library`].
    pub fn segments(self, floats: usize) -> Result<Option<Segments>> {
        let bytes = with_line(floats)
            .and_then(|floats| floats.checked_mul(size_of::<f32>()))
            .and_then(|bytes| c::MPI_Aint::try_from(bytes).ok())
            .ok_or_else(|| CommError::Size {
                rank: self.rank,
                what: "floats of a window, at most".into(),
                expected: isize::MAX as usize / size_of::<f32>(),
                got: floats,
            })?;
        let mut window = MaybeUninit::uninit();
        let mut own: *mut c_void = ptr::null_mut();
        let code = {
            let _inside = self.inside("MPI_Win_allocate_shared");
            let _turn = self.library.turn();
            // SAFETY: the handle is valid; the places for the address (MPI takes a pointer to it as void*) and for the
            // window outlive the call; the static is a constant.
            unsafe {
                c::MPI_Win_allocate_shared(
                    bytes,
                    size_of::<f32>() as c_int,
                    c::RSMPI_INFO_NULL,
                    self.comm,
                    ptr::from_mut(&mut own).cast::<c_void>(),
                    window.as_mut_ptr(),
                )
            }
        };
        if code != SUCCESS {
            // Not an error: the job goes on with messages instead of shared memory.
            tracing::debug!(
                "MPI_Win_allocate_shared failed: {}",
                self.library.words_of(code)
            );
            return Ok(None);
        }
        // SAFETY: the call succeeded and has written the window.
        let window = unsafe { window.assume_init() };
        let code = {
            let _turn = self.library.turn();
            // SAFETY: the window is valid and no lock of it is held yet; statics are constants.
            unsafe {
                c::MPI_Win_set_errhandler(window, c::RSMPI_ERRORS_RETURN);
                c::MPI_Win_lock_all(c::MPI_MODE_NOCHECK as c_int, window)
            }
        };
        self.check("MPI_Win_lock_all", code)?;
        let mut segments = Segments {
            window,
            starts: Vec::with_capacity(self.size),
            floats,
            group: self,
        };
        for rank in 0..segments.group.size {
            let start = segments.start_of(rank)?;
            segments.starts.push(start);
        }
        Ok(Some(segments))
    }
}

impl Segments {
    /// Fills this rank's segment with zeros, which places its pages in memory near this rank: a page lies near the core
    /// that first writes it. All ranks must call it.
    pub fn clear(&mut self) -> Result<()> {
        self.own(0..self.floats).fill(0.0);
        self.arrivals(self.group.rank).store(0, Ordering::Release);
        self.fence()?;
        self.group.barrier()?;
        self.fence()
    }

    /// Leaks the memory until the process ends. All ranks must free a window together, which they cannot where some did
    /// not get it.
    pub fn abandon(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped after this, so the group has one owner. The addresses hold nothing
        // to drop but their list, which stays.
        drop(unsafe { ptr::read(&raw const this.group) });
    }

    /// How often a rank has come to [`Self::sync`].
    fn arrivals(&self, rank: usize) -> &AtomicU32 {
        let line = self.floats.next_multiple_of(LINE);
        // SAFETY: the segment has a line behind its floats, as long as the window lives; it is aligned for floats, thus
        // for a u32, and nobody touches it but through this.
        unsafe { AtomicU32::from_ptr(self.starts[rank].add(line).cast::<u32>()) }
    }

    fn start_of(&self, rank: usize) -> Result<*mut f32> {
        let (mut bytes, mut unit) = (0, 0);
        let mut start: *mut c_void = ptr::null_mut();
        let code = {
            let _turn = self.group.library.turn();
            // SAFETY: the window is valid and `rank` one of its ranks; the places for the answers outlive the call.
            unsafe {
                c::MPI_Win_shared_query(
                    self.window,
                    rank as c_int,
                    &mut bytes,
                    &mut unit,
                    ptr::from_mut(&mut start).cast::<c_void>(),
                )
            }
        };
        self.group.check("MPI_Win_shared_query", code)?;
        let expected = with_line(self.floats).and_then(|all| all.checked_mul(size_of::<f32>()));
        if usize::try_from(bytes).ok() != expected {
            return Err(CommError::Differs {
                rank: self.group.rank,
                what: "size of a window".into(),
                reason: format!("{} floats here, {bytes} bytes at rank {rank}", self.floats),
            });
        }
        Ok(start.cast::<f32>())
    }

    /// A part of this rank's segment.
    ///
    /// # Panics
    /// When the segment ends before the range does.
    pub fn own(&mut self, range: Range<usize>) -> &mut [f32] {
        let start = self.within(self.group.rank, &range);
        // SAFETY: the range lies in memory that the query gave and that lives as long as the window. Other ranks touch
        // it only after the next `sync`, by the contract of `comm::Window`, and may use the rest of the segment
        // meanwhile: the slice is no longer than what is written. `&mut self` keeps readers of this process away.
        unsafe { std::slice::from_raw_parts_mut(start, range.len()) }
    }

    /// Copies values into this rank's segment from position `at`, past this core's caches where the processor can.
    ///
    /// # Panics
    /// When the segment ends before the values do.
    pub fn stream(&mut self, at: usize, values: &[f32]) {
        let own = self.own(at..at + values.len());
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_loadu_ps, _mm_sfence, _mm_stream_ps};
            let head = own.as_ptr().align_offset(16).min(own.len());
            let (own_head, own) = own.split_at_mut(head);
            let (head, values) = values.split_at(head);
            own_head.copy_from_slice(head);
            let (own, own_rest) = own.as_chunks_mut::<4>();
            let (values, rest) = values.as_chunks::<4>();
            for (own, values) in own.iter_mut().zip(values) {
                // SAFETY: both are four floats; the chunks of `own` begin at a multiple of 16 bytes. SSE is part of
                // every x86-64.
                unsafe { _mm_stream_ps(own.as_mut_ptr(), _mm_loadu_ps(values.as_ptr())) };
            }
            own_rest.copy_from_slice(rest);
            // SAFETY: the fence touches no memory. Without it, streamed stores might arrive after the counter in `sync`
            // that says they are done.
            unsafe { _mm_sfence() };
        }
        #[cfg(not(target_arch = "x86_64"))]
        own.copy_from_slice(values);
    }

    /// A part of a rank's segment.
    ///
    /// # Panics
    /// When there is no such rank, or its segment ends before the range does.
    pub fn segment_of(&self, rank: usize, range: Range<usize>) -> &[f32] {
        let start = self.within(rank, &range);
        // SAFETY: as in `own`; the owner writes this range only after the next `sync`. Any bits are a valid f32.
        unsafe { std::slice::from_raw_parts(start, range.len()) }
    }

    fn within(&self, rank: usize, range: &Range<usize>) -> *mut f32 {
        assert!(
            range.start <= range.end && range.end <= self.floats,
            "positions {range:?} of a window with {} floats for each rank",
            self.floats
        );
        // SAFETY: the segment has `floats` values from its start, and the range begins at or before its end.
        unsafe { self.starts[rank].add(range.start) }
    }

    /// Returns when all ranks have come here and see what the others wrote.
    ///
    /// It counts in shared memory, because the library's barrier sends messages, each of which waits until its rank
    /// gets a core: where ranks share cores, that took most of the time of a sum inside a node.
    pub fn sync(&mut self) -> Result<()> {
        self.fence()?;
        let now = {
            let _turn = self.group.library.turn();
            let own = self.arrivals(self.group.rank);
            let now = own.load(Ordering::Relaxed).wrapping_add(1);
            own.store(now, Ordering::Release);
            now
        };
        let patience = Patience::new(&self.group.library, || "a barrier".into());
        for rank in 0..self.group.size {
            // A rank that is ahead may be waiting at the next synchronisation, but cannot be further.
            let ahead = |arrived: u32| arrived.wrapping_sub(now) <= 1;
            let has_come = || {
                let _turn = self.group.library.turn();
                ahead(self.arrivals(rank).load(Ordering::Acquire))
            };
            while !has_come() {
                patience.pause();
            }
        }
        self.fence()
    }

    fn fence(&self) -> Result<()> {
        let code = {
            let _turn = self.group.library.turn();
            // SAFETY: the window is valid and locked by this process.
            unsafe { c::MPI_Win_sync(self.window) }
        };
        self.group.check("MPI_Win_sync", code)
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        // Not after a panic: freeing waits for the other ranks, which do not know of it.
        if running() && !std::thread::panicking() {
            let _inside = self.group.inside("MPI_Win_free");
            let _turn = self.group.library.turn();
            // SAFETY: the window is valid, locked by this process, and used no more after this.
            unsafe {
                c::MPI_Win_unlock_all(self.window);
                c::MPI_Win_free(&mut self.window);
            }
        }
    }
}
