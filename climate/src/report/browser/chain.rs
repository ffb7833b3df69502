//! Joins boxes without track numbers over time.

use squall_data::Time;
use squall_data::boxes::{BoxFrame, GeoBox};

/// Minimum overlap (intersection over union) for joining two boxes of a class.
pub(super) const MIN_OVERLAP: f64 = 0.1;
/// Maximum number of consecutive times without a box between two joined boxes.
const MAX_MISSED_TIMES: usize = 1;
/// Maximum hours between joined boxes, however few times lie between them.
const MAX_HOURS: i64 = 24;

/// Boxes of one storm or river in time order; never empty.
pub(super) type Chain = Vec<(Time, GeoBox)>;

/// A chain that later boxes may still join.
struct OpenChain {
    chain: Chain,
    /// Index of the frame with its last box.
    seen: usize,
}

/// Joins the untracked boxes to chains, ordered by their first times. A box may join the chain of its class whose last
/// box it overlaps. Pairs are joined in descending order of overlap, one to one: a chain takes at most one box per
/// time, and a box joins at most one chain.
pub(super) fn chains(frames: &[BoxFrame]) -> Vec<Chain> {
    let mut done: Vec<Chain> = Vec::new();
    let mut open: Vec<OpenChain> = Vec::new();
    for (place, frame) in frames.iter().enumerate() {
        let untracked = frame.boxes.iter().filter(|found| found.track_id.is_none());
        let boxes: Vec<GeoBox> = untracked.map(|found| found.geo).collect();
        let lost = |chain: &OpenChain| {
            let last = chain.chain[chain.chain.len() - 1].0;
            place - chain.seen > MAX_MISSED_TIMES + 1
                || frame.time.seconds_since(last) > MAX_HOURS * 3600
        };
        let (ended, alive): (Vec<OpenChain>, Vec<OpenChain>) = open.into_iter().partition(lost);
        done.extend(ended.into_iter().map(|chain| chain.chain));
        open = alive;
        let mut pairs = pairs(&open, &boxes);
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let (mut taken, mut joined) = (vec![false; boxes.len()], vec![false; open.len()]);
        for (_, chain, found) in pairs {
            if !taken[found] && !joined[chain] {
                (taken[found], joined[chain]) = (true, true);
                open[chain].chain.push((frame.time, boxes[found]));
                open[chain].seen = place;
            }
        }
        let new = boxes.iter().zip(taken).filter(|(_, taken)| !taken);
        open.extend(new.map(|(geo, _)| OpenChain {
            chain: vec![(frame.time, *geo)],
            seen: place,
        }));
    }
    done.extend(open.into_iter().map(|chain| chain.chain));
    let first = frames.first().map(|frame| frame.time);
    done.sort_by_key(|chain| first.map(|first| chain[0].0.seconds_since(first)));
    done
}

/// All pairs that may be joined: overlap, index of the chain, index of the box.
fn pairs(open: &[OpenChain], boxes: &[GeoBox]) -> Vec<(f64, usize, usize)> {
    let mut pairs = Vec::new();
    for (chain, last) in open.iter().enumerate() {
        let last = &last.chain[last.chain.len() - 1].1;
        for (found, geo) in boxes.iter().enumerate() {
            if geo.class == last.class {
                let overlap = geo.overlap(last);
                if overlap >= MIN_OVERLAP {
                    pairs.push((overlap, chain, found));
                }
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;
    use squall_data::boxes::{BoxClass, TrackedBox};

    fn geo(class: BoxClass, west_deg: f64) -> TrackedBox {
        TrackedBox::from(GeoBox {
            class,
            west_deg: west_deg.rem_euclid(360.0),
            south_deg: 30.0,
            east_deg: (west_deg + 10.0).rem_euclid(360.0),
            north_deg: 40.0,
            confidence: None,
        })
    }

    fn frame(hour: i64, boxes: Vec<TrackedBox>) -> BoxFrame {
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        BoxFrame {
            time: start.add_seconds(3600 * hour),
            boxes,
        }
    }

    /// The western edges of the boxes of each chain.
    fn edges(frames: &[BoxFrame]) -> Vec<Vec<f64>> {
        let chains = chains(frames);
        let west = |chain: &Chain| chain.iter().map(|(_, geo)| geo.west_deg).collect();
        chains.iter().map(west).collect()
    }

    #[test]
    fn boxes_that_overlap_are_one_chain_over_the_seam_and_over_a_missed_time() {
        let low = BoxClass::ExtratropicalCyclone;
        let at = |west: f64| geo(low, west);
        let frames = [
            frame(0, vec![at(352.0), at(100.0)]),
            frame(6, vec![at(355.0)]),
            frame(12, vec![at(358.0), at(104.0)]),
            frame(18, vec![at(2.0)]),
        ];
        assert_eq!(
            edges(&frames),
            [vec![352.0, 355.0, 358.0, 2.0], vec![100.0, 104.0]]
        );
    }

    #[test]
    fn classes_far_boxes_holes_and_tracked_boxes_are_not_joined() {
        let (low, river) = (BoxClass::ExtratropicalCyclone, BoxClass::AtmosphericRiver);
        let tracked = TrackedBox {
            track_id: Some(4),
            ..geo(low, 200.0)
        };
        let frames = [
            frame(0, vec![geo(low, 50.0), tracked]),
            frame(6, vec![geo(river, 50.0), geo(low, 59.0), tracked]),
            frame(36, vec![geo(river, 50.0)]),
        ];
        // 59 overlaps 50 by one degree of nineteen, less than a tenth.
        assert_eq!(
            edges(&frames),
            [vec![50.0], vec![50.0], vec![59.0], vec![50.0]]
        );
    }

    #[test]
    fn the_largest_overlap_decides() {
        let low = BoxClass::ExtratropicalCyclone;
        let at = |west: f64| geo(low, west);
        let frames = [
            frame(0, vec![at(10.0), at(14.0)]),
            frame(6, vec![at(13.0), at(17.0)]),
        ];
        assert_eq!(edges(&frames), [vec![10.0, 17.0], vec![14.0, 13.0]]);
    }
}
