//! Whole networks: logits, loss, gradients of a training pass, and logits of inference.

use super::{DTYPES, ModelResult, Row, draw, field, values};
use crate::error::Result;
use candle_core::{DType, Tensor};
use squall_model::networks::NetworkName;
use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};

/// The plain loops compute in f32, so half precisions differ from them by what rounding every activation costs.
const LOGITS: [Option<f64>; 3] = [Some(1e-4), Some(0.1), Some(0.02)];
const LOSS: [Option<f64>; 3] = [Some(1e-4), Some(0.02), Some(0.005)];
const GRADIENT: [Option<f64>; 3] = [Some(5e-3), Some(0.05), Some(0.01)];
/// CGNet normalises after each of its many narrow layers, on fields of a few pixels.
const CGNET_GRADIENT: [Option<f64>; 3] = [Some(5e-3), Some(0.6), Some(0.2)];
/// DeepCAM normalises with the statistics of the batch after every convolution, and its deepest layers see a 256th of
/// the pixels: on a field as small as the others' they would normalise over six, which turns any rounding into noise.
const DEEPCAM_LARGER: usize = 4;
/// Untrained it still makes much of little: PyTorch's own is off by 7.7e-5 in f32 and by 0.40 in bf16 from f64 on that
/// field. How far half precisions are off is the network's doing, so that plain loops that store them tell.
const DEEPCAM_LOGITS: [Option<f64>; 3] = [Some(2e-4), None, None];
/// What a backend may be off, of what plain loops are off that store a half precision and round kernels to it. Sums in
/// another order are rounded otherwise: four fields together moved by no more than 3 %.
const CHANCE: f64 = 1.1;
/// How far the logits of a field are off is chance too, so that those of several are judged as one.
const DEEPCAM_FIELDS: [u64; 4] = [5, 7, 8, 9];
/// Logits, and those of inference.
const DEEPCAM_ROUNDED: [usize; 2] = [0, 3];
/// In half precision its gradient is noise on fields so small.
const DEEPCAM_GRADIENT: [Option<f64>; 3] = [Some(5e-2), None, None];
const CLASS_WEIGHTS: [f32; 3] = [0.2, 1.0, 0.5];
/// Keeps small gradients in f16's range; a power of two changes nothing in the other types.
const LOSS_SCALE: f32 = 1024.0;

/// A line each for logits, loss, gradients and inference.
pub(super) fn rows(name: NetworkName, size: (usize, usize)) -> Result<Vec<Row>> {
    let config = NetworkConfig {
        dropout: 0.0,
        // So that inference normalises as training did: after one step of a slower mean f16 would overflow.
        batch_norm_decay: 0.0,
        ..NetworkConfig::published(name)
    };
    let (larger, fields) = match name {
        NetworkName::DeepCam => (DEEPCAM_LARGER, &DEEPCAM_FIELDS[..]),
        _ => (1, &DEEPCAM_FIELDS[..1]),
    };
    let size = (size.0 * larger, size.1 * larger);
    let plain = learn(&config, Backend::Reference, DType::F32, size, fields)?;
    let whats = ["logits", "loss", "gradients", "logits of inference"];
    let bounds = match name {
        NetworkName::DeepCam => [DEEPCAM_LOGITS, LOSS, DEEPCAM_GRADIENT, DEEPCAM_LOGITS],
        NetworkName::CgNet => [LOGITS, LOSS, CGNET_GRADIENT, LOGITS],
        _ => [LOGITS, LOSS, GRADIENT, LOGITS],
    };
    let mut rows: Vec<Row> = whats
        .iter()
        .zip(bounds)
        .map(|(what, bounds)| Row::new(name.as_str(), what, bounds))
        .collect();
    if name == NetworkName::DeepCam {
        for (dtype, at) in DTYPES.into_iter().zip(0..).skip(1) {
            let rounded = logits(&config, Backend::Reference, dtype, size, fields)?;
            for (which, rounded) in DEEPCAM_ROUNDED.into_iter().zip(rounded) {
                let off = super::distance(&rounded, &plain[which])?;
                rows[which].worst[at].bound = Some(CHANCE * off);
            }
        }
    }
    let ours = DTYPES.map(|dtype| learn(&config, Backend::best(), dtype, size, fields));
    let [f32s, bf16s, f16s] = ours;
    let ours = [f32s?, bf16s?, f16s?];
    for (which, row) in rows.iter_mut().enumerate() {
        let by_type = |dtype: DType| {
            let at = DTYPES.iter().position(|&d| d == dtype);
            Ok(ours[at.unwrap_or(0)][which].clone())
        };
        let place = || match larger {
            1 => String::new(),
            _ => format!("{} fields of {} x {}", fields.len(), size.0, size.1),
        };
        row.add(place, &plain[which], by_type)?;
    }
    Ok(rows)
}

