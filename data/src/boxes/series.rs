//! The boxes of a file, time by time, without holding a century of them in memory.

use super::file::FileKind;
use super::table::BoxRows;
use super::{BoxFrame, BoxFrames, TrackedBox, read};
use crate::error::{DataError, Result};
use crate::{Calendar, LatLonGrid, Time};
use std::path::{Path, PathBuf};

/// A box file whose times are known, and whose frames are read on demand.
///
/// Tables in order of time (as written by `squall infer` and `squall label`) are streamed, twice: the first pass
/// collects the times. Tables in another order and files of other kinds are held in memory.
///
/// # Example
/// ```
/// use squall_data::{Calendar, LatLonGrid, boxes::BoxSeries};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("boxes.csv");
/// std::fs::write(&path, "class,time,west_deg,south_deg,east_deg,north_deg\n,2000-01-01T00:00:00,,,,\n")?;
/// let series = BoxSeries::open(&path, &LatLonGrid::global(768, 1152)?, Calendar::NoLeap)?;
/// assert_eq!(series.times().len(), 1);
/// assert!(series.frames(0)?.next().is_some_and(|frame| frame.is_ok_and(|frame| frame.boxes.is_empty())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BoxSeries {
    path: PathBuf,
    calendar: Calendar,
    times: Vec<Time>,
    /// The frames, if held in memory.
    held: Option<BoxFrames>,
}

impl BoxSeries {
    /// Opens a file of any kind that [`read`] supports.
    ///
    /// # Errors
    /// As [`read`].
    pub fn open(path: &Path, grid: &LatLonGrid, calendar: Calendar) -> Result<Self> {
        let mut series = Self {
            path: path.into(),
            calendar,
            times: Vec::new(),
            held: None,
        };
        let in_order =
            FileKind::by_extension(path) == Some(FileKind::Table) && series.read_times()?;
        if !in_order {
            let frames = read(path, grid, calendar)?;
            series.times = frames.frames().iter().map(|frame| frame.time).collect();
            series.held = Some(frames);
        }
        Ok(series)
    }

    /// Reads the times of a table; false if they are not ascending.
    fn read_times(&mut self) -> Result<bool> {
        for row in BoxRows::open(&self.path, self.calendar)? {
            let (time, _) = row?;
            match self.times.last() {
                Some(&last) if last == time => {}
                Some(&last) if last > time => return Ok(false),
                _ => self.times.push(time),
            }
        }
        Ok(true)
    }

    /// The times that were searched for storms, ascending, without duplicates.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// The calendar of the times.
    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The reader's decisions about the file, one sentence each.
    pub fn notes(&self) -> &[String] {
        self.held.as_ref().map_or(&[], |held| &held.notes)
    }

    /// The frames from index `first` of [`Self::times`] on.
    ///
    /// # Errors
    /// As [`read`], immediately or for a frame; [`DataError::Unreadable`] for a frame if the file has changed
    /// meanwhile.
    pub fn frames(&self, first: usize) -> Result<Box<dyn Iterator<Item = Result<BoxFrame>> + '_>> {
        if let Some(held) = &self.held {
            return Ok(Box::new(held.frames().iter().skip(first).cloned().map(Ok)));
        }
        let frames = Frames {
            series: self,
            rows: BoxRows::open(&self.path, self.calendar)?,
            next: 0,
            ahead: None,
        };
        Ok(Box::new(frames.skip(first)))
    }
}

/// The frames of a table in order of time.
struct Frames<'a> {
    series: &'a BoxSeries,
    rows: BoxRows,
    next: usize,
    /// The first row of the next frame.
    ahead: Option<(Time, Option<TrackedBox>)>,
}

impl Iterator for Frames<'_> {
    type Item = Result<BoxFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        let time = *self.series.times.get(self.next)?;
        self.next += 1;
        let mut boxes = Vec::new();
        let mut seen = false;
        loop {
            let row = match self.ahead.take() {
                Some(row) => row,
                None => match self.rows.next() {
                    Some(Ok(row)) => row,
                    Some(Err(error)) => return Some(Err(error)),
                    None => break,
                },
            };
            if row.0 != time {
                self.ahead = Some(row);
                break;
            }
            seen = true;
            boxes.extend(row.1);
        }
        Some(if seen {
            Ok(BoxFrame { time, boxes })
        } else {
            Err(DataError::unreadable(
                &self.series.path,
                format!("expected rows of {time}, which were there before: the file was changed"),
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "class,time,west_deg,south_deg,east_deg,north_deg,confidence\n";

    fn row(day: u32, west: u32) -> String {
        let east = west + 10;
        format!("tropical_cyclone,2000-02-{day:02}T00:00:00,{west},10,{east},20,0.5\n")
    }

    fn series(folder: &Path, rows: &[String]) -> BoxSeries {
        let path = folder.join("boxes.csv");
        std::fs::write(&path, format!("{HEADER}{}", rows.concat())).unwrap();
        let grid = LatLonGrid::global(90, 180).unwrap();
        BoxSeries::open(&path, &grid, Calendar::NoLeap).unwrap()
    }

    #[test]
    fn a_table_in_any_order_gives_the_same_frames() {
        let folder = tempfile::tempdir().unwrap();
        let empty = ",2000-02-02T00:00:00,,,,,\n".to_string();
        let rows = [row(1, 10), row(1, 50), empty, row(4, 20), row(9, 30)];
        let ordered = series(folder.path(), &rows);
        assert!(ordered.held.is_none());
        let all: Vec<BoxFrame> = ordered.frames(0).unwrap().map(Result::unwrap).collect();
        let counts: Vec<usize> = all.iter().map(|frame| frame.boxes.len()).collect();
        assert_eq!(counts, [2, 0, 1, 1]);
        for first in 0..=4 {
            let part: Vec<BoxFrame> = ordered.frames(first).unwrap().map(Result::unwrap).collect();
            assert_eq!(part, all[first..]);
        }
        let mut turned = rows.to_vec();
        turned.reverse();
        let held = series(folder.path(), &turned);
        assert!(held.held.is_some());
        assert_eq!(held.times(), ordered.times);
        let again: Vec<BoxFrame> = held.frames(2).unwrap().map(Result::unwrap).collect();
        assert_eq!(again, all[2..]);
    }

    #[test]
    fn a_table_that_is_cut_between_two_readings_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [row(1, 10), row(4, 20)];
        let opened = series(folder.path(), &rows);
        std::fs::write(opened.path(), format!("{HEADER}{}", rows[0])).unwrap();
        let read: Vec<Result<BoxFrame>> = opened.frames(0).unwrap().collect();
        let error = read[1].as_ref().unwrap_err().to_string();
        assert!(read[0].is_ok() && error.contains("2000-02-04"), "{error}");
    }
}
