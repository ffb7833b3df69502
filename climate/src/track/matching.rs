//! Matches the tracks of a class with its events at one time: continuations, merges and splits.

use crate::track::assign::{Pair, assign};
use crate::track::options::Linking;

/// A track and an event whose centres are within reach, or whose cells overlap.
pub(super) struct Link {
    pub track: usize,
    pub event: usize,
    pub overlap_km2: f64,
    /// The overlap as a share of the smaller area.
    pub share: f64,
    /// Direction from the track to the event: 0 is farthest east, 1 farthest west.
    pub west: f64,
    /// Set if the event may continue the track.
    pub pair: Option<Pair>,
}

/// The continuations, and the remaining overlaps.
pub(super) struct Matching {
    /// The event that continues each track.
    pub event_of: Vec<Option<usize>>,
    /// The track that each event continues.
    pub track_of: Vec<Option<usize>>,
    /// Overlaps large enough for splits and merges.
    overlaps: Vec<Link>,
    /// Whether tracks may also merge into new tracks, and new tracks may split from ended ones.
    forks: bool,
}

impl Matching {
    /// Computes the minimum-cost assignment of tracks and events.
    pub(super) fn of(
        mut links: Vec<Link>,
        (tracks, events): (usize, usize),
        linking: &Linking,
    ) -> Self {
        let pairs: Vec<Pair> = links.iter().filter_map(|link| link.pair).collect();
        let event_of = assign(tracks, events, &pairs);
        let mut track_of = vec![None; events];
        for (track, event) in event_of.iter().enumerate() {
            if let Some(event) = *event {
                track_of[event] = Some(track);
            }
        }
        links.retain(|link| link.share > 0.0 && link.share >= linking.min_overlap);
        Self {
            event_of,
            track_of,
            overlaps: links,
            forks: linking.min_common > 0.0,
        }
    }

    /// The track from which a new track at an event splits: of the allowed ones, the one with the largest overlap.
    pub(super) fn parent_of(&self, event: usize) -> Option<usize> {
        let of_event = self.overlaps.iter().filter(|link| link.event == event);
        let parents = of_event.filter(|link| self.forks || self.event_of[link.track].is_some());
        most_overlap(parents).map(|link| link.track)
    }

    /// All tracks that overlap an event.
    pub(super) fn sources_of(&self, event: usize) -> impl Iterator<Item = usize> {
        let of_event = self.overlaps.iter().filter(move |link| link.event == event);
        of_event.map(|link| link.track)
    }

    /// The event in which an unmatched track ends: of the allowed ones, the one with the largest overlap.
    pub(super) fn ends_in(&self, track: usize) -> Option<usize> {
        if self.event_of[track].is_some() {
            return None;
        }
        let of_track = self.overlaps.iter().filter(|link| link.track == track);
        let ends = of_track.filter(|link| self.forks || self.track_of[link.event].is_some());
        most_overlap(ends).map(|link| link.event)
    }
}

/// The link with the largest overlap; on ties the one with the larger share, then the most easterly one.
fn most_overlap<'a>(links: impl Iterator<Item = &'a Link>) -> Option<&'a Link> {
    // Sums of the same areas in a different order differ in their last bits.
    let differ = |x: f64, y: f64| (x - y).abs() > 1e-9 * x.max(y);
    links.reduce(|a, b| {
        let more = if differ(a.overlap_km2, b.overlap_km2) {
            b.overlap_km2 > a.overlap_km2
        } else if differ(a.share, b.share) {
            b.share > a.share
        } else {
            b.west < a.west
        };
        if more { b } else { a }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::TrackerOptions;

    /// Events 0 and 1 continue tracks 0 and 1. Event 2 and track 2 overlap both. They overlap each other most, but
    /// track 2 does not continue in event 2.
    fn links() -> Vec<Link> {
        let link = |track, event, overlap_km2: f64, cost: Option<f64>| Link {
            track,
            event,
            overlap_km2,
            share: 0.5,
            west: 0.5,
            pair: cost.map(|cost| Pair { track, event, cost }),
        };
        vec![
            link(0, 0, 9.0, Some(0.1)),
            link(0, 2, 1.0, None),
            link(1, 1, 9.0, Some(0.1)),
            link(1, 2, 3.0, None),
            link(2, 0, 4.0, None),
            link(2, 1, 2.0, None),
            link(2, 2, 8.0, None),
        ]
    }

    fn matching(min_overlap: f64, min_common: f64) -> Matching {
        let linking = Linking {
            min_overlap,
            min_common,
            ..TrackerOptions::default().tropical_cyclone
        };
        Matching::of(links(), (3, 3), &linking)
    }

    #[test]
    fn relatives_are_those_that_go_on_and_share_most() {
        let found = matching(0.2, 0.0);
        assert_eq!(found.event_of, [Some(0), Some(1), None]);
        assert_eq!(found.track_of, [Some(0), Some(1), None]);
        assert_eq!(found.parent_of(2), Some(1));
        assert_eq!(found.ends_in(2), Some(0));
        assert!(found.sources_of(2).eq([0, 1, 2]));
        // A continued track does not merge.
        assert_eq!(found.ends_in(0), None);
        // An overlap of exactly the minimum share counts.
        assert_eq!(matching(0.5, 0.0).parent_of(2), Some(1));
        let strict = matching(0.6, 0.0);
        assert_eq!((strict.parent_of(2), strict.ends_in(2)), (None, None));
    }

    /// Track 2 ends, and event 2 starts a track. With `min_common`, a pair with too little in common is related instead
    /// of continued.
    #[test]
    fn where_tracks_fork_also_what_does_not_go_on_is_a_relative() {
        let found = matching(0.2, 0.5);
        assert_eq!((found.parent_of(2), found.ends_in(2)), (Some(2), Some(2)));
        assert_eq!(found.ends_in(0), None);
    }
}
