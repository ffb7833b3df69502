//! The operations that protocols 3 to 5 of pickles added, as those of protocol 2: candle's reader knows no others.
//!
//! Objects that no weights are made of come out as something simpler: bytes and numbers of more than 64 bits as nothing,
//! sets as lists, frozen sets as tuples.

use std::collections::{HashMap, HashSet};

/// Turns one operation after the other into those of protocol 2.
///
/// A class is two texts on the stack in protocol 4 and an operation with two names in protocol 2. So the last two texts
/// are held back until it is clear what they are for.
#[derive(Default)]
pub(super) struct Restating<'a> {
    /// Texts on the top of the stack that candle has not been given.
    held: Vec<&'a [u8]>,
    /// Remembered texts that candle does not have.
    texts: HashMap<u32, &'a [u8]>,
    /// Under what anything is remembered: protocol 4 numbers by how much that is.
    remembered: HashSet<u32>,
}

impl<'a> Restating<'a> {
    /// What candle is to read instead of the operation that `rest` begins with, which is taken off it; nothing is taken
    /// off where candle is to read something else first. None if the operation is one of protocol 2.
    ///
    /// # Errors
    /// What is wrong with the operation.
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
            // candle makes room for a text before it sees whether there is one of that length.
            b'X' => {
                counted(&mut arguments, 4)?;
                return Ok(None);
            }
            // Bytes.
            b'C' => nothing(&mut arguments, 1)?,
            b'B' => nothing(&mut arguments, 4)?,
            0x8e | 0x96 => nothing(&mut arguments, 8)?,
            // A whole number.
            0x8a => number(counted(&mut arguments, 1)?),
            0x8b => number(counted(&mut arguments, 4)?),
            // A set, what is put into it, and one that is frozen.
            0x8f => vec![b']'],
            0x90 => vec![b'e'],
            0x91 => vec![b't'],
            // An object of a class with positional and named arguments.
            0x92 => vec![0x86, 0x81],
            // Remembers the last object.
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

    /// What candle is to read for an operation that makes, remembers or brings back a short text, makes a class of
    /// two, or stands between them; none if it is another one.
    fn on_texts(&mut self, code: u8, arguments: &mut &'a [u8]) -> Result<Option<Vec<u8>>, String> {
        let last = self.held.last().copied();
        match code {
            0x8c => self.held.push(counted(arguments, 1)?),
            0x8d => self.held.push(counted(arguments, 8)?),
            0x93 => return self.class().map(Some),
            // A frame: how many bytes lie together. It may begin between the names of a class.
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

    /// The class that the last two texts name.
    fn class(&mut self) -> Result<Vec<u8>, String> {
        let (Some(name), Some(module)) = (self.held.pop(), self.held.pop()) else {
            return Err(unreadable("a class without names"));
        };
        // Protocol 2 ends a name by the end of a line.
        if [module, name]
            .iter()
            .any(|text| text.iter().any(|b| b"\r\n".contains(b)))
        {
            return Err(unreadable("a class with a name of several lines"));
        }
        let class = [&b"c"[..], module, b"\n", name, b"\n"].concat();
        Ok([self.release(0), class].concat())
    }

    /// Gives out the held texts but the last so many.
    fn release(&mut self, keep: usize) -> Vec<u8> {
        let count = self.held.len().saturating_sub(keep);
        let mut texts = Vec::new();
        for text in self.held.drain(..count) {
            texts.push(b'X');
            // `counted` lets no longer one through.
            texts.extend((text.len() as u32).to_le_bytes());
            texts.extend(text);
        }
        texts
    }

    fn next_id(&self) -> Result<u32, String> {
        u32::try_from(self.remembered.len()).map_err(|_| unreadable("it remembers too much"))
    }

    /// Notes that the last object is remembered, which is a text that candle does not have, or another.
    fn remember(&mut self, id: u32, text: Option<&'a [u8]>) {
        self.remembered.insert(id);
        match text {
            Some(text) => self.texts.insert(id, text),
            None => self.texts.remove(&id),
        };
    }
}

/// Under what an operation remembers or finds: a byte of `q` and `h`, four of `r` and `j`.
fn id_of(code: u8, arguments: &[u8]) -> Option<u32> {
    match (code, arguments) {
        (b'q' | b'h', &[id, ..]) => Some(id.into()),
        (b'r' | b'j', &[a, b, c, d, ..]) => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    }
}

/// `None` for what is counted by a number of so many bytes.
fn nothing(rest: &mut &[u8], width: usize) -> Result<Vec<u8>, String> {
    counted(rest, width).map(|_| vec![b'N'])
}

/// A whole number from its bytes, the lowest first; none of more than 64 bits.
fn number(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() > 8 {
        return vec![b'N'];
    }
    let negative = bytes.last().is_some_and(|&highest| highest >= 0x80);
    let mut whole = [if negative { 0xff } else { 0 }; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    [&[0x8a, 8][..], &whole].concat()
}

/// As many bytes as the number says that comes first and has so many bytes itself.
fn counted<'a>(rest: &mut &'a [u8], width: usize) -> Result<&'a [u8], String> {
    let mut count = [0; 8];
    count[..width].copy_from_slice(take(rest, width)?);
    match u32::try_from(u64::from_le_bytes(count)) {
        Ok(count) => take(rest, count as usize),
        Err(_) => Err(unreadable("it ends early")),
    }
}

/// Takes so many bytes off.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, left) =
        (rest.split_at_checked(count)).ok_or_else(|| unreadable("it ends early"))?;
    *rest = left;
    Ok(taken)
}

/// What is said of a pickle that cannot be read.
pub(super) fn unreadable(why: &str) -> String {
    format!("its pickle cannot be read: {why}")
}
