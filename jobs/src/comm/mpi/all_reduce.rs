//! The MPI library's own all-reduce, for comparison.

use super::{Mpi, ffi::Group};
use crate::comm::{AllReduce, Result};

/// `MPI_Allreduce` in place over all ranks, flat, on f32.
pub struct MpiAllReduce {
    group: Group,
    chunk: Option<usize>,
    bytes_sent: u64,
}

impl MpiAllReduce {
    /// The library's all-reduce over the ranks of `mpi`, in one call or in pieces of this many values.
    ///
    /// # Errors
    /// [`crate::comm::CommError::Library`].
    pub fn new(mpi: &Mpi, chunk: Option<usize>) -> Result<Self> {
        Ok(Self {
            group: mpi.group.duplicate()?,
            chunk,
            bytes_sent: 0,
        })
    }
}

impl AllReduce for MpiAllReduce {
    fn all_reduce(&mut self, values: &mut [f32], scale: f32) -> Result<()> {
        let chunk = self.chunk.unwrap_or(values.len()).max(1);
        for part in values.chunks_mut(chunk) {
            if scale != 1.0 {
                part.iter_mut().for_each(|value| *value *= scale);
            }
            self.group.sum_in_place(part)?;
        }
        let ranks = self.group.size;
        self.bytes_sent += (2 * (ranks - 1) * size_of_val(values) / ranks) as u64;
        Ok(())
    }

    /// The minimum that any algorithm sends: the library does not report it.
    fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    fn describe(&self) -> String {
        let pieces = self.chunk.map_or_else(String::new, |chunk| {
            format!(", in pieces of {chunk} values")
        });
        format!(
            "MPI_Allreduce of {}, {} ranks{pieces}",
            self.group.library.version, self.group.size
        )
    }
}
