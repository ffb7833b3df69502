//! The data types in which activations are stored and computed, for the whole network and for single layers.

use crate::error::{ModelError, Result};
use crate::networks::Network;
use crate::ops::Backend;
use crate::optim::{LossScaleConfig, Mirror, Rounding};
use crate::parameters::{Kind, ParameterId, Parameters, layer_of, lies_under, near};
use crate::storage::Storage;
use candle_core::DType;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// The data type of activations. Parameters, batch-norm statistics and the loss are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bf16 where the machine computes it faster than f32, else f32.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// bf16 activations, even where that is slower.
    Bf16,
    /// f16 activations, even where that is slower; the loss is then scaled dynamically unless the policy sets a scale.
    F16,
}

impl Precision {
    /// The data type of activations; `None` if the machine decides.
    pub fn stored(self) -> Option<DType> {
        match self {
            Self::Auto => None,
            Self::F32 => Some(DType::F32),
            Self::Bf16 => Some(DType::BF16),
            Self::F16 => Some(DType::F16),
        }
    }

    /// The data type of activations on this machine, and an explanation if it differs from the one requested.
    pub fn resolve(self, backend: Backend) -> (DType, Option<&'static str>) {
        let Some(dtype) = self.stored() else {
            return match backend.is_fast(DType::BF16) {
                true => (DType::BF16, None),
                false => (
                    DType::F32,
                    Some("this machine has no fast bf16: computing in f32"),
                ),
            };
        };
        let slow = match self {
            Self::Auto | Self::F32 => None,
            Self::Bf16 => Some(
                "this machine has no fast bf16: storing bf16, computing in f32, slower than f32",
            ),
            Self::F16 => {
                Some("this machine has no fast f16: storing f16, computing in f32, slower than f32")
            }
        };
        (dtype, slow.filter(|_| !backend.is_fast(dtype)))
    }
}

/// How kernels are rounded to bf16 for layers that compute in it. The optimiser always updates f32 master weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelRounding {
    /// To nearest, by each operation; operations that multiply in f32 use the master weights.
    #[default]
    Nearest,
    /// Stochastically, by the optimiser: up or down with probabilities that preserve the expectation. Training sees
    /// only the rounded kernels, inference the master weights. Takes 6 more bytes per parameter, 4 on a GPU.
    Stochastic,
}

/// The precision of a run: the compute type, which layers stay in f32, and the loss scale.
///
/// In a recipe a string is shorthand for `compute`: `precision = "bf16"` means `precision = { compute = "bf16" }`.
///
/// A layer that stays in f32 widens its input, and computes and stores in f32. Its output stays f32 through pooling,
/// resizing and concatenation until the next half-precision layer narrows it. The first convolution's output is rounded
/// at once, unless the next layer is in f32 too. Training and inference behave the same.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)] // functions for the traits below
pub struct PrecisionPolicy {
    /// The data type of activations. Default `"auto"`.
    pub compute: Precision,
    /// Layers that stay in f32 in addition to the first convolution and the output layers: prefixes of their names
    /// (`decoder` or `decoder.refine1`), or patterns in which `*` matches any text (`*.norm`).
    pub keep_f32: Vec<String>,
    /// Whether the first convolution and the output layers also use the type of all other layers, as under PyTorch's
    /// autocast: 15 % faster for DeepCAM on an H200. Default `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_layers: bool,
    /// Whether f32 convolutions on a GPU may round their operands to TF32, which has eleven significant bits like f16:
    /// several times faster, with errors of up to 1e-3 of a product. This includes layers that stay in f32 in half
    /// precision. CPUs have no TF32 and ignore the key. Default `false`: f32 is f32.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tf32: bool,
    /// The factor on the loss before the backward pass. Default: [`LossScaleConfig::of`] the type of activations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScaleConfig>,
    /// How kernels are rounded to bf16. Default `"nearest"`.
    pub kernels: KernelRounding,
}

impl From<Precision> for PrecisionPolicy {
    fn from(compute: Precision) -> Self {
        Self {
            compute,
            ..Self::default()
        }
    }
}

impl PrecisionPolicy {
    /// As [`Precision::resolve`].
    pub fn resolve(&self, backend: Backend) -> (DType, Option<&'static str>) {
        self.compute.resolve(backend)
    }

    /// Buffers for the rounded kernels that training multiplies by, if the optimiser rounds them; `None` if it does not
    /// or if nothing computes in bf16.
    ///
    /// # Errors
    /// As [`Mirror::new`].
    pub fn copies(
        &self,
        parameters: &Parameters,
        dtype: DType,
        seed: u64,
    ) -> Result<Option<Mirror>> {
        let rounds = self.kernels == KernelRounding::Stochastic && dtype == DType::BF16;
        let room = || Mirror::new(parameters, Rounding::Stochastic { seed });
        rounds.then(room).transpose()
    }

