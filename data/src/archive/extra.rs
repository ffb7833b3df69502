//! Fields besides the channels that the heuristics use if a file has them: vapour transport, single levels.

use super::coordinates::nearest_level;
use super::scan::FieldSource;
use super::{Archive, Place, alias};
use crate::error::Result;
use ndarray::Array2;

/// Vertically integrated vapour transport as stored in a file, kg m-1 s-1.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredTransport {
    /// Eastward and northward parts (`VIWVE` and `VIWVN`, `TUQ` and `TVQ`, `uIVT` and `vIVT`).
    Components([Array2<f32>; 2]),
    /// Magnitude only (`IVT`).
    Magnitude(Array2<f32>),
}

impl Archive {
    /// Whether the files of a time hold vapour transport.
    pub fn has_transport(&self, index: usize) -> bool {
        use alias::Transport::{Eastward, Magnitude, Northward};
        let has = |part| self.transport_source(index, part).is_some();
        index < self.times.len() && (has(Magnitude) || has(Eastward) && has(Northward))
    }

    /// Reads the stored vapour transport; `None` if there is none. Components are preferred to the magnitude.
    ///
    /// # Errors
    /// [`crate::DataError::Unreadable`] if a file is damaged; [`crate::DataError::BadVariable`] if it has no valid
    /// value; [`crate::DataError::Invalid`] if there is no such time.
    pub fn read_transport(&self, index: usize) -> Result<Option<StoredTransport>> {
        use alias::Transport::{Eastward, Magnitude, Northward};
        self.check(index)?;
        if let (Some(east), Some(north)) = (
            self.transport_plane(index, Eastward)?,
            self.transport_plane(index, Northward)?,
        ) {
            return Ok(Some(StoredTransport::Components([east, north])));
        }
        let magnitude = self.transport_plane(index, Magnitude)?;
        Ok(magnitude.map(StoredTransport::Magnitude))
    }

    /// Whether a file of the time has this field at this level, as [`Self::read_level`] would find it.
    pub fn has_level(&self, index: usize, name: &str, hpa: f64) -> bool {
        index < self.times.len() && self.level_source(index, name, hpa).is_some()
    }

    /// Reads one level of a field on pressure levels; `None` if no file of the time has it.
    ///
    /// Names are those of [`Archive::read_levels`]. Takes the nearest level within 0.5 hPa.
    ///
    /// # Errors
    /// As [`Self::read_transport`].
    pub fn read_level(&self, index: usize, name: &str, hpa: f64) -> Result<Option<Array2<f32>>> {
        self.check(index)?;
        let found = self.level_source(index, name, hpa);
        found
            .map(|(place, (source, level))| self.read_plane(index, place, source, Some(level)))
            .transpose()
    }

    /// The variable and level index of a field at a level.
    fn level_source(
        &self,
        index: usize,
        name: &str,
        hpa: f64,
    ) -> Option<(Place, (&FieldSource, usize))> {
        let family = alias::family(name);
        self.first_with(index, |layout| {
            let mut fields = layout.levels.iter().chain(&layout.picked);
            fields.find_map(|levels| {
                let same = levels.source.name.eq_ignore_ascii_case(name)
                    || family.is_some() && levels.family == family;
                let level = nearest_level(&levels.pressure_pa, hpa, 50.0);
                Some((&levels.source, level.filter(|_| same)?))
            })
        })
    }

    /// The variable that holds a part of the transport at a time.
    pub(super) fn transport_source(
        &self,
        index: usize,
        part: alias::Transport,
    ) -> Option<(Place, &FieldSource)> {
        self.first_with(index, |layout| {
            let mut fields = layout.transport.iter();
            let (_, source) = fields.find(|(found, _)| *found == part)?;
            Some(source)
        })
    }

    fn transport_plane(&self, index: usize, part: alias::Transport) -> Result<Option<Array2<f32>>> {
        let found = self.transport_source(index, part);
        found
            .map(|(place, source)| self.read_plane(index, place, source, None))
            .transpose()
    }

