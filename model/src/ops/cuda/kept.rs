//! The cache on disk: compiled kernels and algorithm choices, kept between runs.
//!
//! A file that cannot be written or is damaged counts as missing; its contents are then recomputed.

use crate::model_file::write_whole;
use std::io::Write;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before machine code: its length and its checksum. The driver gets no length and trusts that in the code
/// itself, so it would read past the end of a truncated file.
const HEAD: usize = 16;

/// Writes a cache file atomically.
pub(super) fn keep(path: &Path, bytes: &[u8]) {
    keep_parts(path, &[bytes]);
}

/// Writes machine code, to be read by [`kept_code`].
pub(super) fn keep_code(path: &Path, code: &[u8]) {
    keep_parts(path, &[&head_of(code), code]);
}

fn keep_parts(path: &Path, parts: &[&[u8]]) {
    if let Some(folder) = path.parent() {
        // If the directory cannot be created, writing the file fails too, and that error is reported.
        let _ = std::fs::create_dir_all(folder);
    }
    let kept = write_whole(path, |file| {
        parts.iter().try_for_each(|part| file.write_all(part))
    });
    if let Err(error) = kept {
        tracing::debug!("`{}` is not kept: {error}", path.display());
    }
}

/// The cached machine code; `None` if there is none or the file is damaged, in which case it is removed.
pub(super) fn kept_code(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let code = code_of(&bytes);
    if code.is_none() {
        tracing::debug!("`{}` is damaged: it is compiled anew", path.display());
        let _ = std::fs::remove_file(path);
    }
    code.map(<[u8]>::to_vec)
}

fn head_of(code: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let (length, sum) = head.split_at_mut(HEAD / 2);
    length.copy_from_slice(&(code.len() as u64).to_le_bytes());
    sum.copy_from_slice(&xxh3_64(code).to_le_bytes());
    head
}

fn code_of(bytes: &[u8]) -> Option<&[u8]> {
    let (head, code) = bytes.split_at_checked(HEAD)?;
    (head == head_of(code).as_slice()).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_comes_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some").join("key.cubin");
        let code: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
        keep_code(&file, &code);
        assert_eq!(kept_code(&file), Some(code.clone()));
        let whole = std::fs::read(&file).unwrap();
        let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
        let changed = (0..whole.len()).map(|at| {
            let mut other = whole.clone();
            other[at] ^= 1;
            other
        });
        // As programs kept it that did not know of lengths.
        for damaged in cut.chain(changed).chain([code]) {
            assert_eq!(code_of(&damaged), None);
        }
        std::fs::write(&file, &whole[..500]).unwrap();
        assert_eq!(kept_code(&file), None);
        assert!(!file.exists());
        let left = std::fs::read_dir(folder.path().join("some")).unwrap();
        assert_eq!(left.count(), 0, "no temporary file is left");
    }

    #[test]
    fn what_cannot_be_kept_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        keep(&file, b"1");
        keep(&file.join("below"), b"2");
        assert_eq!(std::fs::read(&file).unwrap(), b"1");
        assert_eq!(kept_code(&folder.path().join("none")), None);
    }
}
