//! Reads the fields of one time.

use super::derive::{
    complete_heights, humidity_of_dewpoint, lowest_level_height, precipitable_water,
};
use super::scan::{self, FieldSource, Layout, Levels};
use super::{Archive, Place, decode};
use crate::Variable;
use crate::error::{DataError, Result};
use crate::facts::FileFacts;
use crate::snapshot::Snapshot;
use ndarray::{Array2, Array3, ArrayViewMut2, Axis, Zip};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Sources of Z1000 where it is missing.
const BELOW_GROUND: [Variable; 2] = [Variable::Psl, Variable::Trefht];

/// How a channel of one time is obtained.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChannelOrigin<'a> {
    /// It is read from a file.
    Direct(Place, &'a FieldSource),
    /// It is computed from other fields.
    Computed(Derivation<'a>),
}

/// How a channel is computed from other fields.
#[derive(Debug, Clone, Copy)]
pub(super) enum Derivation<'a> {
    /// TMQ from humidity on pressure levels.
    ColumnWater(Place, &'a Levels),
    /// QREFHT from dew point and surface pressure.
    Dewpoint(Place, &'a FieldSource),
    /// ZBOT from near-surface temperature.
    LowestLevel,
}

impl Derivation<'_> {
    /// The file with the field needed besides channels.
    fn file(self) -> Option<usize> {
        match self {
            Self::ColumnWater(place, _) | Self::Dewpoint(place, _) => Some(place.file),
            Self::LowestLevel => None,
        }
    }

    /// The channels needed, if available.
    pub(super) fn made_of(self) -> &'static [Variable] {
        match self {
            Self::ColumnWater(..) => &[Variable::Ps, Variable::Qrefht],
            Self::Dewpoint(..) => &[Variable::Ps],
            Self::LowestLevel => &[Variable::Trefht, Variable::Qrefht],
        }
    }

    /// Describes how a channel is computed, with and without surface pressure.
    pub(super) fn sentence(self, has_ps: bool) -> &'static str {
        match self {
            Self::ColumnWater(..) if has_ps => {
                "TMQ is the vertical integral of specific humidity on pressure levels"
            }
            Self::ColumnWater(..) => {
                "TMQ is the vertical integral of specific humidity on pressure levels; without PS levels below the ground \
                 count, and the air below the lowest level does not"
            }
            Self::Dewpoint(..) => "QREFHT is computed from the dew point near the ground and PS",
            Self::LowestLevel => {
                "ZBOT is computed: the height of CAM5's lowest layer at the temperature near the ground"
            }
        }
    }
}

