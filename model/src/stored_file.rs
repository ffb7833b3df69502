//! Reads a model file without loading it as a whole: the file is verified when it is opened, then tensors are read one
//! by one directly into their destination.

use crate::checksum::{CHECKSUM, Checksum};
use crate::error::{ModelError, Result};
use crate::model_file::{ModelFile, bad, fact};
use crate::parameters::NamedTensors;
use crate::tensors::{Tensors, expect_count};
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, SafeTensors};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Bytes before the header, which hold its length.
pub(crate) const PREFIX: usize = 8;
/// The longest header that safetensors accepts.
pub(crate) const MAX_HEADER: u64 = 100_000_000;
/// Bytes per read; a multiple of the size of a value, so that no value is split.
const PIECE: usize = 1 << 20;

/// The tensors and facts of a file on disk, or of its bytes in memory.
///
/// What was verified is what is read later: Squall never changes files in place, and a file renamed to this path is a
/// different inode.
#[derive(Debug)]
pub struct StoredFile<'a> {
    path: PathBuf,
    source: FileBytes<'a>,
    tensors: BTreeMap<String, Stored>,
    /// The facts, as in [`ModelFile`].
    pub facts: BTreeMap<String, String>,
    verified: Verified,
}

/// The results of the verification pass over all bytes.
#[derive(Debug, Default)]
struct Verified {
    /// XXH3-128 of the file (hexadecimal).
    hash: String,
    /// Squall's own checksum, over facts and tensors.
    checksum: String,
    /// The first tensor with infinite or NaN values, and the number of these.
    not_finite: Option<(String, usize)>,
}

/// The location of the bytes.
#[derive(Debug)]
enum FileBytes<'a> {
    File(File),
    Memory(Cow<'a, [u8]>),
}

/// A tensor's shape and its byte range in the file.
#[derive(Debug)]
struct Stored {
    shape: Vec<usize>,
    bytes: Range<u64>,
}

impl StoredFile<'static> {
    /// Opens a file written by [`ModelFile::write`] or [`crate::FileContents::write`], and reads it once to verify it.
    ///
    /// # Errors
    /// [`ModelError::Io`] if it cannot be read, [`ModelError::File`] if it is damaged or of another format.
    pub fn open(path: &Path) -> Result<Self> {
        let unreadable = |source| unreadable(path, source);
        let mut file = File::open(path).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if found.is_file() {
            return Self::check(path, FileBytes::File(file), found.len());
        }
        // A pipe can be read only once; a directory returns an error.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let length = bytes.len() as u64;
        Self::check(path, FileBytes::Memory(bytes.into()), length)
    }
}

/// The facts of a file, without reading its tensors; only the file's length is checked against the header.
///
/// # Errors
/// As [`StoredFile::open`], except that damaged values are not detected.
pub fn facts_alone(path: &Path) -> Result<BTreeMap<String, String>> {
    let unreadable = |source| unreadable(path, source);
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let (header, _) = FileBytes::File(file).header(path, length)?;
    facts_of(path, &header)
}

/// The facts in a header.
fn facts_of(path: &Path, header: &Metadata) -> Result<BTreeMap<String, String>> {
    let facts = header.metadata().as_ref().and_then(|all| all.get("squall"));
    let facts = facts.ok_or_else(|| bad(path, "it has no Squall facts: import it first".into()))?;
    serde_json::from_str(facts).map_err(|error| bad(path, error.to_string()))
}

impl<'a> StoredFile<'a> {
    /// Opens a file from its bytes; `path` is for errors.
    ///
    /// # Errors
    /// [`ModelError::File`] if they are damaged or of another format.
    pub fn of_bytes(path: &Path, bytes: &'a [u8]) -> Result<Self> {
        Self::check(path, FileBytes::Memory(bytes.into()), bytes.len() as u64)
    }

    /// Verifies a file of `length` bytes.
    fn check(path: &Path, source: FileBytes<'a>, length: u64) -> Result<Self> {
        let (header, head) = source.header(path, length)?;
        let start = head.len() as u64;
        let mut facts = facts_of(path, &header)?;
        // Files written before the checksum was introduced have none.
        let checksum = facts.remove(CHECKSUM);
        // Sorted by name, so that an error about types always names the same tensor.
        let infos: BTreeMap<_, _> = header.tensors().into_iter().collect();
        let mut tensors = BTreeMap::new();
        for (name, info) in infos {
            if info.dtype != Dtype::F32 {
                let reason = format!("tensor `{name}`: expected F32, found {:?}", info.dtype);
                return Err(bad(path, reason));
            }
            // The parsed header was verified to reference only bytes inside the file.
            let (first, end) = info.data_offsets;
            let bytes = start + first as u64..start + end as u64;
            let shape = info.shape.clone();
            tensors.insert(name, Stored { shape, bytes });
        }
        let mut file = Self {
            path: path.to_path_buf(),
            source,
            tensors,
            facts,
            verified: Verified::default(),
        };
        file.verified = file.look_through(&head, length)?;
        if checksum.is_some_and(|checksum| checksum != file.verified.checksum) {
            let reason = "its contents do not have the checksum it was written with";
            return Err(bad(path, reason.into()));
        }
        Ok(file)
    }

