//! Vapour transport: from the files, integrated from levels, or a proxy from the channels.

use super::{Method, WarmCore};
use crate::derived::{check_shape, plane_by_rows, transport_components, wind_speed};
use crate::error::Result;
use crate::label::{Pass, planes};
use ndarray::{Array2, Array3, ArrayView2, Axis};
use squall_data::archive::{StoredField, StoredTransport};
use squall_data::{Archive, DataError, Snapshot, Variable};

/// The source of vapour transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportSource {
    /// Stored in a file.
    File,
    /// Integrated from humidity and wind on pressure levels.
    Levels,
    /// TMQ · (U850, V850): [`VapourTransport::proxy`].
    Proxy,
}

impl TransportSource {
    /// The source of the transport at one time.
    ///
    /// # Errors
    /// Any error of [`Archive::read`].
    pub fn at(archive: &Archive, index: usize) -> std::result::Result<Self, DataError> {
        if archive.has_transport(index) {
            return Ok(Self::File);
        }
        let levels = from_levels(archive, index)?;
        Ok(levels.map_or(Self::Proxy, |transport| transport.source))
    }

    /// The source of the transport at one time, determined without reading fields.
    pub fn offered(archive: &Archive, index: usize) -> Self {
        if archive.has_transport(index) {
            Self::File
        } else if column(archive, index).is_some() {
            Self::Levels
        } else {
            Self::Proxy
        }
    }

    /// The best source that all times share, determined without reading fields. It is the proxy if some times lack what
    /// others have, or have it on other levels.
    pub fn of_series(archive: &Archive) -> Self {
        let makes = archive.times_of_makes();
        if makes.iter().all(|&index| archive.has_transport(index)) {
            return Self::File;
        }
        let levels: Option<Vec<Vec<f64>>> = (makes.iter())
            .map(|&index| match Self::offered(archive, index) {
                Self::Levels => column(archive, index).map(|(_, levels_pa)| levels_pa),
                Self::File | Self::Proxy => None,
            })
            .collect();
        match levels {
            Some(all)
                if all
                    .windows(2)
                    .all(|pair| have_same_levels(&pair[0], &pair[1])) =>
            {
                Self::Levels
            }
            _ => Self::Proxy,
        }
    }

    /// A short name for attributes and summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Levels => "levels",
            Self::Proxy => "proxy",
        }
    }

    /// A description for logs and file attributes.
    pub fn describe(self) -> &'static str {
        match self {
            Self::File => "vapour transport as the files have it",
            Self::Levels => "vapour transport integrated from humidity and wind on pressure levels",
            Self::Proxy => {
                "precipitable water times the wind at 850 hPa instead of vapour transport"
            }
        }
    }
}

/// Vertically integrated vapour transport at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct VapourTransport {
    /// Magnitude, kg m-1 s-1.
    pub magnitude: Array2<f32>,
    /// Eastward and northward components. If a file only has the magnitude, these are the wind at 850 hPa, for
    /// direction only; `None` if that is missing, too.
    pub direction: Option<[Array2<f32>; 2]>,
    /// Its source.
    pub source: TransportSource,
}

impl VapourTransport {
    /// Creates transport from its components.
    ///
    /// # Errors
    /// [`crate::ClimateError::Mismatch`] if shapes differ.
    pub fn from_components(parts: [Array2<f32>; 2], source: TransportSource) -> Result<Self> {
        let magnitude = wind_speed(parts[0].view(), parts[1].view())?;
        Ok(Self {
            magnitude,
            direction: Some(parts),
            source,
        })
    }

