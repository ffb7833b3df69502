//! Backward-weights as one matrix product per kernel tap: dW[:, :, r, s] = Σ over pixels that the tap sees of dyᵀ x.

use super::{gemm_transposed, seam};
use crate::error::Result;
use crate::ops::conv::Pass;
use crate::ops::value::Value;
use std::borrow::Cow;

/// Whether the tap products beat oneDNN's own backward-weights at this geometry.
///
/// Measured (see `ARCHITECTURE.md`): 1x1 kernels always; 3x3 kernels once the dilation leaves oneDNN's fast path. A rule of
/// the geometry, never of a timing, so that results are reproducible. For 1x1 kernels with a stride it is also needed:
/// oneDNN 2.6 gives wrong gradients there when the last window leaves input unread (`backend_parity.rs` has the case).
pub fn are_faster(pass: &Pass<'_>) -> bool {
    let spec = pass.spec;
    let point = spec.kernel == (1, 1) && spec.padding == (0, 0);
    spec.groups == 1 && (point || spec.stride == 1 && spec.dilation >= 3)
}

/// Adds the gradient to `dw`.
pub fn backward_weights<V: Value>(
    pass: &Pass<'_>,
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) -> Result<()> {
    let ([batch, height, width, channels], [_, out_h, out_w, out]) = (pass.x_shape, pass.y_shape);
    let spec = pass.spec;
    if spec.kernel == (1, 1) && spec.padding == (0, 0) {
        let read = every_stride(x, pass.x_shape, spec.stride);
        return gemm_transposed((out, channels, batch * out_h * out_w), dy, &read, true, dw);
    }
    let (mut x_seen, mut dy_seen) = (Vec::new(), Vec::new());
    let mut product = vec![0.0; out * channels];
    let area = spec.kernel.0 * spec.kernel.1;
    for (r, s) in (0..spec.kernel.0).flat_map(|r| (0..spec.kernel.1).map(move |s| (r, s))) {
        let rows = seen(out_h, r * spec.dilation, spec.padding.0, height);
        let columns = match spec.periodic {
            true => 0..out_w,
            false => seen(out_w, s * spec.dilation, spec.padding.1, width),
        };
        if rows.is_empty() || columns.is_empty() {
            continue;
        }
        x_seen.clear();
        dy_seen.clear();
        let left = (columns.start + s * spec.dilation) as isize - spec.padding.1 as isize;
        for (b, p) in (0..batch).flat_map(|b| rows.clone().map(move |p| (b, p))) {
            let h = p + r * spec.dilation - spec.padding.0;
            let row = &x[(b * height + h) * width * channels..][..width * channels];
            seam::columns(row, channels, left, columns.len(), &mut x_seen);
            dy_seen.extend_from_slice(
                &dy[((b * out_h + p) * out_w + columns.start) * out..][..columns.len() * out],
            );
        }
        let pixels = batch * rows.len() * columns.len();
        gemm_transposed(
            (out, channels, pixels),
            &dy_seen,
            &x_seen,
            false,
            &mut product,
        )?;
        let tap = r * spec.kernel.1 + s;
        dw[tap..]
            .iter_mut()
            .step_by(area)
            .zip(&product)
            .for_each(|(dw, g)| *dw += g);
    }
    Ok(())
}

/// The pixels that a 1x1 kernel with this stride reads.
fn every_stride<V: Value>(x: &[V], shape: [usize; 4], stride: usize) -> Cow<'_, [V]> {
    if stride == 1 {
        return x.into();
    }
    let [_, height, width, channels] = shape;
    let mut read = Vec::with_capacity(x.len() / (stride * stride) + x.len() / stride);
    for field in x.chunks_exact(height * width * channels) {
        for row in field.chunks_exact(width * channels).step_by(stride) {
            let pixels = row.chunks_exact(channels).step_by(stride);
            pixels.for_each(|pixel| read.extend_from_slice(pixel));
        }
    }
    read.into()
}

/// Output positions whose tap at `offset` lies inside the input (stride 1).
fn seen(outputs: usize, offset: usize, padding: usize, extent: usize) -> std::ops::Range<usize> {
    let start = padding.saturating_sub(offset).min(outputs);
    let end = (extent + padding).saturating_sub(offset).min(outputs);
    start..end.max(start)
}
