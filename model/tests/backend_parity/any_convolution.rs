//! Convolutions of any geometry, drawn.

use crate::{TOLERANCE, distance, distance_of_sums, random, values};
use candle_core::{DType, Device, Tensor};
use proptest::prelude::*;
use squall_model::Backend;
use squall_model::ops::{ConvSpec, Fuse};

/// Every direction of a convolution against plain loops in f32; what `dtype` rounds, they read rounded.
fn judge(dtype: DType, x_shape: [usize; 4], w_shape: [usize; 4], spec: &ConvSpec) {
    let rounded = |seed, shape: &[usize]| {
        let narrow = random(seed, shape).to_dtype(dtype).unwrap();
        (narrow.clone(), narrow.to_dtype(DType::F32).unwrap())
    };
    let near = if dtype == DType::F32 { 2e-5 } else { 6e-3 };
    let (x, x_wide) = rounded(1, &x_shape);
    let (_, w) = rounded(2, &w_shape);
    let plain = Backend::Reference;
    let conv = |x: &Tensor, w: &Tensor| plain.conv2d(x, w, None, spec, Fuse::None).unwrap();
    let expected = conv(&x_wide, &w);
    // The mean square of a product of two values of -1..1 is 1 in 9.
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let products: f32 = values(&conv(&ones(&x_shape), &ones(&w_shape))).iter().sum();
    let usual = f64::from(products).sqrt().max(1e-15) / 3.0;
    let (dy, dy_wide) = rounded(3, expected.dims());
    // A GPU's library rounds sums of bf16 to bf16; `gpu.rs` judges it.
    let fast = |backend: &Backend| *backend != plain && !backend.is_gpu();
    for backend in Backend::all().into_iter().filter(fast) {
        let case = format!("{backend:?} {dtype:?} {x_shape:?} {w_shape:?} {spec:?}");
        let y = backend.conv2d(&x, &w, None, spec, Fuse::None).unwrap();
        let off = distance_of_sums(&values(&y), &values(&expected), usual);
        assert!(off < near, "forward {case}: {off}");

        let dx = backend.conv2d_backward_data(&dy, &w, x_shape, spec);
        let expected = plain.conv2d_backward_data(&dy_wide, &w, x_shape, spec);
        let off = distance_of_sums(&values(&dx.unwrap()), &values(&expected.unwrap()), usual);
        assert!(off < near, "backward data {case}: {off}");

        let mut gradients = [0, 1].map(|_| vec![1.0; w.elem_count()]);
        let [dw, expected] = &mut gradients;
        (backend.conv2d_backward_weights(&x, &dy, spec, &mut dw[..], None)).unwrap();
        let (x, dy) = (&x_wide, &dy_wide);
        (plain.conv2d_backward_weights(x, dy, spec, &mut expected[..], None)).unwrap();
        let off = distance_of_sums(dw, expected, usual);
        assert!(off < 2e-5, "backward weights {case}: {off}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_convolution_is_the_plain_one(
        bf16: bool,
        (batch, height, width) in (1usize..3, 1usize..24, 1usize..40),
        (kernel_h, kernel_w) in (1usize..6, 1usize..6),
        (pad_h, pad_w) in (0usize..5, 0usize..6),
        (stride, dilation) in (1usize..4, 1usize..4),
        (groups, inner, outer) in (prop_oneof![Just(1usize), 1usize..4], 1usize..52, 1usize..40),
        (depthwise, same, periodic) in any::<(bool, bool, bool)>(),
    ) {
        let half = |kernel: usize| kernel / 2 * dilation;
        let (groups, inner, outer) = if depthwise { (inner, 1, 1) } else { (groups, inner, outer) };
        let kernel = if same { (kernel_h, kernel_h) } else { (kernel_h, kernel_w) };
        let padding = if same { (half(kernel.0), half(kernel.1)) } else { (pad_h, pad_w) };
        // Where a field is narrower than the window, what is rounded is summed again.
        let periodic = periodic && width > (kernel.1 - 1) * dilation;
        let spec = ConvSpec { kernel, stride, dilation, groups, padding, periodic };
        let fits = |extent: usize, kernel, padding| extent + 2 * padding > (kernel - 1) * dilation;
        if fits(height, kernel.0, padding.0) && fits(width, kernel.1, padding.1) {
            let dtype = if bf16 { DType::BF16 } else { DType::F32 };
            let w_shape = [groups * outer, inner, kernel.0, kernel.1];
            judge(dtype, [batch, height, width, groups * inner], w_shape, &spec);
        }
    }
}

proptest! {
    /// A field seen from another meridian gives the output seen from that meridian.
    #[test]
    fn periodic_convolutions_commute_with_rolling(k in 0usize..6, dilation in 1usize..5, stride in 1usize..3) {
        let spec = ConvSpec::same(3).dilation(dilation).stride(stride).periodic(true);
        let (x, w) = (random(7, &[1, 6, 12, 2]), random(8, &[3, 2, 3, 3]));
        let roll = |t: &Tensor, k: usize| {
            let (t, width) = (t.to_device(&Device::Cpu).unwrap(), t.dims()[2]);
            Tensor::cat(&[t.narrow(2, width - k, k).unwrap(), t.narrow(2, 0, width - k).unwrap()], 2).unwrap()
        };
        for backend in Backend::all() {
            let y = backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
            let rolled = if k == 0 { x.clone() } else { roll(&x, k * stride) };
            let y_rolled = backend.conv2d(&rolled, &w, None, &spec, Fuse::None).unwrap();
            let expected = if k == 0 { y } else { roll(&y, k) };
            prop_assert!(distance(&values(&y_rolled), &values(&expected)) < TOLERANCE);
        }
    }
}

/// oneDNN's primitives are made by whichever thread first needs one; made at once, they once computed something else.
#[test]
fn threads_that_meet_new_geometries_at_once_agree_with_plain_loops() {
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            scope.spawn(move || {
                for height in 3..40 {
                    let spec = ConvSpec::same(2 + height % 3).stride(1 + height % 2);
                    let (inner, outer) = (1 + height % 5 * thread, 3 + height * thread % 17);
                    let w_shape = [outer, inner, spec.kernel.0, spec.kernel.1];
                    let dtype = [DType::F32, DType::BF16][thread % 2];
                    judge(dtype, [1, height, 5 + thread, inner], w_shape, &spec);
                }
            });
        }
    });
}