impl Archive {
    /// How a channel is obtained at a time; `None` if it is unavailable.
    pub(super) fn how(&self, index: usize, variable: Variable) -> Option<ChannelOrigin<'_>> {
        let direct = self.places[index].iter().filter_map(|&place| {
            let source = self.layout(place).channel(variable)?;
            Some((source.proxy.is_some(), ChannelOrigin::Direct(place, source)))
        });
        // The first file by name wins, but the channel itself before a stand-in.
        if let Some((_, how)) = direct.min_by_key(|(stands_in, _)| *stands_in) {
            return Some(how);
        }
        Some(ChannelOrigin::Computed(match variable {
            Variable::Tmq => {
                let (place, levels) = self.first_with(index, Layout::humidity)?;
                Derivation::ColumnWater(place, levels)
            }
            Variable::Qrefht => {
                self.how(index, Variable::Ps)?;
                let (place, source) = self.first_with(index, |layout| layout.dewpoint.as_ref())?;
                Derivation::Dewpoint(place, source)
            }
            Variable::Zbot => {
                self.how(index, Variable::Trefht)?;
                Derivation::LowestLevel
            }
            _ => return None,
        }))
    }

    /// The files that some fields of a time are read from, in the order of the archive.
    pub fn files_read(&self, index: usize, variables: &[Variable]) -> Vec<&Path> {
        let mut files = BTreeSet::new();
        let mut asked = variables.to_vec();
        while let Some(variable) = asked.pop() {
            match self.how(index, variable) {
                Some(ChannelOrigin::Direct(place, _)) => {
                    files.insert(place.file);
                    if variable == Variable::Z1000 {
                        asked.extend(BELOW_GROUND);
                    }
                }
                Some(ChannelOrigin::Computed(derivation)) => {
                    files.extend(derivation.file());
                    asked.extend(derivation.made_of());
                }
                None => {}
            }
        }
        let path = |&file: &usize| self.files[file].0.as_path();
        files.iter().map(path).collect()
    }

    /// The file with a channel of a time; for computed channels, the first of their source files.
    pub fn file_of(&self, index: usize, variable: Variable) -> Option<&Path> {
        match self.how(index, variable)? {
            ChannelOrigin::Direct(place, _) => Some(self.path(place)),
            ChannelOrigin::Computed(_) => self.files_read(index, &[variable]).first().copied(),
        }
    }

    /// Some channels of a time and all channels that they are computed from.
    pub(super) fn with_sources(&self, index: usize, variables: &[Variable]) -> Vec<Variable> {
        let (mut all, mut at) = (variables.to_vec(), 0);
        while let Some(&variable) = all.get(at) {
            if let Some(ChannelOrigin::Computed(derivation)) = self.how(index, variable) {
                all.extend(derivation.made_of());
            }
            at += 1;
        }
        all
    }

    /// Reads the fields of one time.
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] naming the channel and what the file has; [`DataError::BadVariable`] if its unit
    /// or shape is unusable or it has no valid value; [`DataError::Unreadable`] if the file is damaged;
    /// [`DataError::Invalid`] if there is no such time.
    pub fn read(&self, index: usize, variables: &[Variable]) -> Result<Snapshot> {
        self.check(index)?;
        let (rows, columns) = self.grid.shape();
        let mut fields = Array3::zeros((variables.len(), rows, columns));
        for (&variable, plane) in variables.iter().zip(fields.axis_iter_mut(Axis(0))) {
            self.read_channel_into(index, variable, plane)?;
        }
        let (path, at) = self.source_of(index);
        Ok(Snapshot {
            time: self.times[index],
            grid: self.grid.clone(),
            variables: variables.to_vec(),
            fields,
            source: (path.to_path_buf(), at),
        })
    }

    /// Like [`Self::read`], but rejects physically impossible fields.
    ///
    /// # Errors
    /// As [`Self::read`], and as [`Snapshot::check_plausible`].
    pub fn read_plausible(&self, index: usize, variables: &[Variable]) -> Result<Snapshot> {
        let snapshot = self.read(index, variables)?;
        self.check_plausible(index, &snapshot)?;
        Ok(snapshot)
    }

    /// Rejects physically impossible fields of a time, naming the file that each was read from.
    ///
    /// # Errors
    /// As [`Snapshot::check_plausible`].
    pub fn check_plausible(&self, index: usize, snapshot: &Snapshot) -> Result<()> {
        let checked = snapshot.check_plausible();
        checked.map_err(|error| self.of_its_file(index, error))
    }

    /// Checks, without reading, that the files of a time provide these channels, directly or computed.
    ///
    /// # Errors
    /// The error that [`Self::read`] would return for the first missing channel.
    pub fn check_has(&self, index: usize, variables: &[Variable]) -> Result<()> {
        self.check(index)?;
        match variables.iter().find(|v| self.how(index, **v).is_none()) {
            Some(lacking) => Err(self.missing(index, *lacking)),
            None => Ok(()),
        }
    }

    /// Replaces the file in a variable's error by the one it was read from: a snapshot knows only one of its files.
    fn of_its_file(&self, index: usize, mut error: DataError) -> DataError {
        if let DataError::BadVariable { path, variable, .. } = &mut error
            && let Some(variable) = Variable::from_name(variable)
            && let Some(own) = self.file_of(index, variable)
        {
            *path = own.to_path_buf();
        }
        error
    }

    pub(super) fn check(&self, index: usize) -> Result<()> {
        if index < self.times.len() {
            return Ok(());
        }
        let found = self.times.len();
        Err(DataError::Invalid(format!(
            "time {index} of an archive of {found} times"
        )))
    }

    /// Reads one channel into grid order, or computes it.
    fn read_channel_into(
        &self,
        index: usize,
        variable: Variable,
        mut plane: ArrayViewMut2<'_, f32>,
    ) -> Result<()> {
        let field = |variable| {
            let mut field = Array2::zeros(self.grid.shape());
            self.read_channel_into(index, variable, field.view_mut())
                .map(|()| field)
        };
        let wanted = |variable| {
            self.how(index, variable)
                .map(|_| field(variable))
                .transpose()
        };
        match self.how(index, variable) {
            None => return Err(self.missing(index, variable)),
            Some(ChannelOrigin::Direct(place, source)) => {
                self.read_plane_into(place, source, None, plane.view_mut())?;
                if variable == Variable::Z1000
                    && plane.iter().any(|z| z.is_nan())
                    && !plane.iter().all(|z| z.is_nan())
                    && let Some(psl) = wanted(Variable::Psl)?
                {
                    let temperature = wanted(Variable::Trefht)?;
                    complete_heights(plane.view_mut(), &psl, temperature.as_ref());
                    self.has_completed_heights.store(true, Ordering::Relaxed);
                }
            }
            Some(ChannelOrigin::Computed(Derivation::ColumnWater(place, levels))) => {
                let (pressure_pa, q) = self.read_all_levels(place, levels)?;
                let (ps, qref) = (wanted(Variable::Ps)?, wanted(Variable::Qrefht)?);
                let (ps, qref) = (
                    ps.as_ref().map(|f| f.view()),
                    qref.as_ref().map(|f| f.view()),
                );
                plane.assign(&precipitable_water(&pressure_pa, q.view(), ps, qref));
            }
            Some(ChannelOrigin::Computed(Derivation::Dewpoint(place, source))) => {
                self.read_plane_into(place, source, None, plane.view_mut())?;
                Zip::from(&mut plane)
                    .and(&field(Variable::Ps)?)
                    .for_each(|value, &ps| *value = humidity_of_dewpoint(*value, ps));
            }
            Some(ChannelOrigin::Computed(Derivation::LowestLevel)) => {
                plane.assign(&field(Variable::Trefht)?);
                // With dry air the height would be 0.6 m too low in the tropics.
                match wanted(Variable::Qrefht)? {
                    Some(q) => Zip::from(&mut plane)
                        .and(&q)
                        .for_each(|value, &q| *value = lowest_level_height(*value, q)),
                    None => plane.mapv_inplace(|t| lowest_level_height(t, 0.008)),
                }
            }
        }
        let path = self.source_of(index).0;
        self.check_known(index, (path, variable.name()), plane.iter())
            .map_err(|error| self.of_its_file(index, error))
    }

    /// Rejects a field without any value: its time was never written.
    pub(super) fn check_known<'v>(
        &self,
        index: usize,
        (path, name): (&Path, &str),
        mut values: impl Iterator<Item = &'v f32>,
    ) -> Result<()> {
        if values.any(|value| !value.is_nan()) {
            return Ok(());
        }
        let expected = format!("numbers at {}", self.times[index]);
        let found = "only missing values";
        Err(DataError::bad_variable(path, name, expected, found))
    }

    /// Reads one plane into grid order.
    pub(super) fn read_plane_into(
        &self,
        place: Place,
        source: &FieldSource,
        level: Option<usize>,
        plane: ArrayViewMut2<'_, f32>,
    ) -> Result<()> {
        let level = level.or(source.level).unwrap_or(0);
        let read = self.read_planes(place, source, &(level..level + 1))?;
        let read = read.index_axis(Axis(0), 0);
        self.layout(place).order.copy_plane(read, plane);
        Ok(())
    }

    /// Reads some levels of a field, if it has any, as planes in file order.
    pub(super) fn read_planes(
        &self,
        place: Place,
        source: &FieldSource,
        levels: &Range<usize>,
    ) -> Result<Array3<f32>> {
        let path = self.path(place);
        let check = || self.check_unchanged(place.file);
        let stored = self
            .open
            .with_blocks(place.file, path, check, |netcdf, blocks| {
                let gone = || {
                    DataError::unreadable(
                        path,
                        format!(
                            "variable `{}` has gone since the file was scanned",
                            source.name
                        ),
                    )
                };
                let variable = netcdf.variable(&source.name).ok_or_else(gone)?;
                blocks.read((place.file, path), &variable, source, (place.at, levels))
            })?;
        let (rows, columns) = self.layout(place).file_shape;
        let layout = decode::PlaneLayout {
            count: levels.len(),
            rows,
            columns,
            transposed: source.is_transposed(),
        };
        decode::planes(path, stored, &source.decoder, &layout)
    }

    /// Fails if a file has changed since it was examined, unless it has only grown: the packing of its numbers and
    /// their times may be different.
    fn check_unchanged(&self, file: usize) -> Result<()> {
        let (path, layout) = &self.files[file];
        let facts = || self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if FileFacts::of(path) == facts()[file] {
            return Ok(());
        }
        let now = scan::scan(path)?;
        let is_there = |&(index, at): &(usize, usize)| {
            let found = now.times.get(at);
            found.and_then(|found| found.instant_in(self.calendar)) == Some(self.times[index])
        };
        let mut own = self.times_of_files()[file].iter();
        if now.layout.reads_as(&self.layouts[*layout]) && own.all(is_there) {
            // If each time spans more files than are kept open, files are reopened again and again.
            facts()[file] = now.facts;
            return Ok(());
        }
        Err(DataError::unreadable(
            path,
            "it has changed since it was looked at: give the command again",
        ))
    }

    /// For each file, the axis index and file index of its times.
    fn times_of_files(&self) -> &[Vec<(usize, usize)>] {
        self.times_of_files.get_or_init(|| {
            let mut all = vec![Vec::new(); self.files.len()];
            for (index, places) in self.places.iter().enumerate() {
                for place in places {
                    all[place.file].push((index, place.at));
                }
            }
            all
        })
    }

    fn missing(&self, index: usize, variable: Variable) -> DataError {
        let refused = self.first_with(index, |layout| {
            let mut refused = layout.refused.iter();
            refused.find(|refusal| refusal.channel == variable)
        });
        if let Some((place, refusal)) = refused {
            return DataError::bad_variable(
                self.path(place),
                &refusal.name,
                &refusal.expected,
                &refusal.found,
            );
        }
        let places = self.places[index].iter();
        let names = places.flat_map(|&place| &self.layout(place).names);
        DataError::MissingVariable {
            path: self.source_of(index).0.into(),
            variable: variable.name().into(),
            found: names.take(30).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::nc;
    use std::time::{Duration, UNIX_EPOCH};

    /// As copies on the disks of nodes are: wherever it was opened again, all of it had been looked at again.
    #[test]
    fn a_file_of_another_date_is_looked_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.nc");
        nc::on_library_thread(|| {
            let mut file = netcdf::create(&path).unwrap();
            for (name, length, unit) in [
                ("time", 1, "hours since 2000-07-01"),
                ("lat", 8, "degrees_north"),
                ("lon", 8, "degrees_east"),
            ] {
                file.add_dimension(name, length).unwrap();
                let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
                axis.put_attribute("units", unit).unwrap();
                let places: Vec<f64> = (0..length).map(|k| 6.0 * k as f64).collect();
                axis.put_values(&places, ..).unwrap();
            }
            let dimensions = ["time", "lat", "lon"];
            let mut psl = file.add_variable::<f32>("PSL", &dimensions).unwrap();
            psl.put_attribute("units", "Pa").unwrap();
            psl.put_values(&[101_325.0_f32; 64], ..).unwrap();
            file.close().unwrap();
        });
        let archive = Archive::open(path.to_str().unwrap()).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1))
            .unwrap();
        archive.read(0, &[Variable::Psl]).unwrap();
        assert_eq!(*archive.facts.lock().unwrap(), [FileFacts::of(&path)]);
    }
}