    /// The proxy from the sixteen channels: all vapour moves with the wind at 850 hPa.
    ///
    /// The channels have no humidity and wind on levels. Most vapour of a river lies between 1000 and 700 hPa: near the
    /// ground it moves slower than the air at 850 hPa, above it faster, and its direction turns with height. On the
    /// 2.5-degree GFS forecast of 2011-10-11, over the 1,097 cells poleward of 20 degrees where the transport exceeds
    /// 250 kg/(m s), the regression of the exact transport (ground to 200 hPa) on the proxy through the origin has
    /// slope 1.020, and the cosine between both is 0.986: no factor would improve the mean. Single cells differ more:
    /// in nine of ten the proxy is 0.68 to 1.20 times the transport, and 24 % fall into another category of the river
    /// scale (`climate/tests/detect_gfs.rs`).
    ///
    /// # Errors
    /// [`crate::ClimateError::MissingField`] without TMQ, U850 and V850.
    pub fn proxy(snapshot: &Snapshot) -> Result<Self> {
        use Variable::{Tmq, U850, V850};
        let [tmq, u, v] = planes(snapshot, "vapour transport", [Tmq, U850, V850])?;
        check_shape("precipitable water", &tmq, &snapshot.grid)?;
        let part = |wind: ArrayView2<'_, f32>| {
            plane_by_rows(tmq.dim(), |j, row| {
                for ((out, &water), &wind) in row.iter_mut().zip(tmq.row(j)).zip(wind.row(j)) {
                    *out = water * wind;
                }
            })
        };
        Self::from_components([part(u), part(v)], TransportSource::Proxy)
    }
}

/// The fields to read at each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequest {
    /// The channels.
    pub channels: Vec<Variable>,
    /// Whether to read vapour transport, if the files have it or the levels to compute it from.
    pub transport: bool,
    /// Upper and lower pressure, hPa, of the thickness for warm cores ([`WarmCore::levels_hpa`]), if the files have
    /// both.
    pub upper_thickness: Option<[u16; 2]>,
}

impl FieldRequest {
    /// Requests these channels and every further field that the files have.
    pub fn all(channels: &[Variable]) -> Self {
        Self {
            channels: channels.to_vec(),
            transport: true,
            upper_thickness: WarmCore::Z300.levels_hpa(),
        }
    }

    /// Requests those of `channels`, and those further fields, that the methods use in one pass over a series. Warm
    /// cores use the published levels.
    pub fn by(methods: &[Method], pass: Pass, channels: &[Variable]) -> Self {
        let look_at = |v: &Variable| methods.iter().any(|m| m.channels_in(pass).contains(v));
        Self {
            channels: channels.iter().copied().filter(look_at).collect(),
            transport: methods.iter().any(|method| match pass {
                Pass::First => *method == Method::Percentile,
                Pass::Second => method.uses_transport(),
            }),
            upper_thickness: (WarmCore::Z300.levels_hpa()).filter(|_| {
                pass == Pass::First && methods.iter().any(|m| m.uses_warm_core_heights())
            }),
        }
    }
}

/// The detectors' input at one time: the channels, and further fields of the files.
#[derive(Debug, Clone)]
pub struct DetectFields {
    /// The channels.
    pub snapshot: Snapshot,
    /// Stored or integrated transport; `None` if only the proxy is available.
    pub transport: Option<VapourTransport>,
    /// Height of 300 hPa (or another requested level) above 500 hPa, m; `None` if files lack either level.
    pub upper_thickness_m: Option<Array2<f32>>,
}

