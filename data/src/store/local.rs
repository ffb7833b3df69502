//! A full or partial copy of a store on a node's own disk.

use super::shard::{shard_name, trailer};
use super::{BOXES_FILE, INDEX_FILE, Store, index, record};
use crate::atomic;
use crate::error::{DataError, Result};
use rayon::prelude::*;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Name of the file that lists the samples of a copy; a copy without it is complete.
pub const STAGED_FILE: &str = "staged.json";
const FORMAT: &str = "squall-staged 1";

/// The action in errors about a file created by [`LocalCopy::begin`]: it is output, not input.
const REOPEN: &str = "reopen";

/// The contents of `staged.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Staged {
    format: String,
    data_hash: String,
    /// Ids of the samples held here, ascending.
    samples: Vec<usize>,
}

/// A copy being written by any number of processes of one node, each for its own samples.
///
/// It only becomes a store with [`LocalCopy::finish`]. Leftovers of a killed writer or an earlier copy are identified
/// by checksum: a later writer calls [`LocalCopy::holds`] and writes only the rest.
#[derive(Debug)]
pub struct LocalCopy<'a> {
    source: &'a Store,
    folder: PathBuf,
}

impl<'a> LocalCopy<'a> {
    /// Starts a copy of `source` in a folder, which may already hold a part of it. One process of a node calls it
    /// before the others call [`LocalCopy::join`].
    ///
    /// # Errors
    /// [`DataError::Invalid`] if it is the store's own folder, or holds another store, even an unfinished one;
    /// [`DataError::Io`].
    pub fn begin(source: &'a Store, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(DataError::io("create folder", folder))?;
        let real = |path: &Path| path.canonicalize().map_err(DataError::io("open", path));
        if real(folder)? == real(source.folder())? {
            return Err(DataError::Invalid(format!(
                "`{}` is the store itself: a local copy needs another folder",
                folder.display()
            )));
        }
        let another = || {
            DataError::Invalid(format!(
                "`{}` holds another store than `{}`: remove it, or name another folder",
                folder.display(),
                source.folder().display()
            ))
        };
        if folder.join(shard_name(source.shards().len())).exists() {
            return Err(another());
        }
        if folder.join(INDEX_FILE).exists() {
            // Its shards may be truncated or missing, as after a cleanup of temporary folders; they are then written
            // again.
            let known = index::read_alone(folder).map(|(index, _)| index.data_hash);
            if !known.is_ok_and(|hash| hash == source.data_hash()) {
                return Err(another());
            }
        }
        // A store that is still being staged has no index.
        for shard in source.shards() {
            let there = trailer(&folder.join(&shard.file))?;
            if there.is_some() && there != trailer(&source.folder().join(&shard.file))? {
                return Err(another());
            }
        }
        // From here on it is no longer a finished store.
        for name in [INDEX_FILE, STAGED_FILE, BOXES_FILE] {
            atomic::remove(folder.join(name))?;
        }
        let copy = Self::join(source, folder);
        for shard in source.shards() {
            // The file has its full size from the start: unwritten parts are holes, which take no space.
            copy.open(&shard.file)?
                .set_len(shard.bytes)
                .map_err(DataError::io("enlarge", folder.join(&shard.file)))?;
        }
        Ok(copy)
    }

    /// Joins a copy that another process of the node has started.
    pub fn join(source: &'a Store, folder: &Path) -> Self {
        Self {
            source,
            folder: folder.to_path_buf(),
        }
    }

    fn open(&self, name: &str) -> Result<File> {
        let path = self.folder.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(&path).map_err(DataError::io("create", path))
    }

    /// Which of these samples are present and intact.
    ///
    /// # Errors
    /// [`DataError::Io`].
    pub fn holds(&self, ids: &[usize]) -> Result<Vec<bool>> {
        let check = |&id: &usize| {
            let (path, start) = self.place(id);
            let file = File::open(&path).map_err(DataError::io(REOPEN, &path))?;
            let end = start + self.record_bytes() as u64;
            let found = record::checksum(&file, &path, start..end)?;
            Ok(self.source.compare(id, &path, found).is_ok())
        };
        ids.par_iter().map(check).collect()
    }

