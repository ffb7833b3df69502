//! Assigns times to mask files: a pure function of the time axis.

use serde::{Deserialize, Serialize};
use squall_data::Time;
use std::num::NonZeroUsize;
use std::ops::Range;

/// How many times share a mask file. A killed run repeats at most the unfinished file of each rank.
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
    /// One file per this many times, counted from the first.
    Times(NonZeroUsize),
}

impl std::str::FromStr for FilePer {
    type Err = String;

    /// `day`, `month`, `year` (also `daily`, `monthly`, `yearly`) or a number of times.
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "day" | "daily" => Ok(Self::Day),
            "month" | "monthly" => Ok(Self::Month),
            "year" | "yearly" => Ok(Self::Year),
            number => number.parse().map(Self::Times).map_err(|_| {
                format!("expected day, month, year or a number of times, found {number}")
            }),
        }
    }
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
            FilePer::Times(_) => format!(
                "masks.{year:04}-{month:02}-{day:02}-{:05}.nc",
                time.second_of_day()
            ),
        }
    };
    let mut chunks: Vec<Chunk> = Vec::new();
    for (index, time) in times.iter().enumerate() {
        let same = match (per, chunks.last()) {
            (FilePer::Times(count), Some(chunk)) => chunk.indices.len() < count.get(),
            (_, Some(chunk)) => chunk.name == name(time),
            (_, None) => false,
        };
        match chunks.last_mut() {
            Some(chunk) if same => chunk.indices.end = index + 1,
            _ => chunks.push(Chunk {
                name: name(time),
                indices: index..index + 1,
            }),
        }
    }
    chunks
}

/// The box table that belongs to a mask file: `boxes.2000-02-28.csv`. The name of such a table is returned unchanged.
pub(super) fn table_of(name: &str) -> String {
    match name
        .strip_prefix("masks")
        .and_then(|n| n.strip_suffix("nc"))
    {
        Some(time) => format!("boxes{time}csv"),
        None => name.to_string(),
    }
}

/// The files of these times if there are box tables but no masks.
pub(super) fn of_boxes(masks: Vec<Chunk>) -> Vec<Chunk> {
    let renamed = |chunk: Chunk| Chunk {
        name: table_of(&chunk.name),
        ..chunk
    };
    masks.into_iter().map(renamed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use squall_data::Calendar;

    #[test]
    fn words_and_names() {
        let times = |count| NonZeroUsize::new(count).map(FilePer::Times);
        assert_eq!("monthly".parse(), Ok(FilePer::Month));
        assert_eq!("40".parse().ok(), times(40));
        assert!("0".parse::<FilePer>().is_err() && "week".parse::<FilePer>().is_err());
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        let axis = |hours: &[i64]| -> Vec<Time> {
            hours.iter().map(|h| start.add_seconds(h * 3600)).collect()
        };
        let per = times(3).unwrap();
        let names: Vec<String> = chunks(&axis(&[0, 3, 6, 9]), per)
            .into_iter()
            .map(|chunk| chunk.name)
            .collect();
        assert_eq!(
            names,
            ["masks.2000-01-01-00000.nc", "masks.2000-01-01-32400.nc"]
        );
        let table = table_of(&names[1]);
        assert_eq!(table, "boxes.2000-01-01-32400.csv");
        assert_eq!(table_of(&table), table);
    }

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
            let seven = FilePer::Times(NonZeroUsize::new(7).unwrap());
            for per in [FilePer::Day, FilePer::Month, FilePer::Year, seven] {
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
