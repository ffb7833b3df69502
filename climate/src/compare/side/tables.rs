//! Reads the tables of a run row by row and accumulates annual sums.

use super::of_class::quantities;
use super::{GroupKey, HPA, MM_PER_DAY, Side, SideOptions};
use crate::compare::coverage::{Coverage, events_table};
use crate::compare::names::{Names, grouped};
use crate::compare::quantity::{ANY, Extreme, Quantity, QuantityInfo, WIND};
use crate::error::{ClimateError, Result};
use crate::statistics::ace_of_point;
use crate::table::lines::{Line, Table};
use crate::track::{Fate, Origin, is_piece};
use squall_data::Class;
use squall_data::grid::EARTH_RADIUS_KM;
use std::collections::HashMap;
use std::f64::consts::PI;
use std::path::Path;

/// State of a cyclone's track while events are read.
pub(super) struct Storm {
    key: GroupKey,
    wind_m_s: f64,
    lat_deg: f64,
    /// Known once a point with a wind has hours, or the time step is known.
    energy_1e4_kt2: Option<f64>,
}

impl Side {
    /// Records the quantities whose columns a table has.
    fn note_columns(
        &mut self,
        table: &Table,
        column_of: fn(&QuantityInfo) -> Option<&'static str>,
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

    /// Adds the tracks; returns those of cyclones, whose events are read next.
    pub(super) fn read_tracks(&mut self, options: &SideOptions) -> Result<HashMap<u64, Storm>> {
        let path = self.coverage.path.join("tracks.csv");
        // Folders of labels have events, but no table of tracks.
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
        self.note_columns(&table, |about| about.track_column, options);
        let mut storms = HashMap::new();
        while let Some(line) = table.next()? {
            storms.extend(self.add_track(&line, options)?);
        }
        Ok(storms)
    }

    /// Adds a track; returns the identifier and state of a cyclone's.
    fn add_track(
        &mut self,
        line: &Line<'_>,
        options: &SideOptions,
    ) -> Result<Option<(u64, Storm)>> {
        let calendar = self.coverage.calendar;
        let (lon_deg, lat_deg) = line.position("genesis_lon_deg", "genesis_lat_deg")?;
        let start = line.time("start_time", calendar)?;
        let (year, month, _) = start.date();
        let class = line.class()?;
        self.note_class(class);
        let Some(of) = quantities(class) else {
            return Ok(None);
        };
        let Some(key) = self.key(&options.selection, (year, month), (lat_deg, lon_deg)) else {
            return Ok(None);
        };
        let origin = line.word("origin", &Origin::ALL, Origin::name)?;
        let fate = line.word("fate", &Fate::ALL, Fate::name)?;
        // Tracks that split from another or existed at the start of the data have no genesis.
        if origin.is_none_or(|origin| origin == Origin::Genesis) {
            self.maps.add_genesis(key.year, class, lat_deg, lon_deg);
        }
        self.pieces.add(class, origin, fate);
        let is_cut = origin == Some(Origin::StartOfData)
            || fate == Some(Fate::EndOfData)
            || is_piece(class, origin, fate);
        let days = if self.known[of.lifetime as usize] && !is_cut {
            Some(line.time("end_time", calendar)?.seconds_since(start) as f64 / 86_400.0)
        } else {
            None
        };
        let continues = origin == Some(Origin::StartOfData) && !self.coverage.begins_at(start);
        self.continued += usize::from(continues);
        self.add(of.tracks, key, 1.0, 1.0);
        self.add_mean(of.lifetime, key, days);
        if let Some(landfalls) = of.landfalls {
            self.add_mean(landfalls, key, line.number("landfalls")?);
        }
        let pressure_hpa = line.number("min_psl_pa")?.map(|pa| pa / HPA);
        if let Some(pressure) = of.pressure {
            self.add_mean(pressure, key, pressure_hpa);
        }
        self.add_own_of_track(class, key, line, options)?;
        if class != Class::TropicalCyclone {
            return Ok(None);
        }
        self.add_extreme(Extreme::CyclonePressure, key, pressure_hpa);
        let id = line.whole("track_id")?;
        let id = id.ok_or_else(|| line.bad("track_id", "a whole number"))?;
        let storm = Storm {
            key,
            wind_m_s: f64::NEG_INFINITY,
            lat_deg: lat_deg.abs(),
            energy_1e4_kt2: None,
        };
        Ok(Some((id, storm)))
    }

    /// Adds the quantities of a track that are specific to its class.
    fn add_own_of_track(
        &mut self,
        class: Class,
        key: GroupKey,
        line: &Line<'_>,
        options: &SideOptions,
    ) -> Result<()> {
        match class {
            Class::Background | Class::TropicalDepression => {}
            Class::TropicalCyclone => self.add_wind(key, wind_of(line, options)?),
            Class::ExtratropicalCyclone => {
                self.add_mean(Quantity::ExtratropicalWind, key, wind_of(line, options)?);
            }
            Class::AtmosphericRiver => {
                self.add_extreme(Extreme::RiverArea, key, line.number("max_area_km2")?);
                let transport = transport_of(line, options)?;
                self.add_extreme(Extreme::RiverTransport, key, transport);
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
        // A row without hours represents one time step. Without statistics the time step is unknown, and so is the
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
            let Some(key) = self.key(selection, (year, month), (lat_deg, lon_deg)) else {
                continue;
            };
            let area_km2 = line.number("area_km2")?;
            let rain_mm_day = line.number("mean_prect_m_s")?.map(|rate| rate * MM_PER_DAY);
            self.add(of.present, key, 1.0, 1.0);
            self.add_mean(of.area, key, area_km2);
            if let Some(water) = of.water {
                // Attributed to where and when the rain falls, not to the genesis of the track.
                if let Some(km3) = line.number("precipitation_km3")? {
                    self.add(water, key, km3, times_of(line.number("hours")?, hours));
                }
            }
            if let (Some(rain), Some(mm_day), Some(area_km2)) = (of.rain, rain_mm_day, area_km2) {
                self.add(rain, key, mm_day * area_km2, area_km2);
            }
            if class == Class::AtmosphericRiver {
                self.add_mean(
                    Q::RiverCover,
                    key,
                    area_km2.map(|km2| 100.0 * km2 / earth_km2),
                );
                self.add_mean(Q::RiverLength, key, line.number("length_km")?);
                self.add_mean(Q::RiverMoisture, key, line.number("max_tmq_kg_m2")?);
                let transport = transport_of(&line, options)?;
                self.add_mean(Q::RiverTransport, key, transport);
            }
        }
        Ok(())
    }

    /// Adds what was accumulated along cyclone tracks.
    pub(super) fn end_storms(&mut self, storms: HashMap<u64, Storm>) {
        let wind_in_tracks = !self.values(Extreme::CycloneWind).is_empty();
        let mut storms: Vec<(u64, Storm)> = storms.into_iter().collect();
        // The sums must not depend on the iteration order of the hash map.
        storms.sort_by_key(|(id, _)| *id);
        for (_, storm) in storms {
            if storm.wind_m_s.is_finite() {
                self.add(Quantity::CycloneLatitude, storm.key, storm.lat_deg, 1.0);
                self.add_mean(Quantity::CycloneEnergy, storm.key, storm.energy_1e4_kt2);
                if !wind_in_tracks {
                    self.add_wind(storm.key, Some(storm.wind_m_s));
                }
            }
        }
    }
}

/// The number of times that a row with rain represents: more than one if fields are coarser than masks, because times
/// between fields have no rain. `step_hours` is the time step of the masks, if known.
fn times_of(hours: Option<f64>, step_hours: Option<f64>) -> f64 {
    let steps = hours.zip(step_hours.filter(|step| *step > 0.0));
    steps.map_or(1.0, |(hours, step)| (hours / step).max(1.0))
}

/// Adds a point of a cyclone's track: its energy, and its latitude if it is the strongest point so far.
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

/// The possible columns for the transport of rivers in a table of events: the vapour transport, and its proxy.
const TRANSPORTS: [&str; 2] = ["max_ivt_kg_m_s", "max_ivt_proxy_kg_m_s"];

/// The note if rivers have only the proxy.
const BY_PROXY: &str = "The transport in rivers (max_ivt) is a proxy: column water times the wind at 850 hPa. In single rivers it is up to a third less than the vapour transport, or a fifth more.";

/// The transport column that rivers of all runs have, so that equal quantities are compared; `None` if there is none.
/// Adds a note if the runs have different columns or only the proxy.
///
/// # Errors
/// [`crate::ClimateError`] if a table cannot be read.
pub(in crate::compare) fn shared_transport(
    runs: &[&Coverage],
    names: &Names,
    notes: &mut Vec<String>,
) -> Result<Option<&'static str>> {
    let mut having = Vec::new();
    for (run, coverage) in runs.iter().enumerate() {
        let has = has_transports(&coverage.path)?;
        // A run without any transport does not restrict the choice.
        if has.contains(&true) {
            having.push((run, has));
        }
    }
    if having.is_empty() {
        // Without any transport both columns are equivalent.
        return Ok(Some(TRANSPORTS[1]));
    }
    let shared = (0..TRANSPORTS.len()).find(|&column| having.iter().all(|(_, has)| has[column]));
    let column_of = |(run, has): (usize, [bool; 2])| (run, TRANSPORTS[usize::from(!has[0])]);
    let groups = grouped(having.into_iter().map(column_of), |a, b| a == b);
    if let (None, [(one, of_one), (other, of_other)]) = (shared, &groups[..]) {
        notes.push(format!(
            "The transport in rivers is not compared: the rivers of {} have {one}, those of {} {other}; one is a stand-in for the other.",
            names.format_runs(of_one),
            names.format_runs(of_other)
        ));
    }
    match shared {
        Some(0) => note_kinds(runs, names, notes),
        Some(_) => notes.push(BY_PROXY.into()),
        None => {}
    }
    Ok(shared.map(|column| TRANSPORTS[column]))
}

/// Notes which runs have transport from files and which have the integral, if recorded.
fn note_kinds(runs: &[&Coverage], names: &Names, notes: &mut Vec<String>) {
    let recorded =
        (runs.iter().enumerate()).filter_map(|(run, c)| Some((run, c.transport.as_ref()?)));
    let kinds = grouped(recorded, |a, b| a == b);
    if kinds.len() > 1 {
        let kinds: Vec<String> = (kinds.iter())
            .map(|(kind, runs)| format!("{}: {kind}", names.format_runs(runs)))
            .collect();
        notes.push(format!(
            "The transport in rivers comes from different fields ({}), so that part of its change may be theirs.",
            kinds.join("; ")
        ));
    }
}

/// Which of [`TRANSPORTS`] are present in the first river that has any.
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
    /// The transport column of one run: the vapour transport if any river has it. Adds a note if rivers have only the
    /// proxy.
    ///
    /// # Errors
    /// [`ClimateError`] if a table cannot be read.
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

/// The highest transport of a river, in the compared column.
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
        // Hours are limited to a day, whatever the time step.
        assert_eq!(times_of(Some(24.0), Some(120.0)), 1.0);
        assert_eq!(times_of(None, Some(3.0)), 1.0);
        assert_eq!(times_of(Some(6.0), None), 1.0);
    }
}
