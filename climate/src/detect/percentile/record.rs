//! Records how moisture was computed, and from which variables and levels: percentiles only apply to moisture computed
//! in the same way.

use super::thresholds::Moisture;
use crate::detect::transport::{TransportSource, column, have_same_levels};
use crate::error::{ClimateError, Result};
use squall_data::archive::StoredField;
use squall_data::{Archive, Variable};

/// How moisture is computed, and from which fields.
#[derive(Debug, Clone, PartialEq)]
pub struct MoistureRecord {
    /// A description of the computation; a different one means a different quantity.
    pub computation: String,
    /// Pressures of the levels in the integral, Pa, ascending; empty if Squall does not integrate.
    pub levels_pa: Vec<f64>,
    /// Names of the variables in the files.
    pub variables: String,
    /// Their units in the files, in the same order.
    pub units: String,
}

impl MoistureRecord {
    /// The record for a series whose times have these channels, determined without reading fields; `None` if no time
    /// has the necessary fields.
    ///
    /// # Errors
    /// [`ClimateError::MoistureDiffers`] with the first time whose moisture differs from that of earlier times.
    pub fn of_series(
        archive: &Archive,
        moisture: Moisture,
        channels: &[Variable],
    ) -> Result<Option<Self>> {
        let mut first: Option<Self> = None;
        for index in archive.times_of_makes() {
            // Reading rejects or skips this time.
            if archive.check_has(index, channels).is_err() {
                continue;
            }
            let Some(found) = Self::at(archive, index, moisture) else {
                continue;
            };
            let difference = first.as_ref().and_then(|first| first.difference(&found));
            if let Some((what, expected, found)) = difference {
                return Err(ClimateError::MoistureDiffers {
                    path: archive.source_of(index).0.into(),
                    time: archive.times()[index],
                    what,
                    expected,
                    found,
                });
            }
            first.get_or_insert(found);
        }
        Ok(first)
    }

    /// The record for one time, by the same rules by which [`crate::detect::DetectFields::read`] selects fields.
    fn at(archive: &Archive, index: usize, moisture: Moisture) -> Option<Self> {
        match moisture {
            Moisture::ColumnWater => column_water_record(archive, index),
            Moisture::Transport => {
                let stored = archive.transport_fields(index);
                if stored.is_empty() {
                    levels_record(archive, index).or_else(|| proxy_record(archive, index))
                } else {
                    let computation = TransportSource::File.describe().into();
                    Some(Self::new(computation, Vec::new(), &stored))
                }
            }
        }
    }

    fn new(computation: String, levels_pa: Vec<f64>, fields: &[StoredField]) -> Self {
        let mut known: Vec<&StoredField> = Vec::new();
        for field in fields {
            if known.iter().all(|other| other.name != field.name) {
                known.push(field);
            }
        }
        let names: Vec<&str> = known.iter().map(|field| field.name.as_str()).collect();
        let units = known.iter().map(|field| field.unit.as_deref());
        let units: Vec<&str> = units.map(|unit| unit.unwrap_or("no unit")).collect();
        Self {
            computation,
            levels_pa,
            variables: names.join(", "),
            units: units.join(", "),
        }
    }

    /// How another record describes a different quantity, if it does: what differs, its value here and its value there.
    /// Names and units do not matter, because fields are converted to one unit.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        if self.computation != other.computation {
            let [own, others] = [self, other].map(|record| record.computation.clone());
            return Some(("how moisture is computed", own, others));
        }
        if have_same_levels(&self.levels_pa, &other.levels_pa) {
            return None;
        }
        let [own, others] = [self, other].map(|record| describe_levels(&record.levels_pa));
        Some(("the levels that moisture is summed over", own, others))
    }
}

/// Describes the number of levels and their pressures.
fn describe_levels(levels_pa: &[f64]) -> String {
    let hpa: Vec<String> = (levels_pa.iter().map(|pa| pa / 100.0))
        .map(|hpa| hpa.to_string())
        .collect();
    format!("{} ({} hPa)", hpa.len(), hpa.join(", "))
}

/// Describes which levels of a column are integrated.
fn which_levels(has_surface: bool) -> &'static str {
    if has_surface {
        "those above the ground, which surface pressure tells"
    } else {
        "all that have values, also below the ground, for want of surface pressure"
    }
}

fn column_water_record(archive: &Archive, index: usize) -> Option<MoistureRecord> {
    let fields = archive.channel_fields(index, Variable::Tmq);
    let levels_pa = fields.first()?.levels_pa.clone();
    let has = |variable| archive.offers(index, variable);
    let computation = if levels_pa.is_empty() {
        "column water as the files have it".into()
    } else {
        let near_ground = if has(Variable::Ps) && has(Variable::Qrefht) {
            ", and the humidity near the ground"
        } else {
            ""
        };
        let levels = which_levels(has(Variable::Ps));
        format!("column water integrated from humidity on pressure levels: {levels}{near_ground}")
    };
    Some(MoistureRecord::new(computation, levels_pa, &fields))
}