    /// Reads a file of `length` bytes once in full; `head` are the bytes before the values.
    fn look_through(&self, head: &[u8], length: u64) -> Result<Verified> {
        let (mut hash, mut checksum) = (Xxh3::new(), Checksum::of_facts(&self.facts));
        let mut not_finite = None;
        hash.update(head);
        for (name, stored) in &self.tensors {
            checksum.begin(name, &stored.shape);
            let mut count = 0;
            self.each_piece(&stored.bytes, |bytes| {
                hash.update(bytes);
                checksum.add(bytes);
                count += not_finite_in(bytes);
            })?;
            if count > 0 {
                not_finite.get_or_insert_with(|| (name.clone(), count));
            }
        }
        // Squall writes tensors in the order of their names. Other programs may not; their files are read a second
        // time.
        let places = self.tensors.values().map(|stored| stored.bytes.start);
        if !places.is_sorted() {
            hash.reset();
            hash.update(head);
            self.each_piece(&(head.len() as u64..length), |bytes| hash.update(bytes))?;
        }
        Ok(Verified {
            hash: format!("{:032x}", hash.digest128()),
            checksum: checksum.text(),
            not_finite,
        })
    }

    /// Passes a range of the file's bytes to `see`, piece by piece.
    fn each_piece(&self, bytes: &Range<u64>, mut see: impl FnMut(&[u8])) -> Result<()> {
        let Range { start, end } = *bytes;
        let mut piece = vec![0; (end - start).min(PIECE as u64) as usize];
        let mut at = start;
        while at < end {
            let size = (end - at).min(PIECE as u64) as usize;
            self.source.read(&self.path, &mut piece[..size], at)?;
            see(&piece[..size]);
            at += size as u64;
        }
        Ok(())
    }

    /// The value of a required fact.
    ///
    /// # Errors
    /// [`ModelError::File`] naming the fact.
    pub fn fact(&self, name: &str) -> Result<&str> {
        fact(&self.path, &self.facts, name)
    }

    /// XXH3-128 of the file (hexadecimal), over the bytes that were verified.
    pub fn hash(&self) -> &str {
        &self.verified.hash
    }

    /// The first tensor, by name, with infinite or NaN values, and the number of these.
    pub fn first_not_finite(&self) -> Option<(&str, usize)> {
        let found = self.verified.not_finite.as_ref();
        found.map(|(name, count)| (name.as_str(), *count))
    }

    /// Loads the whole file into memory.
    ///
    /// # Errors
    /// [`ModelError::Io`] if the file cannot be read.
    pub fn to_memory(&self) -> Result<ModelFile> {
        let mut tensors = NamedTensors::new();
        for (name, Stored { shape, .. }) in &self.tensors {
            let mut values = vec![0.0; shape.iter().product()];
            self.read_into(name, &mut values)?;
            tensors.insert(name.clone(), (shape.clone(), values));
        }
        let facts = self.facts.clone();
        Ok(ModelFile { tensors, facts })
    }
}

impl Tensors for StoredFile<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|stored| &stored.shape[..])
    }

    fn read_into(&self, name: &str, values: &mut [f32]) -> Result<()> {
        let stored = self.tensors.get(name);
        let Range { start, end } = stored.map_or(0..0, |stored| stored.bytes.clone());
        expect_count(values.len(), (end - start) as usize / size_of::<f32>())?;
        let bytes = bytemuck::cast_slice_mut(values);
        self.source.read(&self.path, bytes, start)?;
        if cfg!(target_endian = "big") {
            let turn = |value: &mut f32| *value = f32::from_bits(u32::from_le(value.to_bits()));
            values.iter_mut().for_each(turn);
        }
        Ok(())
    }
}

impl FileBytes<'_> {
    /// The parsed header of a file of `length` bytes, and all bytes before the values.
    fn header(&self, path: &Path, length: u64) -> Result<(Metadata, Vec<u8>)> {
        let invalid =
            |error: &dyn Display| bad(path, format!("no valid safetensors file ({error})"));
        let mut head = vec![0; length.min(PREFIX as u64) as usize];
        self.read(path, &mut head, 0)?;
        // A header longer than the file or the limit is not read; safetensors rejects it by its length alone.
        let count = head
            .first_chunk::<PREFIX>()
            .map(|count| u64::from_le_bytes(*count));
        let fits = |count: &u64| *count <= MAX_HEADER.min(length - PREFIX as u64);
        if let Some(count) = count.filter(fits) {
            head.resize(PREFIX + count as usize, 0);
            self.read(path, &mut head[PREFIX..], PREFIX as u64)?;
        }
        let header: Metadata = match SafeTensors::read_metadata(&head) {
            Ok((_, header)) => header,
            // The header itself is valid; only the values that safetensors expects after it are not in `head`.
            Err(SafeTensorError::MetadataIncompleteBuffer) => {
                serde_json::from_slice(&head[PREFIX..]).map_err(|error| invalid(&error))?
            }
            Err(error) => return Err(invalid(&error)),
        };
        let start = head.len() as u64;
        if start.checked_add(header.data_len() as u64) != Some(length) {
            return Err(invalid(&SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok((header, head))
    }

    /// Reads bytes of the file, starting at offset `at`.
    fn read(&self, path: &Path, into: &mut [u8], at: u64) -> Result<()> {
        match self {
            Self::File(file) => {
                (file.read_exact_at(into, at)).map_err(|source| unreadable(path, source))
            }
            Self::Memory(bytes) => {
                let from = at as usize;
                into.copy_from_slice(&bytes[from..from + into.len()]);
                Ok(())
            }
        }
    }
}

/// The number of infinite or NaN values in these bytes.
fn not_finite_in(bytes: &[u8]) -> usize {
    let (values, _) = bytes.as_chunks::<4>();
    let odd = |value: &&[u8; 4]| !f32::from_le_bytes(**value).is_finite();
    values.iter().filter(odd).count()
}

pub(crate) fn unreadable(path: &Path, source: std::io::Error) -> ModelError {
    ModelError::Io {
        action: "read",
        path: path.into(),
        source,
    }
}

#[cfg(test)]
mod tests;
