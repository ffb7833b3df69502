//! Reads one record: positioned reads of pieces that stay in cache until they are checked and normalised.

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

/// Bytes per read.
const PIECE_BYTES: usize = 256 << 10;

thread_local! {
    static BUFFERS: RefCell<(Vec<u8>, DecodeBuffers)> = RefCell::default();
}

/// The checksum of a part of a file, reading one piece at a time.
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
    /// Reads a record piece by piece into `x`, in which a pixel takes `pixel` elements: `decode` stores whole pixels
    /// there and returns how many of their values are missing.
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

/// Some rows of a record and their destination.
struct Placement {
    first: usize,
    count: usize,
    rows: usize,
    columns: usize,
    /// Elements per pixel.
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
        // Columns rotated past the eastern edge reappear at the western one.
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

/// Reads samples of a store in a model's format.
#[derive(Debug, Clone)]
pub struct SampleReader {
    store: Arc<Store>,
    decoder: RecordDecoder,
}

impl SampleReader {
    pub(super) fn new(store: Arc<Store>, decoder: RecordDecoder) -> Self {
        Self { store, decoder }
    }

    /// (lat, lon, channel) of its samples.
    pub fn shape(&self) -> [usize; 3] {
        let [rows, columns, _] = self.store.shape();
        [rows, columns, self.decoder.channels()]
    }

    /// The store it reads from.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Reads a sample and its class codes, transformed as `view` says; returns the number of missing values.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for an unknown id or buffers of the wrong size; [`DataError::Damaged`] naming shard and
    /// sample if the checksum is wrong; [`DataError::Io`].
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

    /// The factors that normalise fields from [`Self::copy_into`]; if `mirrored`, of samples with swapped hemispheres.
    pub fn factors(&self, mirrored: bool) -> ChannelFactors {
        self.decoder.factors(mirrored)
    }

    /// Like [`Self::read_into`], for fields in stored form, with [`Encoding::bytes`] per value.
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
