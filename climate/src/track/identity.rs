//! The identity of a track in the file of another tool.

use serde::{Deserialize, Serialize};

/// Placeholders for storms without a name, in any case.
///
/// # Source
/// Column documentation of IBTrACS v04 (`NAME`); HURDAT2; NRL, ATCF "Best Track/Objective Aid/Wind Radii Format".
const NAMELESS: [&str; 5] = ["UNNAMED", "NOT_NAMED", "NONAME", "NAMELESS", "INVEST"];

/// The identity of a track in its source file; empty for tracks found by this program.
///
/// # Example
/// ```
/// use squall_climate::track::Identity;
/// let mut identity = Identity::default();
/// for name in ["INVEST", "TWELVE", "KATRINA", ""] {
///     identity.call(name);
/// }
/// assert_eq!(identity.name.as_deref(), Some("KATRINA"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its identifier in the source file, such as IBTrACS' SID.
    pub source_id: Option<String>,
    /// The name of its storm.
    pub name: Option<String>,
}

impl Identity {
    /// Takes the storm's name at a point. The last name counts, because storms are named during their life.
    pub fn call(&mut self, name: &str) {
        let name = name.trim();
        let is_none = |word: &&str| name.eq_ignore_ascii_case(word);
        if name.is_empty() || NAMELESS.iter().any(is_none) || self.name.as_deref() == Some(name) {
            return;
        }
        self.name = Some(name.into());
    }
}
