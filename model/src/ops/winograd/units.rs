//! Divides the tiles of a convolution into units of work for one thread, together with the pixels that they write.

use super::forward::Geometry;

/// A part of a row of tiles, with exclusive access to the pixels that it writes.
pub struct TileRow<'a, V, const M: usize> {
    pub batch: usize,
    /// The first line of pixels.
    pub start: usize,
    /// The first pixel of every tile.
    pub columns: &'a [usize],
    /// The pixels from `first_column` on of up to `M` lines, for every output field.
    pub lines: Vec<[Option<&'a mut [V]>; M]>,
    pub first_column: usize,
}

/// The number of tiles per unit, up to `most`, that lets all threads finish soonest, given that a product takes `block`
/// rows at a time. Among equally good sizes the largest, so that kernels are read less often.
pub fn size<const P: usize, const M: usize>(
    geometry: &Geometry<P, M>,
    most: usize,
    block: usize,
) -> usize {
    let row = geometry.columns.starts.len();
    let total = geometry.batch * geometry.rows.starts.len() * row;
    let step = if geometry.dense { 1 } else { row };
    let threads = rayon::current_num_threads().max(1);
    fastest((total, step), most, block, threads)
}

/// The multiple of `step` with which this many threads finish soonest.
fn fastest((total, step): (usize, usize), most: usize, block: usize, threads: usize) -> usize {
    let time = |size: &usize| {
        let of_a_thread = total.div_ceil(*size).div_ceil(threads);
        // Products, of whole blocks, take about twice as long as transforms.
        of_a_thread * (2 * size.next_multiple_of(block) + size)
    };
    let sizes = (1..=(most / step).max(1)).rev().map(|count| count * step);
    sizes.min_by_key(time).unwrap_or(step)
}

/// Cuts all tiles into units of `size` tiles, with the pixels that they write in the output fields, whose channel
/// counts are `fields`. A unit is larger if a row of tiles is longer and cannot be cut.
pub fn cut<'a, V, const P: usize, const M: usize>(
    geometry: &'a Geometry<P, M>,
    (y, fields): (&'a mut [Vec<V>], &[usize]),
    size: usize,
) -> Vec<Vec<TileRow<'a, V, M>>> {
    let (height, width) = geometry.output;
    let mut lines: Vec<Vec<Option<&mut [V]>>> = (y.iter_mut().zip(fields))
        .map(|(y, channels)| y.chunks_mut(width * channels).map(Some).collect())
        .collect();
    let (mut units, mut room) = (Vec::new(), 0);
    for batch in 0..geometry.batch {
        for &start in &geometry.rows.starts {
            let writes = geometry.rows.writes(start);
            let mut owned: Vec<[Option<&mut [V]>; M]> = (lines.iter_mut())
                .map(|lines| writes.map(|row| lines[batch * height + row?].take()))
                .collect();
            let mut rest = &geometry.columns.starts[..];
            while !rest.is_empty() {
                let whole = !geometry.dense;
                if room == 0 || whole && room < rest.len() {
                    units.push(Vec::new());
                    room = if whole { size.max(rest.len()) } else { size };
                }
                let columns;
                (columns, rest) = rest.split_at(room.min(rest.len()));
                room -= columns.len();
                let (first_column, pixels) = match whole {
                    true => (0, width),
                    false => (columns[0], M * columns.len()),
                };
                let lines = (owned.iter_mut().zip(fields))
                    .map(|(owned, channels)| {
                        owned.each_mut().map(|line| front(line, pixels * channels))
                    })
                    .collect();
                let unit: &mut Vec<_> = units.last_mut().expect("one was pushed");
                unit.push(TileRow {
                    batch,
                    start,
                    columns,
                    lines,
                    first_column,
                });
            }
        }
    }
    units
}

/// Splits up to this many values off the front of a line.
fn front<'a, V>(line: &mut Option<&'a mut [V]>, values: usize) -> Option<&'a mut [V]> {
    let rest = line.take()?;
    let (part, after) = rest.split_at_mut(rest.len().min(values));
    *line = Some(after);
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_together() {
        // Twelve rows at a time: 18 units of 12 for two threads, not 9 of 24.
        assert_eq!(fastest((216, 1), 24, 12, 2), 12);
        assert_eq!(fastest((3456, 1), 24, 12, 2), 24);
        // More threads than tiles: one tile each, although blocks are then not full.
        assert_eq!(fastest((54, 1), 24, 12, 64), 1);
        // Rows of ten that cannot be cut: six of them, three each.
        assert_eq!(fastest((60, 10), 24, 12, 2), 10);
        // A row that is longer than a unit.
        assert_eq!(fastest((400, 100), 24, 12, 2), 100);
    }
}
