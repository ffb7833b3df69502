//! Events found, missed and invented, time by time.

use crate::bootstrap::{Bootstrap, Interval, add};
use crate::chance::{Chance, Record, line, skill};
use crate::confusion::ratio;
use serde::{Deserialize, Serialize};
use squall_climate::Event;
use squall_climate::detect::agreement::CYCLONE_RADIUS_KM;
use squall_data::grid::distance_km;
use squall_data::{Class, Time};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// When a predicted and a true event of one class and time may be the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatchingRules {
    /// Largest distance of the centres of tropical cyclones, and of the other cyclones that boxes tell apart.
    pub tc_radius_km: f64,
    /// Largest distance of the centres of atmospheric rivers, unless their boxes overlap enough.
    pub ar_radius_km: f64,
    /// Overlap (intersection over union, by area) of the boxes of atmospheric rivers that is enough at any distance.
    pub ar_box_iou: f64,
}

impl Default for MatchingRules {
    /// 500 km for cyclones; 1500 km or a box overlap of 0.25 for rivers.
    fn default() -> Self {
        Self {
            tc_radius_km: CYCLONE_RADIUS_KM,
            ar_radius_km: 1500.0,
            ar_box_iou: 0.25,
        }
    }
}

impl MatchingRules {
    /// The distance of the centres if the two may be the same event.
    fn distance_km(&self, truth: &Event, predicted: &Event) -> Option<f64> {
        let distance = distance_km(
            truth.lat_deg,
            truth.lon_deg,
            predicted.lat_deg,
            predicted.lon_deg,
        );
        let same = match truth.class {
            Class::AtmosphericRiver => {
                distance <= self.ar_radius_km
                    || truth.bounding_box().overlap(&predicted.bounding_box()) >= self.ar_box_iou
            }
            Class::TropicalCyclone | Class::ExtratropicalCyclone | Class::TropicalDepression => {
                distance <= self.tc_radius_km
            }
            Class::Background => false,
        };
        same.then_some(distance)
    }
}

/// Pairs `(truth, predicted, distance in km)` of two lists of one class and time.
///
/// One-to-one: of all pairs that the rules allow, the nearest is taken first, then the nearest of what is left.
pub fn match_events(
    truth: &[&Event],
    predicted: &[&Event],
    rules: &MatchingRules,
) -> Vec<(usize, usize, f64)> {
    let mut pairs = Vec::new();
    for (t, truth) in truth.iter().enumerate() {
        for (p, predicted) in predicted.iter().enumerate() {
            pairs.extend(
                rules
                    .distance_km(truth, predicted)
                    .map(|distance| (t, p, distance)),
            );
        }
    }
    pairs.sort_by(|a, b| a.2.total_cmp(&b.2).then((a.0, a.1).cmp(&(b.0, b.1))));
    let (mut taken_truth, mut taken) = (vec![false; truth.len()], vec![false; predicted.len()]);
    pairs.retain(|&(t, p, _)| {
        let free = !taken_truth[t] && !taken[p];
        if free {
            (taken_truth[t], taken[p]) = (true, true);
        }
        free
    });
    pairs
}

/// How well the events of one class were found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EventScore {
    /// Which class.
    pub class: Class,
    /// True events that were predicted.
    pub hits: u64,
    /// True events that were not.
    pub misses: u64,
    /// Predicted events that are not true.
    pub false_alarms: u64,
    /// Probability of detection: hits / (hits + misses).
    pub pod: Option<f64>,
    /// False-alarm ratio: false alarms / (hits + false alarms).
    pub far: Option<f64>,
    /// Critical success index: hits / (hits + misses + false alarms).
    pub csi: Option<f64>,
    /// Mean distance of the centres of the hits.
    pub mean_distance_km: Option<f64>,
    /// Confidence interval of `pod`.
    pub pod_interval: Option<Interval>,
    /// Confidence interval of `far`.
    pub far_interval: Option<Interval>,
    /// Confidence interval of `csi`.
    pub csi_interval: Option<Interval>,
    /// `pod` of the predictions moved in time: what is found without knowing when.
    pub chance_pod: Option<f64>,
    /// `far` of these.
    pub chance_far: Option<f64>,
    /// `csi` of these.
    pub chance_csi: Option<f64>,
    /// (`pod` - `chance_pod`) / (1 - `chance_pod`).
    pub skill: Option<f64>,
}

