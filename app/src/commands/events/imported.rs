//! Imports tracks of other tools instead of masks, into the same tables.

use super::{Events, EventsSummary, refusals};
use crate::commands::score::box_grid;
use crate::failure::Advice;
use crate::input::name_of;
use crate::interrupt;
use squall_climate::ClimateError;
use squall_climate::map::LandMask;
use squall_climate::stream::{EventCounts, RunFolder, clear_results, is_result};
use squall_climate::track::formats::{Format, Setting, export};
use squall_climate::track::readers::{ReadOptions, TrackFormat, format_of, read};
use squall_climate::track::{Track, from_events, import};
use squall_climate::{Event, table};
use squall_data::{Calendar, Class, LatLonGrid, Time, atomic};
use squall_jobs::lock::FolderLock;
use std::collections::HashSet;
use std::path::Path;

/// Whether the input is a file of tracks that another tool wrote.
pub(super) fn is_in(input: &str) -> anyhow::Result<bool> {
    let path = Path::new(input);
    if !path.is_file() {
        return Ok(false);
    }
    Ok(format_of(path)?.is_some_and(|format| format != TrackFormat::SquallEvents))
}

/// The tracks of our own events: from the table next to them, `tracks.parquet` of `events.parquet`, which has splits,
/// merges and truncation by the data. If it is missing or belongs to other events, they are derived from the events
/// themselves.
fn tracks_of(path: &Path, events: &[Event]) -> Vec<Track> {
    let told = from_events(events);
    let name = name_of(path);
    let beside = path.with_file_name(name.replace("events", "tracks"));
    if beside == path || !beside.is_file() {
        return told;
    }
    let calendar = events
        .first()
        .map_or(Calendar::Standard, |e| e.time.calendar());
    let same = |a: &Track, b: &Track| {
        (a.track_id, a.class, a.points, a.start, a.end)
            == (b.track_id, b.class, b.points, b.start, b.end)
    };
    let reason = match table::read_tracks(&beside, calendar) {
        Ok(mut tracks) => {
            tracks.sort_by_key(|track| track.track_id);
            let pairs = || tracks.iter().zip(&told);
            if tracks.len() == told.len() && pairs().all(|(a, b)| same(a, b)) {
                return tracks;
            }
            format!("`{}` has tracks of other events", beside.display())
        }
        Err(error) => error.to_string(),
    };
    tracing::warn!("tracks are made from the events alone: {reason}");
    told
}

/// Explains why a file has no events; for one with only tracks, names the file to use.
fn without_points(error: ClimateError, path: &Path) -> anyhow::Error {
    let name = name_of(path);
    let has_no_times =
        matches!(&error, ClimateError::MissingColumn { column, .. } if column == "time");
    if !name.starts_with("tracks.") || !has_no_times {
        return error.into();
    }
    let points = path.with_file_name(name.replacen("tracks", "events", 1));
    Advice::input(
        format!(
            "`{}` has a row for each track, and not their points",
            path.display()
        ),
        format!(
            "give `{}`: what tracks tell more is read beside it",
            points.display()
        ),
    )
}

impl Events {
    /// Writes the tables of a track file.
    pub(super) fn import(&self, formats: &[Format]) -> anyhow::Result<EventsSummary> {
        self.refuse_what_tracks_lack()?;
        let path = Path::new(&self.masks);
        refusals::refuse_own([path].into_iter(), &self.out)?;
        let calendar = self.calendar.unwrap_or(Calendar::Standard);
        let grid = box_grid()?;
        let (source, mut events, mut tracks) = self.read_tracks(path, calendar, &grid)?;
        self.leave_out_weak(&mut events, &mut tracks)?;
        if let Some(event) = events.first() {
            refusals::refuse_calendar(self.calendar, event.time.calendar(), &self.masks)?;
        }
        let mut times: Vec<Time> = events.iter().map(|event| event.time).collect();
        times.dedup();
        let notes = [
            import::note_of_empty_years(&times),
            import::note_of_silence(&times),
        ];
        for note in notes.into_iter().flatten() {
            tracing::warn!("{}: {note}", self.masks);
        }
        formats.iter().try_for_each(|format| format.check(&times))?;
        interrupt::check_whole()?;
        let _lock = FolderLock::take(&self.out)?;
        // Removes formats of an earlier import, and leftovers of a killed one.
        clear_results(&self.out)?;
        atomic::sweep(&self.out, is_result)?;
        table::write_tracks(self.out.join("tracks.csv"), &tracks)?;
        table::write_events(self.out.join("events.csv"), &events)?;
        let source = format!("{} ({})", source.name(), self.masks);
        let setting = Setting {
            grid: &grid,
            times: &times,
            calendar: times.first().map_or(calendar, |time| time.calendar()),
            source: &source,
        };
        let files = export(&self.out, formats, &setting)?;
        Ok(EventsSummary {
            counts: counts(times.len(), &events, &tracks),
            files,
            ..EventsSummary::default()
        })
    }

