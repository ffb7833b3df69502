//! Boxes against boxes.

use squall_data::{BoxFrame, BoxFrames, Calendar, LatLonGrid, boxes};
use squall_validation::average_precision::{BoxScores, BoxesAt, score_boxes};
use squall_validation::bootstrap::Bootstrap;
use std::path::Path;

/// Draws for intervals: each goes over all boxes.
const DRAWS: usize = 300;

/// The grid of files that give boxes in pixels and not in degrees: CAM5's of 0.25 degrees, as ExtremeWeather's.
const PIXELS: (usize, usize) = (768, 1152);

/// Scores two files of boxes: tables, ExtremeWeather's HDF5 or COCO's JSON.
pub fn score(predicted: &Path, truth: &Path, calendar: Calendar) -> anyhow::Result<BoxScores> {
    let grid = LatLonGrid::global(PIXELS.0, PIXELS.1)?;
    let table = |path: &Path| -> anyhow::Result<Vec<BoxesAt>> {
        let frames = boxes::read(path, &grid, calendar)?;
        frames
            .notes
            .iter()
            .for_each(|note| tracing::warn!("{note}"));
        Ok(by_time(&frames))
    };
    let (predicted, truth) = (table(predicted)?, table(truth)?);
    let bootstrap = Bootstrap {
        draws: DRAWS,
        ..Bootstrap::default()
    };
    Ok(score_boxes(&truth, &predicted, &bootstrap)?)
}

fn by_time(frames: &BoxFrames) -> Vec<BoxesAt> {
    let of_frame = |frame: &BoxFrame| {
        let boxes = frame.boxes.iter().map(|tracked| tracked.geo).collect();
        (frame.time, boxes)
    };
    frames.frames().iter().map(of_frame).collect()
}
