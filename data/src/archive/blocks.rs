//! Times of a field that lie in the same chunks of a file, read and decompressed together.
//!
//! netCDF decompresses whole chunks to return one of their times, and its own cache holds fewer bytes than a field's
//! chunks usually have. Files that xarray or the netCDF library chunked by default hold hundreds of times in each chunk:
//! read time by time they take a hundred times as long.

use super::decode::{self, Stored};
use super::scan::{FieldSource, Role};
use crate::error::Result;
use netcdf::Variable;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;

/// Maximum bytes of a block.
const BLOCK_BYTES: usize = 32 << 20;
/// Maximum bytes of all blocks: two for each of some twenty fields, as threads that read neighbouring times may need two.
const ALL_BYTES: usize = 1536 << 20;

/// Recently read blocks of all open files, the latest last.
#[derive(Default)]
pub(super) struct Blocks {
    kept: VecDeque<Block>,
    bytes: usize,
}

/// Values of consecutive times of a field.
struct Block {
    file: usize,
    name: String,
    levels: Range<usize>,
    times: Range<usize>,
    values: Stored,
}

impl Blocks {
    /// Reads the planes of a field at a time index and some levels of file number `file`, in their stored type.
    ///
    /// # Errors
    /// As [`decode::stored`].
    pub fn read(
        &mut self,
        (file, path): (usize, &Path),
        variable: &Variable<'_>,
        source: &FieldSource,
        (time, levels): (usize, &Range<usize>),
    ) -> Result<Stored> {
        let read = |times: &Range<usize>| {
            let extents = source.extents(times, levels);
            decode::stored(path, variable, extents, &source.decoder)
        };
        let times = times_of_block(variable, source, time, levels);
        if times.len() == 1 {
            return read(&times);
        }
        let is_it = |block: &Block| {
            block.file == file
                && block.name == source.name
                && block.levels == *levels
                && block.times.contains(&time)
        };
        let block = match self.kept.iter().position(is_it) {
            Some(at) => self.kept.remove(at).expect("just found"),
            None => {
                let block = Block {
                    file,
                    name: source.name.clone(),
                    levels: levels.clone(),
                    values: read(&times)?,
                    times,
                };
                self.bytes += block.values.bytes();
                while self.bytes > ALL_BYTES
                    && let Some(oldest) = self.kept.pop_front()
                {
                    self.bytes -= oldest.values.bytes();
                }
                block
            }
        };
        let found = block
            .values
            .part(time - block.times.start, block.times.len());
        self.kept.push_back(block);
        Ok(found)
    }

    /// Forgets the blocks of a file that is closed.
    pub fn forget(&mut self, file: usize) {
        self.kept.retain(|block| block.file != file);
        self.bytes = self.kept.iter().map(|block| block.values.bytes()).sum();
    }
}

/// The times to read together with `time`: those in the same chunk, as many as fit into a block; `time` alone where
/// chunks hold one time, or times do not vary slowest.
fn times_of_block(
    variable: &Variable<'_>,
    source: &FieldSource,
    time: usize,
    levels: &Range<usize>,
) -> Range<usize> {
    let alone = time..time + 1;
    let axis = source.roles.iter().position(|role| *role != Role::Single);
    let Some(axis) = axis.filter(|axis| source.roles[*axis] == Role::Time) else {
        return alone;
    };
    let dimensions = variable.dimensions();
    let plane: usize = (dimensions.iter().zip(&source.roles))
        .filter(|(_, role)| matches!(role, Role::Lat | Role::Lon))
        .map(|(dimension, _)| dimension.len())
        .product();
    let of_a_time = plane * levels.len() * source.decoder.stored_bytes();
    let chunk = match variable.chunking() {
        Ok(Some(chunk)) => chunk.get(axis).copied().unwrap_or(1),
        _ => 1,
    };
    let length = dimensions.get(axis).map_or(0, netcdf::Dimension::len);
    block_around(time, chunk, length, BLOCK_BYTES / of_a_time.max(1))
}

/// The part of the chunk around `time`, of a time axis of this length, that has at most so many times.
fn block_around(time: usize, chunk: usize, length: usize, most: usize) -> Range<usize> {
    let chunk = chunk.max(1);
    let size = most.clamp(1, chunk);
    let first = time - time % chunk;
    let start = first + (time - first) / size * size;
    let end = (start + size).min(first + chunk).min(length);
    start..end.max(time + 1)
}

#[cfg(test)]
mod tests {
    use super::super::units::Conversion;
    use super::*;

    #[test]
    fn blocks_are_parts_of_a_chunk() {
        assert_eq!(block_around(7, 1, 100, 50), 7..8);
        assert_eq!(block_around(7, 10, 100, 50), 0..10);
        assert_eq!(block_around(17, 10, 100, 50), 10..20);
        // Four at a time: the last part of a chunk is shorter, and no part lies in two chunks.
        assert_eq!(block_around(13, 10, 100, 4), 10..14);
        assert_eq!(block_around(19, 10, 100, 4), 18..20);
        // The last chunk is not full.
        assert_eq!(block_around(95, 30, 100, 50), 90..100);
        // A plane may be larger than a block.
        assert_eq!(block_around(5, 10, 100, 0), 5..6);
    }

    /// The planes of any time are those of a file without chunks, whatever was read before.
    #[test]
    fn times_of_chunks_are_read_together_and_come_out_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (times, rows, columns) = (23, 4, 6);
        let value = |t: usize, j: usize, i: usize| (100 * t + 10 * j + i) as f32;
        let path = folder.path().join("chunked.nc");
        crate::archive::nc::on_library_thread(|| {
            let mut file = netcdf::create(&path).unwrap();
            for (name, length) in [("time", times), ("lat", rows), ("lon", columns)] {
                file.add_dimension(name, length).unwrap();
            }
            let mut field = file
                .add_variable::<f32>("psl", &["time", "lat", "lon"])
                .unwrap();
            field.set_chunking(&[7, 3, 4]).unwrap();
            let values: Vec<f32> = (0..times * rows * columns)
                .map(|k| value(k / (rows * columns), k / columns % rows, k % columns))
                .collect();
            field.put_values(&values, ..).unwrap();
            file.close().unwrap();
            let file = netcdf::open(&path).unwrap();
            let variable = file.variable("psl").unwrap();
            let source = FieldSource {
                name: "psl".into(),
                unit: None,
                level: None,
                proxy: None,
                roles: vec![Role::Time, Role::Lat, Role::Lon],
                decoder: decode::Decoder::new(&variable, Conversion::IDENTITY),
            };
            let mut blocks = Blocks::default();
            for time in [3, 0, 22, 6, 7, 13, 14, 1] {
                let read = blocks.read((0, &path), &variable, &source, (time, &(0..1)));
                let Stored::Single(plane) = read.unwrap() else {
                    panic!("f32 is read as it is stored");
                };
                assert_eq!(plane.len(), rows * columns);
                assert_eq!(
                    (plane[0], plane[23]),
                    (value(time, 0, 0), value(time, 3, 5))
                );
            }
            // Of four chunks each was read once: 0..7, 21..23, 7..14, 14..21.
            let kept: Vec<_> = blocks
                .kept
                .iter()
                .map(|block| block.times.clone())
                .collect();
            assert_eq!(kept, [21..23, 7..14, 14..21, 0..7]);
            assert_eq!(blocks.bytes, 4 * times * rows * columns);
            blocks.forget(1);
            assert_eq!(blocks.kept.len(), 4);
            blocks.forget(0);
            assert_eq!((blocks.kept.len(), blocks.bytes), (0, 0));
        });
    }
}
