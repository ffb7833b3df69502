//! The results of `squall events`, as text and JSON.

use crate::plan::counted;
use serde::Serialize;
use squall_climate::detect::TransportSource;
use squall_climate::events::ExtractOptions;
use squall_climate::stream::EventCounts;
use squall_data::{Class, Time};
use std::path::PathBuf;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct EventsSummary {
    /// Times, objects and tracks.
    #[serde(flatten)]
    pub counts: EventCounts,
    /// Times done before by an interrupted run.
    pub resumed_after: usize,
    /// Files in other formats.
    pub files: Vec<PathBuf>,
    /// Number of unusable files of masks and fields (`--skip-bad`).
    pub skipped_files: usize,
    /// Number of times in other files whose masks cannot be used (`--skip-bad`).
    pub unread_times: usize,
    /// Number of those among them whose masks have only missing values.
    pub times_without_mask: usize,
    /// Share of the cells of all other masks that are missing, 0 to 1.
    pub missing_share: f64,
    /// The quantity that rivers are ranked by: the files' vapour transport (`file`), its integral over `levels`, or a
    /// `proxy`.
    pub transport: Option<&'static str>,
    /// Classes whose absence is meaningful.
    #[serde(skip)]
    pub looked_for: Vec<Class>,
}

impl EventsSummary {
    /// Describes what was found; classes without events are mentioned only if they were searched for.
    pub(super) fn found(&self) -> String {
        let counts = self.counts;
        let (cyclones, rivers) = (counts.cyclones, counts.rivers);
        let of_masks = [
            (
                Class::TropicalCyclone,
                cyclones,
                "cyclone",
                counts.cyclone_tracks,
            ),
            (
                Class::AtmosphericRiver,
                rivers,
                "river",
                counts.river_tracks,
            ),
        ];
        let told = (of_masks.into_iter())
            .filter(|(class, found, ..)| *found > 0 || self.looked_for.contains(class))
            .map(|(_, found, word, tracks)| (counted(found, word), tracks));
        let others = (counts.others > 0).then(|| {
            let found = format!("{} depressions and extratropical cyclones", counts.others);
            (found, counts.other_tracks)
        });
        let parts: Vec<String> = (told.chain(others))
            .map(|(found, tracks)| format!("{found} on {}", counted(tracks, "track")))
            .collect();
        if parts.is_empty() {
            "nothing found".into()
        } else {
            parts.join(", ")
        }
    }

    /// A message if the masks have cyclones but none of them is an event.
    pub(super) fn all_too_small(&self, options: ExtractOptions) -> Option<String> {
        let small = self.counts.small_cyclones;
        (self.counts.cyclones == 0 && small > 0).then(|| {
            format!(
                "no cyclone is kept: the masks have {} of cyclones, none of {} km² or more; --min-cyclone-km2 0 keeps \
                 all of them",
                counted(small, "area"),
                options.min_tropical_cyclone_km2
            )
        })
    }

    /// A message if the masks have fewer areas of cyclones than the cyclones that are `listed` beside them.
    pub(super) fn joined(&self, listed: usize) -> Option<String> {
        let areas = self.counts.cyclones + self.counts.small_cyclones;
        // Of times that were not read nothing is known.
        (areas < listed && self.unread_times == 0).then(|| {
            format!(
                "{} are {} of the masks: those that touch count as one",
                counted(listed, "labelled cyclone"),
                counted(areas, "connected area")
            )
        })
    }

    /// A note about river ranks that are not based on vapour transport, as the end of a sentence.
    pub(super) fn by_proxy(&self) -> &'static str {
        if self.counts.rivers > 0 && self.transport == Some(TransportSource::Proxy.name()) {
            "; ranks of rivers (ar_scale) are by a proxy of vapour transport"
        } else {
            ""
        }
    }

    /// Describes what was left out, as the end of a sentence.
    pub(super) fn left_out(&self) -> String {
        let counted = [
            ("files skipped", self.skipped_files),
            (
                "times of others",
                self.unread_times - self.times_without_mask,
            ),
            ("times with only missing values", self.times_without_mask),
            ("times without their fields", self.counts.unread_fields),
        ];
        let some = counted.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = some
            .map(|(what, count)| format!("{what}: {count}"))
            .collect();
        if parts.is_empty() {
            String::new()
        } else {
            format!("; {}", parts.join(", "))
        }
    }
}

/// A message if the masks of these times have only missing values.
pub(super) fn without_mask(times: &[Time]) -> Option<String> {
    let (first, last) = (times.first()?, times.last()?);
    Some(match times.len() {
        1 => format!("the mask of {first} has only missing values and is left out"),
        count => format!(
            "the masks of {count} times have only missing values and are left out, the first of {first}, the last of {last}"
        ),
    })
}

/// A message if this share of the cells of all masks is missing.
pub(super) fn with_missing(share: f64) -> Option<String> {
    (share > 0.0).then(|| {
        format!(
            "{:.3} % of the cells of all masks are missing: they do not count in the frequency of classes, and whether \
             there were events is unknown",
            100.0 * share
        )
    })
}
