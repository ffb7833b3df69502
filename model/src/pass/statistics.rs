//! The batch statistics of a training pass.

use crate::error::Result;
use crate::ops::BatchNormSaved;
use crate::parameters::BufferId;

/// Means and variances of the batch normalisations of a training pass.
///
/// Variances are unbiased (n / (n − 1)), as in PyTorch.
#[derive(Debug, Clone, Default)]
pub struct BatchStatistics {
    /// Per layer the means, then the variances. Passes of a step, and ranks, average these values before use.
    pub values: Vec<f32>,
    /// The running means and variances that [`Self::values`] update, in the same order.
    pub(crate) buffers: Vec<BufferId>,
}

impl BatchStatistics {
    /// Adds the values of another pass of the same network to these.
    pub fn include(&mut self, later: &Self) {
        assert_eq!(self.buffers, later.buffers, "passes of other layers");
        for (sum, value) in self.values.iter_mut().zip(&later.values) {
            *sum += value;
        }
    }

    /// Divides sums over this many passes by their number.
    pub fn average_over(&mut self, passes: usize) {
        for value in &mut self.values {
            *value /= passes as f32;
        }
    }

    /// Collects the statistics that layers recorded.
    pub(super) fn from_recorded(all: Vec<Recorded>) -> Result<Self> {
        let mut statistics = Self::default();
        #[cfg(feature = "cuda")]
        let mut read = read_moments(&all)?.into_iter();
        for layer in all {
            let batch = layer.batch;
            let count = batch.count as f32;
            let unbiased = count / (count - 1.0).max(1.0);
            statistics.buffers.extend([layer.mean, layer.variance]);
            #[cfg(feature = "cuda")]
            if batch.on_gpu.is_some() {
                statistics.values.extend(read.next().unwrap_or_default());
                let variances = read.next().unwrap_or_default();
                let variances = variances.iter().map(|v| unbiased * v);
                statistics.values.extend(variances);
                continue;
            }
            statistics.values.extend(&batch.mean);
            let variances = batch.variance.iter().map(|v| unbiased * v);
            statistics.values.extend(variances);
        }
        Ok(statistics)
    }
}

/// The batch statistics of one normalisation layer, and the running mean and variance that they update.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub mean: BufferId,
    pub variance: BufferId,
    pub batch: BatchNormSaved,
}

/// For each layer whose statistics lie on the GPU: its means, then its variances. Synchronises once for all.
#[cfg(feature = "cuda")]
fn read_moments(all: &[Recorded]) -> Result<Vec<Vec<f32>>> {
    let mut tensors = Vec::new();
    for moments in all.iter().filter_map(|layer| layer.batch.on_gpu.as_ref()) {
        tensors.extend(moments.mean_and_variance()?);
    }
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    crate::ops::cuda::read_all(&tensors.iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Backend;
    use crate::parameters::Parameters;
    use candle_core::{Device, Tensor};

    /// Of two channels 1, 3 and 4, 4 the means are 2 and 4, the mean squares of what is off them 1 and 0; with 2 / (2 − 1)
    /// these are 2 and 0. Of one pixel nothing is known, which is not infinite.
    #[test]
    fn variances_are_unbiased_and_follow_the_means() {
        let mut parameters = Parameters::new(1);
        let mean = parameters.buffer("mean".into(), 2, 0.0);
        let variance = parameters.buffer("variance".into(), 2, 1.0);
        for (pixels, expected) in [
            (vec![1.0f32, 4.0, 3.0, 4.0], [2.0, 4.0, 2.0, 0.0]),
            (vec![5.0, 6.0], [5.0, 6.0, 0.0, 0.0]),
        ] {
            let shape = (1, 1, pixels.len() / 2, 2);
            let x = Tensor::from_vec(pixels, shape, &Device::Cpu).unwrap();
            let batch = Backend::Reference.batch_norm_statistics(&x, 1e-5, None);
            let recorded = Recorded {
                mean,
                variance,
                batch: batch.unwrap(),
            };
            let statistics = BatchStatistics::from_recorded(vec![recorded]).unwrap();
            assert_eq!(statistics.values, expected);
            assert_eq!(statistics.buffers, [mean, variance]);
        }
    }
}
