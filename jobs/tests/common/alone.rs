//! Trainings of a single rank.

use squall_data::Store;
use squall_jobs::{JobError, Recipe, TrainEvent, TrainReport, train};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Trains until the run ends.
pub fn run(recipe: &Recipe, store: &Arc<Store>, folder: &Path) -> Result<TrainReport, JobError> {
    run_telling(&mut |_| {}, recipe, store, folder)
}

/// The same, and `hear` is told what happens.
pub fn run_telling(
    hear: &mut dyn FnMut(&TrainEvent),
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
) -> Result<TrainReport, JobError> {
    train(recipe, store, folder, hear, &AtomicBool::new(false))
}

/// The same, but told to stop after so many steps of this call.
pub fn run_for(steps: u64, recipe: &Recipe, store: &Arc<Store>, folder: &Path) -> TrainReport {
    let stop = AtomicBool::new(false);
    let mut done = 0;
    let mut count = |event: &TrainEvent| {
        if let TrainEvent::Step { .. } = event {
            done += 1;
            stop.store(done >= steps, Ordering::Relaxed);
        }
    };
    train(recipe, store, folder, &mut count, &stop).unwrap()
}