impl DetectFields {
    /// Fields with nothing but the channels of a snapshot.
    pub fn from_snapshot(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            transport: None,
            upper_thickness_m: None,
        }
    }

    /// Reads the requested fields of one time: the channels, transport from the files or their levels, the thickness of
    /// the upper layer.
    ///
    /// # Errors
    /// Any error of [`Archive::read_plausible`].
    pub fn read(
        archive: &Archive,
        index: usize,
        request: &FieldRequest,
    ) -> std::result::Result<Self, DataError> {
        let snapshot = archive.read_plausible(index, &request.channels)?;
        let transport = if request.transport {
            stored_transport(archive, index, &snapshot)?
        } else {
            None
        };
        let height = |hpa: u16| archive.read_level(index, "Z", f64::from(hpa));
        let upper_thickness_m = match request.upper_thickness {
            None => None,
            Some([upper, lower]) => {
                let (upper, lower) = (height(upper)?, height(lower)?);
                upper.zip(lower).map(|(upper, lower)| upper - lower)
            }
        };
        Ok(Self {
            snapshot,
            transport,
            upper_thickness_m,
        })
    }

    /// Rejects transport from another source than that of the series: thresholds and climatologies only apply to one
    /// source.
    ///
    /// # Errors
    /// [`crate::ClimateError::TransportDiffers`].
    pub fn check_transport(&self, expected: TransportSource) -> Result<()> {
        let found = (self.transport.as_ref()).map_or(TransportSource::Proxy, |t| t.source);
        if found == expected {
            return Ok(());
        }
        Err(crate::ClimateError::TransportDiffers {
            path: self.snapshot.source.0.clone(),
            time: self.snapshot.time,
            expected: expected.describe(),
            found: found.describe(),
        })
    }

    /// The transport, or else its proxy.
    ///
    /// # Errors
    /// [`crate::ClimateError::MissingField`] if the proxy is needed and its channels are missing.
    pub fn transport(&self) -> Result<std::borrow::Cow<'_, VapourTransport>> {
        match &self.transport {
            Some(transport) => Ok(std::borrow::Cow::Borrowed(transport)),
            None => VapourTransport::proxy(&self.snapshot).map(std::borrow::Cow::Owned),
        }
    }
}

/// Reads transport from the files, or integrates it from their levels.
fn stored_transport(
    archive: &Archive,
    index: usize,
    snapshot: &Snapshot,
) -> std::result::Result<Option<VapourTransport>, DataError> {
    Ok(match archive.read_transport(index)? {
        Some(StoredTransport::Components(parts)) => {
            VapourTransport::from_components(parts, TransportSource::File).ok()
        }
        Some(StoredTransport::Magnitude(magnitude)) => {
            let wind = |v| snapshot.field(v).map(|plane| plane.to_owned());
            let direction = wind(Variable::U850).zip(wind(Variable::V850));
            Some(VapourTransport {
                magnitude,
                direction: direction.map(<[_; 2]>::from),
                source: TransportSource::File,
            })
        }
        None => from_levels(archive, index)?,
    })
}

/// Minimum number of levels for the integral over a column.
const MIN_LEVELS: usize = 4;
/// Tolerance for equal pressures of levels, Pa.
const SAME_PA: f64 = 1.0;

