//! Tells the tracks and points of tropical cyclones in IBTrACS from others: spurs, extratropical stages, disturbances.

use std::collections::HashSet;

/// Names of spur tracks, which are left out.
///
/// A spur is a part of a storm that some agency saw elsewhere: counted as a storm it would be one too many.
///
/// # Source
/// Technical documentation of IBTrACS v04r00, `TRACK_TYPE`: `main`, `spur` and both as `PROVISIONAL`.
#[derive(Debug, Default)]
pub(super) struct Spurs(HashSet<String>);

impl Spurs {
    /// Whether a track is a spur; if so its name is kept for [`Self::note`].
    pub fn is_one(&mut self, track: &str, track_type: &str) -> bool {
        let spur = track_type.to_ascii_lowercase().contains("spur");
        if spur && !self.0.contains(track) {
            self.0.insert(track.into());
        }
        spur
    }

    /// How many there were, for people.
    pub fn note(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| {
            format!(
                "{} tracks are spurs (`TRACK_TYPE`), parts of other storms, and are left out",
                self.0.len()
            )
        })
    }
}

/// Words for the stages that follow, which data frames of best tracks have.
///
/// # Source
/// R's `dplyr::storms`.
const OTHERS_IN_WORDS: [&str; 6] = [
    "extratropical",
    "post-tropical",
    "tropical wave",
    "other low",
    "low",
    "disturbance",
];

/// Whether the wind of a point is not a tropical cyclone's: IBTrACS calls it extratropical (`ET`) or a disturbance
/// (`DS`), or words do. Subtropical storms (`SS`) count, as in the totals of their agencies, and so do points of mixed
/// (`MX`) or no report (`NR`).
pub(super) fn is_other(nature: &str) -> bool {
    is_among(nature, &["ET", "DS"]) || is_among(nature, &OTHERS_IN_WORDS)
}

/// The same by the status that US agencies give a point: those that IBTrACS counts as post-tropical or as other
/// disturbances, with no category; or the words for these codes.
///
/// # Source
/// Column documentation of IBTrACS v04r00, `USA_SSHS` -4 and -3.
pub(super) fn is_other_status(status: &str) -> bool {
    let post_tropical = ["EX", "ET", "PT"];
    let disturbances = ["WV", "LO", "DB", "DS", "IN", "MD"];
    is_among(status, &post_tropical)
        || is_among(status, &disturbances)
        || is_among(status, &OTHERS_IN_WORDS)
}

fn is_among(code: &str, codes: &[&str]) -> bool {
    codes.iter().any(|other| code.eq_ignore_ascii_case(other))
}
