//! How a labelling takes its output folders and lets them go: in the same order for all methods.

use super::masks::{Masks, release};
use crate::code;
use squall_jobs::lock::FolderLock;
use std::path::{Path, PathBuf};

/// The output folders of a running labelling.
pub struct Ownership {
    out: PathBuf,
    /// The folders of the masks.
    folders: Vec<PathBuf>,
    /// Other runs may not write there meanwhile.
    _lock: FolderLock,
}

impl Ownership {
    /// Locks the output folder, refuses one with labels of other work, opens the state, and claims the masks' folders.
    ///
    /// `open` returns the state and whether it continues earlier work. It is called before the folders are claimed: a
    /// saved state is only usable with masks that the same run was the last to write.
    pub fn take<S>(
        out: &Path,
        fingerprint: &str,
        masks: &[Masks<'_>],
        open: impl FnOnce() -> anyhow::Result<(S, bool)>,
    ) -> anyhow::Result<(Self, S)> {
        let lock = FolderLock::take(out)?;
        masks
            .iter()
            .try_for_each(|masks| masks.check_folder(fingerprint))?;
        let (state, continues) = open()?;
        code::work_on(out, continues);
        masks
            .iter()
            .try_for_each(|masks| masks.claim(fingerprint))?;
        let folders = masks.iter().map(|masks| masks.folder().to_path_buf());
        let owned = Self {
            out: out.to_path_buf(),
            folders: folders.collect(),
            _lock: lock,
        };
        Ok((owned, state))
    }

    /// All outputs are in place: marks the folders as finished.
    pub fn release(&self) {
        self.folders.iter().for_each(|folder| release(folder));
        code::finish(&self.out);
    }
}
