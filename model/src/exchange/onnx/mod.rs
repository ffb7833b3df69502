//! The inference network as an ONNX file, batch normalisation folded into the kernels.
//!
//! # Shapes
//! Input `fields` (batch, channel, latitude, longitude), f32, normalised as the contract in the file's metadata says; output
//! `logits` (batch, class, latitude, longitude), and `classes` (batch, latitude, longitude), uint8, if asked for. The batch is
//! free, the grid is fixed: resizing and wrapping depend on it.
//!
//! # Not done
//! Networks other than DeepLabV3+; half precisions (ONNX Runtime's tools convert); normalisation inside the graph.

mod deeplab_v3_plus;
mod graph;
mod layers;
mod wire;

use crate::error::{ModelError, Result};
use crate::model_file::write_whole;
use crate::networks::Network;
use crate::networks::config::NetworkName;
use graph::{Attribute, DataType, Extent, Graph};
use layers::{Layers, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// What to put into an ONNX file.
#[derive(Debug, Clone)]
pub struct OnnxOptions {
    /// Latitudes and longitudes of the fields.
    pub grid: (usize, usize),
    /// Also the most probable class of every pixel.
    pub classes: bool,
}

/// Writes the network as an ONNX file, with `facts` as its metadata, whole or not at all.
///
/// # Errors
/// [`ModelError::Config`] if the network has no ONNX form yet; [`ModelError::Io`] naming the file.
pub fn write(
    path: &Path,
    network: &Network,
    options: &OnnxOptions,
    facts: &BTreeMap<String, String>,
) -> Result<()> {
    write_whole(path, &encode(network, options, facts)?)
}

/// The bytes of the ONNX file.
///
/// # Errors
/// [`ModelError::Config`] if the network has no ONNX form yet; [`ModelError::Shape`] if the grid is too small for it.
pub fn encode(
    network: &Network,
    options: &OnnxOptions,
    facts: &BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    let config = network.config();
    let (h, w) = options.grid;
    // Refuses a grid that is too small.
    network.summary(h, w)?;
    let weights = network.parameters().to_named()?;
    let mut layers = Layers {
        graph: Graph::default(),
        config,
        weights: &weights,
    };
    let x = Value {
        name: "fields".into(),
        channels: config.channels_in,
        size: options.grid,
    };
    let logits = match config.name {
        NetworkName::DeepLabV3Plus
        | NetworkName::DeepLabV3PlusDeconv
        | NetworkName::DeepLabV3PlusBilinear => deeplab_v3_plus::build(&mut layers, x)?,
        #[allow(unreachable_patterns)] // another network may come before its ONNX form
        other => {
            return Err(ModelError::Config {
                key: "network",
                reason: format!("`{}` has no ONNX form yet", other.as_str()),
            });
        }
    };
    let mut graph = layers.graph;
    graph.node_to("Identity", &[&logits.name], &[], "logits");
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
    Ok(graph.into_model(input, outputs, &doc, &facts))
}
