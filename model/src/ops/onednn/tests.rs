//! bf16 convolutions of oneDNN against plain loops, wherever the library has them: on AVX-512 with or without bf16
//! instructions. [`super::computes_bf16`] decides only whether the program uses them.

use super::primitive::with_primitive;
use super::*;
use crate::ops::algorithm::ConvAlgorithm;
use crate::ops::conv_spec::{ConvSpec, Convolution};
use crate::ops::kept::Lifetime;
use crate::ops::reference;
use crate::ops::testing::{distance, draw};

use crate::ops::{Backend, depthwise};
use crate::{ModelError, Network, NetworkConfig};
use candle_core::DType;
use half::bf16;
use std::collections::HashSet;

/// Root mean square of what rounding a result to bf16 changes, doubled.
const ROUNDING: f64 = 4e-3;
/// What may differ in f32, whose sums come in another order.
const ORDER: f64 = 2e-6;
/// What may differ in f32 where drawn geometries may cancel most of a sum of few values.
const CANCELLED: f64 = 2e-5;

fn rounded<V: Value>(seed: u64, count: usize) -> Vec<V> {
    draw(seed, count).into_iter().map(V::narrow).collect()
}

/// oneDNN would read on behind it.
#[test]
#[should_panic(expected = "convolution over the end of a slice")]
fn a_field_with_less_than_its_shape_is_not_read() {
    let spec = ConvSpec::same(3);
    let geometry = Convolution::of("conv2d", &spec, [1, 4, 6, 8], &[8, 8, 3, 3]).unwrap();
    let (field, kernels) = (vec![0.0f32; 4 * 6 * 8 - 1], vec![0.0; 8 * 8 * 9]);
    let _ = forward_whole(&geometry, &field, kernels[..].into(), Finish::NOTHING);
}

fn cases() -> Vec<([usize; 4], usize, ConvSpec)> {
    let same = ConvSpec::same;
    let mut cases = vec![
        ([2, 9, 11, 16], 24, same(3)),
        ([1, 12, 18, 16], 64, same(7).stride(2)),
        ([1, 9, 8, 3], 4, same(3).stride(2)),
        ([2, 6, 10, 12], 20, same(1)),
        ([2, 6, 10, 44], 3, same(1)),
        ([1, 7, 9, 16], 32, same(1).stride(2)),
        ([1, 12, 14, 16], 16, same(3).dilation(4)),
        // A remainder of channels with dilated taps: oneDNN 2.6 reads out of bounds.
        ([1, 12, 18, 36], 24, same(3).dilation(2)),
        ([1, 9, 11, 17], 5, same(3).dilation(3)),
        // One tap and an odd number of outputs, and fields narrower than the window.
        ([1, 10, 12, 12], 9, same(1)),
        ([1, 9, 3, 16], 8, same(5).stride(2)),
        // Windows far apart, with padding: oneDNN sums wrong values.
        (
            [1, 2, 15, 1],
            1,
            ConvSpec {
                kernel: (1, 3),
                padding: (0, 2),
                ..same(1).stride(6)
            },
        ),
        (
            [1, 8, 12, 16],
            16,
            ConvSpec {
                groups: 16,
                ..same(3)
            },
        ),
        ([1, 4, 600, 32], 8, same(3)),
        // Rows that oneDNN's code for tiles must not see whole: cut evenly, and not to be cut so.
        ([1, 72, 288, 16], 16, same(3)),
        ([1, 24, 233, 16], 16, same(3)),
        // Taps that read nothing are left out: of all sides, of one axis, of one side alone.
        ([2, 6, 9, 16], 24, same(3).dilation(9)),
        ([1, 6, 14, 16], 24, same(3).dilation(8)),
        (
            [1, 7, 9, 16],
            24,
            ConvSpec {
                padding: (8, 4),
                ..same(3).dilation(4)
            },
        ),
    ];
    for case in cases.clone() {
        cases.push((case.0, case.1, case.2.periodic(true)));
    }
    cases
}

