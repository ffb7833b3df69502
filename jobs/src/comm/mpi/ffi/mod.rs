//! The MPI functions that we call, each wrapped so that nothing above needs `unsafe`.
//!
//! The crate `mpi` gives the bindings. Its safe interface does not do: it returns no errors, and has no in-place
//! operations, no shared-memory windows and no handles that may move between threads.

mod exchange;
mod segments;

pub(super) use segments::Segments;

use super::library::Library;
use super::wait::Patience;
use super::watch::Inside;
use crate::comm::{CommError, Result};
use mpi::ffi as c;
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

/// What every function returns when all went well.
pub(super) const SUCCESS: c_int = c::MPI_SUCCESS as c_int;

/// Which threads may call the library: MPI's level of thread support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    Multiple,
    Serialized,
    Fewer(c_int),
}

/// Starts MPI and returns how many threads may call it.
pub(super) fn start() -> Result<Threads> {
    let mut already = 0;
    // SAFETY: MPI_Initialized may be called at any time; the flag outlives the call.
    unsafe { c::MPI_Initialized(&mut already) };
    if already != 0 {
        return Err(CommError::Layout(
            "MPI has been initialised in this process before; one `Mpi` is made once".into(),
        ));
    }
    let mut provided = 0;
    // SAFETY: MPI was not initialised; null arguments are allowed since MPI 2; the level outlives the call. The statics
    // are constants that the crate's C file defines.
    let code = unsafe {
        c::MPI_Init_thread(
            ptr::null_mut(),
            ptr::null_mut(),
            c::RSMPI_THREAD_MULTIPLE,
            &mut provided,
        )
    };
    if code != SUCCESS {
        return Err(CommError::Library {
            rank: 0,
            call: "MPI_Init_thread",
            reason: format!("error code {code}"),
        });
    }
    // SAFETY: MPI is initialised; the handles are the library's own constants. Errors come back as codes from here on.
    let levels = unsafe {
        c::MPI_Comm_set_errhandler(c::RSMPI_COMM_WORLD, c::RSMPI_ERRORS_RETURN);
        c::MPI_Comm_set_errhandler(c::RSMPI_COMM_SELF, c::RSMPI_ERRORS_RETURN);
        (c::RSMPI_THREAD_MULTIPLE, c::RSMPI_THREAD_SERIALIZED)
    };
    Ok(if provided >= levels.0 {
        Threads::Multiple
    } else if provided >= levels.1 {
        Threads::Serialized
    } else {
        Threads::Fewer(provided)
    })
}

/// Whether MPI has been started and not ended.
pub(super) fn running() -> bool {
    let (mut started, mut ended) = (0, 0);
    // SAFETY: both may be called at any time, from any thread; the flags outlive the calls.
    unsafe {
        c::MPI_Initialized(&mut started);
        c::MPI_Finalized(&mut ended);
    }
    started != 0 && ended == 0
}

/// Ends MPI in order; waits for the other ranks.
pub(super) fn finish() {
    if running() {
        // SAFETY: MPI runs, and the caller is its last user in this process.
        unsafe { c::MPI_Finalize() };
    }
}

/// The rank of this process among all of the job.
pub(super) fn rank_in_world() -> usize {
    let mut rank = 0;
    // SAFETY: MPI runs; the handle is the library's own constant; the rank outlives the call.
    unsafe { c::MPI_Comm_rank(c::RSMPI_COMM_WORLD, &mut rank) };
    usize::try_from(rank).unwrap_or(0)
}

/// A barrier of all ranks of the job that does not block the caller.
pub(super) struct Meeting(c::MPI_Request);

impl Meeting {
    /// Begins the barrier; `None` if the library refuses. The caller must hold the library's lock (`Library::turn`).
    pub fn of_all() -> Option<Self> {
        let mut request = MaybeUninit::uninit();
        // SAFETY: MPI runs; the handle is the library's own constant; the place for the request outlives the call.
        let code = unsafe { c::MPI_Ibarrier(c::RSMPI_COMM_WORLD, request.as_mut_ptr()) };
        // SAFETY: the call succeeded and has written the request.
        (code == SUCCESS).then(|| Self(unsafe { request.assume_init() }))
    }

