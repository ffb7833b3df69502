//! The operations of a network other than convolutions, on fields of odd extents that are larger than one share of
//! work.

use super::{ModelResult, Row, Values, draw, field, values};
use crate::error::Result;
use candle_core::{DType, Tensor};
use squall_model::Backend;
use squall_model::ops::norm::{After, NormBackward};
use squall_model::ops::{ConvTransposeSpec, PoolSpec};

/// Sums in another order, and a rounded result.
const RESULT: [Option<f64>; 3] = [Some(1e-5), Some(6e-3), Some(8e-4)];
const SHAPE: [usize; 4] = [2, 61, 83, 13];
const CLASSES: usize = 3;

/// An operation by backend and type of its activations.
type Operation = fn(Backend, DType, bool) -> Values;

/// A line for each operation; where longitude matters both ways are cases.
pub(super) fn rows() -> Result<Vec<Row>> {
    let operations: [(&str, Operation); 16] = [
        ("transposed convolution", transposed),
        ("its gradients", transposed_backward),
        ("batch norm + residual + ReLU", normalised),
        ("its gradients", normalised_backward),
        ("max pooling", max_pooled),
        ("its gradient", max_pooled_backward),
        ("average pooling and its gradient", averaged),
        ("global average and its gradient", averaged_globally),
        ("bilinear resize", resized),
        ("its gradient", resized_backward),
        ("softmax cross entropy, gradient", loss),
        ("softmax", softmax),
        ("PReLU and its gradients", prelu),
        ("channel gate and its gradients", gated),
        ("dropout, ReLU, add, scale", elementwise),
        ("concatenate and split", joined),
    ];
    let mut rows = Vec::new();
    for (what, operation) in operations {
        let mut row = Row::new("operations", what, RESULT);
        for periodic in [false, true] {
            let plain = operation(Backend::Reference, DType::F32, periodic)?;
            let place = || if periodic { "periodic" } else { "padded" }.to_string();
            row.add(place, &plain, |dtype| {
                operation(Backend::best(), dtype, periodic)
            })?;
        }
        rows.push(row);
    }
    Ok(rows)
}

fn field_as(seed: u64, shape: &[usize], dtype: DType) -> ModelResult<Tensor> {
    Ok(field(seed, shape)?.to_dtype(dtype)?)
}

fn transposed(backend: Backend, dtype: DType, periodic: bool) -> Values {
    let (x, w) = (
        field_as(1, &[2, 15, 21, 24], dtype)?,
        field(2, &[24, 16, 3, 3])?,
    );
    let spec = ConvTransposeSpec::double(periodic);
    values(&backend.conv_transpose2d(&x, &w, Some(&field(3, &[16])?), &spec)?)
}

fn transposed_backward(backend: Backend, dtype: DType, periodic: bool) -> Values {
    let (x, w) = (
        field_as(1, &[2, 15, 21, 24], dtype)?,
        field(2, &[24, 16, 3, 3])?,
    );
    let (spec, dy) = (
        ConvTransposeSpec::double(periodic),
        field_as(4, &[2, 30, 42, 16], dtype)?,
    );
    let mut all = values(&backend.conv_transpose2d_backward_data(&dy, &w, &spec)?)?;
    let (mut dw, mut dbias) = (vec![0.0; w.elem_count()], vec![0.0; 16]);
    backend.conv_transpose2d_backward_weights(
        &x,
        &dy,
        &spec,
        &mut dw,
        Some((&mut dbias).into()),
    )?;
    all.extend(dw.into_iter().chain(dbias));
    Ok(all)
}

fn normalised(backend: Backend, dtype: DType, _: bool) -> Values {
    let (x, residual) = (field_as(1, &SHAPE, dtype)?, field_as(2, &SHAPE, dtype)?);
    let (gamma, beta) = (draw(3, 13), draw(4, 13));
    let result =
        backend.batch_norm_forward(&x, &gamma, &beta, 1e-5, Some(&residual), true, None)?;
    values(&result.0)
}

fn normalised_backward(backend: Backend, dtype: DType, _: bool) -> Values {
    let (x, dy) = (field_as(1, &SHAPE, dtype)?, field_as(5, &SHAPE, dtype)?);
    let (gamma, beta) = (draw(3, 13), draw(4, 13));
    let (_, saved) = backend.batch_norm_forward(&x, &gamma, &beta, 1e-5, None, true, None)?;
    let after = After {
        residual: false,
        relu: true,
    };
    let (mut dgamma, mut dbeta) = (vec![0.0; 13], vec![0.0; 13]);
    let of = NormBackward {
        dy: &dy,
        x: &x,
        y: None,
        gamma: (&gamma).into(),
        beta: (&beta).into(),
        saved: &saved,
        after,
        ranks: None,
    };
    let (dx, _) = backend.batch_norm_backward(&of, &mut dgamma, &mut dbeta)?;
    let mut all = values(&dx)?;
    all.extend(dgamma.into_iter().chain(dbeta));
    Ok(all)
}

