//! Sorting more rows than memory should hold.

use crate::error::{ClimateError, Result};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use squall_data::DataError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What rows are sorted by: ascending by the first number, then by the second, then as they came.
type Key = (u64, i64, u64);

/// So many portions become one before there are more: in the end all are open at once, and most systems let a program
/// open a thousand files.
const MOST_ALIKE: usize = 128;

/// Collects rows and gives them back sorted, with a bounded number of them in memory: full portions are sorted and
/// written to files of a folder, which are then merged.
pub(crate) struct Spill<T> {
    folder: PathBuf,
    most_held: usize,
    most_alike: usize,
    held: Vec<(Key, T)>,
    /// How often the rows of each file were merged, which never ascends, and the file.
    portions: Vec<(u32, PathBuf)>,
    /// Files written so far.
    written: usize,
    count: u64,
}

impl<T: Serialize + DeserializeOwned> Spill<T> {
    /// An empty collection; `folder` is created when it is needed and removed when the rows have been taken.
    pub fn new(folder: impl Into<PathBuf>, most_held: usize) -> Self {
        Self {
            folder: folder.into(),
            most_held: most_held.max(1),
            most_alike: MOST_ALIKE,
            held: Vec::new(),
            portions: Vec::new(),
            written: 0,
            count: 0,
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if a portion cannot be written, or read again to be merged.
    pub fn push(&mut self, first: u64, second: i64, row: T) -> Result<()> {
        self.held.push(((first, second, self.count), row));
        self.count += 1;
        if self.held.len() < self.most_held {
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
        self.merge_alike()
    }

    fn next_file(&mut self) -> PathBuf {
        self.written += 1;
        self.folder.join(format!("{:06}.jsonl", self.written))
    }

    /// Makes one portion of the last ones while as many of them as may be have been merged equally often.
    fn merge_alike(&mut self) -> Result<()> {
        while let Some(&(times, _)) = self.portions.last() {
            let first = self.portions.partition_point(|(more, _)| *more > times);
            if self.portions.len() - first < self.most_alike {
                break;
            }
            let path = self.next_file();
            let alike = self.portions.split_off(first);
            merge(&alike, &path)?;
            for (_, merged) in &alike {
                fs::remove_file(merged).map_err(DataError::io("remove", merged))?;
            }
            self.portions.push((times + 1, path));
        }
        Ok(())
    }

    /// The rows, sorted.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if a portion cannot be read.
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

/// Merges sorted files into one, each line as it is.
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

/// The key of the next line of a file, and the line.
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

/// Rows in order; what [`Spill::sorted`] gives.
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
        fn any_portion_gives_the_same_order(keys in proptest::collection::vec((0u64..9, -3i64..3), 0..40), most in 1usize..50, alike in 2usize..5) {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().join("spill");
            let mut spill = Spill::new(&place, most);
            spill.most_alike = alike;
            for (row, (a, b)) in keys.iter().enumerate() {
                spill.push(*a, *b, row).unwrap();
            }
            let rows: Vec<usize> = spill.sorted().unwrap().map(|row| row.unwrap()).collect();
            let mut expected: Vec<usize> = (0..keys.len()).collect();
            expected.sort_by_key(|&row| keys[row]); // stable
            prop_assert_eq!(rows, expected);
            prop_assert!(!place.exists(), "nothing is left");
        }
    }
    /// In the end all files are open at once, which no system allows for thousands.
    #[test]
    fn the_files_stay_few_however_many_rows_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(folder.path(), 1);
        spill.most_alike = 4;
        for row in 0..1000u64 {
            spill.push(row * 7919 % 1000, 0, row * 7919 % 1000).unwrap();
        }
        // 1000 is 33220 to the base of four.
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!((files, spill.portions.len()), (10, 10));
        let rows: Vec<u64> = spill.sorted().unwrap().map(|row| row.unwrap()).collect();
        assert!(rows.into_iter().eq(0..1000));
    }
}
