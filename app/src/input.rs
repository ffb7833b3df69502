//! What commands do with their input before they start: open it, say what was decided, refuse what is missing.

use crate::failure::Advice;
use squall_data::archive::BadFiles;
use squall_data::{Archive, Variable};

/// Opens fields and says, as warnings, what was skipped, guessed or replaced.
pub fn open(input: &str, skip_bad: bool) -> anyhow::Result<Archive> {
    let bad_files = if skip_bad {
        BadFiles::Skip
    } else {
        BadFiles::Fail
    };
    let archive = Archive::open_with(input, bad_files)?;
    archive
        .problems()
        .iter()
        .for_each(|problem| tracing::warn!("{problem}"));
    Ok(archive)
}

/// Refuses input that lacks channels, naming all of them at once.
pub fn require(archive: &Archive, needed: &[Variable], purpose: &str) -> anyhow::Result<()> {
    let missing: Vec<&str> = needed
        .iter()
        .filter(|v| !archive.available().contains(v))
        .map(|v| v.name())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let found: Vec<&str> = archive.available().iter().map(|v| v.name()).collect();
    let (path, _) = archive.source_of(0);
    Err(Advice {
        message: format!(
            "{purpose} needs {}, which `{}` does not have at every time (found: {})",
            missing.join(", "),
            path.display(),
            found.join(", ")
        ),
        hint: "`squall inspect` lists every variable and what it serves as".into(),
        code: crate::failure::INPUT,
    }
    .into())
}
