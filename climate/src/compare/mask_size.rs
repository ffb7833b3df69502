//! A note where the area of cyclones is the size of a mask that does not grow as they do.

use super::names::Names;
use super::side::Ensemble;
use super::unequal::lacking;
use super::{ChangeRow, Quantity};
use std::collections::BTreeMap;

/// What follows from the area of cyclones.
const OF_AREA: [Quantity; 3] = [
    Quantity::CycloneArea,
    Quantity::CycloneRain,
    Quantity::CycloneWater,
];

/// By what masks are drawn whose cyclones are as large as a box that was searched, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrawnBy {
    Deepcam,
    Network,
}

impl DrawnBy {
    /// What rules of events tell of the masks; nothing of those of other methods, and of other tools.
    fn of(rules: &BTreeMap<String, String>) -> Option<Self> {
        // The share of its box that a cyclone of deepcam fills; the network that drew masks.
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

/// The note on the size of masks, if one of these quantities follows from it; `drawn` says whose masks are drawn by what.
fn sentence(quantities: impl IntoIterator<Item = Quantity>, drawn: &[String]) -> Option<String> {
    let follows = quantities.into_iter().any(|q| OF_AREA.contains(&q));
    (follows && !drawn.is_empty()).then(|| {
        format!(
            "The area of tropical cyclones, and with it the rain inside, is that of masks ({}), which grow with the box that the rules search, not with the storm alone: where winds exceed 17.5 m/s over 27,000 and over 405,000 km² masks have 357,000 and 688,000 km². For the size of storms take gale_radius_km of events.csv.",
            drawn.join("; ")
        )
    })
}

/// The note for a comparison that has these rows.
pub(super) fn note(names: &Names, sides: [&Ensemble; 2], changes: &[ChangeRow]) -> Option<String> {
    let drawn = [DrawnBy::Deepcam, DrawnBy::Network].map(|by| {
        let runs = lacking(sides, |run| DrawnBy::of(&run.coverage.rules) != Some(by));
        (!runs.is_empty()).then(|| format!("{}: {}", names.who(&runs), by.words()))
    });
    let drawn: Vec<String> = drawn.into_iter().flatten().collect();
    sentence(changes.iter().map(|row| row.quantity), &drawn)
}

/// The note for one run, of which these quantities are known.
pub(crate) fn note_of_run(
    label: &str,
    rules: &BTreeMap<String, String>,
    known: &[Quantity],
) -> Option<String> {
    let drawn = DrawnBy::of(rules).map(|by| format!("{label}: {}", by.words()));
    sentence(known.iter().copied(), drawn.as_slice())
}
