//! A batch of samples in host memory, from the loader to a training step.

use crate::PixelBox;

/// A batch in host memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostBatch {
    /// Fields, `(batch, lat, lon, channel)`, contiguous; empty where `stored` holds them.
    pub x: Vec<f32>,
    /// The fields in stored form, if the loader leaves normalisation to the consumer.
    pub stored: Option<StoredFields>,
    /// Shape of `x`: batch, lat, lon, channel.
    pub shape: [usize; 4],
    /// Class codes, `(batch, lat, lon)`.
    pub labels: Vec<u8>,
    /// The boxes of every sample, transformed like its fields; `None` for an unlabelled sample. Empty for a store
    /// without boxes.
    pub boxes: Vec<Option<Vec<PixelBox>>>,
    /// Ids of the samples.
    pub ids: Vec<usize>,
}

/// Fields in a store's encoding.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredFields {
    /// `(batch, lat, lon, channel)` in the store's [`crate::store::Encoding`].
    pub bytes: Vec<u8>,
    /// Whether each sample has swapped hemispheres: normalisation then negates meridional winds.
    pub mirrored: Vec<bool>,
}

impl HostBatch {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.shape[0]
    }

    /// Whether it holds no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Resizes for samples of a shape `(lat, lon, channel)`, reusing memory. With `stored_bytes`, fields stay in stored
    /// form with this many bytes per value.
    pub(crate) fn resize(
        &mut self,
        ids: Vec<usize>,
        [rows, columns, channels]: [usize; 3],
        stored_bytes: Option<usize>,
    ) {
        let batch = ids.len();
        let values = batch * rows * columns * channels;
        match stored_bytes {
            None => {
                self.stored = None;
                self.x.resize(values, 0.0);
            }
            Some(each) => {
                self.x.clear();
                let stored = self.stored.get_or_insert_default();
                stored.bytes.resize(values * each, 0);
                stored.mirrored.clear();
            }
        }
        self.labels.resize(batch * rows * columns, 0);
        self.boxes.clear();
        self.shape = [batch, rows, columns, channels];
        self.ids = ids;
    }
}
