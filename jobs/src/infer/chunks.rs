//! Which times go into which mask file: a pure function of the time axis.

use serde::{Deserialize, Serialize};
use squall_data::Time;
use std::ops::Range;

/// How many times share a mask file. A killed run repeats at most one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilePer {
    /// One file per day.
    #[default]
    Day,
    /// One file per month.
    Month,
    /// One file per year.
    Year,
}

/// The times of one mask file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its name.
    pub name: String,
    /// Indices into the time axis.
    pub indices: Range<usize>,
}

/// The mask files of a time axis, in order.
///
/// # Example
/// ```
/// use squall_data::{Calendar, Time};
/// use squall_jobs::infer::{FilePer, chunks};
/// let start = Time::new(Calendar::NoLeap, 2000, 2, 28, 18, 0, 0).unwrap();
/// let times: Vec<Time> = (0..4).map(|k| start.add_seconds(k * 3 * 3600)).collect();
/// let files: Vec<String> = chunks(&times, FilePer::Day).into_iter().map(|c| c.name).collect();
/// assert_eq!(files, ["masks.2000-02-28.nc", "masks.2000-03-01.nc"]);
/// ```
pub fn chunks(times: &[Time], per: FilePer) -> Vec<Chunk> {
    let name = |time: &Time| {
        let (year, month, day) = time.date();
        match per {
            FilePer::Day => format!("masks.{year:04}-{month:02}-{day:02}.nc"),
            FilePer::Month => format!("masks.{year:04}-{month:02}.nc"),
            FilePer::Year => format!("masks.{year:04}.nc"),
        }
    };
    let mut chunks: Vec<Chunk> = Vec::new();
    for (index, time) in times.iter().enumerate() {
        let name = name(time);
        match chunks.last_mut() {
            Some(chunk) if chunk.name == name => chunk.indices.end = index + 1,
            _ => chunks.push(Chunk {
                name,
                indices: index..index + 1,
            }),
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use squall_data::Calendar;

    proptest! {
        #[test]
        fn every_time_is_in_exactly_one_file(steps in proptest::collection::vec(1i64..200, 1..80)) {
            let mut time = Time::new(Calendar::NoLeap, 1999, 11, 3, 5, 0, 0).unwrap();
            let times: Vec<Time> = steps
                .iter()
                .map(|hours| {
                    time = time.add_seconds(hours * 3600);
                    time
                })
                .collect();
            for per in [FilePer::Day, FilePer::Month, FilePer::Year] {
                let chunks = chunks(&times, per);
                let all: Vec<usize> = chunks.iter().flat_map(|c| c.indices.clone()).collect();
                prop_assert_eq!(all, (0..times.len()).collect::<Vec<_>>());
                let mut names: Vec<&String> = chunks.iter().map(|c| &c.name).collect();
                names.dedup();
                prop_assert_eq!(names.len(), chunks.len());
            }
        }
    }
}
