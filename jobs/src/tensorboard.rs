//! Writes event files for TensorBoard.
//!
//! # Source
//! TensorFlow's `core/lib/io/record_writer.h` (framing), `core/util/event.proto` and `core/framework/summary.proto`
//! (contents). Only scalars are written.

use crate::error::Result;
use squall_data::{DataError, atomic};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Castagnoli's polynomial, reflected.
const CRC32C_POLYNOMIAL: u32 = 0x82f6_3b78;

const fn crc32c_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (CRC32C_POLYNOMIAL & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static CRC32C: [u32; 256] = crc32c_table();

/// CRC-32C (Castagnoli) of bytes, RFC 3720 appendix B.4.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (crc >> 8) ^ CRC32C[((crc ^ u32::from(byte)) & 0xff) as usize]
    })
}

/// The checksum as TFRecord stores it, so that a CRC over CRCs stays useful.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Protocol buffer encoding of the few field types that events need.
mod proto {
    pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    pub(super) fn integer(out: &mut Vec<u8>, field: u64, value: u64) {
        varint(out, field << 3);
        varint(out, value);
    }

    pub(super) fn double(out: &mut Vec<u8>, field: u64, value: f64) {
        varint(out, field << 3 | 1);
        out.extend(value.to_le_bytes());
    }

    pub(super) fn float(out: &mut Vec<u8>, field: u64, value: f32) {
        varint(out, field << 3 | 5);
        out.extend(value.to_le_bytes());
    }

    pub(super) fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
        varint(out, field << 3 | 2);
        varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

/// Names of event files begin so, whoever writes them.
const BEGIN: &str = "events.out.tfevents.";
/// What follows the time in the names of ours.
const WRITER: &str = ".squall.";

/// Removes the event files in a folder that an [`EventWriter`] wrote.
///
/// # Errors
/// [`crate::JobError::Data`].
pub(crate) fn remove_all(folder: &Path) -> Result<()> {
    let unlisted = || DataError::io("list", folder);
    for entry in std::fs::read_dir(folder).map_err(unlisted())? {
        let entry = entry.map_err(unlisted())?;
        let name = entry.file_name();
        if is_ours(&name.to_string_lossy()) {
            atomic::remove(entry.path())?;
        }
    }
    Ok(())
}

/// Whether an [`EventWriter`] names a file so. Other programs put the name of the machine, which may be that of ours, and
/// more behind the time.
fn is_ours(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.split_once(WRITER));
    parts.is_some_and(|(time, attempt)| number(time) && number(attempt))
}

/// Writes scalars to one `events.out.tfevents.*` file.
///
/// Every record is flushed: TensorBoard follows a running job, and a killed one loses at most the record being written,
/// which readers drop by its checksum.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EventWriter {
    /// Begins a file in a folder. `now` is seconds since 1970; `first_step` makes TensorBoard forget what an
    /// interrupted run wrote from that step on.
    ///
    /// # Errors
    /// [`crate::JobError::Data`].
    pub fn create(folder: &Path, now: f64, first_step: u64) -> Result<Self> {
        // Two runs within a second must not share a file.
        let name = |attempt: u32| format!("{BEGIN}{:010}{WRITER}{attempt}", now as u64);
        let mut attempt = 0;
        let (path, file) = loop {
            let path = folder.join(name(attempt));
            match File::create_new(&path) {
                Ok(file) => break (path, file),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
                Err(e) => return Err(DataError::io("create", path)(e).into()),
            }
        };
        let mut writer = Self {
            path,
            file: BufWriter::new(file),
        };
        let mut version = Vec::new();
        proto::double(&mut version, 1, now);
        proto::bytes(&mut version, 3, b"brain.Event:2");
        writer.record(&version)?;
        if first_step > 0 {
            let (mut start, mut session) = (Vec::new(), Vec::new());
            proto::integer(&mut session, 1, 1); // SessionLog.status = START
            proto::double(&mut start, 1, now);
            proto::integer(&mut start, 2, first_step);
            proto::bytes(&mut start, 7, &session);
            writer.record(&start)?;
        }
        Ok(writer)
    }

    /// The event file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes scalars of one step.
    ///
    /// # Errors
    /// [`crate::JobError::Data`].
    pub fn scalars(&mut self, now: f64, step: u64, scalars: &[(&str, f64)]) -> Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in scalars {
            let mut entry = Vec::new();
            proto::bytes(&mut entry, 1, tag.as_bytes());
            proto::float(&mut entry, 2, *value as f32);
            proto::bytes(&mut summary, 1, &entry);
        }
        let mut event = Vec::new();
        proto::double(&mut event, 1, now);
        proto::integer(&mut event, 2, step);
        proto::bytes(&mut event, 5, &summary);
        self.record(&event)
    }

    fn record(&mut self, data: &[u8]) -> Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let mut record = Vec::with_capacity(data.len() + 16);
        record.extend(length);
        record.extend(masked_crc(&length).to_le_bytes());
        record.extend_from_slice(data);
        record.extend(masked_crc(data).to_le_bytes());
        let written = self
            .file
            .write_all(&record)
            .and_then(|()| self.file.flush());
        Ok(written.map_err(DataError::io("write", &self.path))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_of_the_known_vectors() {
        // RFC 3720 B.4, and the check value of the CRC catalogue.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }

    #[test]
    fn the_first_record_is_what_tensorflow_writes() {
        // Bytes of `tf.summary.create_file_writer`'s first record but for the time: length 24, its masked CRC, field 1
        // (double), field 3 with the version.
        let folder = tempfile::tempdir().unwrap();
        let writer = EventWriter::create(folder.path(), 1.7e9, 0).unwrap();
        let bytes = std::fs::read(writer.path()).unwrap();
        assert_eq!(bytes.len(), 8 + 4 + 24 + 4);
        assert_eq!(
            bytes[..12],
            [24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]
        );
        assert_eq!(bytes[12], 0x09);
        assert_eq!(&bytes[21..36], b"\x1a\x0dbrain.Event:2");
    }
}
