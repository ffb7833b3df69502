//! Finds the variables that a field would be read from, without reading them.

use super::read::{ChannelOrigin, Derivation};
use super::scan::{FieldSource, Levels};
use super::{Archive, alias};
use crate::Variable;
use std::collections::BTreeSet;

/// A variable as described in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredField {
    /// Its name.
    pub name: String,
    /// Its unit; `None` if the file names none.
    pub unit: Option<String>,
    /// Pressures of its levels in Pa, ascending; empty if it is read without levels, or at a single one.
    pub levels_pa: Vec<f64>,
}

impl StoredField {
    fn of(source: &FieldSource) -> Self {
        Self {
            name: source.name.clone(),
            unit: source.unit.clone(),
            levels_pa: Vec::new(),
        }
    }

    fn on_levels(levels: &Levels) -> Self {
        let mut levels_pa = levels.pressure_pa.clone();
        levels_pa.sort_by(f64::total_cmp);
        Self {
            levels_pa,
            ..Self::of(&levels.source)
        }
    }
}

impl Archive {
    /// The variables that [`Self::read_transport`] reads at a time; empty if the files have no vapour transport.
    pub fn transport_fields(&self, index: usize) -> Vec<StoredField> {
        use alias::Transport::{Eastward, Magnitude, Northward};
        if index >= self.times.len() {
            return Vec::new();
        }
        let of = |part| {
            let found = self.transport_source(index, part);
            found.map(|(_, source)| StoredField::of(source))
        };
        match (of(Eastward), of(Northward)) {
            (Some(east), Some(north)) => vec![east, north],
            _ => of(Magnitude).into_iter().collect(),
        }
    }

    /// The variable that [`Self::read_levels`] reads at a time; `None` if no file has it.
    pub fn field_on_levels(&self, index: usize, name: &str) -> Option<StoredField> {
        if index >= self.times.len() {
            return None;
        }
        let (_, levels) = self.levels_named(index, name)?;
        Some(StoredField::on_levels(levels))
    }

    /// The variables that a channel of a time is read or computed from, possibly with duplicates; empty if the channel
    /// is unavailable.
    ///
    /// For integrated column water, humidity on pressure levels comes first.
    pub fn channel_fields(&self, index: usize, variable: Variable) -> Vec<StoredField> {
        if index >= self.times.len() {
            return Vec::new();
        }
        let derivation = match self.how(index, variable) {
            None => return Vec::new(),
            Some(ChannelOrigin::Direct(_, source)) => return vec![StoredField::of(source)],
            Some(ChannelOrigin::Computed(derivation)) => derivation,
        };
        let own = match derivation {
            Derivation::ColumnWater(_, levels) => Some(StoredField::on_levels(levels)),
            Derivation::Dewpoint(_, source) => Some(StoredField::of(source)),
            Derivation::LowestLevel => None,
        };
        let others = derivation.made_of().iter();
        let others = others.flat_map(|&other| self.channel_fields(index, other));
        own.into_iter().chain(others).collect()
    }

    /// The first time of each combination of file layouts. Together these times show all variables and levels of the
    /// archive.
    pub fn times_of_makes(&self) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let makes = |index: usize| -> Vec<usize> {
            let places = self.places[index].iter();
            places.map(|place| self.files[place.file].1).collect()
        };
        let times = 0..self.times.len();
        times.filter(|&index| seen.insert(makes(index))).collect()
    }
}
