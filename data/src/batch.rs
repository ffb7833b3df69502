//! What a training step gets from the host.

use crate::PixelBox;

/// A batch in host memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostBatch {
    /// Fields, `(batch, lat, lon, channel)`, contiguous.
    pub x: Vec<f32>,
    /// Shape of `x`: batch, lat, lon, channel.
    pub shape: [usize; 4],
    /// Class codes, `(batch, lat, lon)`.
    pub labels: Vec<u8>,
    /// The boxes of every sample, turned as its fields are: none where nobody labelled it. Empty for a store without boxes.
    pub boxes: Vec<Option<Vec<PixelBox>>>,
    /// Which samples of the store.
    pub ids: Vec<usize>,
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

    /// Makes room for samples of a shape `(lat, lon, channel)`, keeping the memory it has.
    pub(crate) fn resize(&mut self, ids: Vec<usize>, [rows, columns, channels]: [usize; 3]) {
        let batch = ids.len();
        self.x.resize(batch * rows * columns * channels, 0.0);
        self.labels.resize(batch * rows * columns, 0);
        self.boxes.clear();
        self.shape = [batch, rows, columns, channels];
        self.ids = ids;
    }
}
