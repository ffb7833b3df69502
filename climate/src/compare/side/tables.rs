//! Reads the tables of a run, row by row, into sums by year.

use super::of_class::quantities;
use super::{Extreme, HPA, MM_PER_DAY, Place, Side, SideOptions};
use crate::compare::coverage::{Coverage, events_table};
use crate::compare::names::{Names, grouped};
use crate::compare::quantity::{ANY, About, Quantity, WIND};
use crate::error::{ClimateError, Result};
use crate::statistics::ace_of_point;
use crate::table::lines::{Line, Table};
use crate::track::{Fate, Origin, is_piece};
use squall_data::Class;
use squall_data::grid::EARTH_RADIUS_KM;
use std::collections::HashMap;
use std::f64::consts::PI;
use std::path::Path;

/// A cyclone's track while the events are read.
pub(super) struct Storm {
    place: Place,
    wind_m_s: f64,
    lat_deg: f64,
    /// Known if a point with a wind tells its hours, or those of all are known.
    energy_1e4_kt2: Option<f64>,
}

impl Side {
    /// Notes the quantities whose column a table has.
    fn note_columns(
        &mut self,
        table: &Table,
        column_of: fn(&About) -> Option<&'static str>,
        options: &SideOptions,
    ) {
        let has = |column: &str| {
            let is_looked_at = column != WIND || options.wind;
            column == ANY || is_looked_at && table.column(column).is_some()
        };
        for quantity in Quantity::all() {
            self.known[quantity as usize] |= column_of(&quantity.about()).is_some_and(has);
        }
    }

    /// Counts the tracks; gives those of cyclones, whose events are still to be read.
    pub(super) fn read_tracks(&mut self, options: &SideOptions) -> Result<HashMap<u64, Storm>> {
        let selection = &options.selection;
        let path = self.coverage.path.join("tracks.csv");
        // Labels have events of their own, and no table of tracks.
        if !path.is_file() {
            let reason = "there is no such file; `squall events` writes it".into();
            return Err(ClimateError::Table { path, reason });
        }
        let required = [
            "track_id",
            "class",
            "start_time",
            "genesis_lon_deg",
            "genesis_lat_deg",
        ];
        let mut table = Table::open(&path, &required)?;
        use Quantity as Q;
        self.note_columns(&table, |about| about.track_column, options);
        let calendar = self.coverage.calendar;
        let mut storms = HashMap::new();
        while let Some(line) = table.next()? {
            let (lon_deg, lat_deg) = line.position("genesis_lon_deg", "genesis_lat_deg")?;
            let start = line.time("start_time", calendar)?;
            let (year, month, _) = start.date();
            let class = line.class()?;
            self.note_class(class);
            let Some(of) = quantities(class) else {
                continue;
            };
            let Some(place) = self.place(selection, (year, month), (lat_deg, lon_deg)) else {
                continue;
            };
            let origin = line.word("origin", &Origin::ALL, Origin::name)?;
            let fate = line.word("fate", &Fate::ALL, Fate::name)?;
            // Other tracks split from one or were there when the data began: their first point is no genesis.
            if origin.is_none_or(|origin| origin == Origin::Genesis) {
                self.maps.add_genesis(place.year, class, lat_deg, lon_deg);
            }
            self.pieces.add(class, origin, fate);
            let is_cut = origin == Some(Origin::StartOfData)
                || fate == Some(Fate::EndOfData)
                || is_piece(class, origin, fate);
            let days = if self.known[Q::CycloneLifetime as usize] && !is_cut {
                Some(line.time("end_time", calendar)?.seconds_since(start) as f64 / 86_400.0)
            } else {
                None
            };
            let continues = origin == Some(Origin::StartOfData) && !self.coverage.begins_at(start);
            self.continued += usize::from(continues);
            self.add(of.tracks, place, 1.0, 1.0);
            self.add_mean(of.lifetime, place, days);
            if let Some(landfalls) = of.landfalls {
                self.add_mean(landfalls, place, line.number("landfalls")?);
            }
            let pressure_hpa = line.number("min_psl_pa")?.map(|pa| pa / HPA);
            if let Some(pressure) = of.pressure {
                self.add_mean(pressure, place, pressure_hpa);
            }
            self.add_own_of_track(class, place, &line, options)?;
            if class == Class::TropicalCyclone {
                self.add_extreme(Extreme::CyclonePressure, place, pressure_hpa);
                let id = line.whole("track_id")?;
                let id = id.ok_or_else(|| line.bad("track_id", "a whole number"))?;
                let storm = Storm {
                    place,
                    wind_m_s: f64::NEG_INFINITY,
                    lat_deg: lat_deg.abs(),
                    energy_1e4_kt2: None,
                };
                storms.insert(id, storm);
            }
        }
        Ok(storms)
    }

