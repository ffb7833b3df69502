//! Masks against masks: by pixel, by event and by track.

use super::Score;
use super::left_out::LeftOut;
use crate::failure::Advice;
use crate::input::{compare_origins, same_dates};
use crate::interrupt;
use crate::plan::counted;
use crate::progress::Progress;
use serde::Serialize;
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::{Event, table};
use squall_data::mask_file::MaskArchive;
use squall_data::{Class, DataError, Time};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::track_scores::Unfollowed;
use squall_validation::world_scores::{ClassAgreement, NearestCells};
use squall_validation::{
    Confusion, EventScores, MaskAgreement, MatchingRules, SegmentationScore, SegmentationScorer,
    TrackRules, TrackScores, score_events, score_listed_tracks,
};
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// The table of labels and of the truth, which lists objects of any size.
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
    /// Time by time and as maps of frequency, for the classes that the truth has.
    pub agreement: Vec<ClassAgreement>,
    /// Classes that are in none of these, because masks cannot hold them.
    pub left_out: Vec<LeftOut>,
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

/// Masks of both sides, and which of them are compared.
struct Sides {
    predicted: MaskArchive,
    truth: MaskArchive,
    /// Classes that one side cannot hold.
    left_out: Vec<LeftOut>,
    /// How predicted masks come to the grid of the truth, if it is another one.
    cells: Option<NearestCells>,
    /// Places of the times that both have, in either side.
    shared: Vec<(usize, usize)>,
}

/// What came of the times that both sides have.
struct Compared {
    scorer: SegmentationScorer,
    agreement: MaskAgreement,
    /// Events of the masks of both sides, predicted and true, where no table lists them.
    events: [Vec<Event>; 2],
    times: HashSet<Time>,
}

impl Sides {
    /// Compares the masks of all times; `is_listed` says which sides have tables of their events.
    fn compare(&self, is_listed: [bool; 2]) -> anyhow::Result<Compared> {
        let grid = self.truth.grid();
        let mut compared = Compared {
            scorer: SegmentationScorer::new(),
            agreement: MaskAgreement::new(grid),
            events: [Vec::new(), Vec::new()],
            times: HashSet::new(),
        };
        let mut progress = Progress::new("score", self.shared.len());
        for (done, &(p, t)) in self.shared.iter().enumerate() {
            interrupt::check_whole()?;
            let (mut prediction, mut label) = (self.predicted.read(p)?, self.truth.read(t)?);
            if let Some(cells) = &self.cells {
                prediction = cells.bring(&prediction)?;
            }
            for class in &self.left_out {
                class.remove_from(&mut prediction);
                class.remove_from(&mut label);
            }
            prediction.time = label.time;
            let confusion = Confusion::of_masks(&label, &prediction, grid)?;
            compared.scorer.add(&confusion);
            compared.agreement.add(&label, &prediction, &confusion)?;
            compared.times.insert(label.time);
            for (side, mask) in [&prediction, &label].into_iter().enumerate() {
                if !is_listed[side] {
                    let (fields, options) = (EventFields::default(), ExtractOptions::default());
                    let objects = extract(mask, grid, &fields, &options)?;
                    compared.events[side].extend(objects.into_iter().map(|object| object.event));
                }
            }
            progress.set(done + 1, String::new());
        }
        progress.finish();
        Ok(compared)
    }

    /// Whether both sides can hold a class.
    fn has(&self, class: Class) -> bool {
        self.left_out.iter().all(|one| one.class != class)
    }
}

