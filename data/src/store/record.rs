//! Reading one record: positioned reads of pieces that stay in the cache until they are checked and normalised.

use super::codec::{DecodeBuffers, RecordDecoder};
use super::{Encoding, Store, View};
use crate::error::{DataError, Result};
use crate::normalise::ChannelFactors;
use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::Xxh3;

/// Bytes asked for at a time.
const PIECE_BYTES: usize = 256 << 10;

thread_local! {
    static BUFFERS: RefCell<(Vec<u8>, DecodeBuffers)> = RefCell::default();
}

/// The checksum of what stands in a part of a file, of which a piece at a time is held.
pub fn checksum(file: &File, path: &Path, part: Range<u64>) -> Result<u64> {
    let mut hasher = Xxh3::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = part.start;
    while at < part.end {
        let size = ((part.end - at) as usize).min(PIECE_BYTES);
        file.read_exact_at(&mut piece[..size], at)
            .map_err(DataError::io("read", path))?;
        hasher.update(&piece[..size]);
        at += size as u64;
    }
    Ok(hasher.digest())
}

impl Store {
    /// Reads a record piece by piece into `x`, in which a pixel takes `pixel` places: `decode` puts whole pixels there
    /// and tells how many of their values are missing.
    fn read_pieces<T>(
        &self,
        id: usize,
        view: View,
        x: &mut [T],
        pixel: usize,
        labels: &mut [u8],
        mut decode: impl FnMut(&[u8], bool, &mut [T], &mut DecodeBuffers) -> usize,
    ) -> Result<usize> {
        let (rows, columns) = self.meta.grid.shape();
        let wanted = rows * columns * pixel;
        if x.len() != wanted || labels.len() != rows * columns {
            return Err(DataError::Invalid(format!(
                "sample {id} takes {wanted} places and {} labels; room for {} and {}",
                rows * columns,
                x.len(),
                labels.len()
            )));
        }
        let (file, path, start) = self.locate(id)?;
        let check = !self.checked[id].load(Ordering::Relaxed);
        let mut hasher = Xxh3::new();
        let mut missing = 0;
        BUFFERS.with_borrow_mut(|(piece, buffers)| -> Result<()> {
            let row_bytes = self.meta.field_bytes() as usize / rows;
            let rows_at_once = (PIECE_BYTES / row_bytes).clamp(1, rows);
            piece.resize(rows_at_once * row_bytes, 0);
            for first in (0..rows).step_by(rows_at_once) {
                let count = rows_at_once.min(rows - first);
                let bytes = &mut piece[..count * row_bytes];
                file.read_exact_at(bytes, start + (first * row_bytes) as u64)
                    .map_err(DataError::io("read", &path))?;
                if check {
                    hasher.update(bytes);
                }
                let place = Placement {
                    first,
                    count,
                    rows,
                    columns,
                    pixel,
                    view,
                };
                missing += place.fill(bytes, x, &mut |bytes, mirror, x| {
                    decode(bytes, mirror, x, buffers)
                });
            }
            file.read_exact_at(labels, start + self.meta.field_bytes())
                .map_err(DataError::io("read", &path))?;
            if check {
                hasher.update(labels);
            }
            Ok(())
        })?;
        if check {
            self.compare(id, &path, hasher.digest())?;
            self.checked[id].store(true, Ordering::Relaxed);
        }
        view.turn_labels(labels, columns);
        Ok(missing)
    }
}

/// Some rows of a record, and where they go.
struct Placement {
    first: usize,
    count: usize,
    rows: usize,
    columns: usize,
    /// Places of a pixel.
    pixel: usize,
    view: View,
}

impl Placement {
    fn fill<T>(
        &self,
        bytes: &[u8],
        x: &mut [T],
        decode: &mut impl FnMut(&[u8], bool, &mut [T]) -> usize,
    ) -> usize {
        let row = self.columns * self.pixel;
        if self.view == View::default() {
            let target = &mut x[self.first * row..(self.first + self.count) * row];
            return decode(bytes, false, target);
        }
        let mirror = self.view.mirror;
        // The columns that pass the eastern edge come back at the western one.
        let roll = self.view.roll % self.columns;
        let row_bytes = bytes.len() / self.count;
        let (split, split_bytes) = (
            roll * self.pixel,
            (self.columns - roll) * (row_bytes / self.columns),
        );
        let mut missing = 0;
        for (k, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            let j = self.first + k;
            let j = if mirror { self.rows - 1 - j } else { j };
            let (west, east) = x[j * row..(j + 1) * row].split_at_mut(split);
            missing += decode(&bytes[..split_bytes], mirror, east);
            missing += decode(&bytes[split_bytes..], mirror, west);
        }
        missing
    }
}

/// Reads samples of a store as a model wants them.
#[derive(Debug, Clone)]
pub struct SampleReader {
    store: Arc<Store>,
    decoder: RecordDecoder,
}

impl SampleReader {
    pub(super) fn new(store: Arc<Store>, decoder: RecordDecoder) -> Self {
        Self { store, decoder }
    }

    /// (lat, lon, channel) of what it reads.
    pub fn shape(&self) -> [usize; 3] {
        let [rows, columns, _] = self.store.shape();
        [rows, columns, self.decoder.channels()]
    }

    /// The store it reads from.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Reads a sample and its class codes, turned as `view` says; gives back how many values were missing.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for an unknown id or wrong room; [`DataError::Damaged`] naming shard and sample if the
    /// checksum differs; [`DataError::Io`].
    pub fn read_into(
        &self,
        id: usize,
        view: View,
        x: &mut [f32],
        labels: &mut [u8],
    ) -> Result<usize> {
        let (decoder, pixel) = (&self.decoder, self.decoder.channels());
        self.store
            .read_pieces(id, view, x, pixel, labels, |bytes, mirror, x, buffers| {
                decoder.decode(bytes, mirror, x, buffers)
            })
    }

    /// The encoding in which the store holds fields.
    pub fn encoding(&self) -> Encoding {
        self.decoder.encoding()
    }

    /// What normalises fields that [`Self::copy_into`] gives; of samples with exchanged hemispheres if `mirrored`.
    pub fn factors(&self, mirrored: bool) -> ChannelFactors {
        self.decoder.factors(mirrored)
    }

    /// As [`Self::read_into`], but of fields as they are stored, [`Encoding::bytes`] for each value.
    ///
    /// # Errors
    /// As [`Self::read_into`].
    pub fn copy_into(
        &self,
        id: usize,
        view: View,
        x: &mut [u8],
        labels: &mut [u8],
    ) -> Result<usize> {
        let pixel = self.decoder.channels() * self.encoding().bytes();
        self.store
            .read_pieces(id, view, x, pixel, labels, |bytes, _, x, _| {
                self.decoder.copy(bytes, x)
            })
    }
}