    /// Frees the space of samples that are not wanted here, if the file system supports it.
    ///
    /// # Errors
    /// [`DataError::Io`].
    pub fn keep_only(&self, samples: &BTreeSet<usize>) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for id in (0..self.source.len()).filter(|id| !samples.contains(id)) {
            let (path, start) = self.place(id);
            let file = OpenOptions::new().write(true).open(&path);
            let file = file.map_err(DataError::io(REOPEN, &path))?;
            match fallocate(&file, flags, start, self.source.meta.record_bytes()) {
                // Then they stay, which only costs space.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                punched => punched.map_err(|e| DataError::io("make a hole in", path)(e.into()))?,
            }
        }
        Ok(())
    }

    /// Bytes of fields and class codes of a record, without padding.
    pub fn record_bytes(&self) -> usize {
        (self.source.meta.field_bytes() + self.source.meta.label_bytes()) as usize
    }

    /// Reads a record from the source.
    ///
    /// # Errors
    /// [`DataError::Io`]; [`DataError::Damaged`] if its checksum differs.
    pub fn read(&self, id: usize) -> Result<Vec<u8>> {
        let mut record = vec![0; self.record_bytes()];
        let (file, path, start) = self.source.locate(id)?;
        file.read_exact_at(&mut record, start)
            .map_err(DataError::io("read", &path))?;
        self.source.compare(id, &path, xxh3_64(&record))?;
        Ok(record)
    }

    /// Writes a record.
    ///
    /// # Errors
    /// [`DataError::Io`], such as a full disk; [`DataError::Damaged`] if the bytes were corrupted in transfer.
    pub fn write(&self, id: usize, record: &[u8]) -> Result<()> {
        let (path, start) = self.place(id);
        self.source.compare(id, &path, xxh3_64(record))?;
        let file = OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.write_all_at(record, start))
            .map_err(DataError::io("write", path))
    }

    fn place(&self, id: usize) -> (PathBuf, u64) {
        let (path, start) = self.source.place(id);
        let name = path.file_name().unwrap_or_default();
        (self.folder.join(name), start)
    }

    /// Turns the copy into a store with these samples, all of which must have been written. One process of a node calls
    /// it when the others are done.
    ///
    /// # Errors
    /// [`DataError::Io`].
    pub fn finish(self, samples: &BTreeSet<usize>) -> Result<Store> {
        for shard in self.source.shards() {
            let from = self.source.folder().join(&shard.file);
            let start = shard.samples as u64 * self.source.meta.record_bytes();
            let mut footer = vec![0; (shard.bytes - start) as usize];
            File::open(&from)
                .and_then(|file| file.read_exact_at(&mut footer, start))
                .map_err(DataError::io("read", from))?;
            let file = self.open(&shard.file)?;
            file.write_all_at(&footer, start)
                .and_then(|()| file.sync_all())
                .map_err(DataError::io("write", self.folder.join(&shard.file)))?;
        }
        if samples.len() < self.source.len() {
            let staged = Staged {
                format: FORMAT.into(),
                data_hash: self.source.data_hash().into(),
                samples: samples.iter().copied().collect(),
            };
            let text = serde_json::to_vec(&staged)
                .map_err(|e| DataError::Invalid(format!("{STAGED_FILE}: {e}")))?;
            atomic::write(self.folder.join(STAGED_FILE), &text)?;
        }
        let boxes = self.source.has_boxes().then_some(BOXES_FILE);
        for name in boxes.into_iter().chain([INDEX_FILE]) {
            let file = self.source.folder().join(name);
            let text = std::fs::read(&file).map_err(DataError::io("read", file))?;
            atomic::write(self.folder.join(name), &text)?;
        }
        Store::open(self.folder)
    }
}

/// Whether each sample of a store is in its folder; `None` if all are.
pub fn samples_here(folder: &Path, data_hash: &str, samples: usize) -> Result<Option<Vec<bool>>> {
    let path = folder.join(STAGED_FILE);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(DataError::io("read", &path))?,
    };
    let staged: Staged = serde_json::from_slice(&text).map_err(|e| DataError::damaged(&path, e))?;
    if staged.format != FORMAT || staged.data_hash != data_hash {
        let reason = "it belongs to another store or version: stage again";
        return Err(DataError::damaged(path, reason));
    }
    let mut here = vec![false; samples];
    for id in staged.samples {
        match here.get_mut(id) {
            Some(here) => *here = true,
            None => {
                let reason = format!("there is no sample {id} of {samples}");
                return Err(DataError::damaged(path, reason));
            }
        }
    }
    Ok(Some(here))
}
