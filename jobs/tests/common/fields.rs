//! History files of the samples, a model for them, and what comes out of it.

use super::alone::run;
use super::{CHANNELS, COLUMNS, ROWS, grid, recipe, sample, store};
use ndarray::{Array2, Axis};
use squall_data::Variable;
use squall_data::archive::on_library_thread;
use squall_data::mask_file::MaskArchive;
use squall_jobs::infer::Model;
use std::ops::Range;
use std::path::Path;

/// A history file of samples; `without` leaves a variable out, `gap` makes half of a field missing at one index.
pub fn history(
    path: &Path,
    samples: Range<usize>,
    without: Option<Variable>,
    gap: Option<usize>,
) -> Result<(), netcdf::Error> {
    // Any other thread would fill the log with tracebacks of HDF5.
    on_library_thread(|| write_history(path, samples, without, gap))
}

fn write_history(
    path: &Path,
    samples: Range<usize>,
    without: Option<Variable>,
    gap: Option<usize>,
) -> Result<(), netcdf::Error> {
    let grid = grid();
    let mut file = netcdf::create(path)?;
    file.add_unlimited_dimension("time")?;
    file.add_dimension("lat", ROWS)?;
    file.add_dimension("lon", COLUMNS)?;
    for (name, values, units) in [
        ("lat", grid.lat_deg(), "degrees_north"),
        ("lon", grid.lon_deg(), "degrees_east"),
    ] {
        let mut axis = file.add_variable::<f64>(name, &[name])?;
        axis.put_attribute("units", units)?;
        axis.put_values(values, ..)?;
    }
    let mut axis = file.add_variable::<f64>("time", &["time"])?;
    axis.put_attribute("units", "days since 2000-01-01 00:00:00")?;
    axis.put_attribute("calendar", "noleap")?;
    let days: Vec<f64> = samples.clone().map(|k| k as f64 / 8.0).collect();
    axis.put_values(&days, ..days.len())?;
    for (k, variable) in CHANNELS.into_iter().enumerate() {
        if Some(variable) == without {
            continue;
        }
        let mut field = file.add_variable::<f32>(variable.name(), &["time", "lat", "lon"])?;
        field.put_attribute("units", variable.entry().unit)?;
        for (at, index) in samples.clone().enumerate() {
            let (snapshot, _) = sample(index);
            let mut plane = snapshot.fields.index_axis(Axis(0), k).to_owned();
            if gap == Some(index) {
                plane.iter_mut().skip(5).for_each(|value| *value = f32::NAN);
            }
            let values: Vec<f32> = plane.into_iter().collect();
            field.put_values(&values, (at, .., ..))?;
        }
    }
    file.close()
}

/// A trained model, and 20 times (three days) of fields in two files.
pub fn prepared(folder: &Path) -> (Model, String) {
    let store = store(&folder.join("store"), 6, 1);
    let recipe = recipe(&["training.steps=6"]);
    let report = run(&recipe, &store, &folder.join("run")).unwrap();
    let input = folder.join("input");
    std::fs::create_dir_all(&input).unwrap();
    history(&input.join("h2.a.nc"), 0..11, None, None).unwrap();
    history(&input.join("h2.b.nc"), 11..20, None, None).unwrap();
    let model = Model::load(&report.model, None).unwrap();
    (model, input.to_string_lossy().into_owned())
}

/// The masks of a folder and their times.
pub fn masks(out: &Path) -> Vec<(String, Array2<u8>)> {
    let archive = MaskArchive::open(&out.join("masks.*.nc").to_string_lossy()).unwrap();
    (0..archive.times().len())
        .map(|index| archive.read(index).unwrap())
        .map(|mask| (mask.time.to_string(), mask.codes))
        .collect()
}

/// All files of a folder by name, but for hidden ones.
pub fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<(String, Vec<u8>)> = paths
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .filter(|(name, _)| !name.starts_with('.'))
        .collect();
    found.sort();
    found
}