    /// Drops cyclones whose wind never reaches `--min-wind` from the tracks; their points stay, without a track.
    fn leave_out_weak(&self, events: &mut [Event], tracks: &mut Vec<Track>) -> anyhow::Result<()> {
        let Some(least) = self.min_wind.filter(|least| *least > 0.0) else {
            return Ok(());
        };
        let is_cyclone = |track: &&Track| track.class == Class::TropicalCyclone;
        let mut cyclones = tracks.iter().filter(is_cyclone).peekable();
        if cyclones.peek().is_some() && cyclones.all(|track| track.max_wind_m_s.is_none()) {
            return Err(Advice::usage(
                format!("--min-wind: the cyclones of `{}` have no wind", self.masks),
                "leave --min-wind out: without a wind no track would reach it",
            ));
        }
        let is_weak = |track: &&Track| {
            is_cyclone(track) && !track.max_wind_m_s.is_some_and(|wind| wind >= least)
        };
        let weak = tracks.iter().filter(is_weak).map(|track| track.track_id);
        let weak: HashSet<u64> = weak.collect();
        tracks.retain(|track| !weak.contains(&track.track_id));
        for event in events {
            event.track_id = event.track_id.filter(|id| !weak.contains(id));
        }
        Ok(())
    }

    /// Rejects options that only apply to masks and boxes, and their folders.
    fn refuse_what_tracks_lack(&self) -> anyhow::Result<()> {
        if self.fields.is_some() {
            return Err(Advice::usage(
                format!(
                    "`{}` holds tracks, which have no cells for --fields",
                    self.masks
                ),
                "leave --fields out, or give masks",
            ));
        }
        self.refuse_misfits("tracks")?;
        if self.out.join("statistics.nc").exists() {
            return Err(Advice::usage(
                format!(
                    "`{}` holds the statistics of masks or boxes",
                    self.out.display()
                ),
                "choose another folder: tracks do not tell which times were looked at, so that there are no statistics of them",
            ));
        }
        if RunFolder::is_begun(&self.out) {
            return Err(Advice::usage(
                format!(
                    "`{}` holds an interrupted run of masks or boxes",
                    self.out.display()
                ),
                "choose another folder, or let the interrupted run end first",
            ));
        }
        Ok(())
    }

    /// Reads the file's format, events and tracks; logs what was guessed or left out.
    fn read_tracks(
        &self,
        path: &Path,
        calendar: Calendar,
        grid: &LatLonGrid,
    ) -> anyhow::Result<(TrackFormat, Vec<Event>, Vec<Track>)> {
        let land = LandMask::natural_earth(grid);
        // If a wind column is requested, the reader reports that there is none to choose from.
        let is_ours = format_of(path)? == Some(TrackFormat::SquallExport);
        if is_ours && self.wind_column.is_none() {
            let events = table::read_events(path, calendar);
            let events = events.map_err(|error| without_points(error, path))?;
            let (events, repeated) = import::complete(events, &land);
            if repeated > 0 {
                tracing::warn!(
                    "{}: {repeated} rows repeat a time of their track and are left out",
                    self.masks
                );
            }
            let tracks = tracks_of(path, &events);
            return Ok((TrackFormat::SquallExport, events, tracks));
        }
        let options = ReadOptions {
            calendar,
            columns: self.columns.clone(),
            wind_column: self.wind_column.clone(),
        };
        let found = read(path, &options)?;
        for fact in &found.facts {
            tracing::info!("{}: {fact}", self.masks);
        }
        for note in &found.notes {
            tracing::warn!("{}: {note}", self.masks);
        }
        let events = import::events(&found, &land);
        let mut tracks = from_events(&events);
        import::identify(&mut tracks, &found);
        Ok((found.format, events, tracks))
    }
}

/// Counts of each class.
fn counts(times: usize, events: &[Event], tracks: &[Track]) -> EventCounts {
    let of = |class: Class| {
        let events = events.iter().filter(|event| event.class == class);
        let tracks = tracks.iter().filter(|track| track.class == class);
        (events.count(), tracks.count())
    };
    let (cyclones, cyclone_tracks) = of(Class::TropicalCyclone);
    let (rivers, river_tracks) = of(Class::AtmosphericRiver);
    EventCounts {
        times,
        unread_fields: 0,
        cyclones,
        small_cyclones: 0,
        rivers,
        others: events.len() - cyclones - rivers,
        cyclone_tracks,
        river_tracks,
        other_tracks: tracks.len() - cyclone_tracks - river_tracks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_tracks_without_points_hears_which_file_has_them() {
        let said = |name: &str, column: &str| {
            let error = ClimateError::MissingColumn {
                path: name.into(),
                unit: "line",
                column: column.into(),
                found: vec!["track_id".into(), "class".into()],
            };
            without_points(error, Path::new(name)).to_string()
        };
        let told = said("tracks.csv", "time");
        assert!(told.contains("a row for each track"), "{told}");
        let expected = "line 1: expected a column `time`, found track_id, class";
        assert!(said("events.csv", "time").ends_with(expected));
        assert!(said("tracks.csv", "class").contains("a column `class`"));
    }
}
