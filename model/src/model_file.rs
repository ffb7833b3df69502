//! Tensors and facts in one safetensors file, written atomically.

use crate::error::{ModelError, Result};
use crate::file_contents::FileContents;
use crate::parameters::NamedTensors;
use crate::stored_file::StoredFile;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Named f32 tensors and named facts.
#[derive(Debug, Clone, Default)]
pub struct ModelFile {
    /// Shape and values by name.
    pub tensors: NamedTensors,
    /// The contract: everything needed to interpret the tensors.
    pub facts: BTreeMap<String, String>,
}

impl ModelFile {
    /// Writes the file under a temporary name, syncs it and renames it, so that a crash leaves either the old file or
    /// the new one.
    ///
    /// # Errors
    /// [`ModelError::Io`] naming the file, [`ModelError::File`] if a tensor's shape and values disagree.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.contents().write(path)
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// [`ModelError::File`] naming the file if a tensor's shape and values disagree.
    pub fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        self.contents().encode(path)
    }

    /// The contents, borrowed.
    fn contents(&self) -> FileContents<'_> {
        let mut contents = FileContents::default();
        for (name, (shape, values)) in &self.tensors {
            contents.lend(name, shape, values);
        }
        contents.facts = self.facts.clone();
        contents
    }

    /// Reads a file that [`Self::write`] wrote into memory; [`StoredFile`] leaves it on disk.
    ///
    /// # Errors
    /// As [`StoredFile::open`].
    pub fn read(path: &Path) -> Result<Self> {
        StoredFile::open(path)?.to_memory()
    }

    /// Decodes the bytes that [`Self::encode`] returned; `path` is for errors.
    ///
    /// # Errors
    /// As [`StoredFile::of_bytes`].
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        StoredFile::of_bytes(path, bytes)?.to_memory()
    }

    /// The value of a required fact.
    ///
    /// # Errors
    /// [`ModelError::File`] naming the fact.
    pub fn fact(&self, path: &Path, name: &str) -> Result<&str> {
        fact(path, &self.facts, name)
    }
}

/// The value of a required fact among those of a file.
pub(crate) fn fact<'a>(
    path: &Path,
    facts: &'a BTreeMap<String, String>,
    name: &str,
) -> Result<&'a str> {
    let found = facts.get(name).map(String::as_str);
    found.ok_or_else(|| bad(path, format!("the fact `{name}` is missing")))
}

pub(crate) fn bad(path: &Path, reason: String) -> ModelError {
    ModelError::File {
        path: path.into(),
        reason,
    }
}

/// The values as bytes in the file's order; on little-endian machines without a copy.
pub(crate) fn little_endian(values: &[f32]) -> Cow<'_, [u8]> {
    match cfg!(target_endian = "little") {
        true => bytemuck::cast_slice(values).into(),
        false => (values.iter().flat_map(|value| value.to_le_bytes())).collect(),
    }
}

// This and `refuse_other_than_file` are duplicated in data/src/atomic.rs: model and data depend on no crate of ours.
/// A number unique to this process. Process ids are not unique across hosts and containers.
fn own_number() -> u32 {
    static OWN: LazyLock<u32> = LazyLock::new(|| RandomState::new().build_hasher().finish() as u32);
    *OWN
}

/// Returns an error if the path is a device, a pipe or a directory: the rename would replace it for everybody.
fn refuse_other_than_file(path: &Path) -> std::io::Result<()> {
    use std::io::{Error, ErrorKind};
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Err(Error::new(
            ErrorKind::InvalidInput,
            "a device, pipe or socket, where a file would take its place",
        )),
        // If the path cannot be examined, creating the file will fail as well.
        _ => Ok(()),
    }
}

/// Writes a file under a temporary name (`.<name>.<number>.tmp` in the same directory, with a number unique to this
/// process), syncs it and renames it.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>,
) -> Result<()> {
    let io = |action: &'static str, path: PathBuf| {
        move |source| ModelError::Io {
            action,
            path,
            source,
        }
    };
    refuse_other_than_file(path).map_err(io("write", path.to_path_buf()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", own_number()));
    let attempt = || -> Result<()> {
        let mut file =
            std::fs::File::create(&temporary).map_err(io("create", temporary.clone()))?;
        write(&mut file).map_err(io("write", temporary.clone()))?;
        file.sync_all().map_err(io("sync", temporary.clone()))?;
        std::fs::rename(&temporary, path).map_err(io("rename", path.to_path_buf()))
    };
    attempt().inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
    // Sync the directory, so that the rename itself survives a power failure.
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Ok(folder) = std::fs::File::open(folder.unwrap_or(Path::new("."))) {
        let _ = folder.sync_all();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_is_exact_and_reproducible() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (
            folder.path().join("a.safetensors"),
            folder.path().join("b.safetensors"),
        );
        let mut file = ModelFile::default();
        let odd = vec![f32::MIN_POSITIVE, -0.0, 1.0 / 3.0, f32::MAX, 1e-40, 2.5];
        file.tensors
            .insert("layer.weight".into(), (vec![2, 3], odd.clone()));
        file.tensors
            .insert("layer.bias".into(), (vec![1], vec![7.0]));
        (0..20).for_each(|i| {
            drop(
                file.facts
                    .insert(format!("fact{i}"), "\"quoted\"\n".repeat(i)),
            )
        });
        file.write(&a).unwrap();
        file.write(&b).unwrap();
        assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap());
        assert_eq!(std::fs::read(&a).unwrap(), file.encode(&a).unwrap());
        let back = ModelFile::read(&a).unwrap();
        assert_eq!(back.facts, file.facts);
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back.tensors["layer.weight"].1), bits(&odd));
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            2,
            "no temporary file is left"
        );
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let here = |name: &str| folder.path().join(name);
        std::fs::create_dir(here("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/null", here("device")).unwrap();
        let mut file = ModelFile::default();
        file.tensors.insert("w".into(), (vec![1], vec![1.0]));
        for (name, word) in [
            ("device", "a device, pipe or socket"),
            ("folder", "is a directory"),
        ] {
            let error = file.write(&here(name)).unwrap_err();
            assert!(matches!(error, ModelError::Io { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains(word), "{name}: {error}");
        }
        assert!(here("device").is_symlink() && here("folder").is_dir());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        // A link to nothing becomes a file.
        std::os::unix::fs::symlink("absent", here("link")).unwrap();
        file.write(&here("link")).unwrap();
        assert_eq!(
            ModelFile::read(&here("link")).unwrap().tensors,
            file.tensors
        );
    }

    #[test]
    fn damage_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let mut file = ModelFile::default();
        file.tensors.insert("w".into(), (vec![4], vec![1.0; 4]));
        file.write(&path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 4, 8, 20, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let error = ModelFile::read(&path).unwrap_err().to_string();
            assert!(error.contains("m.safetensors"), "{error}");
        }
        // A flipped bit in a value, which safetensors does not detect.
        let mut flipped = whole.clone();
        flipped[whole.len() - 6] ^= 4;
        std::fs::write(&path, &flipped).unwrap();
        let error = ModelFile::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("m.safetensors") && error.contains("checksum"),
            "{error}"
        );
    }
}