    /// How the loss is scaled in a pass that computes in `dtype`.
    pub fn loss_scale(&self, dtype: DType) -> LossScaleConfig {
        self.loss_scale
            .unwrap_or_else(|| LossScaleConfig::of(dtype))
    }

    /// The data type of every layer's activations in a pass that computes in `dtype`, by layer name (a parameter's name
    /// without its last part).
    ///
    /// The layers matched by `keep_f32` are f32. So are, unless `all_layers` is set, the first convolution, which sees
    /// the full range of the input fields, and the output layers, whose results enter the loss (the classifier; a
    /// detector's heads, and the last layer of its decoder, if it has one). Batch-norm statistics, γ, β and the loss
    /// are f32 in every layer.
    ///
    /// # Errors
    /// [`ModelError::Config`] if an entry matches no layer, with the closest layer names.
    pub fn layers(&self, network: &Network, dtype: DType) -> Result<BTreeMap<String, DType>> {
        self.layers_of(network.parameters(), &network.outputs(), dtype)
    }

    fn layers_of(
        &self,
        parameters: &Parameters,
        outputs: &[ParameterId],
        dtype: DType,
    ) -> Result<BTreeMap<String, DType>> {
        let mut layers: BTreeMap<String, DType> = (parameters.iter())
            .map(|p| (layer_of(&p.name).to_string(), dtype))
            .collect();
        for prefix in &self.keep_f32 {
            let mut any = false;
            for (_, kept) in layers
                .iter_mut()
                .filter(|(name, _)| lies_under(prefix, name))
            {
                (*kept, any) = (DType::F32, true);
            }
            if !any {
                let near = near(prefix, layers.keys().map(String::as_str));
                let reason = format!("no layer is or begins with `{prefix}` (layers: {near})");
                return Err(ModelError::Config {
                    key: "precision.keep_f32",
                    reason,
                });
            }
        }
        if self.all_layers {
            return Ok(layers);
        }
        let first = parameters.iter().find(|p| p.kind == Kind::Weight);
        let is_output = |index: usize| outputs.iter().any(|output| output.index() == index);
        let last = parameters.iter().enumerate();
        let last = last.filter(|(index, _)| is_output(*index)).map(|(_, p)| p);
        for edge in first.into_iter().chain(last) {
            layers.insert(layer_of(&edge.name).to_string(), DType::F32);
        }
        Ok(layers)
    }

    /// How a pass in `dtype` stores activations, with the layer types of [`Self::layers`].
    ///
    /// # Errors
    /// [`ModelError::Config`] if an entry of `keep_f32` matches no layer.
    pub fn storage(&self, network: &Network, dtype: DType) -> Result<Storage> {
        let layers = self.layers(network, dtype)?;
        Ok(stored(network.parameters(), &layers, dtype))
    }
}

/// How a pass in `dtype` stores activations if the layers have the types in `layers`.
fn stored(parameters: &Parameters, layers: &BTreeMap<String, DType>, dtype: DType) -> Storage {
    let own = |name: &str| layers.get(layer_of(name)).copied().unwrap_or(dtype);
    let differ = layers.values().any(|own| *own != dtype);
    let in_f32 = layers
        .iter()
        .filter(|(_, own)| **own == DType::F32 && dtype != DType::F32);
    Storage {
        f32_layers: in_f32.map(|(name, _)| name.clone()).collect(),
        rounded_output: rounded_output(parameters, own, dtype),
        layers: differ.then(|| parameters.iter().map(|p| own(&p.name)).collect()),
        ..dtype.into()
    }
}

/// The value of [`Storage::rounded_output`], where `own` returns the compute type of a layer by its name.
fn rounded_output(
    parameters: &Parameters,
    own: impl Fn(&str) -> DType,
    dtype: DType,
) -> Option<usize> {
    let (index, first) = (parameters.iter().enumerate()).find(|(_, p)| p.kind == Kind::Weight)?;
    let mut later = parameters.iter().skip(index);
    let next = later.find(|p| layer_of(&p.name) != layer_of(&first.name))?;
    let narrows = own(&first.name) != dtype && own(&next.name) == dtype;
    narrows.then_some(index)
}

impl Serialize for PrecisionPolicy {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for PrecisionPolicy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct WordOrTable;

