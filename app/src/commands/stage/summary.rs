//! The contents of a store, as text and JSON.

use super::splits;
use crate::plan::counted;
use serde::Serialize;
use squall_data::store::{Selection, Split};
use squall_data::{GeoBox, Store};
use std::path::Path;

/// The contents of a store.
#[derive(Debug, Serialize)]
pub struct StageSummary {
    /// Samples of training, validation and test.
    pub samples: [usize; 3],
    /// Stored channels.
    pub channels: Vec<&'static str>,
    /// Number of times in the input with neither mask nor boxes.
    pub unlabelled: usize,
    /// Number of samples with a mask.
    pub masked: usize,
    /// Share of background, cyclone and river pixels in training.
    pub class_shares: [f64; 3],
    /// The same for training, validation and test; `None` for a split without masks.
    pub split_class_shares: [Option<[f64; 3]>; 3],
    /// Number of samples whose boxes are known; `None` without boxes.
    pub boxed: Option<usize>,
    /// Number of boxes over all samples.
    pub boxes: usize,
    /// Number of boxes clipped at the edge of the grid.
    pub boxes_cut: usize,
    /// Number of boxes entirely outside the grid, which were dropped.
    pub boxes_outside: usize,
    /// Number of unusable input files (`--skip-bad`).
    pub skipped_files: usize,
    /// Number of other times that are unreadable or lack a channel, which are not samples (`--skip-bad`).
    pub skipped_times: usize,
    /// Number of times dropped because a sample of another split is too close (`--guard-hours`).
    pub guarded_times: usize,
}

impl StageSummary {
    /// Summarises a finished store; warns about splits that lack something.
    pub fn of(
        store: &Store,
        selection: &Selection,
        boxes: Option<&[Option<Vec<GeoBox>>]>,
        block_days: f64,
    ) -> Self {
        let samples = Split::ALL.map(|split| store.ids(split).len());
        let counts = Split::ALL.map(|split| store.class_counts(split));
        let lacks = splits::lacks(samples, counts, block_days);
        lacks.iter().for_each(|lack| tracing::warn!("{lack}"));
        let shares = splits::shares(counts);
        Self {
            samples,
            channels: store.channels().iter().map(|v| v.name()).collect(),
            unlabelled: selection.unlabelled,
            masked: selection.masked(),
            class_shares: shares[0].unwrap_or_default(),
            split_class_shares: shares,
            boxed: boxes.map(|boxes| boxes.iter().flatten().count()),
            boxes: boxes.into_iter().flatten().flatten().map(Vec::len).sum(),
            boxes_cut: selection.cut,
            boxes_outside: selection.outside,
            skipped_files: 0,
            skipped_times: 0,
            guarded_times: 0,
        }
    }

    /// Reports the contents of the store in this folder.
    pub fn say(&self, place: &Path) {
        let [train, validation, test] = self.samples;
        tracing::info!(
            "{} for training, {validation} for validation, {test} for the test; {}; in {}",
            counted(train, "sample"),
            counted(self.channels.len(), "channel"),
            place.display()
        );
        match self.masked {
            0 => tracing::info!("no sample has a mask: the store is for detectors"),
            masked => tracing::info!(
                "{} with masks; {}",
                counted(masked, "sample"),
                splits::in_words(&self.split_class_shares)
            ),
        }
        if let Some(boxed) = self.boxed {
            let boxes = counted(self.boxes, "box");
            tracing::info!("{boxes} in {}", counted(boxed, "sample"));
        }
    }
}