fn max_pooled(backend: Backend, dtype: DType, periodic: bool) -> Values {
    values(
        &backend
            .max_pool(&field_as(1, &SHAPE, dtype)?, &PoolSpec::stem(periodic))?
            .0,
    )
}

fn max_pooled_backward(backend: Backend, dtype: DType, periodic: bool) -> Values {
    let pool = PoolSpec::stem(periodic);
    let (y, winner) = backend.max_pool(&field_as(1, &SHAPE, dtype)?, &pool)?;
    let dy = field_as(2, y.dims(), dtype)?;
    values(&backend.max_pool_backward(&dy, &winner, SHAPE, &pool)?)
}

fn averaged(backend: Backend, dtype: DType, periodic: bool) -> Values {
    let pool = PoolSpec {
        kernel: 3,
        stride: 2,
        padding: 1,
        periodic,
    };
    let y = backend.avg_pool(&field_as(1, &SHAPE, dtype)?, &pool)?;
    let dx = backend.avg_pool_backward(&field_as(2, y.dims(), dtype)?, SHAPE, &pool)?;
    Ok([values(&y)?, values(&dx)?].concat())
}

fn averaged_globally(backend: Backend, dtype: DType, _: bool) -> Values {
    let y = backend.global_average_pool(&field_as(1, &SHAPE, dtype)?)?;
    let dx = backend.global_average_pool_backward(&field_as(2, y.dims(), dtype)?, SHAPE)?;
    Ok([values(&y)?, values(&dx)?].concat())
}

fn resized(backend: Backend, dtype: DType, periodic: bool) -> Values {
    let x = field_as(1, &SHAPE, dtype)?;
    let larger = backend.resize_bilinear(&x, (122, 166), periodic)?;
    let smaller = backend.resize_bilinear(&x, (40, 57), periodic)?;
    Ok([values(&larger)?, values(&smaller)?].concat())
}

fn resized_backward(backend: Backend, dtype: DType, periodic: bool) -> Values {
    let dy = field_as(1, &[2, 122, 166, 13], dtype)?;
    values(&backend.resize_bilinear_backward(&dy, SHAPE, periodic)?)
}

fn labels() -> Vec<u8> {
    let [b, h, w, _] = SHAPE;
    let label = |i: usize| {
        if i.is_multiple_of(17) {
            255
        } else {
            (i % CLASSES) as u8
        }
    };
    (0..b * h * w).map(label).collect()
}

fn logits(dtype: DType) -> ModelResult<Tensor> {
    let [b, h, w, _] = SHAPE;
    field_as(1, &[b, h, w, CLASSES], dtype)
}

fn loss(backend: Backend, dtype: DType, _: bool) -> Values {
    let loss =
        backend.softmax_cross_entropy(&logits(dtype)?, &labels(), &[0.1, 2.0, 0.7], 1024.0)?;
    let mut all = values(&loss.gradient)?;
    all.push(loss.mean() as f32);
    Ok(all)
}

fn softmax(backend: Backend, dtype: DType, _: bool) -> Values {
    values(&backend.softmax(&logits(dtype)?)?)
}

fn prelu(backend: Backend, dtype: DType, _: bool) -> Values {
    let (x, slope, mut dslope) = (field_as(1, &SHAPE, dtype)?, draw(2, 13), vec![0.0; 13]);
    let y = backend.prelu(&x, &slope)?;
    let dx = backend.prelu_backward(&field_as(3, &SHAPE, dtype)?, &x, &slope, &mut dslope)?;
    Ok([values(&y)?, values(&dx)?, dslope].concat())
}

fn gated(backend: Backend, dtype: DType, _: bool) -> Values {
    let (x, z) = (
        field_as(1, &SHAPE, dtype)?,
        field_as(2, &[2, 1, 1, 13], dtype)?,
    );
    let y = backend.gate(&x, &z)?;
    let (dx, dz) = backend.gate_backward(&field_as(3, &SHAPE, dtype)?, &x, &z)?;
    Ok([values(&y)?, values(&dx)?, values(&dz)?].concat())
}

fn elementwise(backend: Backend, dtype: DType, _: bool) -> Values {
    let (x, other) = (field_as(1, &SHAPE, dtype)?, field_as(2, &SHAPE, dtype)?);
    let y = backend.relu(&backend.add(&x, &other)?)?;
    let dx = backend.relu_backward(&other, &y)?;
    let dropped = backend.dropout(&backend.scale(&x, 0.5)?, 0.25, 3)?;
    Ok([values(&y)?, values(&dx)?, values(&dropped)?].concat())
}

fn joined(backend: Backend, dtype: DType, _: bool) -> Values {
    let [b, h, w, _] = SHAPE;
    let (x, other) = (
        field_as(1, &SHAPE, dtype)?,
        field_as(2, &[b, h, w, 7], dtype)?,
    );
    let whole = backend.concat(&[&x, &other])?;
    let parts = backend.split(&whole, &[5, 15])?;
    let mut all = values(&whole)?;
    for part in &parts {
        all.extend(values(part)?);
    }
    Ok(all)
}
