//! Distinguishes tropical cyclones in IBTrACS from spurs, extratropical stages and disturbances.

use std::collections::HashSet;

/// Types of spur tracks, which are dropped.
///
/// A spur is a segment of a storm's track according to another agency; counting it would count the storm twice.
///
/// # Source
/// Technical documentation of IBTrACS v04r00, `TRACK_TYPE`: `main`, `spur` and both as `PROVISIONAL`.
#[derive(Debug, Default)]
pub(super) struct Spurs(HashSet<String>);

impl Spurs {
    /// Whether a track is a spur; if so, its name is kept for [`Self::note`].
    pub fn is_spur(&mut self, track: &str, track_type: &str) -> bool {
        let spur = track_type.to_ascii_lowercase().contains("spur");
        if spur && !self.0.contains(track) {
            self.0.insert(track.into());
        }
        spur
    }

    /// A note on the number of spurs.
    pub fn note(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| {
            format!(
                "{} tracks are spurs (`TRACK_TYPE`), parts of other storms, and are left out",
                self.0.len()
            )
        })
    }
}

/// Words for the following stages, as used in data frames of best tracks.
///
/// # Source
/// R's `dplyr::storms`.
const OTHER_NATURES: [&str; 6] = [
    "extratropical",
    "post-tropical",
    "tropical wave",
    "other low",
    "low",
    "disturbance",
];

/// Whether the wind of a point does not belong to a tropical cyclone: IBTrACS' nature is extratropical (`ET`) or
/// disturbance (`DS`), or the equivalent word. Subtropical storms (`SS`) count as tropical, as in the totals of their
/// agencies, and so do mixed (`MX`) and missing reports (`NR`).
pub(super) fn is_other_nature(nature: &str) -> bool {
    is_among(nature, &["ET", "DS"]) || is_among(nature, &OTHER_NATURES)
}

/// The same by the status codes of US agencies: those that IBTrACS classifies as post-tropical or as other
/// disturbances, without a category; or the words for these codes.
///
/// # Source
/// Column documentation of IBTrACS v04r00, `USA_SSHS` -4 and -3.
pub(super) fn is_other_status(status: &str) -> bool {
    let post_tropical = ["EX", "ET", "PT"];
    let disturbances = ["WV", "LO", "DB", "DS", "IN", "MD"];
    is_among(status, &post_tropical)
        || is_among(status, &disturbances)
        || is_among(status, &OTHER_NATURES)
}

fn is_among(code: &str, codes: &[&str]) -> bool {
    codes.iter().any(|other| code.eq_ignore_ascii_case(other))
}
