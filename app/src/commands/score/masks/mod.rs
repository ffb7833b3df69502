//! Masks against masks: by pixel, by event and by track.

mod areas;
mod gaps;
mod pair;

use super::Score;
use super::left_out::LeftOut;
use crate::failure::Advice;
use crate::input::{compare_origins, same_dates, warn_of_training_times};
use crate::interrupt;
use crate::plan::counted;
use crate::progress::Progress;
use gaps::Gaps;
use pair::Pair;
use serde::Serialize;
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::{Event, table};
use squall_data::mask_file::MaskArchive;
use squall_data::{Class, DataError, Time};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::track_scores::Unfollowed;
use squall_validation::world_scores::{ClassAgreement, NearestCells};
use squall_validation::{
    EventScores, MaskAgreement, MatchingRules, Record, SegmentationScore, SegmentationScorer,
    TrackRules, TrackScores, score_events, score_listed_tracks,
};
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// The table in folders of labels and of the truth; it lists objects of any size, including those too small for
/// `events.csv`.
const OBJECTS: &str = "objects.csv";

/// All scores of a prediction.
#[derive(Debug, Serialize)]
pub struct Scores {
    /// By pixel.
    pub pixels: SegmentationScore,
    /// By object and time.
    pub events: EventScores,
    /// By track; absent if neither side has tracks.
    pub tracks: Option<TrackScores>,
    /// Agreement over time and of frequency maps, for the classes in the truth.
    pub agreement: Vec<ClassAgreement>,
    /// Classes that are not scored because masks cannot contain them.
    pub left_out: Vec<LeftOut>,
    /// Share of the cells, 0 to 1, that are missing on one side at the scored times, and so are not scored.
    pub missing_share: f64,
    /// Number of common times that are not scored because a side has only missing values.
    pub times_without_mask: usize,
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.left_out
            .iter()
            .try_for_each(|class| writeln!(f, "{class}"))?;
        write!(f, "{}\n{}", self.pixels, self.events)?;
        if let Some(tracks) = &self.tracks {
            write!(f, "\n{tracks}")?;
            if let Some(hint) = to_follow(&tracks.unfollowed) {
                write!(f, "\nhint: {hint}")?;
            }
        }
        self.agreement
            .iter()
            .try_for_each(|class| write!(f, "\n{class}"))
    }
}

/// Masks of both sides, and the times and classes to compare.
struct Sides {
    predicted: MaskArchive,
    truth: MaskArchive,
    /// Classes that one side cannot contain.
    left_out: Vec<LeftOut>,
    /// Maps predicted masks to the grid of the truth; `None` if they are on it.
    cells: Option<NearestCells>,
    /// For each common time, its index in the predicted and in the true masks.
    shared: Vec<(usize, usize)>,
}

/// Results over all common times.
struct Compared {
    scorer: SegmentationScorer,
    agreement: MaskAgreement,
    /// Events made from the masks, predicted and true; empty for a side that needs none.
    events: [Vec<Event>; 2],
    times: HashSet<Time>,
    gaps: Gaps,
}

impl Sides {
    /// Compares the masks of all times; `is_made` says for each side, predicted and true, whether events are made from
    /// its masks.
    fn compare(&self, is_made: [bool; 2]) -> anyhow::Result<Compared> {
        let grid = self.truth.grid();
        let mut compared = Compared {
            scorer: SegmentationScorer::new(),
            agreement: MaskAgreement::new(grid),
            events: [Vec::new(), Vec::new()],
            times: HashSet::new(),
            gaps: Gaps::default(),
        };
        let options = self.options();
        let mut progress = Progress::new("score", self.shared.len());
        for (done, &(p, t)) in self.shared.iter().enumerate() {
            interrupt::check_whole()?;
            let known = [self.predicted.read_known(p)?, self.truth.read_known(t)?];
            let Some(mut pair) = Pair::of(known, self.cells.as_ref())? else {
                compared.gaps.times_without_mask += 1;
                continue;
            };
            for left_out in &self.left_out {
                // Background is all that the other side can hold there.
                pair.prediction.remove(left_out.class);
                pair.label.remove(left_out.class);
            }
            let has_gaps = compared.gaps.add(&pair);
            let confusion = pair.confusion(grid)?;
            let Pair {
                prediction, label, ..
            } = &pair;
            compared.scorer.add(&confusion);
            compared.agreement.add(label, prediction, &confusion)?;
            if let Some(missing) = pair.missing() {
                compared.agreement.leave_out(missing)?;
            }
            compared.times.insert(label.time);
            for (side, mask) in [prediction, label].into_iter().enumerate() {
                if !is_made[side] && !has_gaps {
                    continue;
                }
                let objects = extract(mask, grid, &EventFields::default(), &options)?;
                let events: Vec<Event> = objects.into_iter().map(|one| one.event).collect();
                if has_gaps {
                    compared.gaps.add_known(side, &events);
                }
                if is_made[side] {
                    compared.events[side].extend(events);
                }
            }
            progress.set(done + 1, String::new());
        }
        progress.finish();
        Ok(compared)
    }

