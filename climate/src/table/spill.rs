//! External merge sort, for more rows than memory should hold.

use crate::error::{ClimateError, Result};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use squall_data::DataError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Sort key: the first number, then the second, then the order of insertion.
type Key = (u64, i64, u64);

/// Maximum number of files of one merge level before they are merged. The final merge opens all files at once, and most
/// systems limit a process to about a thousand.
const MAX_FILES_PER_LEVEL: usize = 128;

/// Collects rows and returns them sorted, with a bounded number in memory: full chunks are sorted and written to files
/// in a folder, which are merged at the end.
pub(crate) struct Spill<T> {
    folder: PathBuf,
    max_held: usize,
    max_files_per_level: usize,
    held: Vec<(Key, T)>,
    /// Merge level and path of each file; levels never ascend.
    portions: Vec<(u32, PathBuf)>,
    /// Number of files written so far.
    written: usize,
    count: u64,
}

impl<T: Serialize + DeserializeOwned> Spill<T> {
    /// Creates an empty collection. `folder` is created on demand and removed after the rows were read.
    pub fn new(folder: impl Into<PathBuf>, max_held: usize) -> Self {
        Self {
            folder: folder.into(),
            max_held: max_held.max(1),
            max_files_per_level: MAX_FILES_PER_LEVEL,
            held: Vec::new(),
            portions: Vec::new(),
            written: 0,
            count: 0,
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if a file cannot be written, or read for merging.
    pub fn push(&mut self, first: u64, second: i64, row: T) -> Result<()> {
        self.held.push(((first, second, self.count), row));
        self.count += 1;
        if self.held.len() < self.max_held {
            return Ok(());
        }
        fs::create_dir_all(&self.folder).map_err(DataError::io("create folder", &self.folder))?;
        let path = self.next_file();
        let failed = |error: std::io::Error| DataError::io("write", &path)(error);
        let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
        self.held.sort_unstable_by_key(|(key, _)| *key);
        for row in self.held.drain(..) {
            serde_json::to_writer(&mut file, &row).map_err(|error| failed(error.into()))?;
            file.write_all(b"\n").map_err(failed)?;
        }
        file.flush().map_err(failed)?;
        self.portions.push((0, path));
        self.merge_level()
    }

    fn next_file(&mut self) -> PathBuf {
        self.written += 1;
        self.folder.join(format!("{:06}.jsonl", self.written))
    }

    /// Merges the last files as long as there are too many of one merge level.
    fn merge_level(&mut self) -> Result<()> {
        while let Some(&(level, _)) = self.portions.last() {
            let first = self.portions.partition_point(|(other, _)| *other > level);
            if self.portions.len() - first < self.max_files_per_level {
                break;
            }
            let path = self.next_file();
            let files = self.portions.split_off(first);
            merge(&files, &path)?;
            for (_, merged) in &files {
                fs::remove_file(merged).map_err(DataError::io("remove", merged))?;
            }
            self.portions.push((level + 1, path));
        }
        Ok(())
    }

    /// Returns the rows, sorted.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if a file cannot be read.
    pub fn sorted(mut self) -> Result<Sorted<T>> {
        self.held.sort_unstable_by_key(|(key, _)| *key);
        let mut sorted = Sorted {
            portions: Vec::new(),
            heads: BinaryHeap::new(),
            waiting: Vec::new(),
            folder: (!self.portions.is_empty()).then(|| self.folder.clone()),
        };
        let files = self.portions.iter().map(|(_, path)| Portion::open(path));
        let last = Portion::Held(self.held.into_iter());
        for portion in files.chain([Ok(last)]) {
            sorted.portions.push(portion?);
            sorted.waiting.push(None);
            sorted.advance(sorted.portions.len() - 1)?;
        }
        Ok(sorted)
    }
}

/// Merges sorted files, copying lines unchanged.
fn merge(files: &[(u32, PathBuf)], to: &Path) -> Result<()> {
    let failed = |error: std::io::Error| DataError::io("write", to)(error);
    let mut merged = BufWriter::new(File::create(to).map_err(failed)?);
    let mut sources = Vec::with_capacity(files.len());
    let mut heads = BinaryHeap::new();
    for (place, (_, path)) in files.iter().enumerate() {
        let file = File::open(path).map_err(DataError::io("open", path))?;
        sources.push((path.as_path(), BufReader::new(file)));
        heads
            .extend(next_line(&mut sources[place])?.map(|(key, line)| Reverse((key, place, line))));
    }
    while let Some(Reverse((_, place, line))) = heads.pop() {
        merged.write_all(line.as_bytes()).map_err(failed)?;
        heads
            .extend(next_line(&mut sources[place])?.map(|(key, line)| Reverse((key, place, line))));
    }
    merged.flush().map_err(failed)?;
    Ok(())
}

/// Reads the next line of a file and its key.
fn next_line((path, file): &mut (&Path, BufReader<File>)) -> Result<Option<(Key, String)>> {
    let failed = |error: std::io::Error| DataError::io("read", *path)(error);
    let mut line = String::new();
    if file.read_line(&mut line).map_err(failed)? == 0 {
        return Ok(None);
    }
    let row: serde_json::Result<(Key, IgnoredAny)> = serde_json::from_str(&line);
    let (key, _) = row.map_err(|error| failed(error.into()))?;
    Ok(Some((key, line)))
}

/// The sorted rows; see [`Spill::sorted`].
pub(crate) struct Sorted<T> {
    portions: Vec<Portion<T>>,
    heads: BinaryHeap<Reverse<(Key, usize)>>,
    waiting: Vec<Option<T>>,
    folder: Option<PathBuf>,
}

enum Portion<T> {
    File(PathBuf, BufReader<File>),
    Held(std::vec::IntoIter<(Key, T)>),
}

impl<T: DeserializeOwned> Portion<T> {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(DataError::io("open", path))?;
        Ok(Self::File(path.into(), BufReader::new(file)))
    }

    fn next(&mut self) -> Result<Option<(Key, T)>> {
        let (path, file) = match self {
            Self::Held(rows) => return Ok(rows.next()),
            Self::File(path, file) => (path, file),
        };
        let failed = |error: std::io::Error| {
            ClimateError::Data(DataError::io("read", path.as_path())(error))
        };
        let mut line = String::new();
        if file.read_line(&mut line).map_err(failed)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line)
            .map(Some)
            .map_err(|error| failed(error.into()))
    }
}

