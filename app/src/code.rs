//! The version of the whole program, and which builds of it work on something unfinished.

use squall_data::{DataError, atomic};
use squall_jobs::code::Builds;
use std::path::Path;

/// Attribute of masks and statistics: the program that wrote them, as `squall infer` names it.
pub const VERSION: &str = "squall_version";

/// The file in an unfinished output folder with the builds that worked on it.
const FILE: &str = ".builds.json";

/// Returns the version, a hash of the sources of all our crates, and the build settings.
///
/// [`squall_jobs::code::version`] is of the sources of training and inference alone: that of their files does not change
/// with the rest.
pub fn version() -> String {
    format!(
        "{}, sources {}, {}",
        env!("CARGO_PKG_VERSION"),
        env!("SQUALL_SOURCES"),
        env!("SQUALL_BUILD")
    )
}

/// Records that this build works on the output in a folder; if it `continues` earlier work, warns if another build began
/// that. The caller holds the folder's lock.
pub fn work_on(folder: &Path, continues: bool) {
    let path = folder.join(FILE);
    let before = match (continues, std::fs::read(&path)) {
        (false, _) => Builds::default(),
        (true, text) => {
            serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_else(|_| Builds::unknown())
        }
    };
    let builds = before.continued_by(&version(), folder);
    // Work is not worth less without the note.
    if let Err(error) = write(folder, &builds) {
        tracing::debug!("the build is not recorded: {error}");
    }
}

fn write(folder: &Path, builds: &Builds) -> Result<(), DataError> {
    atomic::sweep(folder, |name| name == FILE)?;
    let path = folder.join(FILE);
    let text = serde_json::to_vec(builds)
        .map_err(|error| DataError::Invalid(format!("{}: {error}", path.display())))?;
    atomic::write(path, &text)
}

/// The work on a folder is finished: what is in it tells its build itself.
pub fn finish(folder: &Path) {
    // If this fails, the file is overwritten by the next work that begins there.
    let _ = std::fs::remove_file(folder.join(FILE));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_unfinished_work_are_kept_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let kept = || std::fs::read_to_string(folder.join(FILE)).ok();
        let list = |builds: &[&str]| Some(serde_json::to_string(builds).unwrap());
        let this = version();
        let this = this.as_str();
        work_on(folder, false);
        assert_eq!(kept(), list(&[this]));
        work_on(folder, true);
        assert_eq!(kept(), list(&[this]));
        std::fs::write(folder.join(FILE), "[\"another\"]").unwrap();
        work_on(folder, true);
        assert_eq!(kept(), list(&["another", this]));
        // What is begun anew is of this build alone.
        work_on(folder, false);
        assert_eq!(kept(), list(&[this]));
        finish(folder);
        assert_eq!(kept(), None);
        // Versions that recorded none began it.
        work_on(folder, true);
        assert_eq!(kept(), list(&["unknown", this]));
    }
}