/// Whether this oneDNN has bf16 on this processor, used or not.
fn has_bf16() -> bool {
    let geometry = Convolution {
        x: [1, 1, 1, 16],
        y: [1, 1, 1, 16],
        spec: ConvSpec::same(1),
    };
    let (x, w) = (rounded::<bf16>(1, 16), draw(2, 256));
    match backward_data(&geometry, &x, w[..].into()) {
        Ok(_) => true,
        Err(ModelError::OneDnn { status: 3, .. }) if !computes_bf16() => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
#[allow(clippy::print_stdout)] // that nothing was judged is said nowhere else
fn bf16_in_all_directions() {
    if !has_bf16() {
        println!("this oneDNN has no bf16 on this processor");
        return;
    }
    for (x_shape, out, spec) in cases() {
        judge::<bf16>(x_shape, out, &spec, ORDER);
    }
}

/// oneDNN's name of the implementation of a convolution; `None` if our own products run it.
fn implementation<V: Value>(direction: Direction, geometry: &Convolution) -> Option<String> {
    if direction == Direction::Forward && tapped::is_faster(geometry, in_tiles::<V>()) {
        return None;
    }
    if direction == Direction::Forward
        && let Some((_, trimmed)) = Trimmed::if_trimmable(geometry)
    {
        return implementation::<V>(direction, &trimmed);
    }
    let kind = match direction {
        Direction::Forward => sys::FORWARD,
        Direction::BackwardData => sys::BACKWARD_DATA,
        Direction::BackwardWeights => sys::BACKWARD_WEIGHTS,
    };
    if direction == Direction::BackwardWeights {
        if taps::are_faster(geometry, in_tiles::<V>()) {
            return None;
        }
        if let Some(strips) =
            strips::Strips::if_worthwhile(geometry, size_of::<V>(), in_tiles::<V>())
        {
            let group = strips.groups::<V>().next()?;
            return implementation::<V>(direction, &strips.geometry(group.len()));
        }
    }
    if direction == Direction::BackwardData && narrow::is_needed::<V>(geometry) {
        return None;
    }
    if direction == Direction::BackwardData
        && let Some(turned) = turned::turned::<V>(geometry)
    {
        return implementation::<V>(Direction::Forward, &turned);
    }
    let desc = descriptor::<V>(kind, geometry);
    let name = with_primitive("test", desc, |primitive| Ok(primitive.implementation()));
    Some(name.expect("oneDNN takes every shape of a published network"))
}

/// Every convolution of the published networks at the sizes of the demo and of the papers.
fn published() -> HashSet<Convolution> {
    let names = [
        "deeplabv3plus",
        "deeplabv3plus-deconv",
        "deeplabv3plus-bilinear",
        "deepcam",
        "tiramisu",
        "cgnet",
    ];
    let mut all = HashSet::new();
    for name in names {
        let config = NetworkConfig::of(name.parse().expect("a network"));
        let network = Network::build(&config, Backend::OneDnn, 1).expect("a published network");
        for (height, width) in [(192, 288), (768, 1152)] {
            let summary = network.summary(height, width).expect("large enough");
            all.extend(summary.trace.convolutions);
        }
    }
    all
}

#[test]
fn no_published_shape_lands_on_reference_code() {
    let all = published();
    assert!(all.len() > 200, "{}", all.len());
    let directions = [
        Direction::Forward,
        Direction::BackwardData,
        Direction::BackwardWeights,
    ];
    let dtypes: &[DType] = match computes_bf16() {
        true => &[DType::F32, DType::BF16],
        false => &[DType::F32],
    };
    let (mut slow, mut asked) = (Vec::new(), 0);
    for geometry in &all {
        let Convolution { spec, x, y } = geometry;
        for (&dtype, direction) in dtypes
            .iter()
            .flat_map(|d| directions.map(|direction| (d, direction)))
        {
            let algorithm = ConvAlgorithm::of(Backend::OneDnn, dtype, geometry, direction);
            let own = spec.groups == x[3]
                && !depthwise::is_fast_in_onednn(spec, direction != Direction::Forward);
            if algorithm != ConvAlgorithm::Library || own {
                continue;
            }
            let name = match dtype {
                DType::BF16 => implementation::<bf16>(direction, geometry),
                _ => implementation::<f32>(direction, geometry),
            };
            asked += usize::from(name.is_some());
            let shunned = match dtype {
                DType::BF16 => plain::must_widen::<bf16>(direction, geometry),
                _ => plain::is_needed(geometry),
            };
            if shunned && !narrow::is_needed::<bf16>(geometry) {
                slow.push(format!("not in oneDNN: {direction:?} {x:?} to {y:?}"));
            }
            if name.as_deref().is_some_and(|name| name.starts_with("ref")) {
                slow.push(format!(
                    "{direction:?} {dtype:?} {x:?} to {y:?}, {}",
                    spec.brief()
                ));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
    assert!(asked > 100, "oneDNN was asked for {asked} of them only");
}

/// Every direction of a geometry against plain loops, and whether its seam was computed apart.
fn judge<V: Value>(x_shape: [usize; 4], out: usize, spec: &ConvSpec, order: f64) -> bool {
    let weights = [out, x_shape[3] / spec.groups, spec.kernel.0, spec.kernel.1];
    let geometry = Convolution::of("test", spec, x_shape, &weights).unwrap();
    let case = format!("{x_shape:?} to {out}, {spec:?}");
    let narrow = size_of::<V>() < size_of::<f32>();
    let near = if narrow { ROUNDING } else { order };
    let x: Vec<V> = rounded(1, x_shape.iter().product());
    let w = plain::widened::<V>(&rounded(2, weights.iter().product()));
    let dy: Vec<V> = rounded(3, geometry.y.iter().product());
    let (x_wide, dy_wide) = (plain::widened(&x), plain::widened(&dy));
    let bias = draw(4, out);
    let finish = Finish {
        bias: Some(&bias),
        residual: Some(&dy),
        relu: true,
    };
    let y = forward(&geometry, &x, w[..].into(), finish).unwrap();
    let packings = Packings::with_lifetime(Lifetime::Network);
    let kept = Source {
        values: &w,
        factors: None,
        trimmed: None,
        packings: Some(&packings),
    };
    for _ in 0..2 {
        let again = forward(&geometry, &x, kept, finish).unwrap();
        assert!(again == y, "packed {case}");
    }
    let mut expected = reference::conv::forward(&geometry, &x_wide, &w, Some(&bias));
    for (y, r) in expected.iter_mut().zip(&dy_wide) {
        *y = (*y + r).max(0.0);
    }
    let off = distance(&plain::widened(&y), &expected);
    assert!(off < near, "forward {case}: {off}");

    let dx = backward_data(&geometry, &dy, w[..].into()).unwrap();
    let expected = reference::conv::backward_data(&geometry, &dy_wide, &w);
    let off = distance(&plain::widened(&dx), &expected);
    assert!(off < near, "backward data {case}: {off}");

    // Products of bf16 values are exact in f32, so here nothing is rounded to bf16.
    let (mut dw, mut expected) = (vec![1.0; w.len()], vec![1.0; w.len()]);
    backward_weights(&geometry, &x, &dy, &mut dw).unwrap();
    reference::conv::backward_weights(&geometry, &x_wide, &dy_wide, &mut expected);
    let off = distance(&dw, &expected);
    assert!(off < order, "backward weights {case}: {off}");
    Seam::if_wrapping(&geometry).is_some()
}

#[test]
fn a_seam_is_computed_apart_where_it_is_narrow() {
    let depthwise = ConvSpec {
        groups: 16,
        ..ConvSpec::same(3)
    };
    for ((height, width), spec, apart) in [
        ((6, 24), ConvSpec::same(3), true),
        ((6, 25), ConvSpec::same(3).stride(2), true),
        ((6, 24), ConvSpec::same(3).stride(2), true),
        ((6, 40), ConvSpec::same(7).stride(2), true),
        // More kernels than field.
        ((6, 32), ConvSpec::same(7).stride(2), false),
        ((6, 24), depthwise, true),
        ((6, 24), depthwise.stride(2), true),
        ((6, 40), depthwise.dilation(4), true),
        ((6, 24), depthwise.dilation(6), false),
        ((6, 5), ConvSpec::same(5), false),
    ] {
        for periodic in [true, false] {
            let spec = spec.periodic(periodic);
            assert_eq!(
                judge::<f32>([2, height, width, 16], 16, &spec, ORDER),
                apart && periodic,
                "{spec:?}"
            );
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]
    #[test]
    fn fields_of_any_geometry(
        (batch, height, width) in (1usize..3, 1usize..10, 1usize..40),
        (kernel_h, kernel_w) in (1usize..4, 1usize..6),
        (pad_h, pad_w) in (0usize..3, 0usize..6),
        (stride, dilation) in (1usize..7, 1usize..4),
        (groups, inner, outer) in (1usize..4, 1usize..40, 1usize..20),
        periodic: bool,
    ) {
        let spec = ConvSpec {
            kernel: (kernel_h, kernel_w),
            stride,
            dilation,
            groups,
            padding: (pad_h, pad_w),
            // Where a field is narrower than the window, what is rounded is summed again.
            periodic: periodic && width > (kernel_w - 1) * dilation,
        };
        let fits = height + 2 * pad_h > (kernel_h - 1) * dilation && width + 2 * pad_w > (kernel_w - 1) * dilation;
        if fits {
            let shape = [batch, height, width, groups * inner];
            judge::<f32>(shape, groups * outer, &spec, CANCELLED);
            if has_bf16() {
                judge::<bf16>(shape, groups * outer, &spec, CANCELLED);
            }
        }
    }
}
