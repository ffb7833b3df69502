//! Whole tracks found, missed and invented.

use crate::event_scores::{classes_of, percent};
use serde::{Deserialize, Serialize};
use squall_climate::Event;
use squall_data::grid::distance_km;
use squall_data::{Class, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// When a predicted track follows a true one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrackRules {
    /// Largest distance of points of one time, cyclones.
    pub tc_radius_km: f64,
    /// Largest distance of points of one time, atmospheric rivers.
    pub ar_radius_km: f64,
    /// Share of a track's points that must have a point of the other track near.
    pub min_share: f64,
}

impl Default for TrackRules {
    /// 300 km for cyclones, 1000 km for rivers, half of the points.
    fn default() -> Self {
        Self {
            tc_radius_km: 300.0,
            ar_radius_km: 1000.0,
            min_share: 0.5,
        }
    }
}

/// How well the tracks of one class were found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrackScore {
    /// Which class.
    pub class: Class,
    /// True tracks.
    pub true_tracks: u64,
    /// True tracks that one predicted track follows for the demanded share of the true points.
    pub hits: u64,
    /// Predicted tracks.
    pub predicted_tracks: u64,
    /// Predicted tracks that follow no true track for the demanded share of their own points.
    pub false_alarms: u64,
    /// hits / true tracks.
    pub pod: Option<f64>,
    /// false alarms / predicted tracks.
    pub far: Option<f64>,
    /// Mean distance of the points of hit tracks from the best predicted track, where that is near.
    pub mean_distance_km: Option<f64>,
    /// Predicted tracks per true track that is followed by any: above 1, tracks are broken into pieces.
    pub pieces_per_track: Option<f64>,
}

/// How well tracks were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrackScores {
    /// By which rules.
    pub rules: TrackRules,
    /// Tropical cyclones, atmospheric rivers, and what else either side has.
    pub classes: Vec<TrackScore>,
    /// Classes that are not scored, because a side has not followed them.
    #[serde(default)]
    pub unfollowed: Vec<Unfollowed>,
}

/// A class of which one side has objects but no track at all: they were not tracked, so its tracks cannot be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfollowed {
    /// Which class.
    pub class: Class,
    /// Objects of the truth, if none of them is on a track.
    pub true_objects: Option<u64>,
    /// Predicted objects, if none of them is on a track.
    pub predicted_objects: Option<u64>,
}

impl Unfollowed {
    /// `None` if both sides have tracks of a class, or no objects of it.
    fn of(class: Class, truth: &[Event], predicted: &[Event]) -> Option<Self> {
        let objects = |events: &[Event]| {
            let of_class = events.iter().filter(|event| event.class == class);
            let tracked = of_class.clone().any(|event| event.track_id.is_some());
            Some(of_class.count() as u64).filter(|&count| count > 0 && !tracked)
        };
        let [true_objects, predicted_objects] = [truth, predicted].map(objects);
        (true_objects.is_some() || predicted_objects.is_some()).then_some(Self {
            class,
            true_objects,
            predicted_objects,
        })
    }
}

/// The points of tracks by identity.
pub(crate) type TrackPoints<'a> = BTreeMap<u64, Vec<&'a Event>>;

/// Scores predicted tracks against true ones, all classes of which were followed on both sides: events without a track
/// were seen too shortly to have one, and are left out.
pub fn score_tracks(truth: &[Event], predicted: &[Event], rules: &TrackRules) -> TrackScores {
    let classes =
        classes_of(truth, predicted).map(|class| score_class(class, truth, predicted, rules));
    TrackScores {
        rules: *rules,
        classes: classes.collect(),
        unfollowed: Vec::new(),
    }
}

/// The same scores for tables whose objects may not have been joined to tracks, as the rivers of labels: a class has
/// no score if a side has objects of it, but not one track.
pub fn score_listed_tracks(
    truth: &[Event],
    predicted: &[Event],
    rules: &TrackRules,
) -> TrackScores {
    let mut scores = score_tracks(truth, predicted, rules);
    scores.unfollowed = classes_of(truth, predicted)
        .filter_map(|class| Unfollowed::of(class, truth, predicted))
        .collect();
    let unfollowed = |class: Class| scores.unfollowed.iter().any(|one| one.class == class);
    scores.classes.retain(|score| !unfollowed(score.class));
    scores
}

/// The tracks of events; those without a track are left out.
pub(crate) fn by_track<'a>(events: impl IntoIterator<Item = &'a Event>) -> TrackPoints<'a> {
    let mut tracks = TrackPoints::new();
    for event in events {
        if let Some(id) = event.track_id {
            tracks.entry(id).or_default().push(event);
        }
    }
    tracks
}

/// How near one track is to another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nearness {
    /// Points of the one at whose time the other is near.
    pub points: usize,
    distance_sum_km: f64,
}

impl Nearness {
    /// Mean distance at those points.
    pub(crate) fn mean_km(&self) -> f64 {
        self.distance_sum_km / self.points as f64
    }

    /// The nearer one is greater: by more points near, then by the lesser sum of distances.
    fn by_points(&self, other: &Self) -> Ordering {
        let by_distance = || other.distance_sum_km.total_cmp(&self.distance_sum_km);
        self.points.cmp(&other.points).then_with(by_distance)
    }
}