impl Score {
    /// Computes the scores over the times that both sides have.
    pub fn score(&self) -> anyhow::Result<Scores> {
        let sides = self.open_sides()?;
        let listed = [
            self.table(&self.prediction, &sides.predicted)?,
            table_of(&self.truth, &sides.truth)?,
        ];
        let is_listed = listed.each_ref().map(Option::is_some);
        let Compared {
            scorer,
            agreement,
            events: [found, real],
            times,
        } = sides.compare(is_listed)?;
        let tables = [
            (self.events.as_ref().map(PathBuf::from)).or_else(|| table_path(&self.prediction)),
            table_path(&self.truth),
        ];
        // Of masks without a table nothing is listed but what is made of them here.
        let of_labels = tables.map(|table| Some(table?.ends_with(OBJECTS)));
        let are_unlike = of_labels[0] != of_labels[1];
        let calendar = sides.truth.calendar();
        let [predicted_table, true_table] = listed;
        let at_shared = |table: Vec<Event>| {
            let dated = table.into_iter().filter_map(|event| {
                let time = event.time.in_calendar(calendar).ok()?;
                Some(Event { time, ..event })
            });
            dated
                .filter(|event| times.contains(&event.time) && sides.has(event.class))
                .filter(|event| !are_unlike || is_large(event))
                .collect()
        };
        let found: Vec<Event> = predicted_table.map_or(found, at_shared);
        let real: Vec<Event> = true_table.map_or(real, at_shared);
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
        let mut events = score_events(&real, &found, &MatchingRules::default(), &bootstrap);
        events.classes.retain(|score| sides.has(score.class));
        let tracked = |events: &[Event]| events.iter().any(|event| event.track_id.is_some());
        let tracks = (tracked(&real) || tracked(&found)).then(|| {
            let mut tracks = score_listed_tracks(&real, &found, &TrackRules::default());
            tracks.classes.retain(|score| sides.has(score.class));
            tracks
        });
        Ok(Scores {
            agreement,
            pixels,
            events,
            tracks,
            left_out: sides.left_out,
        })
    }

    /// The masks of both sides; refuses those that have no class or no time in common.
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

    /// Why nothing is compared: what times each side has.
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

    /// How predicted masks come to the grid of the truth; `None` if they are there.
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

/// Whether an event is as large as those that are made of masks: where one side lists such alone, the other's small ones
/// have no chance to be found, or to be false. Of those whose area a table does not tell nobody knows it.
fn is_large(event: &Event) -> bool {
    let least = ExtractOptions::default().min_area_km2(event.class);
    event.area_km2.is_nan() || event.area_km2 >= least
}

/// The events of a folder's table, if it has one.
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

/// What to run where a side's objects are on no track.
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

/// The classes that the truth has; says which predicted ones it lacks.
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
mod tests {
    use super::*;
    use ndarray::Array2;
    use squall_data::mask_file::{MaskFileOptions, MaskWriter};
    use squall_data::{Calendar, ClassMask, LatLonGrid};

    /// Masks of four times with or without a cyclone and a river, and a table of them: class and track of each.
    fn write(folder: &Path, table: &str, rows: &[(Class, &str)]) -> String {
        std::fs::create_dir(folder).unwrap();
        let grid = LatLonGrid::global(36, 72).unwrap();
        let mut codes = Array2::zeros(grid.shape());
        let mut text = String::from("class,time,lon_deg,lat_deg,area_km2,track_id\n");
        let start = Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap();
        let times: Vec<Time> = (0..4).map(|k| start.add_seconds(6 * 3600 * k)).collect();
        for &(class, track) in rows {
            let (row, longitude) = match class {
                Class::TropicalCyclone => (21, 10),
                _ => (27, 40),
            };
            for cell in 0..9 {
                codes[[row + cell / 3, longitude + cell % 3]] = class.code();
            }
            for time in &times {
                let (lon, lat) = (5 * longitude + 7, 5 * row - 83);
                text += &format!("{},{time},{lon},{lat},600000,{track}\n", class.name());
            }
        }
        let options = MaskFileOptions::default();
        let mut file =
            MaskWriter::create(&folder.join("masks.nc"), &grid, start, &options).unwrap();
        for time in times {
            let mask = ClassMask {
                time,
                codes: codes.clone(),
            };
            file.write(&mask, None).unwrap();
        }
        file.finish().unwrap();
        std::fs::write(folder.join(table), text).unwrap();
        folder.to_string_lossy().into_owned()
    }

    #[test]
    fn masks_of_other_times_say_what_each_side_has() {
        let folder = tempfile::tempdir().unwrap();
        let august = write(&folder.path().join("august"), "no.csv", &[]);
        let july = folder.path().join("july.nc");
        let grid = LatLonGrid::global(36, 72).unwrap();
        let time = Time::new(Calendar::NoLeap, 2000, 7, 1, 0, 0, 0).unwrap();
        let options = MaskFileOptions::default();
        let mut file = MaskWriter::create(&july, &grid, time, &options).unwrap();
        let codes = Array2::zeros(grid.shape());
        file.write(&ClassMask { time, codes }, None).unwrap();
        file.finish().unwrap();
        let score = Score::of_masks(july.display().to_string(), august, None);
        let said = score.score().map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("july.nc` has 2000-07-01T00:00:00,"), "{said}");
        let span = "has 2000-08-01T00:00:00 to 2000-08-01T18:00:00";
        assert!(said.ends_with(span), "{said}");
    }