    /// Whether all ranks have come to the barrier, or the library's error code. The caller must hold the lock, as in
    /// `of_all`, and must not call this again after `true`.
    pub fn has_met(&mut self) -> std::result::Result<bool, c_int> {
        let mut done = 0;
        // SAFETY: the request is active; no buffer belongs to it.
        match unsafe { c::MPI_Test(&mut self.0, &mut done, c::RSMPI_STATUS_IGNORE) } {
            SUCCESS => Ok(done != 0),
            code => Err(code),
        }
    }
}

/// Ends every rank of the job with this exit code.
pub(super) fn abort(code: i32) -> ! {
    if running() {
        // SAFETY: MPI runs. With level MULTIPLE any thread may call this; below, another thread may be inside the
        // library, perhaps for ever, so there is no turn to wait for, and nothing of this process is used afterwards,
        // whatever the call does.
        unsafe { c::MPI_Abort(c::RSMPI_COMM_WORLD, code) };
    }
    std::process::exit(code)
}

/// The library's name and version, on one line.
pub(super) fn version() -> String {
    let mut text = vec![0u8; c::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1];
    let mut length = 0;
    // SAFETY: the buffer has room for the longest version string that the standard lets this library write.
    unsafe { c::MPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &mut length) };
    let whole = text_of(&text, length);
    let words = whole.lines().next().unwrap_or_default();
    words
        .split(',')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// What an error code means.
