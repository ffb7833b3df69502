//! How moisture was computed, and from which variables and levels: no percentile is that of two.

use super::thresholds::Moisture;
use crate::detect::transport::{SAME_PA, TransportSource, common_pressures};
use crate::error::{ClimateError, Result};
use squall_data::archive::StoredField;
use squall_data::{Archive, Variable};

/// How moisture is computed, and from what.
#[derive(Debug, Clone, PartialEq)]
pub struct MoistureRecord {
    /// How, in words: computed otherwise it is another quantity.
    pub computation: String,
    /// The pressures of the levels that it is summed over, Pa, ascending; empty if it is not summed by Squall.
    pub levels_pa: Vec<f64>,
    /// The names of the variables in the files.
    pub variables: String,
    /// Their units in the files, in the same order.
    pub units: String,
}

impl MoistureRecord {
    /// That of a series of times that have these channels, told without reading any; `None` if no time has what it is
    /// computed from.
    ///
    /// # Errors
    /// [`ClimateError::MoistureDiffers`] naming the first time whose moisture is another than before.
    pub fn of_series(
        archive: &Archive,
        moisture: Moisture,
        channels: &[Variable],
    ) -> Result<Option<Self>> {
        let mut first: Option<Self> = None;
        for index in archive.times_of_makes() {
            // Such a time is refused, or left out, where it is read.
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

    /// That of one time, which is found as [`crate::detect::DetectFields::read`] finds the moisture itself.
    fn at(archive: &Archive, index: usize, moisture: Moisture) -> Option<Self> {
        match moisture {
            Moisture::ColumnWater => of_column_water(archive, index),
            Moisture::Transport => {
                let stored = archive.transport_fields(index);
                if stored.is_empty() {
                    of_levels(archive, index).or_else(|| of_proxy(archive, index))
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

    /// What makes another a different quantity, if anything: what that is, this one's and the other's. Names and units
    /// do not: fields of all names come in one unit.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        if self.computation != other.computation {
            let [own, others] = [self, other].map(|record| record.computation.clone());
            return Some(("how moisture is computed", own, others));
        }
        let mut pairs = self.levels_pa.iter().zip(&other.levels_pa);
        let are_same = self.levels_pa.len() == other.levels_pa.len()
            && pairs.all(|(own, others)| (own - others).abs() < SAME_PA);
        if are_same {
            return None;
        }
        let [own, others] = [self, other].map(|record| words_of_levels(&record.levels_pa));
        Some(("the levels that moisture is summed over", own, others))
    }
}

/// Their number and pressures, for people.
fn words_of_levels(levels_pa: &[f64]) -> String {
    let hpa: Vec<String> = (levels_pa.iter().map(|pa| pa / 100.0))
        .map(|hpa| hpa.to_string())
        .collect();
    format!("{} ({} hPa)", hpa.len(), hpa.join(", "))
}

/// Which levels of a column count.
fn which_levels(has_surface: bool) -> &'static str {
    if has_surface {
        "those above the ground, which surface pressure tells"
    } else {
        "all that have values, also below the ground, for want of surface pressure"
    }
}

fn of_column_water(archive: &Archive, index: usize) -> Option<MoistureRecord> {
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

fn of_levels(archive: &Archive, index: usize) -> Option<MoistureRecord> {
    let found = ["Q", "U", "V"].map(|name| archive.field_on_levels(index, name));
    let [Some(q), Some(u), Some(v)] = found else {
        return None;
    };
    let levels_pa = common_pressures([&q.levels_pa, &u.levels_pa, &v.levels_pa])?;
    let mut fields = vec![q, u, v];
    let has_surface = archive.available().contains(&Variable::Ps);
    if has_surface {
        fields.extend(archive.channel_fields(index, Variable::Ps));
    }
    let how = TransportSource::Levels.describe();
    let computation = format!("{how}: {}", which_levels(has_surface));
    Some(MoistureRecord::new(computation, levels_pa, &fields))
}

fn of_proxy(archive: &Archive, index: usize) -> Option<MoistureRecord> {
    let water = of_column_water(archive, index)?;
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