/// How well events were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventScores {
    /// By which rules.
    pub rules: MatchingRules,
    /// Tropical cyclones, atmospheric rivers, and what else either side has.
    pub classes: Vec<EventScore>,
    /// How the chance levels were found.
    #[serde(default)]
    pub chance: Chance,
}

impl EventScores {
    /// Adds the chance levels: how the same predictions score when they are moved over the record of the times that were
    /// compared. `truth` and `predicted` are those that were scored.
    #[must_use]
    pub fn with_chance(mut self, truth: &[Event], predicted: &[Event], record: &Record) -> Self {
        self.chance = record.chance().clone();
        for score in &mut self.classes {
            let sides = [truth, predicted].map(|events| by_time(score.class, events, record));
            [score.chance_pod, score.chance_far, score.chance_csi] =
                rates(&moved_counts(&sides, &self.rules, record));
            score.skill = skill(score.pod, score.chance_pod);
        }
        self
    }
}

/// Scores predicted events against true ones. Both lists must be of the same times.
pub fn score_events(
    truth: &[Event],
    predicted: &[Event],
    rules: &MatchingRules,
    bootstrap: &Bootstrap,
) -> EventScores {
    let classes = classes_of(truth, predicted)
        .map(|class| score_class(class, truth, predicted, rules, bootstrap));
    EventScores {
        rules: *rules,
        classes: classes.collect(),
        chance: Chance::default(),
    }
}

/// The classes of masks, and each other class that either side has.
pub(crate) fn classes_of(truth: &[Event], predicted: &[Event]) -> impl Iterator<Item = Class> {
    let seen = Class::TRACKED.map(|class| {
        let of_class = |event: &Event| event.class == class;
        Class::EVENTS.contains(&class)
            || truth.iter().any(of_class)
            || predicted.iter().any(of_class)
    });
    let known = Class::TRACKED.into_iter().zip(seen);
    known.filter_map(|(class, seen)| seen.then_some(class))
}

/// Hits, misses, false alarms, sum of distances.
type Counts = [f64; 4];

fn score_class(
    class: Class,
    truth: &[Event],
    predicted: &[Event],
    rules: &MatchingRules,
    bootstrap: &Bootstrap,
) -> EventScore {
    let mut times: HashMap<Time, (Vec<&Event>, Vec<&Event>)> = HashMap::new();
    for event in truth.iter().filter(|e| e.class == class) {
        times.entry(event.time).or_default().0.push(event);
    }
    for event in predicted.iter().filter(|e| e.class == class) {
        times.entry(event.time).or_default().1.push(event);
    }
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    let mut blocks: BTreeMap<i64, Counts> = BTreeMap::new();
    for (time, (truth, predicted)) in &times {
        let pairs = match_events(truth, predicted, rules);
        let hits = pairs.len() as f64;
        let counts = [
            hits,
            truth.len() as f64 - hits,
            predicted.len() as f64 - hits,
            pairs.iter().map(|pair| pair.2).sum(),
        ];
        let block = bootstrap.block(time.seconds_since(times[0].0));
        add(blocks.entry(block).or_default(), &counts);
    }
    let blocks: Vec<Counts> = blocks.into_values().collect();
    let mut sums: Counts = [0.0; 4];
    blocks.iter().for_each(|block| add(&mut sums, block));
    let [pod, far, csi] = rates(&sums);
    let [pod_interval, far_interval, csi_interval] =
        bootstrap.intervals(u64::from(class.code()), &blocks, rates);
    EventScore {
        class,
        hits: sums[0] as u64,
        misses: sums[1] as u64,
        false_alarms: sums[2] as u64,
        pod,
        far,
        csi,
        mean_distance_km: ratio(sums[3], sums[0]),
        pod_interval,
        far_interval,
        csi_interval,
        chance_pod: None,
        chance_far: None,
        chance_csi: None,
        skill: None,
    }
}

