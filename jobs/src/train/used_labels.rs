//! Which samples have their labels used, if only a share of them may be.

use crate::error::{JobError, Result};
use crate::recipe::{Recipe, Task};
use squall_data::Store;
use squall_data::store::Split;
use std::collections::HashSet;

/// Returns the samples that have boxes, and those whose boxes are used.
pub(super) fn used_labels(
    recipe: &Recipe,
    store: &Store,
    ids: &[usize],
) -> Result<(Vec<usize>, Vec<usize>)> {
    let with_boxes = ids.iter().filter(|&&id| store.boxes(id).is_some());
    let with_boxes: Vec<usize> = with_boxes.copied().collect();
    let used = recipe.detection.share().choose(&with_boxes)?;
    Ok((with_boxes, used))
}

/// Training samples whose masks are not used, because their boxes are not: those that `detection.labelled_share` leaves
/// out.
pub(super) fn withheld(recipe: &Recipe, store: &Store) -> Result<HashSet<usize>> {
    if recipe.task == Task::Segment {
        return Ok(HashSet::new());
    }
    let (with_boxes, used) = used_labels(recipe, store, &store.ids(Split::Train))?;
    let used: HashSet<usize> = used.into_iter().collect();
    let unused = with_boxes.into_iter().filter(|id| !used.contains(id));
    Ok(unused.collect())
}

/// The error when no sample whose boxes are used contains a box.
pub(super) fn no_box(recipe: &Recipe, used: usize, labelled: usize) -> JobError {
    let way_out = match used < labelled {
        true => "raise `detection.labelled_share`, or draw others by `detection.labelled_seed`",
        false => "check the labels that the store was staged with",
    };
    let (share, seed) = (
        recipe.detection.labelled_share,
        recipe.detection.labelled_seed,
    );
    JobError::recipe(format!(
        "`task = \"detect\"`: no used training sample has a box: {used} of {labelled} labelled samples are used \
         (`detection.labelled_share` = {share}, `detection.labelled_seed` = {seed}), and no box of theirs would be learnt: {way_out}"
    ))
}

/// The error when all of these masks belong to samples whose labels are not used.
pub(super) fn withheld_masks(recipe: &Recipe, masks: usize) -> JobError {
    let share = recipe.detection.labelled_share;
    JobError::recipe(format!(
        "`network.mask_classes`: none of the {masks} training samples with masks has labels that are used (`detection.labelled_share` = \
         {share}): raise it, or draw others by `detection.labelled_seed`"
    ))
}
