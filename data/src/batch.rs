//! A batch of samples in host memory: what the loader gives to a training step.

use crate::PixelBox;

/// A batch in host memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostBatch {
    /// Fields, `(batch, lat, lon, channel)`, contiguous; empty where `stored` holds them.
    pub x: Vec<f32>,
    /// The fields as they are stored, where the loader leaves it to others to normalise them.
    pub stored: Option<StoredFields>,
    /// Shape of `x`: batch, lat, lon, channel.
    pub shape: [usize; 4],
    /// Class codes, `(batch, lat, lon)`.
    pub labels: Vec<u8>,
    /// The boxes of every sample, turned as its fields are; `None` for a sample without labels. Empty for a store
    /// without boxes.
    pub boxes: Vec<Option<Vec<PixelBox>>>,
    /// Which samples of the store.
    pub ids: Vec<usize>,
}

/// Fields as a store holds them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredFields {
    /// `(batch, lat, lon, channel)` in the store's [`crate::store::Encoding`].
    pub bytes: Vec<u8>,
    /// Which samples have their hemispheres exchanged: they are normalised so that meridional winds change their sign.
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

    /// Makes room for samples of a shape `(lat, lon, channel)`, keeping the memory it has. With `stored_bytes` fields
    /// stay as they are stored, in so many bytes a value.
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