/// The events of a class at the times of a record.
fn by_time<'a>(
    class: Class,
    events: &'a [Event],
    record: &Record,
) -> HashMap<Time, Vec<&'a Event>> {
    let mut times: HashMap<Time, Vec<&Event>> = HashMap::new();
    for event in events.iter().filter(|event| event.class == class) {
        if record.holds(event.time) {
            times.entry(event.time).or_default().push(event);
        }
    }
    times
}

/// The counts of all shifts of the predictions together, without distances. Nothing is copied: a true event is compared
/// with what was predicted at the time from which predictions are moved to its own.
fn moved_counts(
    [truth, predicted]: &[HashMap<Time, Vec<&Event>>; 2],
    rules: &MatchingRules,
    record: &Record,
) -> Counts {
    let count = |times: &HashMap<Time, Vec<&Event>>| times.values().map(Vec::len).sum::<usize>();
    let [real, found] = [truth, predicted].map(|times| count(times) as f64);
    let mut sums: Counts = [0.0; 4];
    for &shift in record.shifts() {
        let hits = |(&time, truth): (&Time, &Vec<&Event>)| {
            let origin = record.origin(time, shift);
            let predicted = origin.and_then(|origin| predicted.get(&origin));
            predicted.map_or(0, |predicted| match_events(truth, predicted, rules).len())
        };
        let hits = truth.iter().map(hits).sum::<usize>() as f64;
        add(&mut sums, &[hits, real - hits, found - hits, 0.0]);
    }
    sums
}

fn rates(&[hits, misses, false_alarms, _]: &Counts) -> [Option<f64>; 3] {
    [
        ratio(hits, hits + misses),
        ratio(false_alarms, hits + false_alarms),
        ratio(hits, hits + misses + false_alarms),
    ]
}

impl fmt::Display for EventScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for score in &self.classes {
            writeln!(
                f,
                "{}: {} hits, {} misses, {} false alarms",
                score.class.name(),
                score.hits,
                score.misses,
                score.false_alarms
            )?;
            for (name, value, interval, meaning) in [
                (
                    "POD",
                    score.pod,
                    score.pod_interval,
                    "share of the true events that were found",
                ),
                (
                    "FAR",
                    score.far,
                    score.far_interval,
                    "share of the predicted events that are not true",
                ),
                (
                    "CSI",
                    score.csi,
                    score.csi_interval,
                    "hits among all events true or predicted",
                ),
            ] {
                writeln!(f, "  {name} {}  {meaning}", percent(value, interval))?;
                if let Some(line) = line(score.chance_pod, score.skill).filter(|_| name == "POD") {
                    writeln!(f, "{line}")?;
                }
            }
            if let Some(distance) = score.mean_distance_km {
                writeln!(f, "  centres of hits are {distance:.0} km apart on average")?;
            }
        }
        if let Some(chance) = self.chance.describe() {
            writeln!(f, "{chance}")?;
        }
        write!(
            f,
            "events of one time are matched one-to-one, nearest first: cyclones within {:.0} km, rivers within {:.0} km or with boxes that overlap by {:.2}",
            self.rules.tc_radius_km, self.rules.ar_radius_km, self.rules.ar_box_iou
        )
    }
}

pub(crate) fn percent(value: Option<f64>, interval: Option<Interval>) -> String {
    match (value, interval) {
        (None, _) => "     -".to_string(),
        (Some(value), None) => format!("{:5.1} %", value * 100.0),
        (Some(value), Some(i)) => format!(
            "{:5.1} % ({:.1} to {:.1})",
            value * 100.0,
            i.low * 100.0,
            i.high * 100.0
        ),
    }
}
