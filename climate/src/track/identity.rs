//! What a track of another tool is called there.

use serde::{Deserialize, Serialize};

/// Words that stand where a storm has no name, in any case.
///
/// # Source
/// Column documentation of IBTrACS v04 (`NAME`); HURDAT2; NRL, ATCF "Best Track/Objective Aid/Wind Radii Format".
const NAMELESS: [&str; 5] = ["UNNAMED", "NOT_NAMED", "NONAME", "NAMELESS", "INVEST"];

/// What a track is called where it came from; nothing of tracks that this program found.
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
    /// Its identity in the file that it was read from, such as IBTrACS' SID.
    pub source_id: Option<String>,
    /// The name of its storm.
    pub name: Option<String>,
}

impl Identity {
    /// Takes in what its storm is called at a point: the last name counts, as storms are named while they live.
    pub fn call(&mut self, name: &str) {
        let name = name.trim();
        let is_none = |word: &&str| name.eq_ignore_ascii_case(word);
        if name.is_empty() || NAMELESS.iter().any(is_none) || self.name.as_deref() == Some(name) {
            return;
        }
        self.name = Some(name.into());
    }
}
