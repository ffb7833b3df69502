//! Small netCDF files in every order that is allowed.

use ndarray::Array3;
use netcdf::{AttributeValue, Options};
use squall_data::LatLonGrid;
use std::path::{Path, PathBuf};

/// A field of a test file.
#[derive(Clone)]
pub struct Field {
    pub name: &'static str,
    pub unit: &'static str,
    pub levels: bool,
    /// Longitude varies slowest.
    pub transposed: bool,
    /// Packed as 16-bit integers with this scale factor.
    pub scale: Option<f64>,
    /// ... that are unsigned by attribute.
    pub unsigned: bool,
}

impl Field {
    pub fn named(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            levels: false,
            transposed: false,
            scale: None,
            unsigned: false,
        }
    }
}

/// A test file: an 8 x 16 global grid unless said otherwise.
pub struct FileSpec {
    pub rows: usize,
    pub columns: usize,
    /// Days since 2000-01-01.
    pub times: Vec<f64>,
    pub calendar: &'static str,
    pub fields: Vec<Field>,
    pub levels: Vec<f64>,
    pub level_unit: &'static str,
    pub flip_lat: bool,
    pub flip_lon: bool,
    /// The longitude axis starts this many columns later, below zero.
    pub roll: usize,
    /// The first meridian stands at both ends.
    pub repeat_meridian: bool,
    /// netCDF classic instead of netCDF-4.
    pub classic: bool,
    /// Time and longitude as integers where they can be.
    pub integers: bool,
    /// Two cells are missing.
    pub hole: bool,
}

impl Default for FileSpec {
    fn default() -> Self {
        Self {
            rows: 8,
            columns: 16,
            times: vec![0.0],
            calendar: "noleap",
            fields: vec![Field::named("PSL", "Pa")],
            levels: Vec::new(),
            level_unit: "hPa",
            flip_lat: false,
            flip_lon: false,
            roll: 0,
            repeat_meridian: false,
            classic: false,
            integers: false,
            hole: false,
        }
    }
}

#[allow(dead_code)] // not of every test
pub fn path_of(folder: &Path, day: i32) -> PathBuf {
    folder.join(format!("day{day:02}.nc"))
}

/// The value at a place: quarters, so that packing is exact.
fn value(lat: f64, lon: f64, add: f64) -> f64 {
    (lat * 4.0).round() / 4.0 + (lon * 4.0).round() + add
}

/// What a reader should give, times `factor`.
pub fn values_of(grid: &LatLonGrid, add: f64, factor: f64) -> Array3<f32> {
    let (rows, columns) = grid.shape();
    Array3::from_shape_fn((1, rows, columns), |(_, j, i)| {
        (value(grid.lat_deg()[j], grid.lon_deg()[i], add) * factor) as f32
    })
}

