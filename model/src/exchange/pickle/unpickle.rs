//! Unpickles with candle's reader, with limits on nesting depth and on copying.

use super::protocols::{Restating, unreadable};
use candle_core::pickle::{Object, Stack};
use std::collections::HashMap;

/// The maximum nesting depth of objects. candle copies and drops them recursively, which aborts the program on stack
/// overflow; checkpoints need a depth of ten.
const MOST: usize = 500;

/// The maximum number of bytes read per byte of the file, where memoised and recalled objects count again. candle
/// copies them, so 200 bytes can double a pair until memory runs out. Checkpoints need a factor of ten.
const COPIES: usize = 150;
/// An additional allowance, for small files.
const MORE: usize = 1 << 20;

/// The latest pickle protocol.
const LATEST: u8 = 5;

/// The object described by a pickle. Functions that it names are never called; calls remain descriptions.
pub(super) fn unpickle(content: &[u8]) -> Result<Object, String> {
    if let [0x80, protocol, ..] = *content
        && protocol > LATEST
    {
        return Err(format!(
            "its pickle is of protocol {protocol}; save it with PyTorch's own, 2"
        ));
    }
    let mut reader = Reader {
        stack: Stack::empty(),
        nesting: Nesting::default(),
        room: content.len().saturating_mul(COPIES).saturating_add(MORE),
    };
    let (mut restating, mut rest) = (Restating::default(), content);
    loop {
        match restating.restate(&mut rest)? {
            Some(operations) => {
                let mut operations = &operations[..];
                while !operations.is_empty() {
                    reader.read(&mut operations)?;
                }
            }
            None => {
                if reader.read(&mut rest)? {
                    return reader.stack.finalize().map_err(message_of);
                }
            }
        }
    }
}

/// candle's error message.
fn message_of(error: candle_core::Error) -> String {
    let message = error.to_string();
    // Only the first line: candle appends a backtrace.
    unreadable(message.lines().next().unwrap_or_default())
}

/// candle's reader of protocol 2.
struct Reader {
    stack: Stack,
    nesting: Nesting,
    /// The remaining allowance of bytes, including copies.
    room: usize,
}

impl Reader {
    /// Executes and removes the first operation of `rest`; returns whether it was the last.
    fn read(&mut self, rest: &mut &[u8]) -> Result<bool, String> {
        let before = *rest;
        if self.stack.read(rest).map_err(message_of)? {
            return Ok(true);
        }
        let operation = &before[..before.len() - rest.len()];
        if self.nesting.after(operation, self.stack.stack().len()) > MOST {
            return Err(format!(
                "its pickle is nested too deeply: more than {MOST} objects lie in each other"
            ));
        }
        if self.nesting.read > self.room {
            return Err(format!(
                "its pickle has the same objects too often: with them it is more than {COPIES} times as long"
            ));
        }
        Ok(false)
    }
}

/// Nesting depths and sizes of the objects on the stack and in the memo.
#[derive(Default)]
struct Nesting {
    stack: Vec<Extent>,
    memo: HashMap<u32, Extent>,
    /// Bytes of all operations, counting those of copied objects again.
    read: usize,
}

/// The nesting depth of an object, and the number of bytes of the operations that made it.
#[derive(Clone, Copy, Default)]
struct Extent {
    depth: usize,
    bytes: usize,
}

impl Nesting {
    /// Updates the state after an operation that leaves `objects` objects on the stack; returns the depth of the last
    /// one.
    fn after(&mut self, operation: &[u8], objects: usize) -> usize {
        self.read += operation.len();
        let last = self.stack.last().copied().unwrap_or_default();
        match *operation {
            // The protocol version.
            [0x80, ..] => {}
            // Memoises the last object, or recalls one.
            [b'q', id, ..] => self.remember(id.into(), last),
            [b'r', a, b, c, d, ..] => self.remember(u32::from_le_bytes([a, b, c, d]), last),
            [b'h', id, ..] => self.bring(id.into()),
            [b'j', a, b, c, d, ..] => self.bring(u32::from_le_bytes([a, b, c, d])),
            _ if objects > self.stack.len() => self.stack.push(Extent {
                depth: 0,
                bytes: operation.len(),
            }),
            // Moves popped objects into the object below them.
            [b'a' | b'e' | b's' | b'u', ..] => self.gather(objects, true),
            // Makes a new object of the popped ones.
            _ => self.gather(objects, false),
        }
        self.stack.last().map_or(0, |last| last.depth)
    }

    fn remember(&mut self, id: u32, object: Extent) {
        self.read += object.bytes;
        self.memo.insert(id, object);
    }

    fn bring(&mut self, id: u32) {
        let remembered = self.memo.get(&id).copied().unwrap_or_default();
        self.read += remembered.bytes;
        self.stack.push(remembered);
    }