    /// Adds what of a track is compared for its class alone.
    fn add_own_of_track(
        &mut self,
        class: Class,
        place: Place,
        line: &Line<'_>,
        options: &SideOptions,
    ) -> Result<()> {
        match class {
            Class::Background | Class::TropicalDepression => {}
            Class::TropicalCyclone => self.add_wind(place, wind_of(line, options)?),
            Class::ExtratropicalCyclone => {
                self.add_mean(Quantity::ExtratropicalWind, place, wind_of(line, options)?);
            }
            Class::AtmosphericRiver => {
                self.add_extreme(Extreme::RiverArea, place, line.number("max_area_km2")?);
                let transport = transport_of(line, options)?;
                self.add_extreme(Extreme::RiverTransport, place, transport);
            }
        }
        Ok(())
    }

    pub(super) fn read_events(
        &mut self,
        options: &SideOptions,
        storms: &mut HashMap<u64, Storm>,
    ) -> Result<()> {
        let selection = &options.selection;
        let path = events_table(&self.coverage.path)?;
        let mut table = Table::open(&path, &["class", "time", "lon_deg", "lat_deg"])?;
        self.known[Quantity::RiverTransport as usize] = options.transport.is_some();
        use Quantity as Q;
        self.note_columns(&table, |about| about.event_column, options);
        // A row without hours counts as one step of the data. Without statistics the step is not known, nor then the
        // energy.
        let hours = (self.coverage.counted).then_some(24.0 / self.coverage.times_per_day);
        self.known[Q::CycloneEnergy as usize] &= table.column("hours").is_some() || hours.is_some();
        let earth_km2 = 4.0 * PI * EARTH_RADIUS_KM * EARTH_RADIUS_KM;
        while let Some(line) = table.next()? {
            let class = line.class()?;
            self.note_class(class);
            let Some(of) = quantities(class) else {
                continue;
            };
            if class == Class::TropicalCyclone {
                note_storm(&line, storms, hours, wind_of(&line, options)?)?;
            }
            let (lon_deg, lat_deg) = line.position("lon_deg", "lat_deg")?;
            let (year, month, _) = line.time("time", self.coverage.calendar)?.date();
            let Some(place) = self.place(selection, (year, month), (lat_deg, lon_deg)) else {
                continue;
            };
            let area_km2 = line.number("area_km2")?;
            let rain_mm_day = line.number("mean_prect_m_s")?.map(|rate| rate * MM_PER_DAY);
            self.add(of.present, place, 1.0, 1.0);
            self.add_mean(of.area, place, area_km2);
            if let Some(water) = of.water {
                // Where and when it falls, not where the track began.
                if let Some(km3) = line.number("precipitation_km3")? {
                    self.add(water, place, km3, times_of(line.number("hours")?, hours));
                }
            }
            if let (Some(rain), Some(mm_day), Some(area_km2)) = (of.rain, rain_mm_day, area_km2) {
                self.add(rain, place, mm_day * area_km2, area_km2);
            }
            if class == Class::AtmosphericRiver {
                self.add_mean(
                    Q::RiverCover,
                    place,
                    area_km2.map(|km2| 100.0 * km2 / earth_km2),
                );
                self.add_mean(Q::RiverLength, place, line.number("length_km")?);
                self.add_mean(Q::RiverMoisture, place, line.number("max_tmq_kg_m2")?);
                let transport = transport_of(&line, options)?;
                self.add_mean(Q::RiverTransport, place, transport);
            }
        }
        Ok(())
    }