    fn read_plane(
        &self,
        index: usize,
        place: Place,
        source: &FieldSource,
        level: Option<usize>,
    ) -> Result<Array2<f32>> {
        let mut plane = Array2::zeros(self.grid.shape());
        self.read_plane_into(place, source, level, plane.view_mut())?;
        self.check_known(
            index,
            (self.path(place), source.name.as_str()),
            plane.iter(),
        )?;
        Ok(plane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &std::path::Path, names: &[&str]) {
        crate::archive::on_library_thread(|| {
            let mut file = netcdf::create(path).unwrap();
            file.add_dimension("time", 1).unwrap();
            file.add_dimension("lat", 4).unwrap();
            file.add_dimension("lon", 8).unwrap();
            let mut axis = |name: &str, values: Vec<f64>, unit: &str| {
                let mut variable = file.add_variable::<f64>(name, &[name]).unwrap();
                variable.put_values(&values, ..).unwrap();
                variable.put_attribute("units", unit).unwrap();
            };
            axis("time", vec![0.0], "hours since 2000-01-01 00:00:00");
            // Descending latitudes: the plane must be turned.
            axis("lat", vec![60.0, 20.0, -20.0, -60.0], "degrees_north");
            axis(
                "lon",
                (0..8).map(|i| 45.0 * f64::from(i)).collect(),
                "degrees_east",
            );
            for (k, name) in names.iter().enumerate() {
                let mut variable = file
                    .add_variable::<f32>(name, &["time", "lat", "lon"])
                    .unwrap();
                let values: Vec<f32> = (0..32).map(|n| (100 * k + n) as f32).collect();
                variable.put_values(&values, ..).unwrap();
                variable.put_attribute("units", "kg m**-1 s**-1").unwrap();
            }
        });
    }

    #[test]
    fn transport_is_read_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ivt.nc");
        for (names, both) in [
            (&["p72.162", "IVT"][..], false),
            (&["viwve", "viwvn"], true),
            // A direction is more than a size.
            (&["viwve", "viwvn", "IVT"], true),
            // And half of it is none.
            (&["viwve", "IVT"], false),
        ] {
            let _ = std::fs::remove_file(&path);
            write(&path, names);
            let archive = Archive::open(&path.to_string_lossy()).unwrap();
            assert!(archive.has_transport(0));
            match archive.read_transport(0).unwrap() {
                Some(StoredTransport::Components([east, north])) if both => {
                    assert_eq!((east[[3, 0]], north[[3, 1]]), (0.0, 101.0));
                }
                Some(StoredTransport::Magnitude(plane)) if !both => {
                    assert_eq!((plane[[3, 0]], plane[[0, 7]]), (100.0, 131.0));
                }
                other => panic!("{names:?}: {other:?}"),
            }
        }
        assert!(
            Archive::open(&path.to_string_lossy())
                .unwrap()
                .read_transport(1)
                .is_err()
        );
    }

    /// No cell exceeds a threshold where none has a value: such times had masks without rivers.
    #[test]
    fn transport_of_a_time_that_was_never_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ivt.nc");
        for (names, blank) in [(&["IVT"][..], "IVT"), (&["viwve", "viwvn"][..], "viwvn")] {
            let _ = std::fs::remove_file(&path);
            write(&path, names);
            let put = |values: [f32; 32]| {
                crate::archive::on_library_thread(|| {
                    let mut file = netcdf::append(&path).unwrap();
                    let mut variable = file.variable_mut(blank).unwrap();
                    variable.put_values(&values, ..).unwrap();
                });
                let archive = Archive::open(&path.to_string_lossy()).unwrap();
                assert!(archive.has_transport(0));
                archive.read_transport(0)
            };
            let error = put([f32::NAN; 32]).unwrap_err().to_string();
            for part in [blank, "2000-01-01T00:00:00", "only missing values"] {
                assert!(error.contains(part), "{error} lacks {part}");
            }
            // One cell is enough.
            let mut values = [f32::NAN; 32];
            values[7] = 250.0;
            assert!(put(values).is_ok());
        }
    }

    #[test]
    fn single_levels_agree_with_all_levels() {
        let Some(path) = crate::testdata::real("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc")
        else {
            return;
        };
        let archive = Archive::open(&path.to_string_lossy()).unwrap();
        let (pressure, all) = archive.read_levels(0, "Z").unwrap();
        let level = pressure.iter().position(|p| *p == 30_000.0).unwrap();
        let one = archive.read_level(0, "Z", 300.0).unwrap().unwrap();
        assert_eq!(one, all.index_axis(ndarray::Axis(0), level));
        assert!(archive.read_level(0, "Z", 303.0).unwrap().is_none());
        assert!(!archive.has_transport(0) && archive.read_transport(0).unwrap().is_none());
    }
}
