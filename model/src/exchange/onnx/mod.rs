//! The inference network as an ONNX file, with batch normalisation folded into the kernels.
//!
//! # Shapes
//! Input `fields` (batch, channel, latitude, longitude), f32, normalised according to the contract in the file's
//! metadata; output `logits` (batch, class, latitude, longitude), and on request `classes` (batch, latitude,
//! longitude), uint8. The batch size is free, the grid is fixed: resizing and wrapping depend on it.
//!
//! # Not done
//! Half precisions (ONNX Runtime's tools convert); the contract's normalisation of the fields inside the graph; weights
//! in separate files, which networks of half a billion parameters would need.

mod cgnet;
mod deepcam;
mod deeplab_v3_plus;
mod fields;
mod graph;
mod layers;
mod pyramid;
mod tiramisu;
mod wire;

use crate::error::{ModelError, Result};
use crate::layers::{batch_norm, wrapped::Padding};
use crate::model_file::write_whole;
use crate::networks::NetworkName;
use crate::networks::{Network, NetworkConfig, cgnet_block};
use crate::parameters::NamedTensors;
use graph::{Attribute, DataType, Extent, Graph};
use layers::{Layers, Value};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The size limit of Protocol Buffers, in bytes.
const MOST_BYTES: usize = i32::MAX as usize;

/// Options of an ONNX file.
#[derive(Debug, Clone)]
pub struct OnnxOptions {
    /// Latitudes and longitudes of the fields.
    pub grid: (usize, usize),
    /// Whether to output the most probable class of every pixel as well.
    pub classes: bool,
}

/// Writes the network as an ONNX file, with `facts` as its metadata, atomically.
///
/// # Errors
/// As [`encode`]; [`crate::ModelError::Io`] naming the file.
pub fn write(
    path: &Path,
    network: &Network,
    options: &OnnxOptions,
    facts: &BTreeMap<String, String>,
) -> Result<()> {
    let bytes = encode(network, options, facts)?;
    write_whole(path, |file| file.write_all(&bytes))
}

