//! Working memory that each thread keeps between calls.

use std::cell::Cell;

thread_local! {
    static BUFFERS: Cell<[Vec<f32>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

/// Takes two buffers of at least these sizes, with unspecified contents.
///
/// They are removed from the thread's storage, so that other work that runs on this thread in the meantime gets its
/// own.
pub fn take(first: usize, second: usize) -> [Vec<f32>; 2] {
    let mut buffers = BUFFERS.take();
    for (buffer, length) in buffers.iter_mut().zip([first, second]) {
        if buffer.len() < length {
            buffer.resize(length, 0.0);
        }
    }
    buffers
}

/// Returns the buffers for the next call.
pub fn give_back(buffers: [Vec<f32>; 2]) {
    BUFFERS.set(buffers);
}
