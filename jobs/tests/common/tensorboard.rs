//! Reads event files as TensorBoard does.

use squall_jobs::tensorboard::crc32c;
use std::path::Path;

/// A scalar of an event file.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    pub step: u64,
    pub tag: String,
    pub value: f32,
}

/// The scalars of an event file up to a record that was cut off; an error for a whole record with a wrong checksum or
/// contents.
pub fn read_scalars(path: &Path) -> Result<Vec<Scalar>, String> {
    let bytes = std::fs::read(path).unwrap();
    let damaged = |at: usize, what: &str| format!("record at byte {at}: {what}");
    let mut scalars = Vec::new();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 12) {
        let length = u64::from_le_bytes(head[..8].try_into().expect("8 of 12 bytes"));
        if head[8..] != masked_crc(&head[..8]).to_le_bytes() {
            return Err(damaged(at, "checksum of its length differs"));
        }
        let start = at + 12;
        let end = start.saturating_add(length as usize);
        let (Some(data), Some(crc)) =
            (bytes.get(start..end), bytes.get(end..end.saturating_add(4)))
        else {
            break;
        };
        if crc != masked_crc(data).to_le_bytes() {
            return Err(damaged(at, "checksum differs"));
        }
        event_scalars(data, &mut scalars).ok_or_else(|| damaged(at, "no event"))?;
        at = end + 4;
    }
    Ok(scalars)
}

/// A field of a message: number, and its integer or bytes.
enum Value<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

fn next_varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn next_field<'a>(data: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = next_varint(data)?;
    let size = match key & 7 {
        0 => return Some((key >> 3, Value::Integer(next_varint(data)?))),
        1 => 8,
        2 => usize::try_from(next_varint(data)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (bytes, rest) = data.split_at_checked(size)?;
    *data = rest;
    Some((key >> 3, Value::Bytes(bytes)))
}

fn event_scalars(mut event: &[u8], scalars: &mut Vec<Scalar>) -> Option<()> {
    let (mut step, mut summary) = (0, &[][..]);
    while !event.is_empty() {
        match next_field(&mut event)? {
            (2, Value::Integer(value)) => step = value,
            (5, Value::Bytes(bytes)) => summary = bytes,
            _ => {}
        }
    }
    while !summary.is_empty() {
        let (1, Value::Bytes(mut entry)) = next_field(&mut summary)? else {
            continue;
        };
        let (mut tag, mut value) = (String::new(), 0.0);
        while !entry.is_empty() {
            match next_field(&mut entry)? {
                (1, Value::Bytes(bytes)) => tag = String::from_utf8(bytes.to_vec()).ok()?,
                (2, Value::Bytes(bytes)) => value = f32::from_le_bytes(bytes.try_into().ok()?),
                _ => {}
            }
        }
        scalars.push(Scalar { step, tag, value });
    }
    Some(())
}

/// As TFRecord stores a checksum.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
