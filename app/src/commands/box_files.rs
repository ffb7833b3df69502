//! Files of boxes in the formats of others.

use clap::Args;
use squall_climate::ClimateError;
use squall_data::boxes::coco::CocoWriter;
use squall_data::boxes::extreme_weather::{ExtremeWeatherWriter, SLOTS};
use squall_data::boxes::geojson::GeoJsonWriter;
use squall_data::boxes::{BoxSink, SinkSummary};
use squall_data::{LatLonGrid, Time, TrackedBox};
use std::path::PathBuf;
use std::sync::Arc;

/// Which of them are asked for.
#[derive(Debug, Clone, Default, Args)]
pub struct BoxFormats {
    /// Also write the boxes in the layout of the ExtremeWeather data set (HDF5): pixels of the grid.
    #[arg(long, value_name = "FILE")]
    pub boxes_hdf5: Option<PathBuf>,
    /// Also write the boxes as COCO has them (JSON): pixels of the grid.
    #[arg(long, value_name = "FILE")]
    pub boxes_coco: Option<PathBuf>,
    /// Also write the boxes as GeoJSON, for maps.
    #[arg(long, value_name = "FILE")]
    pub boxes_geojson: Option<PathBuf>,
}

impl BoxFormats {
    /// None of them.
    pub fn is_empty(&self) -> bool {
        let all = [&self.boxes_hdf5, &self.boxes_coco, &self.boxes_geojson];
        all.iter().all(|path| path.is_none())
    }
}

/// Files that the same boxes go to.
pub struct BoxFiles(Vec<Box<dyn BoxSink>>);

impl BoxFiles {
    /// Of `formats`, with pixels of `grid`, beside others.
    pub fn create(
        formats: &BoxFormats,
        grid: &Arc<LatLonGrid>,
        others: Vec<Box<dyn BoxSink>>,
    ) -> anyhow::Result<Self> {
        let mut sinks = others;
        if let Some(path) = &formats.boxes_hdf5 {
            sinks.push(Box::new(ExtremeWeatherWriter::new(path, grid.clone())));
        }
        if let Some(path) = &formats.boxes_coco {
            sinks.push(Box::new(CocoWriter::create(path, grid.clone())?));
        }
        if let Some(path) = &formats.boxes_geojson {
            sinks.push(Box::new(GeoJsonWriter::create(path)?));
        }
        Ok(Self(sinks))
    }

    /// Adds the boxes of the next time to all files.
    pub fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<(), ClimateError> {
        for sink in &mut self.0 {
            sink.write(time, boxes)?;
        }
        Ok(())
    }

    /// Ends all files and says, as a warning, what one of them had no room for.
    pub fn finish(self) -> anyhow::Result<usize> {
        let mut left_out = 0;
        for sink in self.0 {
            let SinkSummary {
                path,
                left_out: here,
                ..
            } = sink.finish()?;
            if here > 0 {
                tracing::warn!(
                    "`{}` has room for {SLOTS} boxes at a time: {here} smaller ones are left out",
                    path.display()
                );
            }
            left_out += here;
        }
        Ok(left_out)
    }
}
