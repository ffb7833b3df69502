//! Tracks of other tools instead of masks: the same tables from them.

use super::{Events, EventsSummary};
use crate::commands::score::box_grid;
use crate::failure::Advice;
use squall_climate::map::LandMask;
use squall_climate::stream::EventCounts;
use squall_climate::table;
use squall_climate::track::formats::{Format, Setting, export};
use squall_climate::track::readers::{ReadOptions, TrackFormat, format_of, read};
use squall_climate::track::{from_events, import};
use squall_data::{Calendar, Class, Time};
use std::path::Path;

/// Whether the input is a file of tracks that another tool wrote.
pub(super) fn is_in(input: &str) -> anyhow::Result<bool> {
    let path = Path::new(input);
    if !path.is_file() {
        return Ok(false);
    }
    Ok(format_of(path)?.is_some_and(|format| format != TrackFormat::SquallEvents))
}

impl Events {
    /// Writes the tables of such a file.
    pub(super) fn import(&self, formats: &[Format]) -> anyhow::Result<EventsSummary> {
        let refused = [
            (self.fields.is_some(), "--fields"),
            (self.object_id, "--object-id"),
        ];
        if let Some((_, option)) = refused.iter().find(|(given, _)| *given) {
            return Err(Advice::usage(
                format!(
                    "`{}` holds tracks, which have no cells for {option}",
                    self.masks
                ),
                format!("leave {option} out, or give masks"),
            ));
        }
        if self.out.join("statistics.nc").exists() {
            return Err(Advice::usage(
                format!(
                    "`{}` holds the statistics of masks or boxes",
                    self.out.display()
                ),
                "choose another folder: tracks do not tell which times were looked at, so that there are no statistics of them",
            ));
        }
        let calendar = self.calendar.unwrap_or(Calendar::Standard);
        let options = ReadOptions {
            calendar,
            columns: self.columns.clone(),
        };
        let found = read(&self.masks, &options)?;
        for note in &found.notes {
            tracing::warn!("{}: {note}", self.masks);
        }
        let grid = box_grid()?;
        let events = import::events(&found, &grid, &LandMask::natural_earth(&grid));
        let tracks = from_events(&events);
        table::write_tracks(self.out.join("tracks.csv"), &tracks)?;
        table::write_events(self.out.join("events.csv"), &events)?;
        let mut times: Vec<Time> = events.iter().map(|event| event.time).collect();
        times.dedup();
        let source = format!("{} ({})", found.format.name(), self.masks);
        let setting = Setting {
            grid: &grid,
            times: &times,
            calendar: times.first().map_or(calendar, |time| time.calendar()),
            source: &source,
        };
        let files = export(&self.out, formats, &setting)?;
        let of = |class: Class| {
            let events = events.iter().filter(|event| event.class == class);
            (
                events.count(),
                tracks.iter().filter(|t| t.class == class).count(),
            )
        };
        let (cyclones, cyclone_tracks) = of(Class::TropicalCyclone);
        let (rivers, river_tracks) = of(Class::AtmosphericRiver);
        let counts = EventCounts {
            times: times.len(),
            cyclones,
            rivers,
            others: events.len() - cyclones - rivers,
            cyclone_tracks,
            river_tracks,
            other_tracks: tracks.len() - cyclone_tracks - river_tracks,
        };
        Ok(EventsSummary {
            counts,
            resumed_after: 0,
            files,
        })
    }
}