    /// What was found out about cyclones along their tracks.
    pub(super) fn end_storms(&mut self, storms: HashMap<u64, Storm>) {
        let wind_in_tracks = !self.values(Extreme::CycloneWind).is_empty();
        let mut storms: Vec<(u64, Storm)> = storms.into_iter().collect();
        // Sums must not depend on the order of a hash map.
        storms.sort_by_key(|(id, _)| *id);
        for (_, storm) in storms {
            if storm.wind_m_s.is_finite() {
                self.add(Quantity::CycloneLatitude, storm.place, storm.lat_deg, 1.0);
                self.add_mean(Quantity::CycloneEnergy, storm.place, storm.energy_1e4_kt2);
                if !wind_in_tracks {
                    self.add_wind(storm.place, Some(storm.wind_m_s));
                }
            }
        }
    }
}

/// The times that a row with rain stands for: more than one where fields are coarser than masks, whose times between have
/// no rain of their own; `step_hours` is the step of the masks, if it is known.
fn times_of(hours: Option<f64>, step_hours: Option<f64>) -> f64 {
    let steps = hours.zip(step_hours.filter(|step| *step > 0.0));
    steps.map_or(1.0, |(hours, step)| (hours / step).max(1.0))
}

/// A point of a cyclone's track: its energy counts, and where it is the strongest so far, its latitude.
fn note_storm(
    line: &Line<'_>,
    storms: &mut HashMap<u64, Storm>,
    hours: Option<f64>,
    wind_m_s: Option<f64>,
) -> Result<()> {
    let storm = line.whole("track_id")?.and_then(|id| storms.get_mut(&id));
    let (Some(storm), Some(wind_m_s)) = (storm, wind_m_s) else {
        return Ok(());
    };
    if let Some(hours) = line.number("hours")?.or(hours) {
        *storm.energy_1e4_kt2.get_or_insert(0.0) += ace_of_point(wind_m_s, hours);
    }
    if wind_m_s > storm.wind_m_s {
        storm.wind_m_s = wind_m_s;
        storm.lat_deg = line.position("lon_deg", "lat_deg")?.1.abs();
    }
    Ok(())
}

/// The columns in which a table of events may have the transport in rivers: that of vapour, and a stand-in for it.
const TRANSPORTS: [&str; 2] = ["max_ivt_kg_m_s", "max_ivt_proxy_kg_m_s"];

/// What is noted where the stand-in is all that rivers have.
const BY_PROXY: &str = "The transport in rivers (max_ivt) is a proxy: column water times the wind at 850 hPa. In single rivers it is up to a third less than the vapour transport, or a fifth more.";

