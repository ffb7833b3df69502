//! Checks that a network's values fit before allocating any.

use super::available_memory;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use squall_model::{Backend, ModelError, Network, NetworkConfig};

/// Number of 4-byte values that training keeps per parameter: itself, its gradient, the optimiser's state and an
/// average.
pub(crate) fn kept_values(recipe: &Recipe, on_gpu: bool) -> usize {
    2 + recipe.optimiser.values_kept(on_gpu) + usize::from(recipe.training.average.is_some())
}

/// Rejects a network whose values alone need more than `available` bytes on a training rank, unless the recipe
/// overrides the check. Runs before allocation; [`super::Demand::check`] covers the rest of a step.
///
/// # Errors
/// [`JobError::Memory`] with settings that make the network's values fit.
pub(crate) fn check_values(
    recipe: &Recipe,
    outline: &Network,
    available: Option<u64>,
    memory_ranks: u64,
) -> Result<()> {
    if recipe.training.ignore_memory {
        return Ok(());
    }
    let kept = kept_values(recipe, outline.backend().is_gpu());
    match outline.check_memory(kept, available) {
        Err(ModelError::Memory {
            needed,
            available,
            fits,
            ..
        }) => Err(JobError::Memory {
            needed,
            available,
            ranks: memory_ranks,
            fits: fits.iter().map(|keys| as_options(keys)).collect(),
        }),
        checked => Ok(checked?),
    }
}

/// Formats keys with values as command-line options.
fn as_options(keys: &str) -> String {
    let options = keys.split(' ').map(|key| format!("--set {key}"));
    options.collect::<Vec<_>>().join(" ")
}

/// Builds the network of a model file with initial values if they fit this process; the check comes before any large
/// allocation.
///
/// # Errors
/// [`ModelError::Memory`] if they do not fit; those of [`Network::build`].
pub fn build_network(
    config: &NetworkConfig,
    backend: Backend,
    seed: u64,
) -> squall_model::error::Result<Network> {
    let mut network = Network::outline(config, backend, seed)?;
    let mut checked = network.check_memory(1, free_memory(backend));
    if let Err(ModelError::Memory { fits, .. }) = &mut checked {
        // No setting reduces the weights of a file.
        fits.clear();
    }
    checked?;
    network.fill()?;
    Ok(network)
}

/// Bytes that a process which shares memory with no other rank may use on a backend's device.
pub fn free_memory(backend: Backend) -> Option<u64> {
    match backend.is_gpu() {
        true => backend.available_memory(),
        false => available_memory(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `cuda::optimizer::State` has them.
    #[test]
    fn on_a_gpu_lamb_keeps_a_direction_for_each_parameter() {
        for (rule, on_cpu, on_gpu) in [("sgd", 3, 3), ("adamw", 4, 4), ("lamb", 4, 5)] {
            let text = format!("[network]\nname = 'tiramisu'\n[optimiser]\nrule = '{rule}'");
            let recipe = Recipe::parse(&text, &[]).unwrap();
            let kept = [false, true].map(|place| kept_values(&recipe, place));
            assert_eq!(kept, [on_cpu, on_gpu], "{rule}");
        }
    }

    /// A value, a gradient, two moments and an average for each parameter, 4 bytes each; SGD has one moment.
    #[test]
    fn a_network_whose_values_do_not_fit_is_refused_before_it_has_them() {
        let recipe = |more: &str| {
            let text = format!("[network]\nname = 'tiramisu'\n{more}");
            Recipe::parse(&text, &[]).unwrap()
        };
        let outline = |recipe: &Recipe| Network::outline(&recipe.network, Backend::Reference, 1);
        for (more, values) in [
            ("", 4),
            ("[optimiser]\nrule = 'sgd'", 3),
            ("[training]\naverage = 0.9", 5),
        ] {
            let recipe = recipe(more);
            let outline = outline(&recipe).unwrap();
            let bytes = (4 * values * outline.parameters().count()) as u64;
            check_values(&recipe, &outline, Some(bytes), 1).unwrap();
            check_values(&recipe, &outline, None, 1).unwrap();
            match check_values(&recipe, &outline, Some(bytes - 1), 3) {
                Err(JobError::Memory {
                    needed,
                    available,
                    ranks,
                    fits,
                }) => {
                    assert_eq!((needed, available, ranks), (bytes, bytes - 1, 3));
                    assert!(fits[0].starts_with("--set network.width="), "{fits:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(as_options("a=1 b=[2,3]"), "--set a=1 --set b=[2,3]");
        let mut anyway = recipe("");
        anyway.training.ignore_memory = true;
        check_values(&anyway, &outline(&anyway).unwrap(), Some(1000), 1).unwrap();
    }
}
