//! Against the plain loops, and bit for bit against itself.

use super::*;
use crate::ops::reference::conv as plain;
use crate::ops::testing::{distance, draw};
use half::bf16;
use proptest::prelude::*;

/// Output and what it is computed from.
struct Case {
    spec: ConvSpec,
    x_shape: [usize; 4],
    y_shape: [usize; 4],
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

impl Case {
    fn new(stride: usize, x_shape: [usize; 4], outputs: usize) -> Self {
        let spec = ConvSpec::same(1).stride(stride);
        let weights = [outputs, x_shape[3], 1, 1];
        let y_shape = spec
            .output_shape("test", x_shape, &weights)
            .expect("a 1x1 kernel fits everywhere");
        Self {
            spec,
            x_shape,
            y_shape,
            x: draw(1, x_shape.iter().product()),
            w: draw(2, outputs * x_shape[3]),
            bias: draw(3, outputs),
            residual: draw(4, y_shape.iter().product()),
        }
    }

    fn run<V: Value>(&self, x: &[V], residual: &[V], relu: bool) -> Vec<V> {
        let panels = Panels::forward(&self.w, (self.y_shape[3], self.x_shape[3], 1));
        let finish = Finish {
            bias: Some(&self.bias),
            residual: Some(residual),
            relu,
        };
        forward(&self.spec, (self.x_shape, self.y_shape), x, &panels, finish)
    }

    fn expected(&self, relu: bool) -> Vec<f32> {
        let bias = Some(&self.bias[..]);
        let (x, w) = (&self.x, &self.w);
        let mut y = plain::forward(x, self.x_shape, w, bias, self.y_shape, &self.spec);
        let floor = if relu { 0.0 } else { f32::NEG_INFINITY };
        y.iter_mut()
            .zip(&self.residual)
            .for_each(|(y, r)| *y = (*y + r).max(floor));
        y
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn is_the_plain_convolution(
        batch in 1usize..3,
        (height, width) in (1usize..16, 1usize..16),
        (inputs, outputs) in (1usize..40, 1usize..60),
        stride in 1usize..4,
        relu: bool,
    ) {
        let case = Case::new(stride, [batch, height, width, inputs], outputs);
        let y = case.run(&case.x, &case.residual, relu);
        prop_assert!(distance(&y, &case.expected(relu)) < 2e-6);
    }
}

#[test]
fn more_channels_than_one_part_takes() {
    for (inputs, outputs) in [(600, 40), (24, 530), (513, 300)] {
        let case = Case::new(1, [2, 9, 23, inputs], outputs);
        let y = case.run(&case.x, &case.residual, true);
        assert!(distance(&y, &case.expected(true)) < 2e-6);
    }
}

#[test]
fn halves_are_widened_and_rounded_once() {
    let mut case = Case::new(2, [1, 14, 17, 300], 37);
    let narrow =
        |values: &[f32]| -> Vec<bf16> { values.iter().map(|v| bf16::from_f32(*v)).collect() };
    let (x, residual) = (narrow(&case.x), narrow(&case.residual));
    case.x = x.iter().map(|v| v.to_f32()).collect();
    case.residual = residual.iter().map(|v| v.to_f32()).collect();
    let wide = case.run(&case.x, &case.residual, false);
    assert_eq!(case.run(&x, &residual, false), narrow(&wide));
}

#[test]
fn a_pixels_bits_depend_neither_on_its_neighbours_nor_on_threads() {
    let case = Case::new(1, [3, 11, 13, 300], 70);
    let all = case.run(&case.x, &case.residual, true);
    let mut alone = Case::new(1, [1, 11, 13, 300], 70);
    alone.x = case.x[11 * 13 * 300..2 * 11 * 13 * 300].to_vec();
    let residual = &case.residual[11 * 13 * 70..2 * 11 * 13 * 70];
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(5)
        .build()
        .expect("five threads");
    let one = pool.install(|| alone.run(&alone.x, residual, true));
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&all[11 * 13 * 70..2 * 11 * 13 * 70]), bits(&one));
}