fn levels_record(archive: &Archive, index: usize) -> Option<MoistureRecord> {
    let (fields, levels_pa) = column(archive, index)?;
    let mut fields = Vec::from(fields);
    let has_surface = archive.available().contains(&Variable::Ps);
    if has_surface {
        fields.extend(archive.channel_fields(index, Variable::Ps));
    }
    let how = TransportSource::Levels.describe();
    let computation = format!("{how}: {}", which_levels(has_surface));
    Some(MoistureRecord::new(computation, levels_pa, &fields))
}

fn proxy_record(archive: &Archive, index: usize) -> Option<MoistureRecord> {
    let water = column_water_record(archive, index)?;
    let mut fields = Vec::new();
    for variable in [Variable::Tmq, Variable::U850, Variable::V850] {
        let of_variable = archive.channel_fields(index, variable);
        if of_variable.is_empty() {
            return None;
        }
        fields.extend(of_variable);
    }
    let how = TransportSource::Proxy.describe();
    let computation = format!("{how}; {}", water.computation);
    Some(MoistureRecord::new(computation, water.levels_pa, &fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::archive::on_library_thread;

    /// The record for a file with these fields (name, unit), and optionally humidity on three levels.
    fn record(
        moisture: Moisture,
        fields: &[(&str, &str)],
        has_levels: bool,
    ) -> Option<MoistureRecord> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nc");
        let written = on_library_thread(|| -> netcdf::Result<()> {
            let mut file = netcdf::create(&path)?;
            let lat_deg: Vec<f64> = (0..8).map(|j| -78.75 + 22.5 * f64::from(j)).collect();
            let lon_deg: Vec<f64> = (0..8).map(|i| 45.0 * f64::from(i)).collect();
            for (name, values, units) in [
                ("time", &[0.0][..], "days since 2000-08-01 00:00:00"),
                ("lev", &[1000.0, 850.0, 500.0][..], "hPa"),
                ("lat", &lat_deg[..], "degrees_north"),
                ("lon", &lon_deg[..], "degrees_east"),
            ] {
                file.add_dimension(name, values.len())?;
                let mut axis = file.add_variable::<f64>(name, &[name])?;
                axis.put_attribute("units", units)?;
                axis.put_values(values, ..)?;
            }
            let flat: &[&str] = &["time", "lat", "lon"];
            let fields = fields.iter().map(|&field| (field, flat, 64));
            let levels: &[&str] = &["time", "lev", "lat", "lon"];
            let humidity = has_levels.then_some((("hus", "kg kg-1"), levels, 192));
            for ((name, units), along, count) in fields.chain(humidity) {
                let mut field = file.add_variable::<f32>(name, along)?;
                field.put_attribute("units", units)?;
                field.put_values(&vec![0.005f32; count], ..)?;
            }
            Ok(())
        });
        written.unwrap();
        let archive = Archive::open(&path.to_string_lossy()).unwrap();
        MoistureRecord::of_series(&archive, moisture, &[]).unwrap()
    }

    #[test]
    fn every_way_to_moisture_is_told_with_what_it_is_made_of() {
        use Moisture::{ColumnWater, Transport};
        let (water, own) = (("TMQ", "kg m-2"), ("IVT", "kg m-1 s-1"));
        let (east, north) = (("U850", "m s-1"), ("V850", "m s-1"));
        let stored = MoistureRecord {
            computation: "column water as the files have it".into(),
            levels_pa: Vec::new(),
            variables: "TMQ".into(),
            units: "kg m-2".into(),
        };
        assert_eq!(record(ColumnWater, &[water], false), Some(stored));
        let ground = [("PS", "Pa"), ("QREFHT", "kg kg-1")];
        let summed = record(ColumnWater, &ground, true).unwrap();
        assert!(
            summed.computation.contains("those above the ground")
                && summed
                    .computation
                    .ends_with("and the humidity near the ground"),
            "{summed:?}"
        );
        assert_eq!(summed.levels_pa, [50_000.0, 85_000.0, 100_000.0]);
        assert_eq!(summed.variables, "hus, PS, QREFHT");
        assert_eq!(summed.units, "kg kg-1, Pa, kg kg-1");
        let moved = record(Transport, &[water, east, north], false).unwrap();
        let proxy = TransportSource::Proxy.describe();
        assert!(moved.computation.starts_with(proxy), "{moved:?}");
        assert_eq!(moved.variables, "TMQ, U850, V850");
        // An integrated column is a different quantity; without winds on levels, transport cannot be integrated.
        let on_levels = record(Transport, &[east, north], true).unwrap();
        assert!(on_levels.computation.starts_with(proxy), "{on_levels:?}");
        assert_eq!(on_levels.levels_pa, summed.levels_pa);
        assert!(moved.difference(&on_levels).is_some());
        let found = record(Transport, &[water, east, north, own], false).unwrap();
        assert_eq!(found.computation, TransportSource::File.describe());
        assert_eq!(
            (&found.variables[..], &found.units[..]),
            ("IVT", "kg m-1 s-1")
        );
        assert_eq!(record(Transport, &[water], false), None);
    }
}
