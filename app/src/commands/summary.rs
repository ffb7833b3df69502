//! `squall summary`: prints a network as a tree with shapes and costs.

use crate::arguments::grid;
use crate::failure::Advice;
use crate::output;
use clap::Args;
use squall_jobs::Recipe;
use squall_model::networks::NetworkName;
use squall_model::{Backend, Network, NetworkConfig};
use std::path::Path;

/// Print a network as a tree: shapes, parameters, floating-point operations, activation memory.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall summary deeplabv3plus\n  squall summary deepcam --grid 192x288 --channels 8"
)]
pub struct Summary {
    /// deeplabv3plus (the deconv1x decoder), deeplabv3plus-deconv, deeplabv3plus-bilinear, deepcam, tiramisu, cgnet,
    /// detector-2d, detector-2d-half, detector-3d (for one clip), detector-15pf or detector-dense.
    network: String,
    /// Input size, latitudes x longitudes.
    #[arg(long, default_value = "768x1152", value_parser = grid)]
    grid: (usize, usize),
    /// Input channels [default: 16, 4 for cgnet].
    #[arg(long, value_name = "N")]
    channels: Option<usize>,
    /// Factor for the width of every layer.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    width: f64,
    /// Add batch normalisation to the networks of the SC18 runs, which lack it. Of the others all have it, except for
    /// detector-15pf, which never has.
    #[arg(long)]
    batch_norm: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Summary {
    /// Prints the summary.
    pub fn run(self) -> anyhow::Result<()> {
        let name: NetworkName =
            self.network
                .parse()
                .map_err(|error: squall_model::ModelError| {
                    Advice::usage(error.to_string(), hint(&self.network))
                })?;
        let published = NetworkConfig::published(name);
        let config = NetworkConfig {
            channels_in: self.channels.unwrap_or(published.channels_in),
            width: self.width,
            batch_norm: self.batch_norm || published.batch_norm,
            // Its normalisations then have their own ReLU.
            preactivation_relu: self.batch_norm || published.preactivation_relu,
            ..published
        };
        let network = Network::outline(&config, Backend::best(), 0)?;
        let summary = network.summary(self.grid.0, self.grid.1)?;
        output::result(&summary, self.json)
    }
}

/// A hint for input that is not a network.
fn hint(given: &str) -> String {
    match Recipe::named(Path::new(given), &[]) {
        Ok(recipe) => format!(
            "it is a recipe, whose network is `{}`; --width, --channels and --batch-norm stand for the keys beside that",
            recipe.network.name.as_str()
        ),
        Err(_) => format!(
            "the networks of a recipe are named the same way; of these recipes it tells the network: {}",
            Recipe::built_in_names()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_a_recipe_hears_its_network() {
        assert!(hint("small").contains("`deeplabv3plus`"));
        let hint = hint("nope");
        assert!(hint.contains("named the same way"), "{hint}");
        assert!(hint.contains("small, full, "), "{hint}");
    }
}
