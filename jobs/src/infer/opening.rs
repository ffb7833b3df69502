//! Opens simulation files on many ranks: each reads some of them, and all learn the contents of all.

use crate::comm::Communicator;
use crate::comm::collectives::tree;
use crate::error::{JobError, Result, all_or_none};
use squall_data::archive::{Archive, BadFiles, Survey, files_of};
use squall_data::{DataError, wire};
use std::path::PathBuf;

/// Opens an input, as described at [`Archive::open_with`], on all ranks of `comm`. All of them call it.
///
/// One rank lists the files, each opens only its share of them, and the results are exchanged, so that the file system
/// sees the load of a single process. The archive and its errors are the same as for a single process.
///
/// # Errors
/// [`JobError::Data`] with the reason why the input is unusable, on the rank that read the file in question;
/// [`JobError::Elsewhere`] on the others; [`JobError::Comm`].
pub fn open_archive(
    comm: &mut dyn Communicator,
    input: &str,
    bad_files: BadFiles,
) -> Result<Archive> {
    if comm.size() == 1 {
        return Ok(Archive::open_with(input, bad_files)?);
    }
    let paths = listed(comm, input)?;
    let (rank, size) = (comm.rank(), comm.size());
    let mut own = Survey::of_share(&paths, (rank, size), bad_files);
    let bytes = all_or_none(comm, wire::to_bytes(&own).map_err(JobError::from))?;
    let all = tree::all_gather_any(comm, &bytes)?;
    let surveys = all.iter().enumerate().map(|(from, bytes)| match from {
        // This rank's own results still have their full errors.
        from if from == rank => Ok(std::mem::take(&mut own)),
        _ => wire::from_bytes(bytes),
    });
    let archive = surveys
        .collect::<std::result::Result<Vec<Survey>, DataError>>()
        .and_then(|surveys| Archive::from_surveys(input, &paths, surveys, bad_files));
    let archive = archive.map_err(|error| match error {
        DataError::Elsewhere(_) => JobError::Elsewhere,
        error => JobError::Data(error),
    });
    all_or_none(comm, archive)
}

/// The files of an input as listed by the first rank.
fn listed(comm: &mut dyn Communicator, input: &str) -> Result<Vec<PathBuf>> {
    let paths = match comm.rank() {
        0 => files_of(input).and_then(|paths| wire::to_bytes(&paths)),
        _ => Ok(Vec::new()),
    };
    let bytes = all_or_none(comm, paths.map_err(JobError::from))?;
    let bytes = tree::broadcast_any(comm, bytes, 0)?;
    let paths = wire::from_bytes(&bytes);
    all_or_none(comm, paths.map_err(JobError::from))
}
