//! Boxes against boxes.

use squall_data::boxes::table::read_table;
use squall_data::{BoxFrames, Calendar};
use squall_validation::average_precision::{BoxScores, BoxesAt, score_boxes};
use squall_validation::bootstrap::Bootstrap;
use std::path::Path;

/// Draws for intervals: each goes over all boxes.
const DRAWS: usize = 300;

/// Scores two tables of boxes.
pub fn score(predicted: &Path, truth: &Path, calendar: Calendar) -> anyhow::Result<BoxScores> {
    let table = |path: &Path| -> anyhow::Result<Vec<BoxesAt>> {
        let frames = read_table(path, calendar)?;
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
    let of_frame = |frame: &squall_data::BoxFrame| {
        let boxes = frame.boxes.iter().map(|tracked| tracked.geo).collect();
        (frame.time, boxes)
    };
    frames.frames().iter().map(of_frame).collect()
}
