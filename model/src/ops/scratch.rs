//! Working memory that each thread keeps between calls.

use std::cell::Cell;

thread_local! {
    static BUFFERS: Cell<[Vec<f32>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

/// Two buffers of at least this many values; what they hold is left over from before.
///
/// They are taken out of their place, so that other work which this thread picks up meanwhile gets its own.
pub fn take(first: usize, second: usize) -> [Vec<f32>; 2] {
    let mut buffers = BUFFERS.take();
    for (buffer, length) in buffers.iter_mut().zip([first, second]) {
        if buffer.len() < length {
            buffer.resize(length, 0.0);
        }
    }
    buffers
}

/// Puts them back for the next call.
pub fn give_back(buffers: [Vec<f32>; 2]) {
    BUFFERS.set(buffers);
}
