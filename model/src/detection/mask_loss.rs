//! The loss of the masks that a detector outputs beside boxes.

use crate::error::Result;
use crate::ops::Backend;
use crate::ops::host::{bhwc, expect};
use crate::ops::loss::Criterion;
use candle_core::{DType, Tensor};

/// The target masks, for networks that output masks.
#[derive(Debug, Clone, Copy)]
pub struct MaskTargets<'a> {
    /// The class of every pixel `(h · w)` of every frame; `None` for frames without labels.
    pub labels: &'a [Option<&'a [u8]>],
    /// The criterion of the mask loss.
    pub criterion: &'a Criterion,
}

/// The mean of the frames' losses, 0 for frames without labels, and its gradient times `factor`.
///
/// Frames are evaluated one by one, so that the losses of several ranks add up to the loss of all frames, as for boxes.
pub(super) fn judge(
    backend: Backend,
    logits: &Tensor,
    targets: &MaskTargets<'_>,
    factor: f64,
) -> Result<(f64, Tensor)> {
    let op = "detection_loss";
    let [frames, h, w, classes] = bhwc(op, "masks", logits)?;
    expect(
        op,
        "frames with or without masks",
        frames,
        targets.labels.len(),
    )?;
    let scale = (factor / frames as f64) as f32;
    let (mut sum, mut gradients) = (0.0, Vec::with_capacity(frames));
    for (frame, labels) in targets.labels.iter().enumerate() {
        let gradient = match labels {
            None => backend.zeros([1, h, w, classes], DType::F32)?,
            Some(labels) => {
                let one = logits.narrow(0, frame, 1)?;
                let loss = backend.segmentation_loss(&one, labels, targets.criterion, scale)?;
                sum += loss.value();
                loss.gradient
            }
        };
        gradients.push(gradient);
    }
    Ok((sum / frames as f64, backend.stack(&gradients)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::host::tensor;
    use crate::ops::loss::IGNORED;
    use approx::assert_relative_eq;

    /// Two frames of 1 x 2 pixels and two classes.
    fn logits() -> Tensor {
        let values = vec![0.3, -0.2, 1.0, 0.5, -0.7, 0.1, 0.0, 2.0];
        tensor(values, &[2, 1, 2, 2], DType::F32).unwrap()
    }

    fn judged(labels: [Option<&[u8]>; 2]) -> (f64, Vec<f32>) {
        let criterion = Criterion::cross_entropy(&[0.5, 2.0]);
        let targets = MaskTargets {
            labels: &labels,
            criterion: &criterion,
        };
        let (value, gradient) = judge(Backend::Reference, &logits(), &targets, 3.0).unwrap();
        (value, gradient.flatten_all().unwrap().to_vec1().unwrap())
    }

    #[test]
    fn frames_count_the_same_and_unlabelled_ones_teach_nothing() {
        let (first, second): (&[u8], &[u8]) = (&[0, 1], &[1, IGNORED]);
        // −ln softmax of the labelled class, weighted by class, divided by the frame's own weights.
        let log = |a: f64, b: f64| (1.0 + (b - a).exp()).ln();
        let by_hand = [
            (0.5 * log(0.3, -0.2) + 2.0 * log(0.5, 1.0)) / 2.5,
            log(0.1, -0.7),
        ];
        let (both, gradient) = judged([Some(first), Some(second)]);
        assert_relative_eq!(both, (by_hand[0] + by_hand[1]) / 2.0, epsilon = 1e-6);
        let (one, alone) = judged([Some(first), None]);
        assert_relative_eq!(one, by_hand[0] / 2.0, epsilon = 1e-6);
        assert_eq!(alone[..4], gradient[..4]);
        assert_eq!(alone[4..], [0.0; 4]);
        let (none, nothing) = judged([None, None]);
        assert_eq!((none, nothing), (0.0, vec![0.0; 8]));
    }

    #[test]
    fn its_gradient_is_that_of_finite_differences() {
        let (first, second): (&[u8], &[u8]) = (&[0, 1], &[1, 0]);
        let criterion = Criterion::cross_entropy(&[0.5, 2.0]);
        let labels = [Some(first), Some(second)];
        let targets = MaskTargets {
            labels: &labels,
            criterion: &criterion,
        };
        let values: Vec<f32> = logits().flatten_all().unwrap().to_vec1().unwrap();
        let at = |values: Vec<f32>| {
            let x = tensor(values, &[2, 1, 2, 2], DType::F32).unwrap();
            judge(Backend::Reference, &x, &targets, 3.0).unwrap()
        };
        let gradient: Vec<f32> = at(values.clone())
            .1
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap();
        for k in 0..values.len() {
            let moved = |by: f32| {
                let mut values = values.clone();
                values[k] += by;
                at(values).0
            };
            let slope = 3.0 * (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert_relative_eq!(slope, f64::from(gradient[k]), epsilon = 2e-4);
        }
    }
}
