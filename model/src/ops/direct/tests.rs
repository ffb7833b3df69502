//! All three directions against the plain loops.

use super::*;
use crate::ops::conv_spec::ConvSpec;
use crate::ops::kept::Lifetime;
use crate::ops::reference::conv as plain;
use crate::ops::testing::draw;
use proptest::prelude::*;

fn magnitudes(values: &[f32]) -> Vec<f32> {
    values.iter().map(|v| v.abs()).collect()
}

/// ‖a − b‖ relative to the norm of `summed`, the sums of magnitudes, rather than of the result: where large terms
/// cancel, rounding errors are large relative to the result. 0 if a and b are equal, even if kernels read only padding
/// and `summed` is 0.
fn off(a: &[f32], b: &[f32], summed: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    match apart == 0.0 {
        true => 0.0,
        false => apart / norm(&mut summed.iter().map(|&v| f64::from(v))),
    }
}

fn check(spec: ConvSpec, x_shape: [usize; 4], outputs: usize) {
    let weights_shape = [outputs, x_shape[3], spec.kernel.0, spec.kernel.1];
    let Ok(conv) = Convolution::of("test", &spec, x_shape, &weights_shape) else {
        return;
    };
    if !fits(&conv) {
        return;
    }
    let taps = spec.kernel.0 * spec.kernel.1;
    let x = draw(1, x_shape.iter().product());
    let w = draw(2, weights_shape.iter().product());
    let dy = draw(3, conv.y.iter().product());
    let (bias, residual) = (draw(4, outputs), draw(5, dy.len()));

    let panels = Panels::forward(&w, (outputs, x_shape[3], taps), Lifetime::Operation);
    let finish = Finish {
        bias: Some(&bias),
        residual: Some(&residual[..]),
        relu: true,
    };
    let y = forward(&conv, &x, &panels, finish);
    let all = |x: &[f32], w: &[f32], bias: &[f32], residual: &[f32]| -> Vec<f32> {
        let y = plain::forward(&conv, x, w, Some(bias));
        let sums = y.iter().zip(residual);
        sums.map(|(y, r)| (y + r).max(0.0)).collect()
    };
    let [x_size, w_size, dy_size] = [&x, &w, &dy].map(|values| magnitudes(values));
    let (bias_size, residual_size) = (magnitudes(&bias), magnitudes(&residual));
    let expected = all(&x, &w, &bias, &residual);
    let summed = all(&x_size, &w_size, &bias_size, &residual_size);
    assert!(
        off(&y, &expected, &summed) < 5e-7,
        "forward {spec:?} {x_shape:?}"
    );

    let panels = Panels::backward(&w, (outputs, x_shape[3], taps), Lifetime::Operation);
    let dx = backward_data(&conv, &dy, &panels, Finish::<f32>::NOTHING);
    let plainly = |dy: &[f32], w: &[f32]| plain::backward_data(&conv, dy, w);
    assert!(
        off(&dx, &plainly(&dy, &w), &plainly(&dy_size, &w_size)) < 5e-7,
        "backward data {spec:?} {x_shape:?}"
    );

    let before = draw(6, w.len());
    let mut dw = before.clone();
    add_backward_weights(&conv, &x, &dy, &mut dw);
    let plainly = |x: &[f32], dy: &[f32], mut dw: Vec<f32>| {
        plain::backward_weights(&conv, x, dy, &mut dw);
        dw
    };
    let summed = plainly(&x_size, &dy_size, magnitudes(&before));
    assert!(
        off(&dw, &plainly(&x, &dy, before), &summed) < 5e-7,
        "backward weights {spec:?} {x_shape:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn every_direction_is_the_plain_convolution(
        batch in 1usize..3,
        (height, width) in (1usize..18, 1usize..18),
        (inputs, outputs) in (1usize..30, 1usize..50),
        kernel in (1usize..6, 1usize..6),
        (stride, dilation) in (1usize..4, 1usize..4),
        padding in (0usize..4, 0usize..4),
        periodic: bool,
    ) {
        let spec = ConvSpec { kernel, stride, dilation, groups: 1, padding, periodic };
        check(spec, [batch, height, width, inputs], outputs);
    }
}

#[test]
fn more_channels_and_pixels_than_one_pass_takes() {
    check(
        ConvSpec::same(3).stride(2).periodic(true),
        [2, 10, 44, 300],
        20,
    );
    check(ConvSpec::same(1), [1, 9, 100, 24], 530);
    check(ConvSpec::same(7).stride(2), [1, 40, 64, 16], 64);
}

/// Units of work go on from one image to the next, and their size follows from the numbers of images and threads: no
/// sum may depend on that.
#[test]
fn images_have_the_same_bits_together_and_alone() {
    for (spec, (height, width)) in [
        (ConvSpec::same(5).stride(2).periodic(true), (7, 10)),
        (ConvSpec::same(5).stride(2), (6, 9)),
        (ConvSpec::same(3).dilation(2), (5, 4)),
        (ConvSpec::same(3).stride(3), (11, 12)),
    ] {
        let (images, inputs, outputs) = (7, 40, 35);
        let w = draw(2, outputs * inputs * spec.kernel.0 * spec.kernel.1);
        let weights = [outputs, inputs, spec.kernel.0, spec.kernel.1];
        let conv = |images| {
            Convolution::of("test", &spec, [images, height, width, inputs], &weights).unwrap()
        };
        let sizes = (outputs, inputs, spec.kernel.0 * spec.kernel.1);
        let x = draw(1, conv(images).x.iter().product());
        let dy = draw(3, conv(images).y.iter().product());
        let panels = Panels::forward(&w, sizes, Lifetime::Operation);
        let back = Panels::backward(&w, sizes, Lifetime::Operation);
        let nothing = Finish::<f32>::NOTHING;
        let ahead = |images, x: &[f32]| forward(&conv(images), x, &panels, nothing);
        let backward = |images, dy: &[f32]| backward_data(&conv(images), dy, &back, nothing);
        let alone = |values: &[f32], run: &dyn Fn(usize, &[f32]) -> Vec<f32>| -> Vec<f32> {
            let each = values.chunks_exact(values.len() / images);
            each.flat_map(|values| run(1, values)).collect()
        };
        assert!(ahead(images, &x) == alone(&x, &ahead), "{spec:?}");
        assert!(backward(images, &dy) == alone(&dy, &backward), "{spec:?}");
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let one_thread = one_thread.unwrap();
        assert!(one_thread.install(|| ahead(images, &x)) == ahead(images, &x));
        assert!(one_thread.install(|| backward(images, &dy)) == backward(images, &dy));
    }
}
