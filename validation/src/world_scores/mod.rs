//! Tracks and masks against references that others made: best tracks (IBTrACS), other trackers, catalogues of rivers
//! (ARTMIP).

mod density;
mod groups;
mod masks;
mod matching;
mod table;
mod taylor;
mod times;

pub use density::{DensityComparison, compare_density, track_density};
pub use groups::{DistanceSummary, TrackGroup};
pub use masks::{ClassAgreement, MaskAgreement, NearestCells, Spread};
pub use matching::{Criterion, TrackPair, match_tracks};
pub use table::legend;
pub use taylor::Taylor;

use crate::bootstrap::Bootstrap;
use crate::chance::{Chance, Record};
use crate::error::{Result, ValidationError};
use crate::storms::Storm;
use groups::Groupings;
use serde::{Deserialize, Serialize};
use squall_climate::track::readers::{ImportedTrack, TrackTable};
use squall_data::calendar::DAY_SECONDS;
use squall_data::{Calendar, Class, Time};
use std::collections::HashSet;

/// How tracks are compared with a reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorldRules {
    /// Which class; best tracks hold cyclones only.
    pub class: Class,
    /// When two tracks are one storm.
    pub criterion: Criterion,
    /// Reference tracks whose wind never reaches this are left out, those of unknown wind too, and with them predicted
    /// tracks that are one of these: they are right, but not asked for. `None` keeps all.
    pub min_reference_wind_m_s: Option<f64>,
    /// Side of the cells of density maps.
    pub density_cell_deg: f64,
}

impl Default for WorldRules {
    /// Cyclones, the criterion's default, all winds, cells of 5 degrees.
    fn default() -> Self {
        Self {
            class: Class::TropicalCyclone,
            criterion: Criterion::default(),
            min_reference_wind_m_s: None,
            density_cell_deg: 5.0,
        }
    }
}

/// How tracks agree with those of a reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorldScores {
    /// By which rules.
    pub rules: WorldRules,
    /// First time that both sides cover.
    pub first: String,
    /// Last time that both sides cover.
    pub last: String,
    /// Reference tracks outside that span or too weak, which are not scored.
    pub reference_left_out: u64,
    /// Predicted tracks outside that span, or that are a storm which is too weak; they are not scored.
    pub predicted_left_out: u64,
    /// What was decided about the times, for people.
    pub notes: Vec<String>,
    /// All storms.
    pub total: TrackGroup,
    /// By basin of the first point, of rivers and extratropical cyclones by sector. A predicted track that is a storm
    /// counts where the storm does, here and in quarters and years.
    pub basins: Vec<TrackGroup>,
    /// By quarter of the year of the first point: DJF, MAM, JJA, SON.
    pub quarters: Vec<TrackGroup>,
    /// By year of the first point: the calendar year, of tropical cyclones in the southern hemisphere from July of the
    /// year before.
    pub years: Vec<TrackGroup>,
    /// Tracks per year and cell against the reference's.
    pub density: Option<DensityComparison>,
    /// How the chance levels were found.
    #[serde(default)]
    pub chance: Chance,
    /// The cyclones of the reference, found and missed.
    #[serde(default)]
    pub storms: Vec<Storm>,
}

/// Scores predicted tracks against a reference such as IBTrACS.
///
/// Only tracks with a point inside the span of time that both sides cover are scored: what [`TrackTable::covers`] says,
/// else the time from the first to the last point. Dates are compared as they are written: `proleptic_gregorian` is
/// read as `standard`, and a run with another calendar is compared by date, which only means something if it follows
/// the weather of those days (a note says so).
///
/// # Errors
/// [`ValidationError::Invalid`] if the two have no span of time or no time of day in common, or a date does not exist in
/// the calendar of the reference.
pub fn score_against_world(
    reference: &TrackTable,
    predicted: &TrackTable,
    rules: &WorldRules,
    bootstrap: &Bootstrap,
) -> Result<WorldScores> {
    let mut sides = [reference, predicted].map(|table| Side {
        tracks: of_class(table, rules.class),
        covers: table.covers,
    });
    let mut notes = to_one_calendar(&mut sides)?;
    let unseen = times::unseen_years([reference, predicted]);
    let spans = sides.each_ref().map(Side::span);
    let [mut reference, mut predicted] = sides.map(|side| side.tracks);
    let [
        Some((first_real, last_real)),
        Some((first_found, last_found)),
    ] = spans
    else {
        return Err(ValidationError::Invalid(format!(
            "expected tracks of {} on both sides, found {} in the reference and {} in the prediction",
            rules.class.name(),
            reference.len(),
            predicted.len()
        )));
    };
    let first = later(first_real, first_found);
    let last = earlier(last_real, last_found);
    let inside = |track: &ImportedTrack| {
        track
            .points
            .iter()
            .any(|p| first <= p.time && p.time <= last)
    };
    let [all_reference, all_predicted] = [reference.len(), predicted.len()];
    reference.retain(inside);
    predicted.retain(inside);
    if first > last || predicted.is_empty() && reference.is_empty() {
        return Err(ValidationError::Invalid(format!(
            "the reference covers {first_real} to {last_real}, the prediction {first_found} to {last_found}: no track to compare"
        )));
    }
    notes.extend(times::check_times(&reference, &predicted)?);
    let record = Record::of_days(first, last, &unseen);
    notes.extend(times::note_unseen(&unseen, first.year()..=last.year()));
    let moved = moved_groups(&reference, &predicted, rules, &record);
    let pairs = match_strong(&mut reference, &mut predicted, rules);
    let mut groups = Groupings::of(&reference, &predicted, &pairs, bootstrap);
    groups.add_chance(&moved);
    let days = last.seconds_since(first) as f64 / DAY_SECONDS as f64;
    let years = days / first.calendar().mean_year_days();
    Ok(WorldScores {
        rules: *rules,
        first: first.to_string(),
        last: last.to_string(),
        reference_left_out: (all_reference - reference.len()) as u64,
        predicted_left_out: (all_predicted - predicted.len()) as u64,
        notes,
        total: groups.total,
        basins: groups.basins,
        quarters: groups.quarters,
        years: groups.years,
        density: compare_density(&reference, &predicted, rules.density_cell_deg, years)?,
        chance: record.chance().clone(),
        storms: Storm::of_pairs(&reference, &predicted, &pairs),
    })
}

