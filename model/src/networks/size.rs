//! Limits on a network's size, checked before its values are allocated, and suggestions of smaller networks.

use super::{Network, NetworkConfig, NetworkName, architecture};
use crate::error::{ModelError, Result, what_fits};
use crate::parameters::Parameters;

/// The largest supported number of parameters. Every rank holds all of them: 1.1 TB for the values alone.
const MOST_PARAMETERS: usize = 1 << 38;

impl NetworkConfig {
    /// The number of trainable values, counted without allocating them.
    fn count(&self) -> Result<usize> {
        self.check()?;
        let mut parameters = Parameters::without_values(0);
        architecture::build(&mut parameters, self)?;
        Ok(parameters.count())
    }

    /// Settings, each of which alone reduces a network of `found` parameters to at most `most`: narrower layers, or
    /// fewer of them.
    fn fitting(&self, found: usize, most: usize) -> Vec<String> {
        let share = most as f64 / found.max(1) as f64;
        let fits = |config: &Self| config.count().is_ok_and(|count| count <= most);
        let first = |smaller: &dyn Fn(f64) -> Self| {
            let shares = (0..8).map(|halvings| share / f64::from(1 << halvings));
            shares.map(smaller).find(fits)
        };
        let mut settings = Vec::new();
        if let Some(config) = first(&|share| self.narrower(share.sqrt())) {
            let decoder = config.decoder_width;
            let decoder = decoder.map(|width| format!(" network.decoder_width={width}"));
            let width = format!("network.width={}", config.width);
            settings.push(width + &decoder.unwrap_or_default());
        }
        // The encoder layers of these detectors set the cell size and cannot be dropped.
        if self.name.reads("blocks")
            && !self.name.reconstructs()
            && let Some(config) = first(&|share| self.shallower(share))
        {
            let blocks: Vec<String> = config.blocks.iter().map(usize::to_string).collect();
            settings.push(format!("network.blocks=[{}]", blocks.join(",")));
        }
        settings
    }

    /// This network with the given share of its channels.
    fn narrower(&self, share: f64) -> Self {
        let width = |width: f64| ((1000.0 * width * share).floor() / 1000.0).max(0.001);
        Self {
            width: width(self.width),
            decoder_width: self.decoder_width.map(width),
            ..self.clone()
        }
    }

    /// This network with the given share of the layers of each block.
    fn shallower(&self, share: f64) -> Self {
        let least = match self.name {
            NetworkName::CgNet => 2,
            _ => 1,
        };
        let blocks = (self.blocks.iter()).map(|&count| (count as f64 * share) as usize);
        Self {
            blocks: blocks.map(|count| count.max(least)).collect(),
            ..self.clone()
        }
    }

    /// The key with the greatest effect on the size of the network.
    fn key_of_size(&self) -> &'static str {
        match self.name.reads("blocks") {
            true => "blocks",
            false => "width",
        }
    }
}

/// Checks that the network has no more parameters than any machine can hold.
///
/// # Errors
/// [`ModelError::Config`] naming a key and a value that would fit.
pub(super) fn check_count(config: &NetworkConfig, count: usize) -> Result<()> {
    if count <= MOST_PARAMETERS {
        return Ok(());
    }
    let fits = what_fits(&config.fitting(count, MOST_PARAMETERS));
    Err(ModelError::Config {
        key: config.key_of_size(),
        reason: format!(
            "expected a network of at most {MOST_PARAMETERS} parameters, found {count}{fits}"
        ),
    })
}

/// Checks that the number of operations on fields of this size cannot overflow. It is bounded as if every parameter
/// were applied at every pixel twice, with 2 operations each time, in each of three passes.
///
/// # Errors
/// [`ModelError::Config`] naming a key.
pub(super) fn check_operations(
    config: &NetworkConfig,
    count: usize,
    height: usize,
    width: usize,
) -> Result<()> {
    let frames = config.frames() as u128;
    let most = 12 * count as u128 * height as u128 * width as u128 * frames;
    if most <= u128::from(u64::MAX) {
        return Ok(());
    }
    Err(ModelError::Config {
        key: config.key_of_size(),
        reason: format!(
            "expected a network whose operations can be counted, found {count} parameters for fields of {height} x {width}"
        ),
    })
}