/// For every track of `own`, how near which of the `others` are, by their identities.
pub(crate) fn near<'a>(
    own: &TrackPoints<'a>,
    others: &TrackPoints<'a>,
    radius_km: f64,
) -> Vec<BTreeMap<u64, Nearness>> {
    let mut by_time: HashMap<Time, Vec<(u64, &Event)>> = HashMap::new();
    for (&id, points) in others {
        for point in points {
            by_time.entry(point.time).or_default().push((id, point));
        }
    }
    let of_track = |points: &Vec<&Event>| {
        let mut near: BTreeMap<u64, Nearness> = BTreeMap::new();
        for point in points {
            // Nearest point of each other track: a track has one point per time, but a table may say otherwise.
            let mut nearest: BTreeMap<u64, f64> = BTreeMap::new();
            for (id, other) in by_time.get(&point.time).into_iter().flatten() {
                let distance =
                    distance_km(point.lat_deg, point.lon_deg, other.lat_deg, other.lon_deg);
                if distance <= radius_km {
                    let best = nearest.entry(*id).or_insert(distance);
                    *best = best.min(distance);
                }
            }
            for (id, distance) in nearest {
                let entry = near.entry(id).or_default();
                entry.points += 1;
                entry.distance_sum_km += distance;
            }
        }
        near
    };
    own.values().map(of_track).collect()
}

fn score_class(
    class: Class,
    truth: &[Event],
    predicted: &[Event],
    rules: &TrackRules,
) -> TrackScore {
    let radius_km = match class {
        Class::AtmosphericRiver => rules.ar_radius_km,
        _ => rules.tc_radius_km,
    };
    let [truth, predicted] =
        [truth, predicted].map(|events| by_track(events.iter().filter(|e| e.class == class)));
    let follows =
        |near: usize, points: usize| near > 0 && near as f64 >= rules.min_share * points as f64;
    let (mut hits, mut near_points, mut distance) = (0, 0, 0.0);
    for (points, near) in truth.values().zip(near(&truth, &predicted, radius_km)) {
        let best = near.values().max_by(|a, b| a.by_points(b));
        if let Some(best) = best.filter(|best| follows(best.points, points.len())) {
            hits += 1;
            near_points += best.points;
            distance += best.distance_sum_km;
        }
    }
    let mut false_alarms = 0;
    let mut pieces: BTreeMap<u64, u64> = BTreeMap::new();
    for (points, near) in predicted.values().zip(near(&predicted, &truth, radius_km)) {
        let best = near.iter().max_by(|(_, a), (_, b)| a.by_points(b));
        match best.filter(|(_, best)| follows(best.points, points.len())) {
            Some((&id, _)) => *pieces.entry(id).or_default() += 1,
            None => false_alarms += 1,
        }
    }
    let ratio = |part: f64, whole: usize| (whole > 0).then(|| part / whole as f64);
    TrackScore {
        class,
        true_tracks: truth.len() as u64,
        hits,
        predicted_tracks: predicted.len() as u64,
        false_alarms,
        pod: ratio(hits as f64, truth.len()),
        far: ratio(false_alarms as f64, predicted.len()),
        mean_distance_km: ratio(distance, near_points),
        pieces_per_track: ratio(pieces.values().sum::<u64>() as f64, pieces.len()),
    }
}

impl fmt::Display for Unfollowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = [
            (self.true_objects, "true"),
            (self.predicted_objects, "predicted"),
        ];
        let sides: Vec<String> = sides
            .into_iter()
            .filter_map(|(count, side)| Some(format!("none of the {} {side} objects", count?)))
            .collect();
        write!(
            f,
            "{} tracks: not scored, {} is on a track (has a track_id)",
            self.class.name(),
            sides.join(" and ")
        )
    }
}

impl fmt::Display for TrackScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for score in &self.classes {
            writeln!(
                f,
                "{} tracks: {} of {} true ones found, {} of {} predicted ones false",
                score.class.name(),
                score.hits,
                score.true_tracks,
                score.false_alarms,
                score.predicted_tracks
            )?;
            writeln!(
                f,
                "  POD {}  share of the true tracks that were found",
                percent(score.pod, None)
            )?;
            writeln!(
                f,
                "  FAR {}  share of the predicted tracks that follow no true one",
                percent(score.far, None)
            )?;
            if let (Some(distance), Some(pieces)) = (score.mean_distance_km, score.pieces_per_track)
            {
                writeln!(
                    f,
                    "  {distance:.0} km off on average, {pieces:.2} predicted tracks per true one"
                )?;
            }
        }
        for class in &self.unfollowed {
            writeln!(f, "{class}")?;
        }
        write!(
            f,
            "a track is found if one predicted track is within {:.0} km (cyclones) or {:.0} km (rivers) at {:.0} % of its times; \
             tables of tracks without masks are judged by another rule, that of best tracks, which may tell few of the times",
            self.rules.tc_radius_km,
            self.rules.ar_radius_km,
            self.rules.min_share * 100.0
        )
    }
}