/// The groups of each shift of the predicted tracks over a record, scored as those that were not moved.
fn moved_groups(
    reference: &[ImportedTrack],
    predicted: &[ImportedTrack],
    rules: &WorldRules,
    record: &Record,
) -> Vec<Groupings> {
    let no_intervals = Bootstrap {
        draws: 0,
        ..Bootstrap::default()
    };
    let inside = |track: &&ImportedTrack| track.points.iter().any(|p| record.holds(p.time));
    let of_shift = |&shift: &usize| {
        let mut reference: Vec<_> = reference.iter().filter(inside).cloned().collect();
        let mut predicted = predicted.to_vec();
        for track in &mut predicted {
            track.points.retain_mut(|point| {
                let moved = record.moved(point.time, shift);
                point.time = moved.unwrap_or(point.time);
                moved.is_some()
            });
        }
        predicted.retain(|track| !track.points.is_empty());
        let pairs = match_strong(&mut reference, &mut predicted, rules);
        Groupings::of(&reference, &predicted, &pairs, &no_intervals)
    };
    record.shifts().iter().map(of_shift).collect()
}

/// Which predicted track is which storm, after storms that are too weak, and the tracks that are one of those, were
/// left out.
fn match_strong(
    reference: &mut Vec<ImportedTrack>,
    predicted: &mut Vec<ImportedTrack>,
    rules: &WorldRules,
) -> Vec<TrackPair> {
    let is_strong = |track: &ImportedTrack| {
        rules.min_reference_wind_m_s.is_none_or(|least| {
            let winds = track.points.iter().filter_map(|p| p.max_wind_m_s);
            winds.fold(f64::NEG_INFINITY, f64::max) >= least
        })
    };
    let pairs = match_tracks(reference, predicted, &rules.criterion);
    if reference.iter().all(is_strong) {
        return pairs;
    }
    let of_weak: HashSet<usize> = (pairs.iter())
        .filter(|pair| !is_strong(&reference[pair.reference]))
        .map(|pair| pair.predicted)
        .collect();
    let numbered = std::mem::take(predicted).into_iter().enumerate();
    *predicted = numbered
        .filter_map(|(place, track)| (!of_weak.contains(&place)).then_some(track))
        .collect();
    reference.retain(is_strong);
    // The places of tracks have changed.
    match_tracks(reference, predicted, &rules.criterion)
}

/// The tracks of one side, reference or prediction, and the span of time that was searched for them.
struct Side {
    tracks: Vec<ImportedTrack>,
    covers: Option<(Time, Time)>,
}

impl Side {
    /// First and last time of the tracks, and of what was searched for them; `None` without tracks.
    fn span(&self) -> Option<(Time, Time)> {
        let points = self.tracks.iter().flat_map(|track| &track.points);
        let mut times = points.map(|point| point.time);
        let zero = times.next()?;
        let ends = self
            .covers
            .into_iter()
            .flat_map(|(first, last)| [first, last]);
        let span = times.chain(ends).fold((zero, zero), |(first, last), time| {
            (earlier(first, time), later(last, time))
        });
        Some(span)
    }
}

/// The earlier of two times of one calendar.
fn earlier(a: Time, b: Time) -> Time {
    if b < a { b } else { a }
}

/// The later of two times of one calendar.
fn later(a: Time, b: Time) -> Time {
    if b > a { b } else { a }
}

/// The tracks of a class that have points.
fn of_class(table: &TrackTable, class: Class) -> Vec<ImportedTrack> {
    let tracks = table.tracks.iter();
    tracks
        .filter(|track| track.class == class && !track.points.is_empty())
        .cloned()
        .collect()
}

/// Brings dates to the calendar of the reference; says where that makes a difference worth a note.
fn to_one_calendar(sides: &mut [Side; 2]) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let Some(calendar) = sides.iter().find_map(|side| calendar_of(&side.tracks)) else {
        return Ok(notes);
    };
    for Side { tracks, covers } in sides {
        // An end that the other calendar has not is not worth an error: the tracks tell nearly the same.
        *covers = covers.and_then(|(first, last)| {
            let ends = [first, last].map(|end| end.in_calendar(calendar).ok());
            ends[0].zip(ends[1])
        });
        let points = tracks.iter_mut().flat_map(|track| &mut track.points);
        if let Some(from) = to_calendar(points.map(|point| &mut point.time), calendar)? {
            notes.push(format!(
                "dates of calendar {from} are compared with the same dates of {calendar}"
            ));
        }
    }
    Ok(notes)
}

fn calendar_of(tracks: &[ImportedTrack]) -> Option<Calendar> {
    Some(tracks.first()?.points.first()?.time.calendar())
}

/// Brings dates to a calendar; gives the one they had if that makes a difference worth a note.
fn to_calendar<'a>(
    times: impl Iterator<Item = &'a mut Time>,
    calendar: Calendar,
) -> Result<Option<Calendar>> {
    let mut other = None;
    for time in times {
        let found = time.calendar();
        if found != calendar {
            *time = time.in_calendar(calendar)?;
            other = Some(found);
        }
    }
    Ok(other.filter(|found| !found.has_dates_of(calendar)))
}
