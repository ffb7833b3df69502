//! Whole tracks found, missed and invented.

use crate::bootstrap::add;
use crate::chance::{Chance, Record, line, skill};
use crate::confusion::ratio;
use crate::event_scores::{classes_of, percent};
use crate::storms::Storm;
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
    /// `pod` of the predictions moved in time: what is found without knowing when.
    pub chance_pod: Option<f64>,
    /// `far` of these.
    pub chance_far: Option<f64>,
    /// (`pod` - `chance_pod`) / (1 - `chance_pod`).
    pub skill: Option<f64>,
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
    /// How the chance levels were found.
    #[serde(default)]
    pub chance: Chance,
    /// True cyclones, found and missed.
    #[serde(default)]
    pub storms: Vec<Storm>,
}

impl TrackScores {
    /// Adds the chance levels: how the same predictions score when they are moved over the record of the times that were
    /// compared. `truth` and `predicted` are those that were scored.
    #[must_use]
    pub fn with_chance(mut self, truth: &[Event], predicted: &[Event], record: &Record) -> Self {
        self.chance = record.chance().clone();
        for score in &mut self.classes {
            let tracks = [truth, predicted].map(|events| {
                let of_class = events.iter().filter(|event| event.class == score.class);
                by_track(of_class.filter(|event| record.holds(event.time)))
            });
            let reach = self.rules.reach(score.class);
            [score.chance_pod, score.chance_far] = chance_rates(&tracks, reach, record);
            score.skill = skill(score.pod, score.chance_pod);
        }
        self
    }
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
    let (classes, storms): (Vec<TrackScore>, Vec<Vec<Storm>>) = classes.unzip();
    TrackScores {
        rules: *rules,
        classes,
        unfollowed: Vec::new(),
        chance: Chance::default(),
        storms: storms.into_iter().flatten().collect(),
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
    scores.storms.retain(|storm| !unfollowed(storm.class));
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

/// For every track of `own`, how near which of the `others` are, by their identities; `at` gives the time of the others
/// with which a time of `own` is compared.
pub(crate) fn near<'a>(
    own: &TrackPoints<'a>,
    others: &TrackPoints<'a>,
    radius_km: f64,
    at: impl Fn(Time) -> Option<Time>,
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
            let others = at(point.time).and_then(|time| by_time.get(&time));
            for (id, other) in others.into_iter().flatten() {
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

/// How near, and for which share of its points, a track must be to another to follow it.
#[derive(Clone, Copy)]
struct Reach {
    radius_km: f64,
    min_share: f64,
}

impl TrackRules {
    fn reach(&self, class: Class) -> Reach {
        let radius_km = match class {
            Class::AtmosphericRiver => self.ar_radius_km,
            Class::Background
            | Class::TropicalCyclone
            | Class::ExtratropicalCyclone
            | Class::TropicalDepression => self.tc_radius_km,
        };
        Reach {
            radius_km,
            min_share: self.min_share,
        }
    }
}

/// For every track of `own`, the one of the `others` that is nearest, if that is near at the demanded share of its
/// points; `at` as for [`near`].
fn followed<'a>(
    own: &TrackPoints<'a>,
    others: &TrackPoints<'a>,
    reach: Reach,
    at: impl Fn(Time) -> Option<Time>,
) -> Vec<Option<(u64, Nearness)>> {
    let near = near(own, others, reach.radius_km, at);
    let best = |(points, near): (&Vec<&Event>, BTreeMap<u64, Nearness>)| {
        let best = near.into_iter().max_by(|(_, a), (_, b)| a.by_points(b));
        best.filter(|(_, best)| {
            best.points > 0 && best.points as f64 >= reach.min_share * points.len() as f64
        })
    };
    own.values().zip(near).map(best).collect()
}

/// The score of a class, and its storms, if it is one of cyclones.
fn score_class(
    class: Class,
    truth: &[Event],
    predicted: &[Event],
    rules: &TrackRules,
) -> (TrackScore, Vec<Storm>) {
    let reach = rules.reach(class);
    let [truth, predicted] =
        [truth, predicted].map(|events| by_track(events.iter().filter(|e| e.class == class)));
    let found = followed(&truth, &predicted, reach, Some);
    let (mut hits, mut near_points, mut distance) = (0, 0, 0.0);
    for (_, best) in found.iter().flatten() {
        hits += 1;
        near_points += best.points;
        distance += best.distance_sum_km;
    }
    let mut false_alarms = 0;
    let mut pieces: BTreeMap<u64, u64> = BTreeMap::new();
    for real in followed(&predicted, &truth, reach, Some) {
        match real {
            Some((id, _)) => *pieces.entry(id).or_default() += 1,
            None => false_alarms += 1,
        }
    }
    let [true_tracks, predicted_tracks] = [&truth, &predicted].map(|tracks| tracks.len() as u64);
    let score = TrackScore {
        class,
        true_tracks,
        hits,
        predicted_tracks,
        false_alarms,
        pod: ratio(hits as f64, true_tracks as f64),
        far: ratio(false_alarms as f64, predicted_tracks as f64),
        mean_distance_km: ratio(distance, near_points as f64),
        pieces_per_track: ratio(pieces.values().sum::<u64>() as f64, pieces.len() as f64),
        chance_pod: None,
        chance_far: None,
        skill: None,
    };
    let storms = (truth.iter().zip(found))
        .filter(|_| class.is_cyclone())
        .filter_map(|((id, points), found)| {
            let found = found.map(|(id, near)| (id, near.mean_km()));
            Storm::of_points(*id, points, found)
        });
    (score, storms.collect())
}

/// POD and FAR of predicted tracks that are moved in time, over all shifts together.
fn chance_rates(
    [truth, predicted]: &[TrackPoints<'_>; 2],
    reach: Reach,
    record: &Record,
) -> [Option<f64>; 2] {
    let mut sums = [0.0; 4];
    for &shift in record.shifts() {
        let found = followed(truth, predicted, reach, |time| record.origin(time, shift));
        let real = followed(predicted, truth, reach, |time| record.moved(time, shift));
        let false_alarms = real.iter().filter(|real| real.is_none()).count();
        let counts = [
            found.iter().flatten().count(),
            found.len(),
            false_alarms,
            real.len(),
        ];
        add(&mut sums, &counts.map(|count| count as f64));
    }
    [ratio(sums[0], sums[1]), ratio(sums[2], sums[3])]
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

/// Without the sentence on chance, which stands below the events of the same times.
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
            if let Some(line) = line(score.chance_pod, score.skill) {
                writeln!(f, "{line}")?;
            }
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