/// The bytes of the ONNX file.
///
/// # Errors
/// [`crate::ModelError::Shape`] if the grid is too small for the network; [`crate::ModelError::Config`] if the file
/// would exceed 2 GiB.
pub fn encode(
    network: &Network,
    options: &OnnxOptions,
    facts: &BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    let config = network.config();
    let (h, w) = options.grid;
    // Fails if the grid is too small.
    network.summary(h, w)?;
    check_size(size_of::<f32>() * network.parameters().count())?;
    let weights = network.parameters().to_named()?;
    let mut graph = inference(config, weights, options.grid)?;
    let planes = [Extent::Fixed(h), Extent::Fixed(w)];
    let shape = |channels: &[usize]| -> Vec<Extent> {
        let channels = channels.iter().map(|&c| Extent::Fixed(c));
        let batch = std::iter::once(Extent::Any("batch"));
        batch.chain(channels).chain(planes.clone()).collect()
    };
    let mut outputs = vec![("logits", DataType::Float, shape(&[config.classes]))];
    if options.classes {
        let largest = [("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(0))];
        let classes = graph.node("ArgMax", &["logits"], &largest);
        let to = [("to", Attribute::Int(DataType::Uint8 as i64))];
        graph.node_to("Cast", &[&classes], &to, "classes");
        outputs.push(("classes", DataType::Uint8, shape(&[])));
    }
    let input = ("fields", DataType::Float, shape(&[config.channels_in]));
    let facts: Vec<(String, String)> = facts
        .iter()
        .map(|(key, value)| (format!("squall.{key}"), value.clone()))
        .collect();
    let doc = format!(
        "{}: normalised fields (batch, channel, latitude, longitude) to logits",
        config.name.as_str()
    );
    let bytes = graph.into_model(input, outputs, &doc, &facts);
    check_size(bytes.len())?;
    Ok(bytes)
}

/// Returns an error if a file of this size would be unreadable.
fn check_size(bytes: usize) -> Result<()> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(ModelError::Config {
        key: "onnx",
        reason: format!(
            "expected a network whose file has at most 2 GiB, which is all that an ONNX file can have, found {:.1} GiB: export its weights as \
             .safetensors",
            bytes as f64 / f64::from(1 << 30)
        ),
    })
}

/// The graph from `fields` to `logits`.
fn inference(config: &NetworkConfig, weights: NamedTensors, grid: (usize, usize)) -> Result<Graph> {
    let mut layers = Layers {
        graph: Graph::default(),
        config,
        weights,
        padding: Padding::of(config),
        epsilon: match config.name {
            NetworkName::CgNet => cgnet_block::EPS,
            _ => batch_norm::EPS,
        },
    };
    let mut x = Value {
        name: "fields".into(),
        channels: config.channels_in,
        size: grid,
    };
    if config.latitude_input {
        x = layers.with_latitude(&x)?;
    }
    let build = match config.name {
        NetworkName::DeepLabV3Plus
        | NetworkName::DeepLabV3PlusDeconv
        | NetworkName::DeepLabV3PlusBilinear => deeplab_v3_plus::build,
        NetworkName::DeepCam => deepcam::build,
        NetworkName::Tiramisu => tiramisu::build,
        NetworkName::CgNet => cgnet::build,
        NetworkName::Detector2d
        | NetworkName::Detector2dHalf
        | NetworkName::Detector3d
        | NetworkName::Detector15pf
        | NetworkName::DetectorDense => {
            return Err(ModelError::Task {
                network: config.name.as_str().to_string(),
                gives: "boxes",
                asked: "the logits that an ONNX graph of ours ends with",
            });
        }
    };
    let logits = build(&mut layers, &x)?;
    let mut graph = layers.finish(&logits, grid)?;
    graph.node_to("Identity", &[&logits.name], &[], "logits");
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Backend;

    /// 64 times the kernel values of the published network, none of which is allocated.
    #[test]
    fn a_file_that_nothing_could_read_is_refused() {
        let config = NetworkConfig {
            width: 8.0,
            ..NetworkConfig::default()
        };
        let network = Network::outline(&config, Backend::Reference, 1).unwrap();
        assert!(network.parameters().count() > 1 << 30);
        let options = OnnxOptions {
            grid: (64, 96),
            classes: true,
        };
        let error = encode(&network, &options, &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("at most 2 GiB"), "{error}");
        check_size(MOST_BYTES).unwrap();
        assert!(check_size(MOST_BYTES + 1).is_err());
    }

    #[test]
    fn a_weight_too_few_or_too_many_is_named() {
        let grid = (20, 36);
        for name in NetworkName::SEGMENTATION {
            let config = NetworkConfig {
                width: 0.05,
                ..NetworkConfig::of(name)
            };
            let network = Network::build(&config, Backend::best(), 1).unwrap();
            let whole = network.parameters().to_named().unwrap();
            inference(&config, whole.clone(), grid).unwrap();
            let refused = |weights: NamedTensors, part: &str| {
                let error = inference(&config, weights, grid).unwrap_err().to_string();
                assert!(error.contains(part), "{error}");
            };
            let stranger = (vec![1], vec![0.0]);
            let mut weights = whole.clone();
            weights.insert("stranger.weight".into(), stranger.clone());
            refused(weights, "not used: stranger.weight");
            let optional = |name: &str| name.ends_with(".bias") || name.contains("shortcut");
            for name in whole.keys().filter(|name| !optional(name)) {
                let mut weights = whole.clone();
                weights.remove(name);
                refused(weights, &format!("`{name}` is missing or used twice"));
            }
            let vector = whole.keys().find(|name| name.ends_with("running_mean"));
            let mut weights = whole.clone();
            weights.insert(vector.unwrap().clone(), stranger);
            refused(weights, "expected shape");
        }
    }
}
