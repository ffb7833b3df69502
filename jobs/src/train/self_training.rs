//! Pseudo-labels: trains on boxes found by another network as if they were labels.
//!
//! # Source
//! Sohn et al. 2020 (STAC, arXiv:2005.04757): a teacher trains on the labelled samples; its confident boxes on the
//! other samples are the labels of a student, whose fields are augmented at random.
//!
//! The default of `detection.pseudo_min_confidence`, 0.9, is the threshold of the paper.

use super::used_labels::used_labels;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use squall_data::store::Split;
use squall_data::{BoxFrames, GeoBox, Store, TrackedBox, boxes};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Returns the store with the boxes of `detection.pseudo_labels` on training samples whose own labels are not used, or
/// the store itself if the recipe names no such file.
///
/// # Errors
/// [`JobError::Recipe`] if the file offers nothing to train on, or the store is a partial local copy;
/// [`JobError::Data`] if the file cannot be read.
pub(super) fn relabelled(recipe: &Recipe, store: &Arc<Store>) -> Result<Arc<Store>> {
    let Some(path) = &recipe.detection.pseudo_labels else {
        return Ok(Arc::clone(store));
    };
    let refused = |reason: String| {
        let reason = format!("`detection.pseudo_labels`: {reason}");
        Err(JobError::recipe(reason))
    };
    if store.is_partial() {
        return refused(
            "the local copies of the store hold a part of the samples; stage without --per-node"
                .into(),
        );
    }
    let frames = boxes::read(path, store.grid(), store.meta().calendar)?;
    let (found, unsure) = found_in(recipe, store, &frames)?;
    let count: usize = found.values().map(Vec::len).sum();
    if count == 0 {
        return refused(format!(
            "`{}` has no box of confidence {} or more at the time of a training sample whose labels are not used (`detection.labelled_share` \
             is {}); `squall infer STORE --split train` finds boxes in a store",
            path.display(),
            recipe.detection.pseudo_min_confidence,
            recipe.detection.labelled_share
        ));
    }
    tracing::info!(
        "{count} boxes of `{}` in {} samples are learnt from as if they were labels; {unsure} samples whose boxes are all of less confidence \
         than {} stay without labels",
        path.display(),
        found.len(),
        recipe.detection.pseudo_min_confidence
    );
    let own = Store::open(store.folder())?;
    Ok(Arc::new(own.with_found_boxes(found)))
}

/// The confident boxes of every training sample whose labels are not used, where the file covers its time; and how many
/// such samples have boxes, but no confident one. These stay without labels: as fields without a storm they would teach
/// that what the teacher was not sure of is not there. Where it found nothing at all, they do teach that.
fn found_in(
    recipe: &Recipe,
    store: &Store,
    frames: &BoxFrames,
) -> Result<(BTreeMap<usize, Vec<GeoBox>>, usize)> {
    let ids = store.ids(Split::Train);
    let (_, used) = used_labels(recipe, store, &ids)?;
    let used: HashSet<usize> = used.into_iter().collect();
    let least = recipe.detection.pseudo_min_confidence;
    let sure = |found: &&TrackedBox| found.geo.is_sure(least);
    let (mut found, mut unsure) = (BTreeMap::new(), 0);
    for id in ids.into_iter().filter(|id| !used.contains(id)) {
        let Some(boxes) = frames.at(store.times()[id]) else {
            continue;
        };
        let confident: Vec<GeoBox> = boxes.iter().filter(sure).map(|found| found.geo).collect();
        if confident.is_empty() && !boxes.is_empty() {
            unsure += 1;
        } else {
            found.insert(id, confident);
        }
    }
    Ok((found, unsure))
}