impl<T: DeserializeOwned> Sorted<T> {
    fn advance(&mut self, portion: usize) -> Result<()> {
        if let Some((key, row)) = self.portions[portion].next()? {
            self.waiting[portion] = Some(row);
            self.heads.push(Reverse((key, portion)));
        }
        Ok(())
    }
}

impl<T: DeserializeOwned> Iterator for Sorted<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, portion)) = self.heads.pop()?;
        let row = self.waiting[portion].take()?;
        match self.advance(portion) {
            Ok(()) => Some(Ok(row)),
            Err(error) => {
                self.heads.clear();
                Some(Err(error))
            }
        }
    }
}

impl<T> Drop for Sorted<T> {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_portion_gives_the_same_order(keys in proptest::collection::vec((0u64..9, -3i64..3), 0..40), max_held in 1usize..50, files in 2usize..5) {
            let folder = tempfile::tempdir().unwrap();
            let spilled = folder.path().join("spill");
            let mut spill = Spill::new(&spilled, max_held);
            spill.max_files_per_level = files;
            for (row, (a, b)) in keys.iter().enumerate() {
                spill.push(*a, *b, row).unwrap();
            }
            let rows: Vec<usize> = spill.sorted().unwrap().map(|row| row.unwrap()).collect();
            let mut expected: Vec<usize> = (0..keys.len()).collect();
            expected.sort_by_key(|&row| keys[row]); // stable
            prop_assert_eq!(rows, expected);
            prop_assert!(!spilled.exists(), "nothing is left");
        }
    }
    /// The final merge opens all files at once; no system allows thousands.
    #[test]
    fn the_files_stay_few_however_many_rows_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(folder.path(), 1);
        spill.max_files_per_level = 4;
        for row in 0..1000u64 {
            spill.push(row * 7919 % 1000, 0, row * 7919 % 1000).unwrap();
        }
        // 1000 is 33220 in base four.
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!((files, spill.portions.len()), (10, 10));
        let rows: Vec<u64> = spill.sorted().unwrap().map(|row| row.unwrap()).collect();
        assert!(rows.into_iter().eq(0..1000));
    }
}
