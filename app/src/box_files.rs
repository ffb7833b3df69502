//! Files of boxes: read with what their folder tells of them, and written in the formats of other tools.

use crate::input;
use clap::Args;
use squall_data::atomic::Pending;
use squall_data::boxes::coco::CocoWriter;
use squall_data::boxes::extreme_weather::{ExtremeWeatherWriter, SLOTS};
use squall_data::boxes::geojson::GeoJsonWriter;
use squall_data::boxes::{self, BoxSeries, BoxSink};
use squall_data::{BoxFrames, Calendar, DataError, LatLonGrid, TrackedBox};
use squall_jobs::infer::searched_times;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads all boxes of a file. The table of a finished inference lists every time that was searched, unless it was cut
/// since.
///
/// # Errors
/// As [`boxes::read`].
pub fn read(path: &Path, grid: &LatLonGrid, calendar: Calendar) -> Result<BoxFrames, DataError> {
    let mut frames = boxes::read(path, grid, calendar)?;
    frames.lists_all_times = searched_times(path) == Some(frames.frames().len() as u64);
    Ok(frames)
}

/// The formats of other tools that are asked for.
#[derive(Debug, Clone, Args)]
pub struct BoxFormats {
    /// Also write the boxes as ExtremeWeather HDF5, in grid pixels.
    #[arg(long, value_name = "FILE")]
    pub boxes_hdf5: Option<PathBuf>,
    /// Also write the boxes as COCO JSON, in grid pixels.
    #[arg(long, value_name = "FILE")]
    pub boxes_coco: Option<PathBuf>,
    /// Also write the boxes as GeoJSON, for maps.
    #[arg(long, value_name = "FILE")]
    pub boxes_geojson: Option<PathBuf>,
}

impl BoxFormats {
    /// The requested files.
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let all = [&self.boxes_hdf5, &self.boxes_coco, &self.boxes_geojson];
        all.into_iter().flatten()
    }

    /// Whether no format is requested.
    pub fn is_empty(&self) -> bool {
        self.paths().next().is_none()
    }

    /// Rejects files that cannot be written, or that are among the inputs, before any work is done.
    pub fn check(&self, inputs: &[&Path]) -> anyhow::Result<()> {
        for path in self.paths() {
            input::keep_inputs(inputs, path)?;
            // Dropping it removes it again.
            Pending::new(path)?.create()?;
        }
        Ok(())
    }

    /// Writes the boxes of a table in the requested formats, with pixels of `grid`. Returns how many boxes did not fit
    /// into a format; a warning reports them, too.
    pub fn write(
        &self,
        table: &Path,
        grid: &Arc<LatLonGrid>,
        calendar: Calendar,
        wanted: impl Fn(&TrackedBox) -> bool,
    ) -> anyhow::Result<usize> {
        let mut sinks: Vec<Box<dyn BoxSink>> = Vec::new();
        if let Some(path) = &self.boxes_hdf5 {
            sinks.push(Box::new(ExtremeWeatherWriter::new(path, grid.clone())));
        }
        if let Some(path) = &self.boxes_coco {
            sinks.push(Box::new(CocoWriter::create(path, grid.clone())?));
        }
        if let Some(path) = &self.boxes_geojson {
            sinks.push(Box::new(GeoJsonWriter::create(path)?));
        }
        let found = BoxSeries::open(table, grid, calendar)?;
        for frame in found.frames(0)? {
            let mut frame = frame?;
            frame.boxes.retain(&wanted);
            for sink in &mut sinks {
                sink.write(frame.time, &frame.boxes)?;
            }
        }
        let mut left_out = 0;
        for sink in sinks {
            let done = sink.finish()?;
            if done.left_out > 0 {
                tracing::warn!(
                    "`{}` has room for {SLOTS} boxes at a time: {} smaller ones are left out",
                    done.path.display(),
                    done.left_out
                );
            }
            left_out += done.left_out;
        }
        Ok(left_out)
    }
}