pub(super) fn error_text(code: c_int) -> String {
    let mut text = vec![0u8; c::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length = 0;
    // SAFETY: the buffer has room for the longest error string that the standard lets this library write.
    let known =
        unsafe { c::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
    if known == SUCCESS {
        text_of(&text, length)
    } else {
        format!("error code {code}")
    }
}

fn text_of(bytes: &[u8], length: c_int) -> String {
    let length = usize::try_from(length).map_or(0, |length| length.min(bytes.len()));
    String::from_utf8_lossy(&bytes[..length])
        .trim_end_matches(['\0', '\n', ' '])
        .to_string()
}

/// `MPI_IN_PLACE`: the address that means "the values are where the result goes".
///
/// Bindings cannot carry it because it is a cast in a macro. Libraries with integer handles (MPICH, Cray, Intel) have
/// -1, those with pointers (Open MPI, Spectrum, the binary interface of MPI 5) have 1.
fn in_place() -> *const c_void {
    if size_of::<c::MPI_Comm>() == size_of::<c_int>() {
        ptr::without_provenance(usize::MAX)
    } else {
        ptr::without_provenance(1)
    }
}

/// A number as MPI takes it; an error that says `what` it is if it is too large.
fn count(values: usize, rank: usize, what: &str) -> Result<c_int> {
    c_int::try_from(values).map_err(|_| CommError::Size {
        rank,
        what: what.into(),
        expected: c_int::MAX as usize,
        got: values,
    })
}

/// A communicator of the library: the handle, who we are in it, and the library that it belongs to.
#[derive(Debug)]
pub(super) struct Group {
    comm: c::MPI_Comm,
    pub rank: usize,
    pub size: usize,
    pub library: Arc<Library>,
    /// Keeps this from being `Sync` with libraries whose handles are numbers, as it is with those whose handles are
    /// pointers.
    not_sync: PhantomData<*const ()>,
}

// SAFETY: a handle names an object that belongs to the process, not to a thread. MPI allows its use from another thread
// with level MULTIPLE, and with SERIALIZED under a lock, which every call takes first (`Library::turn`). The exceptions
// are calls that the standard lets any thread make at any time (`running`, `version`) and the one that ends the process
// (`abort`).
unsafe impl Send for Group {}

impl Group {
    /// All ranks of the job, with messages apart from those of other users of the library.
    pub fn world(library: Arc<Library>) -> Result<Self> {
        let mut comm = MaybeUninit::uninit();
        let code = {
            let _inside = library.watch.inside(library.rank, "MPI_Comm_dup");
            let _turn = library.turn();
            // SAFETY: MPI runs as long as `library` lives; the place for the handle outlives the call.
            unsafe { c::MPI_Comm_dup(c::RSMPI_COMM_WORLD, comm.as_mut_ptr()) }
        };
        library.check(0, "MPI_Comm_dup", code)?;
        // SAFETY: the call succeeded and has written the handle.
        Self::of(unsafe { comm.assume_init() }, library)
    }

    /// The same ranks, with messages apart from those of this group.
    pub fn duplicate(&self) -> Result<Self> {
        let mut comm = MaybeUninit::uninit();
        let code = {
            let _inside = self.inside("MPI_Comm_dup");
            let _turn = self.library.turn();
            // SAFETY: the handle is valid until `self` is dropped; the place for the new one outlives the call.
            unsafe { c::MPI_Comm_dup(self.comm, comm.as_mut_ptr()) }
        };
        self.check("MPI_Comm_dup", code)?;
        // SAFETY: the call succeeded and has written the handle.
        Self::of(unsafe { comm.assume_init() }, Arc::clone(&self.library))
    }

    fn of(comm: c::MPI_Comm, library: Arc<Library>) -> Result<Self> {
        let (mut rank, mut size) = (0, 0);
        let codes = {
            let _turn = library.turn();
            // SAFETY: the handle is valid and not null; rank and size outlive the calls.
            unsafe {
                [
                    c::MPI_Comm_set_errhandler(comm, c::RSMPI_ERRORS_RETURN),
                    c::MPI_Comm_rank(comm, &mut rank),
                    c::MPI_Comm_size(comm, &mut size),
                ]
            }
        };
        let [rank, size] = [rank, size].map(|n| usize::try_from(n).unwrap_or(0));
        for code in codes {
            library.check(rank, "MPI_Comm_rank", code)?;
        }
        Ok(Self {
            comm,
            rank,
            size,
            library,
            not_sync: PhantomData,
        })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        self.library.check(self.rank, call, code)
    }

    fn inside(&self, call: &str) -> Inside<'_> {
        self.library.watch.inside(self.library.rank, call)
    }

    /// The number of a rank of this group among all ranks of the job, by which messages name it to people.
    fn in_world(&self, rank: usize) -> usize {
        let (Ok(number), mut found) = (c_int::try_from(rank), -1) else {
            return rank;
        };
        let (mut own, mut all) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let _turn = self.library.turn();
        // SAFETY: the handles are valid; the places for the groups outlive the calls and are written by them; both are
        // freed; the arrays have one element; the static is a constant.
        unsafe {
            if c::MPI_Comm_group(self.comm, own.as_mut_ptr()) != SUCCESS {
                return rank;
            }
            let mut own = own.assume_init();
            if c::MPI_Comm_group(c::RSMPI_COMM_WORLD, all.as_mut_ptr()) == SUCCESS {
                let mut all = all.assume_init();
                c::MPI_Group_translate_ranks(own, 1, &number, all, &mut found);
                c::MPI_Group_free(&mut all);
            }
            c::MPI_Group_free(&mut own);
        }
        usize::try_from(found).unwrap_or(rank)
    }

    /// The ranks that give the same colour, in the order of their keys; `None` on ranks that give no colour.
    pub fn split(&self, colour: Option<u32>, key: usize) -> Result<Option<Self>> {
        let colour = colour
            .map(|colour| count(colour as usize, self.rank, "colour of a split"))
            .transpose()?;
        let key = count(key, self.rank, "key of a split")?;
        let mut comm = MaybeUninit::uninit();
        let code = {
            let _inside = self.inside("MPI_Comm_split");
            let _turn = self.library.turn();
            // SAFETY: the handle is valid; the place for the new one outlives the call; the static is a constant.
            unsafe {
                let colour = colour.unwrap_or(c::RSMPI_UNDEFINED);
                c::MPI_Comm_split(self.comm, colour, key, comm.as_mut_ptr())
            }
        };
        self.check("MPI_Comm_split", code)?;
        if colour.is_none() {
            return Ok(None);
        }
        // SAFETY: the call succeeded and has written a handle, not null because there was a colour.
        Self::of(unsafe { comm.assume_init() }, Arc::clone(&self.library)).map(Some)
    }

    /// The ranks on this node.
    pub fn split_by_node(&self) -> Result<Self> {
        let key = count(self.rank, self.rank, "rank")?;
        let mut comm = MaybeUninit::uninit();
        let code = {
            let _inside = self.inside("MPI_Comm_split_type");
            let _turn = self.library.turn();
            // SAFETY: the handle is valid; the place for the new one outlives the call; the statics are constants.
            unsafe {
                let kind = c::RSMPI_COMM_TYPE_SHARED;
                c::MPI_Comm_split_type(self.comm, kind, key, c::RSMPI_INFO_NULL, comm.as_mut_ptr())
            }
        };
        self.check("MPI_Comm_split_type", code)?;
        // SAFETY: the call succeeded and has written the handle of a group that has at least this rank.
        Self::of(unsafe { comm.assume_init() }, Arc::clone(&self.library))
    }

    /// Whether a message from this rank, or the beginning of one, has arrived.
    pub fn has_message(&self, from: usize) -> Result<bool> {
        let from = count(from, self.rank, "rank to hear of")?;
        let mut arrived = 0;
        let code = {
            let _turn = self.library.turn();
            // SAFETY: the handle is valid; the flag outlives the call; the statics are constants.
            unsafe {
                c::MPI_Iprobe(
                    from,
                    c::RSMPI_ANY_TAG,
                    self.comm,
                    &mut arrived,
                    c::RSMPI_STATUS_IGNORE,
                )
            }
        };
        self.check("MPI_Iprobe", code)?;
        Ok(arrived != 0)
    }

    /// Returns when all ranks have come here.
    pub fn barrier(&self) -> Result<()> {
        let mut request = MaybeUninit::uninit();
        let code = {
            let _turn = self.library.turn();
            // SAFETY: the handle is valid; the place for the request outlives the call.
            unsafe { c::MPI_Ibarrier(self.comm, request.as_mut_ptr()) }
        };
        self.check("MPI_Ibarrier", code)?;
        // SAFETY: the call succeeded and has written the request.
        let mut request = unsafe { request.assume_init() };
        let patience = Patience::new(&self.library, || "a barrier".into());
        loop {
            let mut done = 0;
            let code = {
                let _turn = self.library.turn();
                // SAFETY: the request is active; no buffer belongs to it.
                unsafe { c::MPI_Test(&mut request, &mut done, c::RSMPI_STATUS_IGNORE) }
            };
            self.check("MPI_Test", code)?;
            if done != 0 {
                return Ok(());
            }
            patience.pause();
        }
    }

    /// Replaces values by their sum over all ranks, by the library's own algorithm.
    pub fn sum_in_place(&self, values: &mut [f32]) -> Result<()> {
        let floats = count(values.len(), self.rank, "values of MPI_Allreduce")?;
        let code = {
            let _inside = self.inside("MPI_Allreduce");
            let _turn = self.library.turn();
            // SAFETY: the buffer holds `floats` values and is ours alone until the call returns; statics are constants.
            unsafe {
                c::MPI_Allreduce(
                    in_place(),
                    values.as_mut_ptr().cast::<c_void>(),
                    floats,
                    c::RSMPI_FLOAT,
                    c::RSMPI_SUM,
                    self.comm,
                )
            }
        };
        self.check("MPI_Allreduce", code)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Not after a panic: freeing waits for the other ranks, which do not know of it.
        if running() && !std::thread::panicking() {
            let library = &self.library;
            let _inside = library.watch.inside(library.rank, "MPI_Comm_free");
            let _turn = library.turn();
            // SAFETY: the handle is valid and used no more after this.
            unsafe { c::MPI_Comm_free(&mut self.comm) };
        }
    }
}
