//! Steps with a non-finite loss or gradient: their cause, and how many may be skipped.

use super::Learner;
use crate::error::{JobError, Result};
use rayon::prelude::*;
use squall_data::HostBatch;

impl Learner {
    /// Names the first tensor that explains a non-finite loss.
    pub(super) fn why_the_loss(&self, batch: &HostBatch) -> Result<String> {
        if let Some(parameter) = self.network.parameters().first_not_finite()? {
            return Ok(format!(
                "parameter `{}` holds a value that is not finite",
                parameter.name
            ));
        }
        Ok(bad_field(batch).unwrap_or_else(|| {
            "all parameters and fields are finite: an activation overflowed".to_string()
        }))
    }

    /// Counts a step as done or, if it had a `fault`, as skipped. The fault says which of `"loss"` and `"gradient"` was
    /// not finite, and why. `lowers_scale` says that all there is to it may be the loss scale, which the step has lowered:
    /// at the start of a run and whenever doubling went too far. Such a step does not count towards those that may be
    /// skipped in a row; there are no more of them in a row than the scale can be halved.
    ///
    /// # Errors
    /// [`JobError::Diverged`] after more skipped steps in a row than allowed.
    pub(super) fn count(
        &mut self,
        fault: Option<(&str, String)>,
        lowers_scale: bool,
    ) -> Result<()> {
        let progress = &mut self.progress;
        self.loss_fault = match &fault {
            Some(("loss", why)) => Some(why.clone()),
            _ => None,
        };
        if let Some((what, why)) = fault {
            progress.skipped_in_row += u32::from(!lowers_scale);
            progress.skipped += 1;
            tracing::warn!(
                step = progress.step + 1,
                "the {what} is not finite: step skipped ({why})"
            );
            if progress.skipped_in_row > self.max_skipped && !lowers_scale {
                let steps = match progress.skipped_in_row {
                    1 => "1 step".to_string(),
                    many => format!("{many} steps in a row"),
                };
                return Err(JobError::Diverged {
                    step: progress.step,
                    reason: format!("the {what} was not finite in {steps} ({why})"),
                });
            }
        } else {
            progress.skipped_in_row = 0;
        }
        progress.step += 1;
        Ok(())
    }
}

/// Describes the first non-finite value of a batch.
pub(super) fn bad_field(batch: &HostBatch) -> Option<String> {
    let (at, value) = match &batch.stored {
        None => {
            let at = first_where(&batch.x, |x| !x.is_finite())?;
            (at, batch.x[at])
        }
        // In stored fields NaN marks missing values, which the GPU replaces; only infinities are faults.
        Some(stored) => {
            let values = batch.shape.iter().product::<usize>().max(1);
            if stored.bytes.len() / values == 2 {
                let (words, _) = stored.bytes.as_chunks();
                let value = |word: &[u8; 2]| half::f16::from_le_bytes(*word);
                let at = first_where(words, |word| value(word).is_infinite())?;
                (at, value(&words[at]).to_f32())
            } else {
                let (words, _) = stored.bytes.as_chunks();
                let value = |word: &[u8; 4]| f32::from_le_bytes(*word);
                let at = first_where(words, |word| value(word).is_infinite())?;
                (at, value(&words[at]))
            }
        }
    };
    Some(format!("value {at} of the batch's fields is {value}"))
}

/// Index of the first value that is `bad`. Parallel, because with a lag every batch is searched.
fn first_where<T: Sync>(values: &[T], bad: impl Fn(&T) -> bool + Sync) -> Option<usize> {
    const PART: usize = 1 << 16;
    let part = (values.par_chunks(PART)).position_first(|part| part.iter().any(&bad))?;
    let inside = values[part * PART..].iter().position(&bad)?;
    Some(part * PART + inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_infinite_field_is_found_however_it_is_stored() {
        let shape = [1, 2, 3, 2];
        let stored = |bytes: Vec<u8>| HostBatch {
            shape,
            stored: Some(squall_data::batch::StoredFields {
                bytes,
                mirrored: vec![false],
            }),
            ..HostBatch::default()
        };
        let mut values = vec![1.5f32; 12];
        // Missing, which is no fault.
        values[3] = f32::NAN;
        let as_f32 = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let as_f16 = |values: &[f32]| {
            let halves = values.iter().map(|&v| half::f16::from_f32(v));
            halves.flat_map(half::f16::to_le_bytes).collect()
        };
        assert_eq!(bad_field(&stored(as_f32(&values))), None);
        values[7] = f32::INFINITY;
        for bytes in [as_f32(&values), as_f16(&values)] {
            let told = bad_field(&stored(bytes)).unwrap();
            assert_eq!(told, "value 7 of the batch's fields is inf");
        }
    }

    #[test]
    fn the_first_of_several_bad_values_is_named() {
        let mut values = vec![0.0f32; 300_000];
        assert_eq!(first_where(&values, |v| !v.is_finite()), None);
        for at in [299_999, 200_000, 131_072, 131_071, 65_536, 0] {
            values[at] = f32::INFINITY;
            assert_eq!(first_where(&values, |v| !v.is_finite()), Some(at));
        }
    }
}
