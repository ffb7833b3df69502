//! Losses against finite differences, codes there and back, the seam.

use super::*;
use crate::ops::host::tensor;
use candle_core::DType;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn layout(scheme: Scheme, periodic: bool) -> CellLayout {
    CellLayout {
        scheme,
        classes: 3,
        cell_px: 8,
        field: (32, 64),
        periodic,
        box_relu: false,
    }
}

/// 4 x 8 cells for each of two frames.
fn output(layout: CellLayout, seed: u64) -> DetectorOutput {
    let channels = match layout.scheme {
        Scheme::Cells => 6 + layout.classes,
        Scheme::Centres => 4 + layout.classes,
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values: Vec<f32> = (0..2 * 4 * 8 * channels)
        .map(|_| rng.random_range(-1.5..1.5))
        .collect();
    DetectorOutput {
        heads: tensor(values, &[2, 4, 8, channels], DType::F32).unwrap(),
        reconstruction: None,
        segmentation: None,
        layout,
        backend: Backend::Reference,
    }
}

fn target(class: usize, [y_min, x_min, y_max, x_max]: [f32; 4]) -> BoxTarget {
    BoxTarget {
        class,
        y_min,
        x_min,
        y_max,
        x_max,
    }
}

/// One frame with three boxes, one of them across the seam, and one unlabelled frame.
fn labels() -> Vec<Option<Vec<BoxTarget>>> {
    let boxes = vec![
        target(0, [2.0, 3.0, 12.0, 15.0]),
        target(2, [10.0, 50.0, 30.0, 75.0]),
        target(1, [20.0, 30.0, 24.0, 50.0]),
    ];
    vec![None, Some(boxes)]
}

fn judged(output: &DetectorOutput, labels: &[Option<Vec<BoxTarget>>]) -> DetectionLoss {
    judged_by(&DetectionLossConfig::default(), output, labels)
}

fn judged_by(
    config: &DetectionLossConfig,
    output: &DetectorOutput,
    labels: &[Option<Vec<BoxTarget>>],
) -> DetectionLoss {
    let fields = tensor(vec![0.0f32; 1], &[1, 1, 1, 1], DType::F32).unwrap();
    let targets = DetectionTargets {
        fields: &fields,
        boxes: labels,
        masks: None,
    };
    output.loss(&targets, config, 4.0).unwrap()
}

#[test]
fn gradients_are_those_of_finite_differences() {
    // No weight is 1, lest it could be left out of either.
    let config = DetectionLossConfig {
        object: 1.5,
        class: 2.0,
        scores: 3.0,
        ..DetectionLossConfig::default()
    };
    for scheme in [Scheme::Cells, Scheme::Centres] {
        for box_relu in [false, true] {
            let layout = CellLayout {
                box_relu,
                ..layout(scheme, true)
            };
            let output = output(layout, 3);
            let loss = judged_by(&config, &output, &labels());
            let gradient: Vec<f32> = loss
                .gradient
                .heads
                .flatten_all()
                .unwrap()
                .to_vec1()
                .unwrap();
            let values: Vec<f32> = output.heads.flatten_all().unwrap().to_vec1().unwrap();
            let half = values.len() / 2;
            assert!(
                gradient[..half].iter().all(|&g| g == 0.0),
                "no labels there"
            );
            let moved = |at: usize, by: f32| {
                let mut values = values.clone();
                values[at] += by;
                let heads = tensor(values, output.heads.dims(), DType::F32).unwrap();
                let moved = DetectorOutput {
                    heads,
                    reconstruction: None,
                    segmentation: None,
                    ..output_like(&output)
                };
                judged_by(&config, &moved, &labels()).total
            };
            let mut touched = 0;
            for (at, &gradient) in gradient.iter().enumerate().skip(half) {
                let step = 1e-3;
                let numeric = (moved(at, step) - moved(at, -step)) / (2.0 * f64::from(step));
                let analytic = f64::from(gradient) / 4.0;
                touched += usize::from(analytic != 0.0);
                assert!(
                    (numeric - analytic).abs() < 2e-3 * (1.0 + analytic.abs()),
                    "{scheme:?} value {at}: numeric {numeric}, analytic {analytic}"
                );
            }
            assert!(touched > 64, "{touched}");
        }
    }
}

fn output_like(output: &DetectorOutput) -> DetectorOutput {
    DetectorOutput {
        heads: output.heads.clone(),
        reconstruction: None,
        segmentation: None,
        layout: output.layout,
        backend: output.backend,
    }
}

#[test]
fn the_published_terms_by_hand() {
    // One cell of 8 pixels, one box of 8 x 16 whose centre is in the middle: x, y = ½, log2 = 1 and 0. It is as wide as
    // the globe, which has no edge that would cut it.
    let layout = CellLayout {
        field: (8, 16),
        ..layout(Scheme::Cells, true)
    };
    let values = vec![0.25f32, 0.5, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let output = DetectorOutput {
        heads: tensor(values, &[1, 1, 1, 9], DType::F32).unwrap(),
        ..output_like(&output(layout, 1))
    };
    let boxes = vec![Some(vec![target(1, [0.0, -4.0, 8.0, 12.0])])];
    let loss = judged(&output, &boxes);
    let part = |name: &str| loss.part(name).unwrap();
    assert_eq!(part("centre"), 5.0 * 0.5 * 0.25 * 0.25);
    assert_eq!(part("size"), 7.0 * 1.5);
    assert!((part("object") - 2f64.ln()).abs() < 1e-7);
    assert!((part("class") - 3f64.ln()).abs() < 1e-7);
    assert_eq!(part("no_object"), 0.0);
    let empty = judged(&output, &[Some(vec![])]);
    assert!((empty.total - 0.5 * 2f64.ln()).abs() < 1e-7);
    assert_eq!(judged(&output, &[None]).total, 0.0);
}

/// A frame whose head outputs encode exactly these boxes.
fn saying(layout: CellLayout, boxes: &[BoxTarget]) -> DetectorOutput {
    let grid = (4, 8);
    let mut values = Vec::new();
    match layout.scheme {
        Scheme::Cells => {
            for cell in cells::assign(&layout, grid, boxes) {
                let Some(cell) = cell else {
                    values.extend([0.0, 0.0, 0.0, 0.0, -9.0, 9.0, 0.0, 0.0, 0.0]);
                    continue;
                };
                values.extend(cell.code);
                values.extend([5.0, -5.0]);
                values.extend((0..3).map(|k| if k == cell.class { 5.0 } else { -5.0 }));
            }
        }
        Scheme::Centres => {
            let wanted = centres::assign(&layout, grid, boxes);
            for (bumps, sides) in wanted.bumps.chunks_exact(3).zip(wanted.boxes) {
                values.extend(bumps.iter().map(|&bump| 10.0 * bump - 6.0));
                let (_, sides) = sides.unwrap_or((0.0, [1.0; 4]));
                values.extend(sides.map(|side| (side as f32).max(1e-6).ln()));
            }
        }
    }
    let channels = values.len() / 32;
    DetectorOutput {
        heads: tensor(values, &[1, 4, 8, channels], DType::F32).unwrap(),
        ..output_like(&output(layout, 1))
    }
}

#[test]
fn boxes_come_back_across_the_seam_too() {
    let boxes = [
        target(0, [2.0, 3.0, 14.0, 17.0]),
        target(2, [10.0, 54.0, 30.0, 76.0]),
        target(1, [18.0, 30.0, 26.0, 44.0]),
    ];
    for scheme in [Scheme::Cells, Scheme::Centres] {
        let found = saying(layout(scheme, true), &boxes).decode(0.5).unwrap();
        let mut found = found[0].clone();
        found.sort_by_key(|found| [0, 2, 1].iter().position(|&class| class == found.class));
        assert_eq!(found.len(), 3, "{scheme:?}: {found:?}");
        for (found, expected) in found.iter().zip(&boxes) {
            let found = found.target();
            let edges = [
                found.y_min - expected.y_min,
                found.x_min - expected.x_min,
                found.y_max - expected.y_max,
                found.x_max - expected.x_max,
            ];
            assert_eq!(found.class, expected.class);
            assert!(
                edges.iter().all(|off| off.abs() < 1e-3),
                "{scheme:?} {edges:?}"
            );
        }
    }
    // On a regional field the part beyond the edge is cut off, on either side.
    let beyond = target(2, [10.0, -12.0, 30.0, 10.0]);
    for scheme in [Scheme::Cells, Scheme::Centres] {
        for (label, expected) in [(boxes[1], (54.0, 64.0)), (beyond, (0.0, 10.0))] {
            let found = saying(layout(scheme, false), &[label]).decode(0.5).unwrap();
            assert_eq!(found[0].len(), 1, "{scheme:?}: {found:?}");
            let (x_min, x_max) = (found[0][0].x_min, found[0][0].x_max);
            let off = [x_min - expected.0, x_max - expected.1];
            assert!(
                off.iter().all(|off: &f32| off.abs() < 1e-3),
                "{scheme:?}: {x_min} to {x_max}, expected {expected:?}"
            );
        }
    }
}

/// The first hundred boxes of a frame are the most confident ones.
#[test]
fn boxes_of_a_frame_are_its_own_and_the_surest_come_first() {
    for scheme in [Scheme::Cells, Scheme::Centres] {
        let both = output(layout(scheme, true), 1);
        let found = both.decode(0.0).unwrap();
        assert_eq!(found.len(), 2);
        for (frame, found) in found.into_iter().enumerate() {
            let order = found
                .windows(2)
                .map(|pair| [pair[0].confidence, pair[1].confidence]);
            assert!(
                order.clone().all(|[first, then]| first >= then),
                "{scheme:?}"
            );
            assert!(order.clone().any(|[first, then]| first > then));
            let alone = DetectorOutput {
                heads: both
                    .heads
                    .narrow(0, frame, 1)
                    .unwrap()
                    .contiguous()
                    .unwrap(),
                ..output_like(&both)
            };
            assert_eq!(alone.decode(0.0).unwrap(), [found], "{scheme:?} {frame}");
        }
    }
}

/// It would be a box as large as the field, as sure as the score; and nothing to learn from.
#[test]
fn what_is_no_number_is_no_box() {
    let label = target(2, [10.0, 22.0, 30.0, 44.0]);
    for (scheme, boxes_from) in [(Scheme::Cells, 0), (Scheme::Centres, 3)] {
        for (periodic, box_relu) in [(true, false), (false, false), (true, true)] {
            let layout = CellLayout {
                box_relu,
                ..layout(scheme, periodic)
            };
            let output = saying(layout, &[label]);
            assert_eq!(output.decode(0.5).unwrap()[0].len(), 1);
            let channels = output.heads.dims()[3];
            let values: Vec<f32> = output.heads.flatten_all().unwrap().to_vec1().unwrap();
            for (side, bad) in (0..4).flat_map(|side| [(side, f32::NAN), (side, f32::INFINITY)]) {
                let mut values = values.clone();
                for cell in values.chunks_exact_mut(channels) {
                    cell[boxes_from + side] = bad;
                }
                let heads = tensor(values, output.heads.dims(), DType::F32).unwrap();
                let spoilt = DetectorOutput {
                    heads,
                    ..output_like(&output)
                };
                assert_eq!(output.not_finite().unwrap(), [0]);
                let cells = spoilt.heads.elem_count() / channels;
                assert_eq!(spoilt.not_finite().unwrap(), [cells]);
                let found = spoilt.decode(0.5).unwrap();
                assert!(found[0].is_empty(), "{layout:?} {side} {bad}: {found:?}");
                if bad.is_nan() {
                    let DetectionLoss {
                        total, gradient, ..
                    } = judged(&spoilt, &[Some(vec![label])]);
                    assert!(total.is_nan(), "{layout:?} {side}: {total}");
                    let gradient = gradient.heads.flatten_all().unwrap();
                    let gradient: Vec<f32> = gradient.to_vec1().unwrap();
                    assert!(gradient.iter().any(|g| g.is_nan()), "{layout:?} {side}");
                }
            }
            for side in 0..4 {
                let mut edges = [22.0, 10.0, 44.0, 30.0];
                assert!(layout.place(2, 0.9, edges).is_some());
                edges[side] = f32::NAN;
                assert_eq!(layout.place(2, 0.9, edges), None);
            }
        }
    }
}

#[test]
fn turning_the_globe_by_cells_turns_labels() {
    let turned = |boxes: &[BoxTarget], by: f32| -> Vec<BoxTarget> {
        let turn = |b: &BoxTarget| BoxTarget {
            x_min: b.x_min + by,
            x_max: b.x_max + by,
            ..*b
        };
        boxes.iter().map(turn).collect()
    };
    let boxes = labels().remove(1).unwrap();
    let layout = layout(Scheme::Centres, true);
    let here = centres::assign(&layout, (4, 8), &boxes);
    let there = centres::assign(&layout, (4, 8), &turned(&boxes, 24.0));
    let cells = |at: &[BoxTarget]| {
        let layout = CellLayout {
            scheme: Scheme::Cells,
            ..layout
        };
        cells::assign(&layout, (4, 8), at)
    };
    let (cells_here, cells_there) = (cells(&boxes), cells(&turned(&boxes, 24.0)));
    for row in 0..4 {
        for column in 0..8 {
            let (from, to) = (8 * row + column, 8 * row + (column + 3) % 8);
            assert_eq!(here.bumps[3 * from..][..3], there.bumps[3 * to..][..3]);
            assert_eq!(here.boxes[from], there.boxes[to]);
            assert_eq!(cells_here[from], cells_there[to]);
        }
    }
}

#[test]
fn the_largest_box_keeps_the_cell_then_the_nearest() {
    let layout = layout(Scheme::Cells, true);
    let small = target(0, [1.0, 1.0, 7.0, 7.0]);
    let large = target(1, [-2.0, 0.0, 8.0, 10.0]);
    // As large as `large`, with its centre nearer the cell's.
    let near = target(2, [-1.0, -1.0, 9.0, 9.0]);
    for order in [
        [small, large, near],
        [near, large, small],
        [large, near, small],
    ] {
        let cell = cells::assign(&layout, (4, 8), &order)[0].unwrap();
        assert_eq!(cell.class, 2, "{order:?}");
    }
    assert_eq!(
        cells::assign(&layout, (4, 8), &[small])[0].unwrap().class,
        0
    );
}

#[test]
fn labels_that_are_no_boxes_are_named() {
    let output = output(layout(Scheme::Cells, true), 1);
    let fields = tensor(vec![0.0f32; 1], &[1, 1, 1, 1], DType::F32).unwrap();
    for (bad, word) in [
        (target(3, [0.0, 0.0, 4.0, 4.0]), "class 3 of 3"),
        (target(0, [4.0, 0.0, 4.0, 4.0]), "no extent"),
        (target(0, [0.0, f32::NAN, 4.0, 4.0]), "not finite"),
    ] {
        let good = target(0, [0.0, 0.0, 4.0, 4.0]);
        let labels = [None, Some(vec![good, bad])];
        let targets = DetectionTargets {
            fields: &fields,
            boxes: &labels,
            masks: None,
        };
        let config = DetectionLossConfig::default();
        let error = output.loss(&targets, &config, 1.0).unwrap_err().to_string();
        assert!(
            error.contains("frame 1") && error.contains("box 1"),
            "{error}"
        );
        assert!(error.contains(word), "{error}");
    }
}

/// They would be taught at the edge's cells.
#[test]
fn boxes_wholly_outside_the_field_are_refused() {
    let judge = |scheme: Scheme, periodic: bool, edges: [f32; 4]| {
        let output = output(layout(scheme, periodic), 1);
        let fields = tensor(vec![0.0f32; 1], &[1, 1, 1, 1], DType::F32).unwrap();
        let good = target(0, [0.0, 0.0, 4.0, 4.0]);
        let targets = DetectionTargets {
            fields: &fields,
            boxes: &[None, Some(vec![good, target(1, edges)])],
            masks: None,
        };
        output.loss(&targets, &DetectionLossConfig::default(), 1.0)
    };
    for scheme in [Scheme::Cells, Scheme::Centres] {
        // Rows 0 to 32, columns 0 to 64.
        for (edges, regional, global) in [
            ([-8.0, 3.0, 0.0, 9.0], Some("rows"), Some("rows")),
            ([32.0, 3.0, 40.0, 9.0], Some("rows"), Some("rows")),
            ([-8.0, 3.0, 40.0, 9.0], None, None),
            ([31.5, 3.0, 40.0, 9.0], None, None),
            ([2.0, -9.0, 8.0, 0.0], Some("columns"), None),
            ([2.0, 64.0, 8.0, 70.0], Some("columns"), None),
            ([2.0, 60.0, 8.0, 70.0], None, None),
            ([2.0, -5.0, 8.0, 1.0], None, None),
            ([2.0, 60.0, 8.0, 124.0], None, None),
            ([2.0, 60.0, 8.0, 124.1], None, Some("more than once round")),
        ] {
            for (periodic, refused) in [(false, regional), (true, global)] {
                match (judge(scheme, periodic, edges), refused) {
                    (Ok(loss), None) => assert!(loss.total.is_finite()),
                    (Err(error), Some(word)) => {
                        let ModelError::Box {
                            frame,
                            index,
                            reason,
                        } = &error
                        else {
                            panic!("{error}")
                        };
                        assert_eq!((*frame, *index), (1, 1));
                        assert!(reason.contains(word), "{reason}");
                    }
                    (judged, _) => panic!("{scheme:?} {periodic} {edges:?}: {judged:?}"),
                }
            }
        }
    }
}