/// A network that has passed a field on, learning.
struct Passed {
    network: Network,
    x: Tensor,
    pass: Pass,
    logits: Tensor,
}

impl Passed {
    fn of(
        config: &NetworkConfig,
        backend: Backend,
        dtype: DType,
        (h, w): (usize, usize),
        seed: u64,
    ) -> ModelResult<Self> {
        let mut network = Network::build(config, backend, 3)?;
        if backend == Backend::Reference && dtype != DType::F32 {
            round_kernels(&mut network, dtype)?;
        }
        let x = field(seed, &[1, h, w, config.channels_in])?;
        let mut pass = Pass::train(backend, dtype, 7);
        let logits = network.forward(&x, &mut pass)?;
        network.update_running_statistics(&mut pass)?;
        Ok(Self {
            network,
            x,
            pass,
            logits,
        })
    }

    /// Logits, and those of inference.
    fn logits(&self, dtype: DType) -> ModelResult<[Vec<f32>; 2]> {
        let inferred = self.network.infer(&self.x, dtype)?;
        Ok([values(&self.logits)?, values(&inferred)?])
    }
}

/// Rounds kernels as matrix units take them; depthwise convolutions have their own loops, whose kernels stay.
fn round_kernels(network: &mut Network, dtype: DType) -> ModelResult<()> {
    let rounded = network.parameters().iter().map(|parameter| {
        let tensor = parameter.tensor();
        match *tensor.dims() {
            [_, inner, _, _] if inner > 1 => values(&Backend::Reference.convert(tensor, dtype)?),
            _ => parameter.values(),
        }
    });
    let rounded: Vec<Vec<f32>> = rounded.collect::<std::result::Result<_, _>>()?;
    let mut rounded = rounded.iter();
    network.parameters_mut().update(|_, values| {
        if let Some(rounded) = rounded.next() {
            values.copy_from_slice(rounded);
        }
    })
}

/// Logits of these fields one after the other, and those of inference.
fn logits(
    config: &NetworkConfig,
    backend: Backend,
    dtype: DType,
    size: (usize, usize),
    fields: &[u64],
) -> ModelResult<[Vec<f32>; 2]> {
    let mut all = [Vec::new(), Vec::new()];
    for &seed in fields {
        let of_field = Passed::of(config, backend, dtype, size, seed)?.logits(dtype)?;
        for (all, mut of_field) in all.iter_mut().zip(of_field) {
            all.append(&mut of_field);
        }
    }
    Ok(all)
}

/// Logits of all fields, loss and gradients of the first, logits of inference of all.
fn learn(
    config: &NetworkConfig,
    backend: Backend,
    dtype: DType,
    size: (usize, usize),
    fields: &[u64],
) -> ModelResult<[Vec<f32>; 4]> {
    let (first, others) = fields.split_at(1);
    let passed = Passed::of(config, backend, dtype, size, first[0])?;
    let [mut logits, mut inferred] = passed.logits(dtype)?;
    let [mut more, mut more_inferred] = self::logits(config, backend, dtype, size, others)?;
    logits.append(&mut more);
    inferred.append(&mut more_inferred);
    let labels: Vec<u8> = (draw(6, size.0 * size.1).iter())
        .map(|v| ((v + 2.0) * 0.7) as u8)
        .collect();
    let loss =
        backend.softmax_cross_entropy(&passed.logits, &labels, &CLASS_WEIGHTS, LOSS_SCALE)?;
    let mut gradients = Gradients::new(passed.network.parameters());
    (passed.network).backward(&loss.gradient, passed.pass, &mut gradients)?;
    gradients.scale(1.0 / LOSS_SCALE);
    Ok([
        logits,
        vec![loss.mean() as f32],
        gradients.as_slice().to_vec(),
        inferred,
    ])
}