    /// The selection of areas that are events: of any size if the rules of both sides selected their cyclones, as for
    /// `events`.
    fn options(&self) -> ExtractOptions {
        if self.predicted.is_by_rules() && self.truth.is_by_rules() {
            ExtractOptions::of_rules()
        } else {
            ExtractOptions::default()
        }
    }

    /// Whether both sides can contain a class.
    fn has(&self, class: Class) -> bool {
        self.left_out.iter().all(|one| one.class != class)
    }
}

impl Score {
    /// Computes the scores over the common times.
    pub fn score(&self) -> anyhow::Result<Scores> {
        let sides = self.open_sides()?;
        let listed = [
            self.table(&self.prediction, &sides.predicted)?,
            table_of(&self.truth, &sides.truth)?,
        ];
        let tables = [
            (self.events.as_ref().map(PathBuf::from)).or_else(|| table_path(&self.prediction)),
            table_path(&self.truth),
        ];
        // Whether the table of each side lists labelled objects; `None` without a table.
        let of_labels = tables.map(|table| Some(table?.ends_with(OBJECTS)));
        let are_unlike = of_labels[0] != of_labels[1];
        // A side without a table needs events made from its masks. So do labels compared with an event table: labelled
        // objects may touch and then form one event of their mask.
        let is_made = of_labels.map(|labels| labels.is_none_or(|labels| labels && are_unlike));
        let Compared {
            scorer,
            agreement,
            events: made,
            times,
            gaps,
        } = sides.compare(is_made)?;
        gaps.say(listed.iter().any(Option::is_some));
        let (missing_share, times_without_mask) = (gaps.missing_share(), gaps.times_without_mask);
        let calendar = sides.truth.calendar();
        let options = sides.options();
        let at_shared = |table: Vec<Event>| -> Vec<Event> {
            let dated = table.into_iter().filter_map(|event| {
                let time = event.time.in_calendar(calendar).ok()?;
                Some(Event { time, ..event })
            });
            dated
                .filter(|event| times.contains(&event.time) && sides.has(event.class))
                .filter(|event| !are_unlike || is_large(event, &options))
                .collect()
        };
        let listed = listed.map(|table| table.map(at_shared));
        let pixels = scorer
            .score()
            .ok_or_else(|| DataError::Invalid("no masks to score".into()))?;
        let names: Vec<Class> = sides.left_out.iter().map(|one| one.class).collect();
        let pixels = pixels.without(&names);
        let bootstrap = Bootstrap::default();
        let agreement = classes_of_truth(&pixels)
            .into_iter()
            .filter_map(|class| agreement.score(class, &bootstrap))
            .collect();
        let tracked = |events: &[Event]| events.iter().any(|event| event.track_id.is_some());
        let [found, real] = [0, 1].map(|side| listed[side].as_ref().unwrap_or(&made[side]));
        let record = Record::of_times(times.iter().copied());
        let tracks = (tracked(real) || tracked(found)).then(|| {
            let mut tracks = score_listed_tracks(real, found, &TrackRules::default());
            tracks.classes.retain(|score| sides.has(score.class));
            tracks.storms.retain(|storm| sides.has(storm.class));
            tracks.with_chance(real, found, &record)
        });
        let [found, real] = gaps.replace_unknown(areas::comparable(listed, made, is_made));
        let mut events = score_events(&real, &found, &MatchingRules::default(), &bootstrap);
        events.classes.retain(|score| sides.has(score.class));
        let events = events.with_chance(&real, &found, &record);
        Ok(Scores {
            agreement,
            pixels,
            events,
            tracks,
            left_out: sides.left_out,
            missing_share,
            times_without_mask,
        })
    }

    /// Opens the masks of both sides; rejects those without a common class or time.
    fn open_sides(&self) -> anyhow::Result<Sides> {
        let (predicted, truth) = (
            self.tags.open(&self.prediction)?,
            self.tags.open(&self.truth)?,
        );
        let left_out = LeftOut::of(&predicted, &truth);
        if left_out.len() == Class::EVENTS.len() {
            return Err(Advice::usage(
                format!(
                    "the masks of `{}` and `{}` have no class in common",
                    self.prediction, self.truth
                ),
                "`ar_binary_tag` marks rivers; --tag-class says what tags mark whose variable names no class",
            ));
        }
        let cells = self.cells(&predicted, &truth)?;
        let calendar = truth.calendar();
        same_dates(&self.prediction, predicted.calendar(), calendar)?;
        let shared: Vec<(usize, usize)> = (predicted.times().iter().enumerate())
            .filter_map(|(p, time)| Some((p, truth.find(time.in_calendar(calendar).ok()?)?)))
            .collect();
        if shared.is_empty() {
            return Err(self.nothing_shared(&predicted, &truth));
        }
        compare_origins(&predicted, &truth, &shared);
        warn_of_training_times(&self.prediction, &predicted, shared[0].0);
        let one_sided = predicted.times().len() + truth.times().len() - 2 * shared.len();
        if one_sided > 0 {
            tracing::warn!("left out: {} on one side only", counted(one_sided, "time"));
        }
        Ok(Sides {
            predicted,
            truth,
            left_out,
            cells,
            shared,
        })
    }