    #[test]
    fn events_without_an_area_count_where_one_side_alone_has_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let rows = [
            (Class::TropicalCyclone, "1"),
            (Class::AtmosphericRiver, "2"),
        ];
        let masks = write(&at("masks"), "no.csv", &rows);
        let listed = write(&at("listed"), "events.csv", &rows);
        let table = at("listed").join("events.csv");
        let text = std::fs::read_to_string(&table).unwrap();
        let hits = |areas: &str| -> Vec<(u64, u64, u64)> {
            std::fs::write(&table, text.replace(",600000,", areas)).unwrap();
            let score = Score::of_masks(listed.clone(), masks.clone(), None);
            let events = score.score().unwrap().events.classes;
            let counts = events.iter().map(|e| (e.hits, e.misses, e.false_alarms));
            counts.collect()
        };
        assert_eq!(hits(",,"), [(4, 0, 0); 2]);
        // Too small to be made of masks.
        assert_eq!(hits(",9,"), [(0, 4, 0); 2]);
    }

    /// Of the same masks the small labels had been missed.
    #[test]
    fn labels_too_small_to_be_events_are_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let rows = [
            (Class::TropicalCyclone, "1"),
            (Class::AtmosphericRiver, "2"),
        ];
        let labels = write(&at("labels"), "objects.csv", &rows);
        let table = at("labels").join("objects.csv");
        let text = std::fs::read_to_string(&table).unwrap();
        let start = "atmospheric_river,2000-08-01T00:00:00";
        std::fs::write(&table, format!("{text}{start},300,50,9000,\n")).unwrap();
        let events = at("events.csv");
        std::fs::write(&events, &text).unwrap();
        let rivers = |events: Option<&Path>| {
            let events = events.map(|path| path.display().to_string());
            let score = Score::of_masks(labels.clone(), labels.clone(), events);
            let rivers = score.score().unwrap().events.classes[1];
            (rivers.hits, rivers.misses, rivers.false_alarms)
        };
        assert_eq!(rivers(Some(&events)), (4, 0, 0));
        // Where both sides list small ones they count.
        assert_eq!(rivers(None), (5, 0, 0));
        assert_eq!(rivers(Some(&table)), (5, 0, 0));
    }

    #[test]
    fn rivers_of_labels_have_no_tracks_to_be_scored_against() {
        use Class::{AtmosphericRiver, TropicalCyclone};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let both = |river| [(TropicalCyclone, "1"), (AtmosphericRiver, river)];
        let labels = write(&at("labels"), "objects.csv", &both(""));
        let events = write(&at("events"), "events.csv", &both("2"));
        let storms = write(&at("storms"), "events.csv", &both("2")[..1]);
        let masks = write(&at("masks"), "no.csv", &both(""));
        let score = |prediction: &str, truth: &str| {
            let score = Score::of_masks(prediction.into(), truth.into(), None);
            score.score().unwrap().tracks
        };
        let hints = ["give the two folders", "--events DIR/events.csv"];
        for ((prediction, truth), hint) in [(&events, &labels), (&labels, &events)]
            .into_iter()
            .zip(hints)
        {
            let tracks = score(prediction, truth).unwrap();
            let scored: Vec<_> = tracks.classes.iter().map(|s| (s.class, s.hits)).collect();
            assert_eq!(scored, [(TropicalCyclone, 1)], "{tracks}");
            assert_eq!(tracks.unfollowed[0].class, AtmosphericRiver);
            let said = to_follow(&tracks.unfollowed).unwrap();
            assert!(said.contains(hint));
            // Tables without masks are judged by another rule, which both say.
            assert_eq!(said.contains("rule of best tracks"), hint == hints[0]);
            assert!(tracks.to_string().contains("judged by another rule"));
        }
        // No river at all is no lack of tracks.
        let tracks = score(&events, &storms).unwrap();
        let rivers = tracks.classes[1];
        assert_eq!((rivers.true_tracks, rivers.far), (0, Some(1.0)), "{tracks}");
        // Without a table nobody followed anything.
        assert_eq!(score(&events, &masks).unwrap().unfollowed.len(), 2);
        assert_eq!(score(&masks, &masks), None);
    }
}
