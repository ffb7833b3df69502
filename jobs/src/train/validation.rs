//! Sets up validation on the labelled samples of the store, if there are any.

use super::evaluate::{Evaluator, EvaluatorSettings, ScoredUnits};
use super::share::RankPosition;
use crate::error::Result;
use crate::recipe::{Recipe, Task};
use squall_data::Store;
use std::sync::Arc;

/// Returns the evaluator of the rank at a place, and the number of samples; `None` if the store has no labelled
/// validation samples. The rank that `warns` then warns on behalf of all.
pub(super) fn evaluator_of(
    recipe: &Recipe,
    store: &Arc<Store>,
    settings: EvaluatorSettings,
    (place, warns): (RankPosition, bool),
) -> Result<(Option<Evaluator>, usize)> {
    let scored = ScoredUnits::of(recipe, store);
    let samples = judged(recipe, store, &scored, warns);
    if samples == 0 {
        if warns {
            tracing::warn!(
                "the store has no validation samples with labels: the last model will be the best"
            );
        }
        return Ok((None, 0));
    }
    let evaluator = Evaluator::new(store, scored, settings, place)?;
    Ok((Some(evaluator), samples))
}

/// Whether validation scores can distinguish networks: if a detector has nothing to find, every network scores the
/// same.
pub fn has_validation(recipe: &Recipe, store: &Store) -> bool {
    let (scored, masks) = (
        ScoredUnits::of(recipe, store),
        recipe.network.mask_classes > 0,
    );
    let has_box = |id: usize| store.boxes(id).is_some_and(|boxes| !boxes.is_empty());
    let distinguishes = |id: usize| has_box(id) || masks && store.samples()[id].has_mask();
    match recipe.task {
        Task::Segment => scored.samples() > 0,
        Task::Detect => scored.places().into_keys().any(distinguishes),
    }
}

/// Number of samples that a validation scores.
fn judged(recipe: &Recipe, store: &Store, scored: &ScoredUnits, warns: bool) -> usize {
    match recipe.task {
        Task::Segment => scored.samples(),
        // A mask suffices if the network outputs masks, too.
        Task::Detect => match labelled_for_validation(store, scored, warns) {
            0 if recipe.network.mask_classes > 0 => scored.samples(),
            labelled => labelled,
        },
    }
}

/// Number of samples with known boxes that a validation scores. The rank that `warns` warns if none of them contains a
/// box.
fn labelled_for_validation(store: &Store, scored: &ScoredUnits, warns: bool) -> usize {
    let ids = scored.places().into_keys();
    let labelled: Vec<usize> = ids.filter(|&id| store.boxes(id).is_some()).collect();
    let holds = |&id: &usize| store.boxes(id).is_some_and(|boxes| !boxes.is_empty());
    if warns && !labelled.is_empty() && !labelled.iter().any(holds) {
        tracing::warn!(
            "none of the {} validation samples has a box: average precision has no value, and the last model will be the best",
            labelled.len()
        );
    }
    labelled.len()
}