        impl<'de> Visitor<'de> for WordOrTable {
            type Value = PrecisionPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\", \"f32\", \"bf16\", \"f16\" or a table with `compute`, `keep_f32`, `all_layers`, `tf32`, `loss_scale`, `kernels`")
            }

            fn visit_str<E: serde::de::Error>(
                self,
                word: &str,
            ) -> std::result::Result<Self::Value, E> {
                Precision::deserialize(serde::de::value::StrDeserializer::new(word)).map(Into::into)
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                PrecisionPolicy::deserialize(MapAccessDeserializer::new(map))
            }
        }

        from.deserialize_any(WordOrTable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network's parameters, with the kernel of its output.
    fn parameters() -> (Parameters, Vec<ParameterId>) {
        let mut parameters = Parameters::new(1);
        let mut outputs = Vec::new();
        for layer in [
            "encoder.stem",
            "encoder.block1.conv",
            "encoder.block10.conv",
            "decoder.classify",
        ] {
            let weight = parameters.weight(format!("{layer}.weight"), &[1, 1, 1, 1], 1);
            outputs = vec![weight.unwrap()];
        }
        parameters
            .vector("decoder.classify.bias".into(), Kind::Bias, 1, 0.0)
            .unwrap();
        (parameters, outputs)
    }

    fn kept(prefixes: &[&str]) -> Result<Vec<String>> {
        kept_of_all(prefixes, false)
    }

    fn kept_of_all(prefixes: &[&str], all_layers: bool) -> Result<Vec<String>> {
        let policy = PrecisionPolicy {
            keep_f32: prefixes.iter().map(|p| p.to_string()).collect(),
            all_layers,
            ..PrecisionPolicy::default()
        };
        let (parameters, outputs) = parameters();
        let layers = policy.layers_of(&parameters, &outputs, DType::BF16)?;
        assert_eq!(layers.len(), 4);
        let f32s = layers.into_iter().filter(|(_, dtype)| *dtype == DType::F32);
        Ok(f32s.map(|(name, _)| name).collect())
    }

    #[test]
    fn the_ends_and_what_is_named_stay_in_f32() {
        assert_eq!(kept(&[]).unwrap(), ["decoder.classify", "encoder.stem"]);
        let one = ["decoder.classify", "encoder.block1.conv", "encoder.stem"];
        assert_eq!(kept(&["encoder.block1"]).unwrap(), one);
        assert_eq!(kept(&["encoder.block1.conv", "encoder.stem"]).unwrap(), one);
        assert_eq!(kept(&["encoder."]).unwrap().len(), 4);
        assert_eq!(kept(&["*.block1"]).unwrap(), one);
        assert_eq!(kept(&["*.conv"]).unwrap().len(), 4);
        assert_eq!(kept(&["*er.block10*"]).unwrap().len(), 3);
        assert!(kept(&["*.norm"]).is_err() && kept(&["block1"]).is_err());
        let text = kept(&["encoder.block2"]).unwrap_err().to_string();
        assert!(
            text.contains("`encoder.block2`") && text.contains("encoder.block10.conv"),
            "{text}"
        );
    }

    #[test]
    fn of_all_layers_only_what_is_named_stays_in_f32() {
        assert!(kept_of_all(&[], true).unwrap().is_empty());
        let stem = kept_of_all(&["encoder.stem"], true).unwrap();
        assert_eq!(stem, ["encoder.stem"]);
        assert!(kept_of_all(&["block2"], true).is_err());
        let (parameters, outputs) = parameters();
        let policy = PrecisionPolicy {
            all_layers: true,
            ..PrecisionPolicy::default()
        };
        let layers = policy
            .layers_of(&parameters, &outputs, DType::BF16)
            .unwrap();
        let storage = stored(&parameters, &layers, DType::BF16);
        assert_eq!(storage, DType::BF16.into());
    }

    #[test]
    fn a_storage_has_a_type_for_every_parameter() {
        let policy = PrecisionPolicy {
            keep_f32: vec!["encoder.block1".into()],
            ..PrecisionPolicy::default()
        };
        let (parameters, outputs) = parameters();
        let storage = |dtype| {
            let layers = policy.layers_of(&parameters, &outputs, dtype).unwrap();
            stored(&parameters, &layers, dtype)
        };
        let f32s = |storage: &Storage| {
            storage.layers.as_ref().map(|all| {
                all.iter()
                    .map(|&dtype| dtype == DType::F32)
                    .collect::<Vec<_>>()
            })
        };
        // Stem, block 1, block 10, the classifier's kernel and bias.
        let mixed = f32s(&storage(DType::BF16));
        assert_eq!(mixed, Some(vec![true, true, false, true, true]));
        assert_eq!(storage(DType::F32), DType::F32.into());
    }

    /// Like most machines, plain loops have no fast half precision: activations are stored in it only on request.
    #[test]
    fn the_requested_precision_is_used_and_deviations_are_noted() {
        for (asked, dtype, word) in [
            (Precision::F32, DType::F32, None),
            (Precision::Auto, DType::F32, Some("computing in f32")),
            (Precision::Bf16, DType::BF16, Some("storing bf16")),
            (Precision::F16, DType::F16, Some("storing f16")),
        ] {
            let (found, note) = asked.resolve(Backend::Reference);
            assert_eq!((found, note.is_some()), (dtype, word.is_some()));
            let stored = (asked != Precision::Auto).then_some(dtype);
            assert_eq!(asked.stored(), stored);
            assert!(note.unwrap_or_default().contains(word.unwrap_or_default()));
        }
    }

    #[test]
    fn copies_are_for_kernels_that_are_rounded_and_scales_for_f16() {
        let (parameters, _) = parameters();
        for (kernels, dtype, rounds) in [
            (KernelRounding::Stochastic, DType::BF16, true),
            (KernelRounding::Stochastic, DType::F32, false),
            (KernelRounding::Stochastic, DType::F16, false),
            (KernelRounding::Nearest, DType::BF16, false),
        ] {
            let policy = PrecisionPolicy {
                kernels,
                ..PrecisionPolicy::default()
            };
            let copies = policy.copies(&parameters, dtype, 1).unwrap();
            assert_eq!(copies.is_some(), rounds, "{kernels:?} {dtype:?}");
        }
        let asked = LossScaleConfig::Static { scale: 8.0 };
        let policy = PrecisionPolicy {
            loss_scale: Some(asked),
            ..PrecisionPolicy::default()
        };
        assert_eq!(policy.loss_scale(DType::F16), asked);
        let unasked = PrecisionPolicy::default();
        assert!(unasked.loss_scale(DType::F16).is_dynamic());
        assert!(!unasked.loss_scale(DType::BF16).is_dynamic());
    }

    #[test]
    fn the_first_output_is_rounded_unless_the_next_layer_is_in_f32() {
        let (parameters, outputs) = parameters();
        let storage = |keep_f32: &[&str], all_layers, dtype| {
            let policy = PrecisionPolicy {
                keep_f32: keep_f32.iter().map(|p| p.to_string()).collect(),
                all_layers,
                ..PrecisionPolicy::default()
            };
            let layers = policy.layers_of(&parameters, &outputs, dtype).unwrap();
            stored(&parameters, &layers, dtype)
        };
        let rounded = |storage: &Storage| storage.rounded_output;
        assert_eq!(rounded(&storage(&[], false, DType::BF16)), Some(0));
        let block10 = storage(&["encoder.block10"], false, DType::BF16);
        assert_eq!(rounded(&block10), Some(0));
        let block1 = storage(&["encoder.block1"], false, DType::BF16);
        assert_eq!(rounded(&block1), None);
        assert_eq!(rounded(&storage(&[], true, DType::BF16)), None);
        assert_eq!(rounded(&storage(&[], false, DType::F32)), None);
    }

    #[test]
    fn a_word_or_a_table() {
        let read = |json: &str| serde_json::from_str::<PrecisionPolicy>(json);
        assert_eq!(read("\"bf16\"").unwrap(), Precision::Bf16.into());
        let table = r#"{"keep_f32": ["a"], "loss_scale": {"kind": "static", "scale": 8.0}}"#;
        let table = read(table).unwrap();
        assert_eq!((table.compute, table.keep_f32.len()), (Precision::Auto, 1));
        assert_eq!(
            read(&serde_json::to_string(&table).unwrap()).unwrap(),
            table
        );
        let written = |policy: &PrecisionPolicy| serde_json::to_string(policy).unwrap();
        assert_eq!(
            written(&PrecisionPolicy::default()),
            r#"{"compute":"auto","keep_f32":[],"kernels":"nearest"}"#
        );
        let rounded = read(r#"{"compute": "f32", "tf32": true}"#).unwrap();
        assert!(rounded.tf32 && !table.tf32);
        let all = read(r#"{"all_layers": true}"#).unwrap();
        assert!(all.all_layers && !rounded.all_layers);
        for policy in [rounded, all] {
            assert_eq!(read(&written(&policy)).unwrap(), policy);
        }
        assert!(
            read("\"f33\"")
                .unwrap_err()
                .to_string()
                .contains("unknown variant")
        );
        let unknown = read(r#"{"keep": []}"#).unwrap_err().to_string();
        let known = "unknown field `keep`, expected one of `compute`, `keep_f32`, `all_layers`, `tf32`, `loss_scale`, `kernels`";
        assert!(unknown.starts_with(known), "{unknown}");
    }
}
