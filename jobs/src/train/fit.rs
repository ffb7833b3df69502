//! Checks before training whether a recipe fits its store and this machine. `warnings` has what is only warned of.

use super::prepare::{channels, network_of};
use crate::error::{JobError, Result};
use crate::memory;
use crate::recipe::Recipe;
use squall_data::Store;
use squall_data::loader::Augmentation;
use squall_model::{Backend, Network};
use std::collections::HashSet;

/// Rejects a recipe whose network alone needs more memory than the `ranks` that share it have `available`, before any
/// of it is allocated.
pub(super) fn check_memory(
    recipe: &Recipe,
    store: &Store,
    (available, ranks): (Option<u64>, u64),
) -> Result<()> {
    let network = network_of(recipe, channels(recipe, store).len());
    let outline = Network::outline(&network, Backend::best(), recipe.seed)?;
    memory::check_values(recipe, &outline, available, ranks)
}

/// Rejects what a grid does not allow, all of it at once. With periodic longitude on a grid that does not span the globe
/// the network would learn that the western and eastern edges of the region are neighbours, and inference would refuse
/// the model on this very grid.
pub(super) fn check_grid(recipe: &Recipe, store: &Store) -> Result<()> {
    let grid = store.grid();
    let Augmentation { roll, mirror } = recipe.data.augmentation;
    let allows = |roll, mirror| Augmentation { roll, mirror }.check(grid).is_ok();
    let (region, asymmetric) = (
        "does not go around the globe",
        "is not symmetric about the equator",
    );
    let wraps = recipe.network.periodic_longitude;
    let settings = [
        (
            wraps && !grid.is_periodic(),
            "network.periodic_longitude",
            region,
        ),
        (
            roll && !allows(true, false),
            "data.augmentation.roll",
            region,
        ),
        (
            mirror && !allows(false, true),
            "data.augmentation.mirror",
            asymmetric,
        ),
    ];
    let settings: Vec<_> = (settings.into_iter())
        .filter_map(|(is_wrong, key, reason)| is_wrong.then_some((key, reason)))
        .collect();
    if settings.is_empty() {
        return Ok(());
    }
    Err(JobError::Grid {
        grid: grid.describe(),
        settings,
    })
}

/// Rejects a batch size at which some batch normalisation would see a single value per channel, as PyTorch does. Its
/// output would not depend on the input, and the running variance would shrink to zero, so that inference would divide
/// by almost zero.
pub(super) fn check_norms(
    recipe: &Recipe,
    network: &Network,
    store: &Store,
    samples: usize,
) -> Result<()> {
    let [rows, columns, _] = store.shape();
    let summary = network.summary(rows, columns)?;
    let statistics = network.parameters().buffers().iter();
    let norms: HashSet<&str> = statistics
        .filter_map(|statistics| statistics.name.strip_suffix(".running_mean"))
        .collect();
    let single = summary.layers.iter().find(|layer| {
        let [h, w, _] = layer.output;
        norms.contains(layer.name.as_str()) && h * w * summary.frames * samples == 1
    });
    let key = match recipe.distributed.global_batch {
        Some(_) => "distributed.global_batch",
        None => "training.batch",
    };
    single.map_or(Ok(()), |layer| {
        Err(JobError::recipe(format!(
            "`{key}`: expected batches of 2 samples or more, found 1: fields of {rows} x {columns} cells leave the batch normalisation `{}` one \
             value of each channel, of which it makes the same whatever it is (detectors of cells: `network.blocks` has their halvings)",
            layer.name
        )))
    })
}
