//! A note for comparisons in which the area of cyclones is the size of masks that do not scale with the storm.

use super::names::Names;
use super::side::Ensemble;
use super::unequal::lacking;
use super::{ChangeRow, Quantity};
use std::collections::BTreeMap;

/// The quantities that depend on the area of cyclones.
const AREA_QUANTITIES: [Quantity; 3] = [
    Quantity::CycloneArea,
    Quantity::CycloneRain,
    Quantity::CycloneWater,
];

/// Methods of making masks in which the size of cyclones does, or may, depend on a search box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrawnBy {
    Deepcam,
    Network,
}

impl DrawnBy {
    /// The method recorded in the rules of the masks; `None` for other methods and other tools.
    fn from_rules(rules: &BTreeMap<String, String>) -> Option<Self> {
        // deepcam's cyclones fill a share of a box; the second rule identifies a network.
        if rules.contains_key("masks.cyclone.mask_percentile") {
            Some(Self::Deepcam)
        } else if rules.contains_key("masks.squall_model_hash") {
            Some(Self::Network)
        } else {
            None
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Deepcam => "by the deepcam rules",
            Self::Network => "by a network, if it learnt from the deepcam rules",
        }
    }
}

/// The note on the size of masks, if one of the quantities depends on it; `drawn` names runs and methods.
fn sentence(quantities: impl IntoIterator<Item = Quantity>, drawn: &[String]) -> Option<String> {
    let follows = quantities.into_iter().any(|q| AREA_QUANTITIES.contains(&q));
    (follows && !drawn.is_empty()).then(|| {
        format!(
            "The area of tropical cyclones, and with it the rain inside, is that of masks ({}), which grow with the box that the rules search, not with the storm alone: where winds exceed 17.5 m/s over 27,000 and over 405,000 km² masks have 357,000 and 688,000 km². For the size of storms take gale_radius_km of events.csv.",
            drawn.join("; ")
        )
    })
}

/// The note for a comparison with these rows.
pub(super) fn note(names: &Names, sides: [&Ensemble; 2], changes: &[ChangeRow]) -> Option<String> {
    let drawn = [DrawnBy::Deepcam, DrawnBy::Network].map(|by| {
        let runs = lacking(sides, |run| {
            DrawnBy::from_rules(&run.coverage.rules) != Some(by)
        });
        (!runs.is_empty()).then(|| format!("{}: {}", names.format_runs(&runs), by.words()))
    });
    let drawn: Vec<String> = drawn.into_iter().flatten().collect();
    sentence(changes.iter().map(|row| row.quantity), &drawn)
}

/// The note for one run with these known quantities.
pub(crate) fn note_of_run(
    label: &str,
    rules: &BTreeMap<String, String>,
    known: &[Quantity],
) -> Option<String> {
    let drawn = DrawnBy::from_rules(rules).map(|by| format!("{label}: {}", by.words()));
    sentence(known.iter().copied(), drawn.as_slice())
}
