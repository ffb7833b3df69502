//! The program version, precise enough to distinguish builds, and which builds made something.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// Returns the version, a hash of the sources that affect results, and the build settings. Ranks that run the same
/// program get the same text.
///
/// # Example
/// ```
/// assert!(squall_jobs::code::version().contains("sources "));
/// ```
pub fn version() -> String {
    format!(
        "{}, sources {}, {}",
        env!("CARGO_PKG_VERSION"),
        sources(),
        env!("SQUALL_BUILD")
    )
}

/// The hash of the sources that affect training and inference.
pub fn sources() -> &'static str {
    env!("SQUALL_SOURCES")
}

/// Stands for the builds of versions that did not record them.
const UNKNOWN: &str = "unknown";

/// The builds that made something, by their versions, in the order in which they first worked on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Builds(Vec<String>);

impl Builds {
    /// One build.
    pub fn of(version: &str) -> Self {
        Self(vec![version.into()])
    }

    /// The builds of something that does not name them.
    pub fn unknown() -> Self {
        Self::of(UNKNOWN)
    }

    /// The builds in a JSON document: the list `key`, [`Self::unknown`] without it.
    pub fn of_json(document: &serde_json::Value, key: &str) -> Self {
        let list = document.get(key).cloned();
        let read = list.and_then(|list| serde_json::from_value(list).ok());
        read.unwrap_or_else(Self::unknown)
    }

    /// These builds and the one with this version, which continues their work in a folder. Warns if another one began
    /// it.
    #[must_use]
    pub fn continued_by(mut self, version: &str, folder: &Path) -> Self {
        if let Some(other) = self.begun_by_other(version) {
            tracing::warn!(
                "`{}` was begun by another build of squall ({other}) and is continued by this one ({version}): what both make may \
                 differ",
                folder.display()
            );
        }
        if !self.0.iter().any(|known| known.as_str() == version) {
            self.0.push(version.into());
        }
        self
    }

    /// The build that began the work, if it is not this one.
    fn begun_by_other(&self, version: &str) -> Option<&str> {
        let first = self.0.first()?.as_str();
        (first != version).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_are_known() {
        let hash = sources();
        assert_eq!(hash.len(), 16);
        // What nothing at all would give: then the build script found no file.
        assert_ne!(hash, "cbf29ce484222325");
        assert!(version().contains(hash));
    }

    #[test]
    fn each_build_is_listed_once_and_another_one_that_began_is_known() {
        let folder = Path::new("run");
        let begun = Builds::default().continued_by("a", folder);
        assert_eq!(begun, Builds::of("a"));
        assert_eq!(begun.begun_by_other("a"), None);
        assert_eq!(begun.begun_by_other("b"), Some("a"));
        let continued = ["a", "b", "a", "b"]
            .iter()
            .fold(begun, |builds, by| builds.continued_by(by, folder));
        let document = serde_json::json!({ "builds": continued });
        assert_eq!(document["builds"], serde_json::json!(["a", "b"]));
        assert_eq!(Builds::of_json(&document, "builds"), continued);
        assert_eq!(Builds::of_json(&document, "absent"), Builds::unknown());
        assert_eq!(Builds::unknown().begun_by_other("a"), Some(UNKNOWN));
    }
}