    /// Reduces the stack to `objects` objects, the last of which now contains those above it; its own depth counts if
    /// it existed before.
    fn gather(&mut self, objects: usize, was_there: bool) {
        let kept = objects.saturating_sub(1).min(self.stack.len());
        let taken = self.stack.split_off(kept);
        let (own, inner) = taken.split_at(usize::from(was_there).min(taken.len()));
        let inside = inner.iter().map(|object| object.depth + 1).max();
        let own = own.iter().map(|object| object.depth).max();
        self.stack.push(Extent {
            depth: inside.max(own).unwrap_or(0),
            // The operation itself is one byte.
            bytes: 1 + taken.iter().map(|object| object.bytes).sum::<usize>(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tuples, lists, dictionaries, storages, calls and remembered ones in each other.
    #[test]
    fn deep_nesting_is_refused_before_values_are_built() {
        let tuples = |n: usize| [b"N".to_vec(), vec![0x85; n]].concat();
        let lists = |n: usize| [b"]".repeat(n + 1), b"a".repeat(n)].concat();
        let dictionaries = |n: usize| [b"}N".repeat(n), b"N".to_vec(), b"s".repeat(n)].concat();
        let marked = |n: usize| [b"(".repeat(n), b"t".repeat(n)].concat();
        let ids = |n: usize| [b"N".to_vec(), b"Q".repeat(n)].concat();
        let calls = |n: usize| [b"N".repeat(n + 1), b"R".repeat(n)].concat();
        // Each tuple is remembered and brought back into the next.
        let remembered = |n: usize| [b"Nq\x00".to_vec(), b"h\x00\x85q\x00".repeat(n)].concat();
        // Arguments of new objects, frozen sets, sets (which only hold each other in no file of Python's).
        let objects = |n: usize| [b"N".to_vec(), b"N}\x92".repeat(n)].concat();
        let frozen = |n: usize| [b"(".repeat(n), b"\x91".repeat(n)].concat();
        let sets = |n: usize| [b"\x8f(".repeat(n), b"\x90".repeat(n)].concat();
        // Each tuple is remembered under the next number and brought back.
        let numbered = |n: usize| {
            let tuple = |at: usize| [&b"\x85\x94j"[..], &(at as u32).to_le_bytes()[..]].concat();
            [b"N".to_vec(), (0..n).flat_map(tuple).collect()].concat()
        };
        let shapes: [&dyn Fn(usize) -> Vec<u8>; 11] = [
            &tuples,
            &lists,
            &dictionaries,
            &marked,
            &ids,
            &calls,
            &remembered,
            &objects,
            &frozen,
            &sets,
            &numbered,
        ];
        for (at, pickle) in shapes.into_iter().enumerate() {
            let whole = |n: usize| [&b"\x80\x02"[..], &pickle(n), b"."].concat();
            assert!(unpickle(&whole(400)).is_ok(), "shape {at}");
            let error = unpickle(&whole(100_000)).unwrap_err();
            assert!(error.contains("nested too deeply"), "shape {at}: {error}");
        }
    }

    #[test]
    fn long_flat_collections_are_not_too_deep() {
        // Batches of one list, and a dictionary with a tuple at each key.
        let list = [b"]".to_vec(), b"(NNNe".repeat(10_000)].concat();
        let dictionary = [b"}".to_vec(), b"(N(NtN(Ntu".repeat(10_000)].concat();
        for content in [list, dictionary] {
            let whole = [&content[..], b"."].concat();
            assert!(unpickle(&whole).is_ok());
        }
    }

    #[test]
    fn excessive_copies_are_refused_before_memory_is_full() {
        // Each pair holds the one before twice, remembered by number and by how many there are.
        let pairs = |n: usize| [b"Nq\x00".to_vec(), b"h\x00h\x00\x86q\x00".repeat(n)].concat();
        let numbered = |n: usize| {
            let pair = |at: usize| [b'h', at as u8, b'h', at as u8, 0x86, 0x94];
            [b"N\x94".to_vec(), (0..n).flat_map(pair).collect()].concat()
        };
        // A long text, which candle has or is given again and again, and a list that is remembered as often.
        let text = |code: &[u8], n: usize| {
            let text = [code, &b"a".repeat(1000), b"q\x00"].concat();
            [&b"]("[..], &text, &b"h\x00".repeat(n), b"e"].concat()
        };
        let texts = |n: usize| text(b"X\xe8\x03\x00\x00", n * n);
        let held = |n: usize| text(b"\x8d\xe8\x03\x00\x00\x00\x00\x00\x00", n * n);
        let list = |n: usize| {
            [
                &b"]("[..],
                &b"N".repeat(1000),
                b"e",
                &b"q\x00".repeat(n * n),
            ]
            .concat()
        };
        let shapes: [&dyn Fn(usize) -> Vec<u8>; 5] = [&pairs, &numbered, &texts, &held, &list];
        for (at, pickle) in shapes.into_iter().enumerate() {
            let whole = |n: usize| [&b"\x80\x04"[..], &pickle(n), b"."].concat();
            assert!(unpickle(&whole(12)).is_ok(), "shape {at}");
            let error = unpickle(&whole(60)).unwrap_err();
            assert!(error.contains("too often"), "shape {at}: {error}");
        }
    }

    #[test]
    fn what_is_cut_short_is_unreadable() {
        for content in [
            &b""[..],
            b"N",
            b"h",
            b"q\x00",
            b"a.",
            b".",
            // Texts, frames, bytes and numbers that end early or say that they are very long.
            b"\x8c\x05abc",
            b"X\xff\xff\xff\xffabc",
            b"\x8c\x01a",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa",
            b"\x95\x01\x00",
            b"C\x02a.",
            b"B\xff\xff\xff\xffa.",
            b"\x8a\x02a.",
            b"\x8b\xff\xff\xff\xffa.",
            // A class of fewer than two names or of several lines, a remembered nothing, a mark that is not there.
            b"\x93.",
            b"\x8c\x01a\x93.",
            b"\x8c\x01a\x8c\x01\n\x93.",
            b"\x94.",
            b"\x8f\x90.",
            b"\x91.",
            // What lies outside of the file.
            b"\x97.",
        ] {
            let error = unpickle(content).unwrap_err();
            assert!(error.contains("its pickle cannot be read"), "{error}");
        }
    }
}