/// The column in which rivers of all runs have a transport, so that like is compared with like; none if there is none.
/// Where they have but not the same, or the stand-in alone, a note says so.
///
/// # Errors
/// [`crate::ClimateError`] of a table that cannot be read.
pub(in crate::compare) fn shared_transport(
    runs: &[&Coverage],
    names: &Names,
    notes: &mut Vec<String>,
) -> Result<Option<&'static str>> {
    let mut having = Vec::new();
    for (run, coverage) in runs.iter().enumerate() {
        let has = has_transports(&coverage.path)?;
        // A run without rivers is like any other.
        if has.contains(&true) {
            having.push((run, has));
        }
    }
    if having.is_empty() {
        // Without a river neither column tells more than the other.
        return Ok(Some(TRANSPORTS[1]));
    }
    let shared = (0..TRANSPORTS.len()).find(|&column| having.iter().all(|(_, has)| has[column]));
    let told = |(run, has): (usize, [bool; 2])| (run, TRANSPORTS[usize::from(!has[0])]);
    let groups = grouped(having.into_iter().map(told), |a, b| a == b);
    if let (None, [(one, of_one), (other, of_other)]) = (shared, &groups[..]) {
        notes.push(format!(
            "The transport in rivers is not compared: the rivers of {} have {one}, those of {} {other}; one is a stand-in for the other.",
            names.who(of_one),
            names.who(of_other)
        ));
    }
    match shared {
        Some(0) => note_kinds(runs, names, notes),
        Some(_) => notes.push(BY_PROXY.into()),
        None => {}
    }
    Ok(shared.map(|column| TRANSPORTS[column]))
}

/// Notes which runs have the transport of the files and which its integral, as far as their statistics say it.
fn note_kinds(runs: &[&Coverage], names: &Names, notes: &mut Vec<String>) {
    let told = (runs.iter().enumerate()).filter_map(|(run, c)| Some((run, c.transport.as_ref()?)));
    let kinds = grouped(told, |a, b| a == b);
    if kinds.len() > 1 {
        let kinds: Vec<String> = (kinds.iter())
            .map(|(kind, runs)| format!("{}: {kind}", names.who(runs)))
            .collect();
        notes.push(format!(
            "The transport in rivers comes from different fields ({}), so that part of its change may be theirs.",
            kinds.join("; ")
        ));
    }
}

/// Which of [`TRANSPORTS`] the first river that has any has.
fn has_transports(folder: &Path) -> Result<[bool; 2]> {
    let mut table = Table::open(&events_table(folder)?, &["class"])?;
    while let Some(line) = table.next()? {
        if line.class()? != Class::AtmosphericRiver {
            continue;
        }
        let [of_vapour, of_stand_in] = TRANSPORTS;
        let has = [
            line.number(of_vapour)?.is_some(),
            line.number(of_stand_in)?.is_some(),
        ];
        if has.contains(&true) {
            return Ok(has);
        }
    }
    Ok([false; 2])
}

impl Side {
    /// The column in which rivers of one run have a transport: that of vapour, if any has it. A note says where they have
    /// the stand-in alone.
    ///
    /// # Errors
    /// [`ClimateError`] of a table that cannot be read.
    pub(crate) fn transport_column(folder: &Path, notes: &mut Vec<String>) -> Result<&'static str> {
        let [of_vapour, of_stand_in] = TRANSPORTS;
        let [has_vapour, has_stand_in] = has_transports(folder)?;
        if has_vapour {
            return Ok(of_vapour);
        }
        if has_stand_in {
            notes.push(BY_PROXY.into());
        }
        Ok(of_stand_in)
    }
}

/// The highest wind of a track or event, if winds are compared.
fn wind_of(line: &Line<'_>, options: &SideOptions) -> Result<Option<f64>> {
    if options.wind {
        line.number(WIND)
    } else {
        Ok(None)
    }
}

/// The highest transport of a river, in the column that is compared.
fn transport_of(line: &Line<'_>, options: &SideOptions) -> Result<Option<f64>> {
    match options.transport {
        Some(column) => line.number(column),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rain_of_coarser_fields_counts_for_the_times_between() {
        assert_eq!(times_of(Some(6.0), Some(3.0)), 2.0);
        assert_eq!(times_of(Some(6.0), Some(6.0)), 1.0);
        // Hours are a day at most, whatever the step.
        assert_eq!(times_of(Some(24.0), Some(120.0)), 1.0);
        assert_eq!(times_of(None, Some(3.0)), 1.0);
        assert_eq!(times_of(Some(6.0), None), 1.0);
    }
}
