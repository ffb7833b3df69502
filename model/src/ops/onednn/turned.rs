//! The gradient of the input as a convolution of the output gradient with flipped kernels.
//!
//! oneDNN 2.6 runs the direct form of atrous kernels at the published rates by bf16 reference code, but has vector code
//! for the forward convolution.

use super::{Finish, Source, forward};
use crate::error::Result;
use crate::ops::conv_spec::{ConvSpec, Convolution};
use crate::ops::value::Value;
use candle_core::DType;
use rayon::prelude::*;

/// The equivalent convolution from the shape of y to that of x; `None` where the direct form runs. Depends on the
/// geometry alone.
pub fn turned<V: Value>(geometry: &Convolution) -> Option<Convolution> {
    let spec = geometry.spec;
    let atrous = spec.stride == 1 && spec.groups == 1 && spec.dilation > 1;
    let same_width = !spec.periodic || geometry.x[2] == geometry.y[2];
    if V::DTYPE != DType::BF16 || !atrous || !same_width {
        return None;
    }
    let rest = |kernel: usize, padding: usize| ((kernel - 1) * spec.dilation).checked_sub(padding);
    let rows = rest(spec.kernel.0, spec.padding.0)?;
    let columns = rest(spec.kernel.1, spec.padding.1)?;
    Some(Convolution {
        x: geometry.y,
        y: geometry.x,
        spec: ConvSpec {
            padding: (rows, columns),
            ..spec
        },
    })
}

/// The gradient of the input, by the convolution of [`turned`].
pub fn backward_data<V: Value>(
    turned: &Convolution,
    dy: &[V],
    weights: Source<'_>,
) -> Result<Vec<V>> {
    let (inputs, outputs) = (turned.y[3], turned.x[3]);
    let taps = turned.spec.kernel.0 * turned.spec.kernel.1;
    let plain = weights.plain();
    let mut kernels = vec![0.0; plain.len()];
    let of_inputs = kernels.par_chunks_exact_mut(outputs * taps).enumerate();
    of_inputs.for_each(|(input, to)| {
        for (output, to) in to.chunks_exact_mut(taps).enumerate() {
            let from = &plain[(output * inputs + input) * taps..][..taps];
            to.iter_mut()
                .zip(from.iter().rev())
                .for_each(|(to, from)| *to = *from);
        }
    });
    forward(turned, dy, kernels[..].into(), Finish::NOTHING)
}
