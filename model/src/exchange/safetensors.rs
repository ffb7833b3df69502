//! Reads and writes weights in safetensors files of other programs.

use super::{Layout, WeightSource, Weights, bad_file};
use crate::checksum::{CHECKSUM, Checksum};
use crate::error::{ModelError, Result};
use crate::model_file::write_whole;
use crate::parameters::NamedTensors;
use crate::stored_file::{MAX_HEADER, PREFIX};
use ::safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use half::{bf16, f16};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

/// The metadata key of Squall's facts in an exported file. It differs from that of model files, because weight names
/// differ.
const FACTS: &str = "squall_facts";
/// The fact of an exported file that distinguishes unchanged weights from those that another program edited.
const VALUES: &str = "exported_values";

/// Writes tensors under the names of a layout, with Squall's facts in the metadata, atomically.
///
/// # Errors
/// [`ModelError::Io`] naming the file; [`ModelError::Config`] if the layout has no name for a weight, or the same one
/// for two.
pub fn write(
    path: &Path,
    tensors: &NamedTensors,
    layout: &Layout,
    facts: &BTreeMap<String, String>,
) -> Result<()> {
    let refused = |error: &dyn std::fmt::Display| bad_file(path, error.to_string());
    let unnamed = |reason: String| ModelError::Config {
        key: "layout",
        reason: format!("weights cannot be named by {}: {reason}", layout.name),
    };
    let mut bytes = BTreeMap::new();
    for (ours, (shape, values)) in tensors {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let WeightSource::Same(name) = (layout.source)(ours) else {
            return Err(unnamed(format!("it has no `{ours}`")));
        };
        let shape = (layout.shape)(&name, shape);
        if bytes.insert(name, (shape, data)).is_some() {
            return Err(unnamed(format!(
                "`{ours}` and another weight have one name"
            )));
        }
    }
    let views = (bytes.iter())
        .map(|(name, (shape, data))| {
            let view = TensorView::new(Dtype::F32, shape.clone(), data);
            Ok((name, view.map_err(|error| refused(&error))?))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut values = Checksum::of_facts(&BTreeMap::new());
    for (name, (shape, data)) in &bytes {
        values.begin(name, shape);
        values.add(data);
    }
    let mut facts = facts.clone();
    facts.insert(VALUES.to_string(), values.text());
    let facts = serde_json::to_string(&facts).map_err(|error| refused(&error))?;
    // A single key: with several, their order and so the bytes would vary from run to run.
    let metadata = HashMap::from([(FACTS.to_string(), facts)]);
    let whole = serialize(views, Some(metadata)).map_err(|error| refused(&error))?;
    write_whole(path, |file| file.write_all(&whole))
}

/// Whether a file of `length` bytes with this beginning may be safetensors: the header length must fit into the file.
pub(super) fn may_be_of(begin: &[u8], length: u64) -> bool {
    let room = MAX_HEADER.min(length.saturating_sub(PREFIX as u64));
    let header = begin.first_chunk::<PREFIX>();
    header.is_some_and(|count| (1..=room).contains(&u64::from_le_bytes(*count)))
}

/// The tensors of a safetensors file in memory, converted to f32.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Weights> {
    let bad = |reason: String| bad_file(path, reason);
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| {
        bad(match is_onnx(path, bytes) {
            true => "an ONNX file, which is for ONNX Runtime and not read back: what model it is lies in its metadata, under names that begin with \
                     `squall.`"
                .into(),
            false => format!(
                "neither a PyTorch file (version 1.6 or later) nor a safetensors file ({error})"
            ),
        })
    })?;
    let metadata = header.metadata().clone().unwrap_or_default();
    let facts = metadata.get(FACTS).or_else(|| metadata.get("squall"));
    let mut facts: Option<BTreeMap<String, String>> = facts
        .map(|json| serde_json::from_str(json))
        .transpose()
        .map_err(|error| bad(format!("Squall's facts in it are damaged: {error}")))?;
    let checksum = facts.as_mut().and_then(|facts| facts.remove(CHECKSUM));
    let parsed = SafeTensors::deserialize(bytes).map_err(|error| bad(error.to_string()))?;
    // A damaged model file must be rejected here: after the import its weights would count as intact.
    if let (Some(facts), Some(checksum)) = (&facts, checksum)
        && !has_checksum(&parsed, facts, &checksum)
    {
        let reason = "its contents do not have the checksum it was written with: it is damaged, or another program changed \
                      it and kept the metadata `squall` (changed weights are saved without them, and imported with --like)";
        return Err(bad(reason.into()));
    }
    let exported = facts.as_mut().and_then(|facts| facts.remove(VALUES));
    let edited =
        exported.is_some_and(|exported| checksum_of(&parsed, &BTreeMap::new()) != exported);
    let mut tensors = NamedTensors::new();
    for (name, view) in parsed.tensors() {
        let values = to_f32(view.dtype(), view.data())
            .ok_or_else(|| bad(format!("tensor `{name}`: no numbers of {:?}", view.dtype())))?;
        tensors.insert(name, (view.shape().to_vec(), values));
    }
    Ok(Weights {
        path: path.into(),
        tensors,
        facts,
        edited,
        notes: Vec::new(),
    })
}

/// Whether facts and tensors match this checksum of a model file. If another program converted the values, this cannot
/// be checked.
fn has_checksum(
    parsed: &SafeTensors<'_>,
    facts: &BTreeMap<String, String>,
    checksum: &str,
) -> bool {
    let converted = (parsed.tensors().iter()).any(|(_, view)| view.dtype() != Dtype::F32);
    converted || checksum_of(parsed, facts) == checksum
}

/// The checksum of these facts and of all tensors.
fn checksum_of(parsed: &SafeTensors<'_>, facts: &BTreeMap<String, String>) -> String {
    let views: BTreeMap<_, _> = parsed.tensors().into_iter().collect();
    let mut found = Checksum::of_facts(facts);
    for (name, view) in &views {
        found.begin(name, view.shape());
        found.add(view.data());
    }
    found.text()
}

/// Whether the file has an ONNX name, or begins like an ONNX file: with the format version (field 1, an integer) and
/// the name of the producer (field 2, a string).
fn is_onnx(path: &Path, bytes: &[u8]) -> bool {
    let called = (path.extension()).is_some_and(|end| end.eq_ignore_ascii_case("onnx"));
    called || matches!(bytes, [0x08, _, 0x12, ..])
}

/// Little-endian numbers as f32; `None` for data types that weights never have.
fn to_f32(dtype: Dtype, data: &[u8]) -> Option<Vec<f32>> {
    let values = match dtype {
        Dtype::F32 => each(data, f32::from_le_bytes),
        Dtype::F64 => each(data, |b| f64::from_le_bytes(b) as f32),
        Dtype::F16 => each(data, |b| f16::from_le_bytes(b).to_f32()),
        Dtype::BF16 => each(data, |b| bf16::from_le_bytes(b).to_f32()),
        Dtype::I64 => each(data, |b| i64::from_le_bytes(b) as f32),
        Dtype::I32 => each(data, |b| i32::from_le_bytes(b) as f32),
        Dtype::U8 | Dtype::BOOL => each(data, |[b]: [u8; 1]| f32::from(b)),
        _ => return None,
    };
    Some(values)
}

/// Decodes every `N` bytes to a number.
pub(super) fn each<const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (chunks, _) = data.as_chunks::<N>();
    chunks.iter().map(|&bytes| number(bytes)).collect()
}
