//! Rivers that merge and split consist of several tracks, each a piece of a river's life.

use super::{Fate, Origin, Track};
use crate::compare::listed;
use squall_data::Class;

/// Whether a river track starts with a split or ends in a merge, and is therefore shorter than the river's life. An
/// unknown origin or fate counts as neither.
pub(crate) fn is_piece(class: Class, origin: Option<Origin>, fate: Option<Fate>) -> bool {
    let meets = origin == Some(Origin::Split) || fate == Some(Fate::Merge);
    class == Class::AtmosphericRiver && meets
}

/// Number of river tracks that are pieces, among those with a known origin or fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    known: usize,
    pieces: usize,
}

impl Pieces {
    /// Counts the pieces of some tracks.
    pub(crate) fn of(tracks: &[Track]) -> Self {
        let mut all = Self::default();
        for track in tracks {
            all.add(track.class, Some(track.origin), Some(track.fate));
        }
        all
    }

    /// Counts a track if it is a river.
    pub(crate) fn add(&mut self, class: Class, origin: Option<Origin>, fate: Option<Fate>) {
        if class == Class::AtmosphericRiver && (origin.is_some() || fate.is_some()) {
            self.known += 1;
            self.pieces += usize::from(is_piece(class, origin, fate));
        }
    }

    /// The sum of both counts.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            known: self.known + other.known,
            pieces: self.pieces + other.pieces,
        }
    }
}

/// A note on pieces for numbers of river tracks, from counts with their names; `None` if there are no pieces.
pub(crate) fn note_of_pieces(of: &[(String, Pieces)]) -> Option<String> {
    if of.iter().all(|(_, count)| count.pieces == 0) {
        return None;
    }
    let known = of.iter().filter(|(_, count)| count.known > 0);
    let mut noun = "the tracks";
    let shares: Vec<String> = known
        .map(|(name, count)| {
            let noun = std::mem::replace(&mut noun, "those");
            format!("{} of {noun} of {name}", percent(*count))
        })
        .collect();
    Some(format!(
        "Numbers of atmospheric rivers are of pieces between mergers: {} split from another river or ended in one.",
        listed(&shares)
    ))
}

/// The share in words; never 0 if there are some.
fn percent(count: Pieces) -> String {
    let share = 100.0 * count.pieces as f64 / count.known as f64;
    if share > 0.0 && share < 0.5 {
        "less than 1 %".into()
    } else {
        format!("{share:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_pieces_is_of_the_rivers_that_tell_their_ends() {
        let mut count = Pieces::default();
        let river = Class::AtmosphericRiver;
        for (class, origin, fate) in [
            (river, Some(Origin::Genesis), Some(Fate::Lysis)),
            (river, Some(Origin::StartOfData), Some(Fate::EndOfData)),
            (river, Some(Origin::Split), Some(Fate::Lysis)),
            (river, None, Some(Fate::Merge)),
            (river, None, None),
            (
                Class::TropicalCyclone,
                Some(Origin::Split),
                Some(Fate::Merge),
            ),
        ] {
            count.add(class, origin, fate);
        }
        assert_eq!((count.known, count.pieces), (4, 2));
        let few = Pieces {
            known: 400,
            pieces: 1,
        };
        let none = Pieces {
            known: 9,
            pieces: 0,
        };
        let named = |of: &[(&str, Pieces)]| {
            let of: Vec<(String, Pieces)> = of.iter().map(|(n, c)| (n.to_string(), *c)).collect();
            note_of_pieces(&of)
        };
        let begin = "Numbers of atmospheric rivers are of pieces between mergers: ";
        let end = " split from another river or ended in one.";
        for (of, said) in [
            (&[("a", count)][..], "50 % of the tracks of a"),
            (
                &[("a", few), ("b", none)],
                "less than 1 % of the tracks of a and 0 % of those of b",
            ),
            // The origins and fates of b are unknown.
            (
                &[("b", Pieces::default()), ("a", count.and(count))],
                "50 % of the tracks of a",
            ),
        ] {
            assert_eq!(named(of), Some(format!("{begin}{said}{end}")));
        }
        assert_eq!(named(&[("a", none), ("b", Pieces::default())]), None);
    }
}
