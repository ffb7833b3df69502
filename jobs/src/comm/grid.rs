//! Sums on a grid of ranks: reduce-scatter along rows, all-reduce along columns, all-gather along rows.
//!
//! On a 2-D torus each phase uses only links between neighbours, and there are 2 (rows + columns - 2) sequential hops
//! instead of 2 (rows x columns - 1).

use super::collectives::{self, Choice, Lane, ring, values};
use super::flat::group_of;
use super::{AllReduce, CommError, Communicator, Result, Wire};

/// An all-reduce over ranks arranged row by row.
pub struct Grid {
    row: Box<dyn Communicator>,
    column: Box<dyn Communicator>,
    choice: Choice,
    lane: Lane,
}

impl Grid {
    /// Creates a grid over all ranks of `comm`; rank `r` is in row `r / columns`. Rows use rings, columns the given
    /// choice.
    ///
    /// # Errors
    /// [`CommError::Layout`] if rows times columns is not the number of ranks; those of the backend.
    pub fn new(
        comm: &mut dyn Communicator,
        (rows, columns): (usize, usize),
        choice: Choice,
        wire: Wire,
    ) -> Result<Self> {
        let (rank, size) = (comm.rank(), comm.size());
        if rows.checked_mul(columns) != Some(size) {
            return Err(CommError::Layout(format!(
                "a grid of {rows} rows and {columns} columns does not fit {size} ranks"
            )));
        }
        let along = |comm: &mut dyn Communicator, line: usize| {
            let colour = u32::try_from(line).map_err(|_| {
                CommError::Layout(format!("a grid of {size} ranks has too many lines"))
            })?;
            group_of(comm, colour)
        };
        Ok(Self {
            row: along(comm, rank / columns)?,
            column: along(comm, rank % columns)?,
            choice,
            lane: Lane::new(wire),
        })
    }

    /// Creates the most nearly square grid of all ranks of `comm`.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn square(comm: &mut dyn Communicator, choice: Choice, wire: Wire) -> Result<Self> {
        let shape = nearly_square(comm.size());
        Self::new(comm, shape, choice, wire)
    }
}

/// The most nearly square division of this many ranks into rows and columns.
pub(crate) fn nearly_square(ranks: usize) -> (usize, usize) {
    let rows = (1..=ranks.isqrt()).rev().find(|r| ranks.is_multiple_of(*r));
    let rows = rows.unwrap_or(1);
    (rows, ranks / rows)
}

impl AllReduce for Grid {
    fn all_reduce(&mut self, values: &mut [f32], scale: f32) -> Result<()> {
        values::scale(values, scale);
        let owned = ring::reduce_scatter(&mut *self.row, values, &mut self.lane)?;
        let bytes = owned.len() * self.lane.wire().bytes();
        let algorithm = self.choice.resolve(bytes, self.column.size());
        let part = &mut values[owned];
        collectives::all_reduce(algorithm, &mut *self.column, part, &mut self.lane)?;
        ring::all_gather(&mut *self.row, values, &mut self.lane)
    }

    fn bytes_sent(&self) -> u64 {
        self.lane.bytes_sent()
    }

    fn describe(&self) -> String {
        format!(
            "grid of {} rows and {} columns, {}, {} on the wire",
            self.column.size(),
            self.row.size(),
            self.choice.name(),
            self.lane.wire().name()
        )
    }
}
