//! Computes the expected length of a classic netCDF file: the library silently reads zeros from truncated files.
//!
//! # Source
//! "File Format Specifications" of the netCDF User's Guide: CDF-1 (classic), CDF-2 (64-bit offset), CDF-5 (64-bit
//! data).

use std::io::{BufReader, Read, Seek};

/// Upper limit for dimensions, attributes, variables and name lengths in a header.
const MOST: u64 = 1 << 20;
/// Record count of a file that is still being written: the library derives it from the file's length.
const STREAMING: [u64; 2] = [u32::MAX as u64, u64::MAX];

/// Offset of the end of the last value according to the header of a classic file; `None` for other formats and for
/// invalid headers, which the library reports itself.
pub(super) fn expected_length(file: impl Read + Seek) -> Option<u64> {
    let file = BufReader::new(file);
    Header { file, version: 1 }.end()
}

struct Header<F> {
    file: BufReader<F>,
    version: u8,
}

/// Offset and length of a variable.
struct Extent {
    begin: u64,
    bytes: u64,
    is_record: bool,
}

impl<F: Read + Seek> Header<F> {
    fn end(&mut self) -> Option<u64> {
        let [c, d, f, version] = self.bytes()?;
        if [c, d, f] != *b"CDF" || ![1, 2, 5].contains(&version) {
            return None;
        }
        self.version = version;
        let records = self.size()?;
        let dimensions = self.list(0x0a, |header| {
            header.skip_name()?;
            header.size()
        })?;
        self.skip_attributes()?;
        let variables = self.list(0x0b, |header| header.variable(&dimensions))?;
        let last = variables.iter().map(|v| v.begin.checked_add(v.bytes));
        let ends = last.collect::<Option<Vec<u64>>>()?;
        let kept = |is_record| {
            let of_kind = variables.iter().zip(&ends);
            of_kind.filter(move |(v, _)| v.is_record == is_record)
        };
        let fixed = kept(false).map(|(_, end)| *end).max().unwrap_or(0);
        let of_record: Vec<u64> = kept(true).map(|(v, _)| v.bytes).collect();
        if records == 0 || STREAMING.contains(&records) || of_record.is_empty() {
            return Some(fixed);
        }
        // A single record variable is not padded.
        let step = match of_record[..] {
            [only] => only,
            _ => (of_record.iter()).try_fold(0u64, |sum, bytes| sum.checked_add(padded(*bytes)))?,
        };
        let before_last = (records - 1).checked_mul(step)?;
        let last = kept(true).map(|(_, end)| *end).max()?;
        Some(fixed.max(last.checked_add(before_last)?))
    }

    fn variable(&mut self, dimensions: &[u64]) -> Option<Extent> {
        self.skip_name()?;
        let rank = self.size().filter(|rank| *rank <= MOST)?;
        let (mut cells, mut is_record) = (1u64, false);
        for place in 0..rank {
            let length = *dimensions.get(usize::try_from(self.size()?).ok()?)?;
            // The record dimension has no length of its own.
            is_record |= length == 0 && place == 0;
            cells = match (length, place) {
                (0, 0) => cells,
                _ => cells.checked_mul(length)?,
            };
        }
        self.skip_attributes()?;
        let width = width(u32::from_be_bytes(self.bytes()?))?;
        // The header's size of a variable is unreliable for large ones.
        self.size()?;
        let begin = match self.version {
            1 => u64::from(u32::from_be_bytes(self.bytes()?)),
            _ => u64::from_be_bytes(self.bytes()?),
        };
        Some(Extent {
            begin,
            bytes: cells.checked_mul(width)?,
            is_record,
        })
    }

    fn skip_attributes(&mut self) -> Option<()> {
        self.list(0x0c, |header| {
            header.skip_name()?;
            let width = width(u32::from_be_bytes(header.bytes()?))?;
            let values = header.size()?;
            header.skip(padded(values.checked_mul(width)?))
        })
        .map(|_| ())
    }

    /// Reads a list with this tag; empty if it is absent.
    fn list<T>(&mut self, tag: u32, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let found = u32::from_be_bytes(self.bytes()?);
        let count = self.size().filter(|count| *count <= MOST)?;
        match (found, count) {
            (0, 0) => Some(Vec::new()),
            (found, _) if found == tag => (0..count).map(|_| item(self)).collect(),
            _ => None,
        }
    }

    fn skip_name(&mut self) -> Option<()> {
        let characters = self.size().filter(|count| *count <= MOST)?;
        self.skip(padded(characters))
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        let bytes = i64::try_from(bytes).ok()?;
        // Stays within the buffer if possible.
        self.file.seek_relative(bytes).ok()
    }