    /// Explains why nothing is compared: the times of each side.
    fn nothing_shared(&self, predicted: &MaskArchive, truth: &MaskArchive) -> anyhow::Error {
        let span = |name: &str, masks: &MaskArchive| match masks.times() {
            [] => format!("`{name}` has none"),
            [only] => format!("`{name}` has {only}"),
            [first, .., last] => format!("`{name}` has {first} to {last}"),
        };
        Advice::input(
            format!(
                "the masks have no time in common: {}, {}",
                span(&self.prediction, predicted),
                span(&self.truth, truth)
            ),
            "masks are compared at equal times; `squall inspect` says which each side has, and how far apart",
        )
    }

    /// The mapping of predicted masks to the grid of the truth; `None` if they are on it.
    fn cells(
        &self,
        predicted: &MaskArchive,
        truth: &MaskArchive,
    ) -> anyhow::Result<Option<NearestCells>> {
        if predicted.grid().same_as(truth.grid()) {
            return Ok(None);
        }
        let (expected, found) = (truth.grid().describe(), predicted.grid().describe());
        let cells = NearestCells::new(predicted.grid(), truth.grid());
        let cells =
            cells.map_err(|_| DataError::mismatch("grid", &self.prediction, &expected, &found))?;
        tracing::warn!(
            "the predicted masks ({found}) are brought to the grid of the truth ({expected}) by nearest cells"
        );
        Ok(Some(cells))
    }

    fn table(&self, input: &str, masks: &MaskArchive) -> anyhow::Result<Option<Vec<Event>>> {
        match &self.events {
            Some(path) => {
                let events = table::read_events(path, masks.calendar())?;
                let strange = events.iter().find(|e| masks.find(e.time).is_none());
                match strange {
                    Some(event) => Err(Advice::usage(
                        format!(
                            "--events {path}: its events are not those of `{input}`: one is at {}, of which there is no mask",
                            event.time
                        ),
                        "`squall events MASKS --out DIR` makes the table of the predicted masks",
                    )),
                    None => Ok(Some(events)),
                }
            }
            None => table_of(input, masks),
        }
    }
}

/// Whether an event is large enough to be made from masks. If one side lists only those, smaller ones of the other must
/// not count, because they could not be found. An event without an area in its table counts as large.
fn is_large(event: &Event, options: &ExtractOptions) -> bool {
    let (area, least) = (event.area_km2, options.min_area_km2(event.class));
    // An object without cells is in no mask.
    area.is_nan() || area > 0.0 && area >= least
}

/// The events in a folder's table, if it has one.
fn table_of(folder: &str, masks: &MaskArchive) -> anyhow::Result<Option<Vec<Event>>> {
    let Some(path) = table_path(folder) else {
        return Ok(None);
    };
    Ok(Some(table::read_events(path, masks.calendar())?))
}

/// The table of events in a folder, if it has one.
pub fn table_path(folder: &str) -> Option<PathBuf> {
    let mut paths = ["events.csv", OBJECTS]
        .map(|name| Path::new(folder).join(name))
        .into_iter();
    paths.find(|path| path.is_file())
}

/// A hint on what to run if a side's objects have no tracks.
fn to_follow(unfollowed: &[Unfollowed]) -> Option<&'static str> {
    let truth = unfollowed.iter().any(|class| class.true_objects.is_some());
    match (unfollowed.is_empty(), truth) {
        (true, _) => None,
        (false, false) => Some(
            "`squall events MASKS --out DIR` makes tracks of the predicted masks; --events DIR/events.csv takes them",
        ),
        (false, true) => Some(
            "`squall events MASKS --out DIR` makes tracks of masks; make them of both sides and give the two folders as --prediction and --truth, which are then judged by the rule of best tracks",
        ),
    }
}

/// The classes in the truth; warns of predicted ones that it lacks.
fn classes_of_truth(pixels: &SegmentationScore) -> Vec<Class> {
    let real = |class: &Class| {
        let tally = pixels.confusion.pixels_of(*class);
        if tally.hits + tally.misses == 0.0 && tally.false_alarms > 0.0 {
            tracing::warn!(
                "the truth has no {} at any time: what was predicted of it counts as false",
                class.name()
            );
        }
        tally.hits + tally.misses > 0.0
    };
    Class::EVENTS.into_iter().filter(real).collect()
}

#[cfg(test)]
mod tests;
