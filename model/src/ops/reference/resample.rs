//! Pooling and bilinear resizing, by their definitions.

use crate::ops::conv_spec::{PoolSpec, source};
use crate::ops::resample::Axis;

/// The maximum of every window, and the index of its cell in the window (the first one in a tie).
pub fn max_pool(x: &[f32], x_shape: [usize; 4], spec: &PoolSpec) -> (Vec<f32>, Vec<u8>) {
    let [batch, height, width, channels] = x_shape;
    let (out_h, out_w) = spec.output_size((height, width));
    let mut y = Vec::with_capacity(batch * out_h * out_w * channels);
    let mut winner = Vec::with_capacity(y.capacity());
    for (b, p) in (0..batch).flat_map(|b| (0..out_h).map(move |p| (b, p))) {
        for (q, c) in (0..out_w).flat_map(|q| (0..channels).map(move |c| (q, c))) {
            let mut best = (f32::NEG_INFINITY, 0);
            for cell in 0..spec.kernel * spec.kernel {
                let (r, s) = (cell / spec.kernel, cell % spec.kernel);
                let row = source(p, spec.stride, r, spec.padding, height, false);
                let column = source(q, spec.stride, s, spec.padding, width, spec.periodic);
                if let (Some(h), Some(w)) = (row, column) {
                    let value = x[((b * height + h) * width + w) * channels + c];
                    // The first NaN wins.
                    if value > best.0 || value.is_nan() && !best.0.is_nan() {
                        best = (value, cell as u8);
                    }
                }
            }
            y.push(best.0);
            winner.push(best.1);
        }
    }
    (y, winner)
}

/// Adds every output's gradient to its winning cell.
pub fn max_pool_backward(
    dy: &[f32],
    winner: &[u8],
    x_shape: [usize; 4],
    spec: &PoolSpec,
) -> Vec<f32> {
    let [_, height, width, channels] = x_shape;
    let (out_h, out_w) = spec.output_size((height, width));
    let mut dx = vec![0.0; x_shape.iter().product()];
    for (index, (&grad, &cell)) in dy.iter().zip(winner).enumerate() {
        let c = index % channels;
        let q = index / channels % out_w;
        let p = index / (channels * out_w) % out_h;
        let b = index / (channels * out_w * out_h);
        let (r, s) = (
            usize::from(cell) / spec.kernel,
            usize::from(cell) % spec.kernel,
        );
        let row = source(p, spec.stride, r, spec.padding, height, false);
        let column = source(q, spec.stride, s, spec.padding, width, spec.periodic);
        if let (Some(h), Some(w)) = (row, column) {
            dx[((b * height + h) * width + w) * channels + c] += grad;
        }
    }
    dx
}

/// y[p, q] = Σ over the two rows and two columns around the source point of weight · x.
pub fn resize(x: &[f32], x_shape: [usize; 4], rows: &Axis, columns: &Axis) -> Vec<f32> {
    let [batch, height, width, channels] = x_shape;
    let mut y = Vec::new();
    for (b, p) in (0..batch).flat_map(|b| (0..rows.len()).map(move |p| (b, p))) {
        for (q, c) in (0..columns.len()).flat_map(|q| (0..channels).map(move |c| (q, c))) {
            let mut sum = 0.0;
            for (h, wh) in rows.taps(p) {
                for (w, ww) in columns.taps(q) {
                    sum += wh * ww * x[((b * height + h) * width + w) * channels + c];
                }
            }
            y.push(sum);
        }
    }
    y
}

/// The transpose of [`resize`].
pub fn resize_backward(dy: &[f32], x_shape: [usize; 4], rows: &Axis, columns: &Axis) -> Vec<f32> {
    let [batch, height, width, channels] = x_shape;
    let mut dx = vec![0.0; x_shape.iter().product()];
    let mut gradients = dy.iter();
    for (b, p) in (0..batch).flat_map(|b| (0..rows.len()).map(move |p| (b, p))) {
        for (q, c) in (0..columns.len()).flat_map(|q| (0..channels).map(move |c| (q, c))) {
            let Some(grad) = gradients.next() else {
                return dx;
            };
            for (h, wh) in rows.taps(p) {
                for (w, ww) in columns.taps(q) {
                    dx[((b * height + h) * width + w) * channels + c] += wh * ww * grad;
                }
            }
        }
    }
    dx
}