/// Writes a file.
pub fn write(path: &Path, spec: &FileSpec) {
    let grid = LatLonGrid::global(spec.rows, spec.columns).unwrap();
    let mut lat = grid.lat_deg().to_vec();
    let mut lon = grid.lon_deg().to_vec();
    let roll = spec.roll % spec.columns;
    lon.rotate_left(roll);
    // Ascending through zero: -180..180 and the like.
    lon.iter_mut()
        .take(spec.columns - roll)
        .filter(|_| roll > 0)
        .for_each(|v| *v -= 360.0);
    if spec.repeat_meridian {
        lon.push(lon[0] + 360.0);
    }
    if spec.flip_lat {
        lat.reverse();
    }
    if spec.flip_lon {
        lon.reverse();
    }
    let options = if spec.classic {
        Options::_64BIT_OFFSET
    } else {
        Options::NETCDF4
    };
    let mut file = netcdf::create_with(path, options).unwrap();
    file.add_unlimited_dimension("time").unwrap();
    file.add_dimension("lat", lat.len()).unwrap();
    file.add_dimension("lon", lon.len()).unwrap();
    let mut axes = vec![
        ("lat", lat.clone(), "degrees_north"),
        ("lon", lon.clone(), "degrees_east"),
    ];
    if !spec.levels.is_empty() {
        file.add_dimension("lev", spec.levels.len()).unwrap();
        axes.push(("lev", spec.levels.clone(), spec.level_unit));
    }
    axes.push(("time", spec.times.clone(), "days since 2000-01-01 00:00:00"));
    for (name, values, unit) in &axes {
        if spec.integers && values.iter().all(|v| v.fract() == 0.0) {
            file.add_variable::<i32>(name, &[name]).unwrap();
        } else {
            file.add_variable::<f64>(name, &[name]).unwrap();
        }
        let mut axis = file.variable_mut(name).unwrap();
        axis.put_attribute("units", *unit).unwrap();
        if *name == "time" {
            axis.put_attribute("calendar", spec.calendar).unwrap();
        }
    }
    for field in &spec.fields {
        let mut dimensions = vec!["time"];
        if field.levels {
            dimensions.push("lev");
        }
        dimensions.extend(if field.transposed {
            ["lon", "lat"]
        } else {
            ["lat", "lon"]
        });
        match field.scale {
            None => file.add_variable::<f32>(field.name, &dimensions).unwrap(),
            Some(_) => file.add_variable::<i16>(field.name, &dimensions).unwrap(),
        };
        let mut variable = file.variable_mut(field.name).unwrap();
        variable.put_attribute("units", field.unit).unwrap();
        match field.scale {
            Some(scale) => {
                variable.put_attribute("scale_factor", scale).unwrap();
                variable.put_attribute("add_offset", offset(field)).unwrap();
                variable
                    .put_attribute("_FillValue", AttributeValue::Short(FILL))
                    .unwrap();
                if field.unsigned {
                    variable.put_attribute("_Unsigned", "true").unwrap();
                }
            }
            None => {
                variable
                    .put_attribute("missing_value", AttributeValue::Float(-999.0))
                    .unwrap();
            }
        }
    }
    if spec.classic {
        file.enddef().unwrap();
    }
    for (name, values, _) in &axes {
        file.variable_mut(name)
            .unwrap()
            .put_values(values, 0..values.len())
            .unwrap();
    }
    let levels = spec.levels.len().max(1);
    for field in &spec.fields {
        let mut data = Vec::new();
        for time in &spec.times {
            for level in 0..if field.levels { levels } else { 1 } {
                let add = time + 1000.0 * level as f64;
                let (outer, inner) = if field.transposed {
                    (&lon, &lat)
                } else {
                    (&lat, &lon)
                };
                for a in outer {
                    for b in inner {
                        let (lat, lon) = if field.transposed { (b, a) } else { (a, b) };
                        let lon = (lon + 360.0) % 360.0;
                        let hole = spec.hole && *lat > 60.0 && (lon - 180.0).abs() < 1.0;
                        data.push(if hole {
                            f64::NAN
                        } else {
                            value(*lat, lon, add)
                        });
                    }
                }
            }
        }
        let mut variable = file.variable_mut(field.name).unwrap();
        let mut counts = vec![spec.times.len()];
        counts.extend(variable.dimensions()[1..].iter().map(|d| d.len()));
        let extents: Vec<netcdf::Extent> = counts.iter().map(|&n| (0..n).into()).collect();
        match field.scale {
            None => {
                let data: Vec<f32> = data
                    .iter()
                    .map(|v| if v.is_nan() { -999.0 } else { *v as f32 })
                    .collect();
                variable.put_values(&data, extents).unwrap();
            }
            Some(scale) => {
                let pack = |v: &f64| {
                    if v.is_nan() {
                        return FILL;
                    }
                    let stored = ((v - offset(field)) / scale).round();
                    // As unsigned: the upper half of the range is stored as negative numbers.
                    if field.unsigned {
                        stored as u16 as i16
                    } else {
                        stored as i16
                    }
                };
                let data: Vec<i16> = data.iter().map(pack).collect();
                variable.put_values(&data, extents).unwrap();
            }
        }
    }
}

const FILL: i16 = -1;

/// Unsigned numbers start low enough that some lie in the upper half.
fn offset(field: &Field) -> f64 {
    if field.unsigned { -9000.0 } else { 4000.0 }
}