    /// A count or a size: eight bytes in CDF-5, four in the other formats.
    fn size(&mut self) -> Option<u64> {
        Some(match self.version {
            5 => u64::from_be_bytes(self.bytes()?),
            _ => u64::from(u32::from_be_bytes(self.bytes()?)),
        })
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// Bytes per value of a type.
fn width(code: u32) -> Option<u64> {
    Some(match code {
        1 | 2 | 7 => 1,
        3 | 8 => 2,
        4 | 5 | 9 => 4,
        6 | 10 | 11 => 8,
        _ => return None,
    })
}

fn padded(bytes: u64) -> u64 {
    bytes.saturating_add(3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::nc;
    use netcdf::{FileMut, Options};
    use proptest::prelude::*;
    use std::fs::{self, File};
    use std::io::Cursor;
    use std::path::Path;

    /// Writes a file with a fixed variable, and some of records if there are any.
    fn write(path: &Path, format: Options, records: usize, of_record: usize) {
        nc::on_library_thread(|| -> Result<(), netcdf::Error> {
            let mut file: FileMut = netcdf::create_with(path, format)?;
            file.add_attribute("title", "a file of odd length")?;
            file.add_unlimited_dimension("time")?;
            file.add_dimension("lat", 3)?;
            file.add_dimension("lon", 5)?;
            let mut area = file.add_variable::<i16>("area", &["lat", "lon"])?;
            area.put_attribute("units", "km2")?;
            let names: Vec<String> = (0..of_record).map(|k| format!("field{k}")).collect();
            for name in &names {
                file.add_variable::<i8>(name, &["time", "lat", "lon"])?;
            }
            file.enddef()?;
            let gone = || netcdf::Error::from("a variable has gone");
            let mut area = file.variable_mut("area").ok_or_else(gone)?;
            area.put_values(&[7i16; 15], ..)?;
            for name in &names {
                let mut field = file.variable_mut(name).ok_or_else(gone)?;
                for record in 0..records {
                    field.put_values(&[1i8; 15], (record, .., ..))?;
                }
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn files_are_as_long_as_their_headers_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("classic.nc");
        let formats: [fn() -> Options; 3] = [
            Options::empty,
            || Options::_64BIT_OFFSET,
            || Options::_64BIT_DATA,
        ];
        for format in formats {
            for (records, of_record) in [(0, 0), (0, 2), (1, 1), (3, 1), (4, 2), (5, 3)] {
                write(&path, format(), records, of_record);
                let whole = fs::read(&path).unwrap();
                let expected = expected_length(Cursor::new(&whole)).unwrap();
                let length = whole.len() as u64;
                let case = format!(
                    "{} {records} {of_record}: {expected} of {length}",
                    format().bits()
                );
                // Behind the last value there is at most padding.
                assert!(expected <= length && length < expected + 4, "{case}");
                assert!(nc::open(&path).is_ok(), "{case}");
                fs::write(&path, &whole[..expected as usize - 1]).unwrap();
                let error = nc::open(&path).unwrap_err().to_string();
                assert!(error.contains("cut short"), "{case}: {error}");
            }
        }
    }

    #[test]
    fn other_formats_and_real_files_pass() {
        assert_eq!(expected_length(Cursor::new(b"\x89HDF\r\n\x1a\n")), None);
        assert_eq!(expected_length(Cursor::new(b"CDF")), None);
        let Some(folder) = crate::testdata::real("netcdf-stress") else {
            return;
        };
        let mut classic = 0;
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let file = File::open(entry.path()).unwrap();
            let length = file.metadata().unwrap().len();
            if let Some(expected) = expected_length(file) {
                classic += 1;
                let name = entry.file_name();
                let is_bad = name.to_string_lossy().starts_with("bad_");
                assert!(
                    expected <= length || is_bad,
                    "{name:?}: {expected} of {length}"
                );
            }
        }
        assert!(classic > 2, "{classic}");
    }

    proptest! {
        /// No header makes it panic, or read for long.
        #[test]
        fn any_bytes_are_survived(
            version in prop::sample::select(vec![1u8, 2, 5]),
            bytes in prop::collection::vec(prop::sample::select(vec![0u8, 0, 0, 1, 2, 5, 10, 11, 12, 255]), 0..200),
        ) {
            let file = [&b"CDF"[..], &[version], &bytes].concat();
            let _ = expected_length(Cursor::new(file));
        }
    }
}
