//! Translates the operations that pickle protocols 3 to 5 added to those of protocol 2, the only ones that candle
//! reads.
//!
//! Objects that weights do not need become simpler ones: bytes and numbers of more than 64 bits become `None`, sets
//! become lists, frozen sets become tuples.

use std::collections::{HashMap, HashSet};

/// Translates operations one by one to protocol 2.
///
/// In protocol 4 a class is two strings on the stack, in protocol 2 an operation with two names. The last two strings
/// are therefore held back until their use is known.
#[derive(Default)]
pub(super) struct Restating<'a> {
    /// Strings on the top of the stack that have not been passed to candle yet.
    held: Vec<&'a [u8]>,
    /// Memoised strings that candle does not have.
    texts: HashMap<u32, &'a [u8]>,
    /// All memo keys in use: protocol 4 numbers new entries by their count.
    remembered: HashSet<u32>,
}

impl<'a> Restating<'a> {
    /// Returns the bytes that candle reads instead of the first operation of `rest`, and removes that operation. If
    /// candle must first read something else, nothing is removed. `None` if it is an operation of protocol 2.
    ///
    /// # Errors
    /// A description of the invalid operation.
    pub fn restate(&mut self, rest: &mut &'a [u8]) -> Result<Option<Vec<u8>>, String> {
        let Some((&code, mut arguments)) = rest.split_first() else {
            return Ok(Some(self.release(0)).filter(|texts| !texts.is_empty()));
        };
        if let Some(texts) = self.on_texts(code, &mut arguments)? {
            *rest = arguments;
            return Ok(Some(texts));
        }
        if !self.held.is_empty() {
            return Ok(Some(self.release(0)));
        }
        let operations = match code {
            // candle allocates the stated length of a string before it checks that the input has it.
            b'X' => {
                counted(&mut arguments, 4)?;
                return Ok(None);
            }
            // Bytes.
            b'C' => nothing(&mut arguments, 1)?,
            b'B' => nothing(&mut arguments, 4)?,
            0x8e | 0x96 => nothing(&mut arguments, 8)?,
            // An integer.
            0x8a => number(counted(&mut arguments, 1)?),
            0x8b => number(counted(&mut arguments, 4)?),
            // Creates a set, adds items to it, or freezes it.
            0x8f => vec![b']'],
            0x90 => vec![b'e'],
            0x91 => vec![b't'],
            // An object of a class with positional and keyword arguments.
            0x92 => vec![0x86, 0x81],
            // Memoises the last object.
            0x94 => {
                let id = self.next_id()?;
                self.remember(id, None);
                [&b"r"[..], &id.to_le_bytes()].concat()
            }
            b'q' | b'r' => {
                if let Some(id) = id_of(code, arguments) {
                    self.remember(id, None);
                }
                return Ok(None);
            }
            _ => return Ok(None),
        };
        *rest = arguments;
        Ok(Some(operations))
    }

    /// Translates an operation that creates, memoises or recalls a short string, makes a class of two, or may occur
    /// between them; `None` for any other operation.
    fn on_texts(&mut self, code: u8, arguments: &mut &'a [u8]) -> Result<Option<Vec<u8>>, String> {
        let last = self.held.last().copied();
        match code {
            0x8c => self.held.push(counted(arguments, 1)?),
            0x8d => self.held.push(counted(arguments, 8)?),
            0x93 => return self.class().map(Some),
            // A frame, which states its length in bytes. It may begin between the two names of a class.
            0x95 => {
                take(arguments, 8)?;
            }
            0x94 if last.is_some() => {
                let id = self.next_id()?;
                self.remember(id, last);
            }
            b'q' | b'r' | b'h' | b'j' => {
                let Some(id) = id_of(code, arguments) else {
                    return Ok(None);
                };
                let known = self.texts.get(&id).copied();
                match (code, last, known) {
                    (b'q' | b'r', Some(_), _) => self.remember(id, last),
                    (b'h' | b'j', _, Some(text)) => self.held.push(text),
                    _ => return Ok(None),
                }
                take(arguments, if matches!(code, b'q' | b'h') { 1 } else { 4 })?;
            }
            _ => return Ok(None),
        }
        Ok(Some(self.release(2)))
    }

    /// The class named by the last two strings.
    fn class(&mut self) -> Result<Vec<u8>, String> {
        let (Some(name), Some(module)) = (self.held.pop(), self.held.pop()) else {
            return Err(unreadable("a class without names"));
        };
        // In protocol 2 names end at a newline.
        if [module, name]
            .iter()
            .any(|text| text.iter().any(|b| b"\r\n".contains(b)))
        {
            return Err(unreadable("a class with a name of several lines"));
        }
        let class = [&b"c"[..], module, b"\n", name, b"\n"].concat();
        Ok([self.release(0), class].concat())
    }

    /// Emits all held strings except the last `keep`.
    fn release(&mut self, keep: usize) -> Vec<u8> {
        let count = self.held.len().saturating_sub(keep);
        let mut texts = Vec::new();
        for text in self.held.drain(..count) {
            texts.push(b'X');
            // `counted` has checked the length.
            texts.extend((text.len() as u32).to_le_bytes());
            texts.extend(text);
        }
        texts
    }

    fn next_id(&self) -> Result<u32, String> {
        u32::try_from(self.remembered.len()).map_err(|_| unreadable("it remembers too much"))
    }

    /// Records that the last object was memoised: `text` if it is a string that candle does not have.
    fn remember(&mut self, id: u32, text: Option<&'a [u8]>) {
        self.remembered.insert(id);
        match text {
            Some(text) => self.texts.insert(id, text),
            None => self.texts.remove(&id),
        };
    }
}

/// The memo key of an operation: one byte for `q` and `h`, four for `r` and `j`.
fn id_of(code: u8, arguments: &[u8]) -> Option<u32> {
    match (code, arguments) {
        (b'q' | b'h', &[id, ..]) => Some(id.into()),
        (b'r' | b'j', &[a, b, c, d, ..]) => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    }
}

/// `None` in place of data preceded by a length of `width` bytes.
fn nothing(rest: &mut &[u8], width: usize) -> Result<Vec<u8>, String> {
    counted(rest, width).map(|_| vec![b'N'])
}

/// An integer from its little-endian bytes; `None` for more than 64 bits.
fn number(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() > 8 {
        return vec![b'N'];
    }
    let negative = bytes.last().is_some_and(|&highest| highest >= 0x80);
    let mut whole = [if negative { 0xff } else { 0 }; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    [&[0x8a, 8][..], &whole].concat()
}

/// Takes data preceded by a length of `width` bytes.
fn counted<'a>(rest: &mut &'a [u8], width: usize) -> Result<&'a [u8], String> {
    let mut count = [0; 8];
    count[..width].copy_from_slice(take(rest, width)?);
    match u32::try_from(u64::from_le_bytes(count)) {
        Ok(count) => take(rest, count as usize),
        Err(_) => Err(unreadable("it ends early")),
    }
}

/// Takes `count` bytes.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, left) =
        (rest.split_at_checked(count)).ok_or_else(|| unreadable("it ends early"))?;
    *rest = left;
    Ok(taken)
}

/// The message for a pickle that cannot be read.
pub(super) fn unreadable(why: &str) -> String {
    format!("its pickle cannot be read: {why}")
}
