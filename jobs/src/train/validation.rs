//! What validations are made on: the samples of the store that have labels, if there are any.

use super::evaluate::{Asked, Evaluator, Judging};
use super::share::Place;
use crate::error::Result;
use crate::recipe::{Recipe, Task};
use squall_data::Store;
use std::sync::Arc;

/// What validates on the rank at a place, and on how many samples; none if the store has no validation samples with
/// labels. The rank that `tells` then warns, for all.
pub(super) fn evaluator_of(
    recipe: &Recipe,
    store: &Arc<Store>,
    judging: Judging,
    (place, tells): (Place, bool),
) -> Result<(Option<Evaluator>, usize)> {
    let asked = Asked::of(recipe, store);
    let samples = judged(recipe, store, &asked, tells);
    if samples == 0 {
        if tells {
            tracing::warn!(
                "the store has no validation samples with labels: the last model will be the best"
            );
        }
        return Ok((None, 0));
    }
    let evaluator = Evaluator::new(store, asked, judging, place)?;
    Ok((Some(evaluator), samples))
}

/// Whether the scores of validations can differ between networks: where a detector has nothing to find, every network
/// has the same score.
pub fn has_validation(recipe: &Recipe, store: &Store) -> bool {
    let (asked, masks) = (Asked::of(recipe, store), recipe.network.mask_classes > 0);
    let has_box = |id: usize| store.boxes(id).is_some_and(|boxes| !boxes.is_empty());
    let tells = |id: usize| has_box(id) || masks && store.samples()[id].has_mask();
    match recipe.task {
        Task::Segment => asked.samples() > 0,
        Task::Detect => asked.places().into_keys().any(tells),
    }
}

/// How many samples a validation scores.
fn judged(recipe: &Recipe, store: &Store, asked: &Asked, tells: bool) -> usize {
    match recipe.task {
        Task::Segment => asked.samples(),
        // A mask is enough where the network gives masks, too.
        Task::Detect => match labelled_for_validation(store, asked, tells) {
            0 if recipe.network.mask_classes > 0 => asked.samples(),
            labelled => labelled,
        },
    }
}

/// How many samples with known boxes a validation scores. The rank that `tells` warns if none of them has a box.
fn labelled_for_validation(store: &Store, asked: &Asked, tells: bool) -> usize {
    let ids = asked.places().into_keys();
    let labelled: Vec<usize> = ids.filter(|&id| store.boxes(id).is_some()).collect();
    let holds = |&id: &usize| store.boxes(id).is_some_and(|boxes| !boxes.is_empty());
    if tells && !labelled.is_empty() && !labelled.iter().any(holds) {
        tracing::warn!(
            "none of the {} validation samples has a box: average precision has no value, and the last model will be the best",
            labelled.len()
        );
    }
    labelled.len()
}
