//! All three directions against the plain loops, on shapes that do not fit tiles, vectors and panels.

use super::*;
use crate::ops::kept::Lifetime;
use crate::ops::reference::conv as plain;
use crate::ops::testing::{distance, draw};
use half::bf16;
use proptest::prelude::*;

/// A single field, as the operations take it.
fn one<V>(x: &[V], [b, h, w, _]: [usize; 4]) -> Joined<'_, V> {
    Joined::new(std::iter::once(x), b * h * w)
}

fn check(spec: ConvSpec, x_shape: [usize; 4], outputs: usize) {
    let taps = spec.kernel.0;
    let weights_shape = [outputs, x_shape[3], taps, taps];
    let sizes = (outputs, x_shape[3], taps * taps);
    let Ok(conv) = Convolution::of("test", &spec, x_shape, &weights_shape) else {
        return;
    };
    if spec.periodic && x_shape[2] != conv.y[2] {
        return;
    }
    let x = draw(1, x_shape.iter().product());
    let w = draw(2, weights_shape.iter().product());
    let dy = draw(3, conv.y.iter().product());
    let (bias, residual) = (draw(4, outputs), draw(5, dy.len()));

    let kernels = Kernels::forward(&w, sizes, Lifetime::Network);
    let finish = Finish {
        bias: Some(&bias),
        residual: Some(&residual[..]),
        relu: true,
    };
    let y = forward(&conv, &one(&x, x_shape), &kernels, finish);
    let mut expected = plain::forward(&conv, &x, &w, Some(&bias));
    expected
        .iter_mut()
        .zip(&residual)
        .for_each(|(y, r)| *y = (*y + r).max(0.0));
    assert!(
        distance(&y, &expected) < 1e-5,
        "forward {spec:?} {x_shape:?}"
    );

    // Stored as bf16, computed in f32: the same up to the rounding of the result.
    let narrow = |values: &[f32]| {
        values
            .iter()
            .map(|&v| <bf16 as Value>::narrow(v))
            .collect::<Vec<bf16>>()
    };
    let wide = |values: &[bf16]| values.iter().map(|&v| v.widen()).collect::<Vec<f32>>();
    let (x16, residual16) = (narrow(&x), narrow(&residual));
    let finish = Finish {
        bias: Some(&bias),
        residual: Some(&residual16[..]),
        relu: true,
    };
    let y = forward(&conv, &one(&x16, x_shape), &kernels, finish);
    let mut expected = plain::forward(&conv, &wide(&x16), &w, Some(&bias));
    let residual = wide(&residual16);
    expected
        .iter_mut()
        .zip(&residual)
        .for_each(|(y, r)| *y = (*y + r).max(0.0));
    assert!(
        distance(&wide(&y), &expected) < 4e-3,
        "bf16 forward {spec:?} {x_shape:?}"
    );

    if can_turn(&spec) {
        let kernels = Kernels::backward(&w, sizes, Lifetime::Network);
        let dx = backward_data(&conv, &dy, &kernels, Finish::NOTHING, &x_shape[3..]).remove(0);
        let expected = plain::backward_data(&conv, &dy, &w);
        assert!(
            distance(&dx, &expected) < 1e-5,
            "backward data {spec:?} {x_shape:?}"
        );
    }

    let mut dw = draw(6, w.len());
    let mut expected = dw.clone();
    add_backward_weights(&conv, &one(&x, x_shape), &dy, &mut dw);
    plain::backward_weights(&conv, &x, &dy, &mut expected);
    assert!(
        distance(&dw, &expected) < 1e-5,
        "backward weights {spec:?} {x_shape:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_direction_is_the_plain_convolution(
        batch in 1usize..3,
        (height, width) in (1usize..20, 1usize..20),
        (inputs, outputs) in (1usize..40, 1usize..70),
        dilation in 1usize..8,
        padding in (0usize..3, 0usize..3),
        periodic: bool,
    ) {
        let spec = ConvSpec {
            dilation,
            padding: (padding.0 * dilation, if periodic { dilation } else { padding.1 * dilation }),
            ..ConvSpec::same(3).periodic(periodic)
        };
        check(spec, [batch, height, width, inputs], outputs);
    }

    // Larger fields and smaller dilations than above: sums over a few pixels can be small beside the values at the
    // points, whose rounding then shows. `pays` leaves such fields to other loops.
    #[test]
    fn five_taps_give_the_plain_convolution_too(
        batch in 1usize..3,
        (height, width) in (6usize..20, 6usize..20),
        (inputs, outputs) in (1usize..40, 1usize..70),
        dilation in 1usize..3,
        padding in (0usize..4, 0usize..4),
        periodic: bool,
    ) {
        let spec = ConvSpec {
            dilation,
            padding: (padding.0 * dilation, if periodic { 2 * dilation } else { padding.1 * dilation }),
            ..ConvSpec::same(5).periodic(periodic)
        };
        check(spec, [batch, height, width, inputs], outputs);
    }
}

#[test]
fn more_channels_than_one_pass_takes() {
    check(ConvSpec::same(3).periodic(true), [1, 9, 14, 600], 20);
    check(ConvSpec::same(3).dilation(2), [1, 6, 10, 24], 530);
    check(ConvSpec::same(5).periodic(true), [1, 9, 14, 600], 20);
    check(ConvSpec::same(5), [1, 9, 14, 24], 530);
}

#[test]
fn more_tiles_than_one_group() {
    check(ConvSpec::same(3).periodic(true), [2, 30, 212, 8], 16);
    check(ConvSpec::same(5).periodic(true), [2, 30, 212, 8], 16);
}