impl Network {
    /// Checks that `kept` values of 4 bytes per parameter fit into `available` bytes. Before [`Self::fill`] none of
    /// them is allocated.
    ///
    /// # Errors
    /// [`ModelError::Memory`] with settings that would fit.
    pub fn check_memory(&self, kept: usize, available: Option<u64>) -> Result<()> {
        let parameters = self.parameters.count();
        let each = 4 * kept.max(1) as u64;
        let needed = each * parameters as u64;
        match available {
            Some(available) if needed > available => Err(ModelError::Memory {
                parameters,
                needed,
                available,
                fits: self.config.fitting(parameters, (available / each) as usize),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Backend;

    fn outline(config: &NetworkConfig) -> Result<Network> {
        Network::outline(config, Backend::Reference, 1)
    }

    /// Of one dense block down and one at the bottom, 1000 layers each of 1024 channels and 15 x 15 kernels: the sum of
    /// 1024 l channels for l below 1000, times 225 and 1024, is 1.18e14 in one block alone.
    fn absurd() -> NetworkConfig {
        NetworkConfig {
            blocks: vec![1000, 1000],
            growth: 1024,
            kernel: 15,
            ..NetworkConfig::of(NetworkName::Tiramisu)
        }
    }

    #[test]
    fn a_network_that_nobody_can_hold_is_refused_with_what_would_do() {
        let error = outline(&absurd()).unwrap_err();
        let ModelError::Config { key, reason } = error else {
            panic!("{error}")
        };
        assert_eq!(key, "blocks");
        let (_, found) = reason.split_once("found ").unwrap();
        let count: f64 = found.split(' ').next().unwrap().parse().unwrap();
        assert!(count > 1.18e14, "{reason}");
        assert!(reason.contains("recipe: network.width="), "{reason}");
        assert!(reason.contains(", or network.blocks=["), "{reason}");
        assert!(Network::build(&absurd(), Backend::Reference, 1).is_err());
    }

    /// 500 units of 7.1e7 values, 8 times the published width, would be 140 GB, none of which is allocated.
    #[test]
    fn an_outline_of_a_huge_network_has_names_and_counts_and_no_values() {
        let config = NetworkConfig {
            width: 8.0,
            blocks: vec![1, 1, 500],
            ..NetworkConfig::default()
        };
        let network = outline(&config).unwrap();
        let parameters = network.parameters();
        assert!(parameters.count() > 10_000_000_000);
        assert!(parameters.iter().all(|p| p.tensor().elem_count() == 0));
        let mut buffers = parameters.buffers().iter();
        assert!(buffers.all(|b| b.values.capacity() == 0));
        let summary = network.summary(192, 288).unwrap();
        assert_eq!(summary.parameters, parameters.count());
    }

    /// Nor of those some of whose layers start with values of their own.
    #[test]
    fn an_outline_of_any_network_has_no_values() {
        for name in NetworkName::ALL {
            let network = outline(&NetworkConfig::of(name)).unwrap();
            let mut all = network.parameters().iter();
            assert!(
                all.all(|p| p.tensor().elem_count() == 0),
                "{}",
                name.as_str()
            );
        }
    }

    /// A unit of its last block has 4096 channels inside and 16384 outside: 2 x 16384 x 4096 and 9 x 4096 x 4096 values
    /// are 2.85e8, and 1000 of them 1.1 TB.
    #[test]
    fn a_detector_that_nobody_can_hold_is_refused() {
        let config = NetworkConfig {
            width: 8.0,
            blocks: vec![1, 1, 1, 1000],
            ..NetworkConfig::of(NetworkName::DetectorDense)
        };
        let error = outline(&config).unwrap_err();
        assert!(
            matches!(error, ModelError::Config { key: "blocks", .. }),
            "{error}"
        );
    }

    /// The configuration after following a hint.
    fn changed(config: &NetworkConfig, setting: &str) -> NetworkConfig {
        let mut changed = config.clone();
        for pair in setting.split(' ') {
            match pair.split_once('=').unwrap() {
                ("network.width", width) => changed.width = width.parse().unwrap(),
                ("network.decoder_width", width) => {
                    changed.decoder_width = Some(width.parse().unwrap());
                }
                ("network.blocks", blocks) => {
                    changed.blocks = serde_json::from_str(blocks).unwrap();
                }
                (other, _) => panic!("{other}"),
            }
        }
        assert_ne!(&changed, config);
        changed
    }

    #[test]
    fn the_memory_check_accepts_what_fits_and_refuses_what_does_not() {
        let all = NetworkName::ALL.map(NetworkConfig::of).into_iter();
        for config in all.chain([NetworkConfig::small()]) {
            let name = config.name;
            let network = outline(&config).unwrap();
            let count = network.parameters().count();
            let bytes = 4 * 4 * count as u64;
            network.check_memory(4, Some(bytes)).unwrap();
            network.check_memory(4, None).unwrap();
            let error = network.check_memory(4, Some(bytes / 4)).unwrap_err();
            let ModelError::Memory {
                parameters,
                needed,
                available,
                fits,
            } = error
            else {
                panic!("{error}")
            };
            assert_eq!((parameters, needed, available), (count, bytes, bytes / 4));
            assert!(fits[0].starts_with("network.width="), "{fits:?}");
            for setting in &fits {
                let count = changed(&config, setting).count().unwrap();
                assert!(16 * count as u64 <= available, "{setting}: {count}");
            }
            let share = (bytes / 4) as f64 / bytes as f64;
            let narrower = config.narrower((share / 128.0).sqrt());
            assert!(narrower.count().unwrap() <= count / 4, "{}", name.as_str());
        }
    }

    /// A filled outline has the same values as a network built directly.
    #[test]
    fn an_outline_is_filled_as_a_network_is_built() {
        let config = NetworkConfig {
            channels_in: 4,
            ..NetworkConfig::small()
        };
        let built = Network::build(&config, Backend::Reference, 7).unwrap();
        let mut filled = Network::outline(&config, Backend::Reference, 7).unwrap();
        filled.fill().unwrap();
        let named = |network: &Network| network.parameters().to_named().unwrap();
        assert_eq!(named(&built), named(&filled));
        let variances = filled.parameters().buffers().iter();
        let mut variances = variances.filter(|b| b.name.ends_with("running_variance"));
        assert!(variances.all(|b| b.values.iter().all(|&value| value == 1.0)));
    }

    #[test]
    fn operations_that_cannot_be_counted_are_refused() {
        let config = NetworkConfig::default();
        check_operations(&config, MOST_PARAMETERS, 768, 1152).unwrap();
        let error = check_operations(&config, MOST_PARAMETERS, 5000, 10_000).unwrap_err();
        assert!(error.to_string().contains("`blocks`"), "{error}");
    }
}
