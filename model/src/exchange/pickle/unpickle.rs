//! A pickle's object by candle's reader, with a bound on how deep objects lie in each other.

use super::protocols::{Restating, unreadable};
use candle_core::pickle::{Object, Stack};
use std::collections::HashMap;

/// How deep objects may lie in each other. candle copies and drops them by recursion, which ends the program where the
/// stack is too small; checkpoints need ten.
const MOST: usize = 500;

/// The latest protocol that there is.
const LATEST: u8 = 5;

/// The object that a pickle describes. Nothing that it names is called: calls stay descriptions.
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
                    return reader.stack.finalize().map_err(told);
                }
            }
        }
    }
}

/// What candle says.
fn told(error: candle_core::Error) -> String {
    let told = error.to_string();
    // The first line: candle adds where in its code it was.
    unreadable(told.lines().next().unwrap_or_default())
}

/// candle's reader of protocol 2.
struct Reader {
    stack: Stack,
    nesting: Nesting,
}

impl Reader {
    /// Reads the operation that `rest` begins with and takes it off; returns whether it was the last.
    fn read(&mut self, rest: &mut &[u8]) -> Result<bool, String> {
        let operation = *rest;
        if self.stack.read(rest).map_err(told)? {
            return Ok(true);
        }
        if self.nesting.after(operation, self.stack.stack().len()) > MOST {
            return Err(format!(
                "its pickle is nested too deeply: more than {MOST} objects lie in each other"
            ));
        }
        Ok(false)
    }
}

/// How deep the objects on the stack nest, and those that are remembered.
#[derive(Default)]
struct Nesting {
    stack: Vec<usize>,
    memo: HashMap<u32, usize>,
}

impl Nesting {
    /// How deep the last object is after an operation, whose bytes come first; then there are so many objects.
    fn after(&mut self, operation: &[u8], objects: usize) -> usize {
        let last = self.stack.last().copied().unwrap_or(0);
        match *operation {
            // The protocol's version.
            [0x80, ..] => {}
            // Remembers the last one, and brings one back.
            [b'q', id, ..] => self.remember(id.into(), last),
            [b'r', a, b, c, d, ..] => self.remember(u32::from_le_bytes([a, b, c, d]), last),
            [b'h', id, ..] => self.bring(id.into()),
            [b'j', a, b, c, d, ..] => self.bring(u32::from_le_bytes([a, b, c, d])),
            _ if objects > self.stack.len() => self.stack.push(0),
            // Puts what was taken from the stack into the object below it.
            [b'a' | b'e' | b's' | b'u', ..] => self.gather(objects, true),
            // Makes an object of them.
            _ => self.gather(objects, false),
        }
        self.stack.last().copied().unwrap_or(0)
    }

    fn remember(&mut self, id: u32, depth: usize) {
        self.memo.insert(id, depth);
    }

    fn bring(&mut self, id: u32) {
        let remembered = self.memo.get(&id).copied();
        self.stack.push(remembered.unwrap_or(0));
    }

    /// Leaves so many objects, the last of which holds those that were above it; its own depth counts if it was there.
    fn gather(&mut self, objects: usize, was_there: bool) {
        let kept = objects.saturating_sub(1).min(self.stack.len());
        let mut taken = self.stack.split_off(kept).into_iter();
        let own = if was_there { taken.next() } else { None };
        let inside = taken.max().map_or(0, |depth| depth + 1);
        self.stack.push(inside.max(own.unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tuples, lists, dictionaries, storages, calls and remembered ones in each other.
    #[test]
    fn what_nests_too_deeply_is_refused_before_it_is_built() {
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
    fn what_is_long_is_not_deep() {
        // Batches of one list, and a dictionary with a tuple at each key.
        let list = [b"]".to_vec(), b"(NNNe".repeat(10_000)].concat();
        let dictionary = [b"}".to_vec(), b"(N(NtN(Ntu".repeat(10_000)].concat();
        for content in [list, dictionary] {
            let whole = [&content[..], b"."].concat();
            assert!(unpickle(&whole).is_ok());
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