fn from_levels(
    archive: &Archive,
    index: usize,
) -> std::result::Result<Option<VapourTransport>, DataError> {
    let read = |name| match archive.read_levels(index, name) {
        Ok(found) => Ok(Some(found)),
        Err(DataError::MissingVariable { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let (Some(q), Some(u), Some(v)) = (read("Q")?, read("U")?, read("V")?) else {
        return Ok(None);
    };
    let Some((pressure, [q, u, v])) = common_levels([q, u, v]) else {
        return Ok(None);
    };
    let surface = if archive.available().contains(&Variable::Ps) {
        Some(archive.read(index, &[Variable::Ps])?)
    } else {
        None
    };
    let surface = surface.as_ref().and_then(|s| s.field(Variable::Ps));
    let parts = transport_components(&pressure, &q, &u, &v, surface).ok();
    Ok(parts.and_then(|p| VapourTransport::from_components(p, TransportSource::Levels).ok()))
}

/// The fields of humidity and wind on levels that [`from_levels`] would read at one time, and the pressures common to
/// all of them; `None` if these are too few. Reads no data.
pub(super) fn column(archive: &Archive, index: usize) -> Option<([StoredField; 3], Vec<f64>)> {
    let q = archive.field_on_levels(index, "Q")?;
    let u = archive.field_on_levels(index, "U")?;
    let v = archive.field_on_levels(index, "V")?;
    let levels_pa = common_pressures([&q.levels_pa, &u.levels_pa, &v.levels_pa])?;
    Some(([q, u, v], levels_pa))
}

/// Whether two columns have the same levels.
pub(super) fn have_same_levels(own_pa: &[f64], others_pa: &[f64]) -> bool {
    let mut pairs = own_pa.iter().zip(others_pa);
    own_pa.len() == others_pa.len() && pairs.all(|(own, others)| (own - others).abs() < SAME_PA)
}

/// The index of a pressure in a list of levels.
fn level_index(pressure: f64, levels: &[f64]) -> Option<usize> {
    let mut levels = levels.iter();
    levels.position(|level| (level - pressure).abs() < SAME_PA)
}

/// The pressures common to three fields, as in the first; `None` if they are too few for a column.
fn common_pressures(levels: [&[f64]; 3]) -> Option<Vec<f64>> {
    let have_all = |p: &&f64| levels.iter().all(|of| level_index(**p, of).is_some());
    let common: Vec<f64> = levels[0].iter().filter(have_all).copied().collect();
    (common.len() >= MIN_LEVELS).then_some(common)
}

/// The fields at their common pressures; `None` if these are too few for a column.
fn common_levels(fields: [(Vec<f64>, Array3<f32>); 3]) -> Option<(Vec<f64>, [Array3<f32>; 3])> {
    let [a, b, c] = &fields;
    let common = common_pressures([&a.0, &b.0, &c.0])?;
    let chosen = fields.map(|field| {
        let places = common.iter().filter_map(|p| level_index(*p, &field.0));
        let places: Vec<usize> = places.collect();
        if places.iter().copied().eq(0..field.0.len()) {
            field.1
        } else {
            field.1.select(Axis(0), &places)
        }
    });
    Some((common, chosen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::archive::on_library_thread;
    use squall_data::{Calendar, LatLonGrid, Time};
    use std::sync::Arc;

    /// Whether all cells have this value, to rounding.
    fn is_all(plane: &Array2<f32>, value: f64) -> bool {
        plane
            .iter()
            .all(|found| (f64::from(*found) - value).abs() < 1e-4 * value.abs())
    }

    /// A hundredth of the air is vapour and moves by (-3, 4) m/s, from 1000 to 250 hPa.
    #[test]
    fn levels_give_transport_and_the_thickness_of_the_upper_layer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("levels.nc");
        let written = on_library_thread(|| -> netcdf::Result<()> {
            let mut file = netcdf::create(&path)?;
            let lat_deg: Vec<f64> = (0..8).map(|j| -78.75 + 22.5 * f64::from(j)).collect();
            let lon_deg: Vec<f64> = (0..8).map(|i| 45.0 * f64::from(i)).collect();
            for (name, values, units) in [
                ("time", &[0.0][..], "days since 2000-08-01 00:00:00"),
                ("lev", &[1000.0, 850.0, 500.0, 300.0, 250.0][..], "hPa"),
                ("lat", &lat_deg[..], "degrees_north"),
                ("lon", &lon_deg[..], "degrees_east"),
            ] {
                file.add_dimension(name, values.len())?;
                let mut axis = file.add_variable::<f64>(name, &[name])?;
                axis.put_attribute("units", units)?;
                axis.put_values(values, ..)?;
            }
            for (name, units, of_levels) in [
                ("hus", "kg kg-1", [0.01f32; 5]),
                ("ua", "m s-1", [-3.0; 5]),
                ("va", "m s-1", [4.0; 5]),
                ("zg", "m", [100.0, 1500.0, 5600.0, 9300.0, 10_500.0]),
            ] {
                let mut field = file.add_variable::<f32>(name, &["time", "lev", "lat", "lon"])?;
                field.put_attribute("units", units)?;
                let values: Vec<f32> = of_levels.iter().flat_map(|value| [*value; 64]).collect();
                field.put_values(&values, ..)?;
            }
            Ok(())
        });
        written.unwrap();
        let archive = Archive::open(&path.to_string_lossy()).unwrap();
        assert_eq!(
            TransportSource::at(&archive, 0).unwrap(),
            TransportSource::Levels
        );
        // The source is determined without reading.
        let told = [
            TransportSource::offered(&archive, 0),
            TransportSource::of_series(&archive),
        ];
        assert_eq!(told, [TransportSource::Levels; 2]);
        let request = FieldRequest::all(&[Variable::U850]);
        let fields = DetectFields::read(&archive, 0, &request).unwrap();
        assert!(fields.check_transport(TransportSource::Levels).is_ok());
        assert!(fields.check_transport(TransportSource::Proxy).is_err());
        let transport = fields.transport.unwrap();
        // Over 75,000 Pa.
        let per_m_s = 0.01 * 75_000.0 / 9.80665;
        let [east, north] = transport.direction.unwrap();
        assert!(is_all(&east, -3.0 * per_m_s) && is_all(&north, 4.0 * per_m_s));
        assert!(is_all(&transport.magnitude, 5.0 * per_m_s));
        assert!(is_all(&fields.upper_thickness_m.unwrap(), 9300.0 - 5600.0));
        let of_250 = FieldRequest {
            transport: false,
            upper_thickness: WarmCore::Z250.levels_hpa(),
            ..request.clone()
        };
        let fields = DetectFields::read(&archive, 0, &of_250).unwrap();
        assert!(is_all(
            &fields.upper_thickness_m.unwrap(),
            10_500.0 - 5600.0
        ));
        let neither = FieldRequest {
            transport: false,
            upper_thickness: None,
            ..request
        };
        let fields = DetectFields::read(&archive, 0, &neither).unwrap();
        assert!(fields.transport.is_none() && fields.upper_thickness_m.is_none());
    }

    #[test]
    fn the_stand_in_is_column_water_times_the_wind() {
        let planes = [
            (Variable::V850, 4.0),
            (Variable::Tmq, 20.0),
            (Variable::U850, -3.0),
        ];
        let snapshot = Snapshot {
            time: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
            grid: Arc::new(LatLonGrid::global(4, 8).unwrap()),
            variables: planes.map(|(variable, _)| variable).to_vec(),
            fields: Array3::from_shape_fn((3, 4, 8), |(k, _, _)| planes[k].1),
            source: ("proxy".into(), 0),
        };
        let found = VapourTransport::proxy(&snapshot).unwrap();
        let [east, north] = found.direction.unwrap();
        assert!(is_all(&east, -60.0) && is_all(&north, 80.0));
        assert!(is_all(&found.magnitude, 100.0));
    }

    #[test]
    fn humidity_and_wind_meet_at_the_levels_that_all_have() {
        let field = |levels: &[f64]| {
            let values = Array3::from_shape_fn((levels.len(), 1, 1), |(k, ..)| levels[k] as f32);
            (levels.to_vec(), values)
        };
        let q = field(&[300e2, 500e2, 700e2, 850e2, 1000e2]);
        let u = field(&[200e2, 300e2, 500e2, 700e2, 850e2]);
        let v = field(&[300e2, 500e2, 600e2, 700e2, 850e2]);
        let (pressure, fields) = common_levels([q.clone(), u.clone(), v]).unwrap();
        assert_eq!(pressure, [300e2, 500e2, 700e2, 850e2]);
        for field in fields {
            let found: Vec<f64> = field.iter().map(|value| f64::from(*value)).collect();
            assert_eq!(found, pressure, "each level of its own pressure");
        }
        let elsewhere = field(&[250e2, 400e2, 600e2, 800e2, 950e2]);
        assert!(common_levels([q, u, elsewhere]).is_none());
        assert!(have_same_levels(&[300e2, 500e2], &[300e2 + 0.5, 500e2]));
        assert!(!have_same_levels(&[300e2, 500e2], &[300e2, 500e2, 700e2]));
        assert!(!have_same_levels(&[300e2, 500e2], &[250e2, 500e2]));
    }
}
