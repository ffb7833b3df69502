//! CSV with a header line; `#` begins a comment.

use super::{Opened, RowSource};
use crate::error::{ClimateError, Result};
use squall_data::DataError;
use std::fs::File;
use std::path::{Path, PathBuf};

pub(super) fn open(path: &Path) -> Result<Opened> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let mut csv = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(file);
    let header = csv.headers().map_err(|error| not_a_table(path, &error))?;
    if header.is_empty() || header.iter().all(str::is_empty) {
        return Err(ClimateError::Table {
            path: path.into(),
            reason: "it is empty, expected a header line".into(),
        });
    }
    // Spreadsheets may start their files with a byte order mark.
    let header: csv::StringRecord = header
        .iter()
        .map(|name| name.trim_start_matches('\u{feff}'))
        .collect();
    Ok(Opened {
        names: header.iter().map(str::to_string).collect(),
        header,
        unit: "line",
        calendar: None,
        rows: Box::new(Lines {
            path: path.into(),
            csv,
        }),
    })
}

struct Lines {
    path: PathBuf,
    csv: csv::Reader<File>,
}

impl RowSource for Lines {
    fn next_into(&mut self, cells: &mut csv::StringRecord) -> Result<bool> {
        self.csv
            .read_record(cells)
            .map_err(|error| not_a_table(&self.path, &error))
    }
}

fn not_a_table(path: &Path, error: &csv::Error) -> ClimateError {
    let reason = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            pos,
            expected_len,
            len,
        } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!("line {line}: expected {expected_len} cells, found {len}")
        }
        _ => error.to_string(),
    };
    ClimateError::Table {
        path: path.into(),
        reason,
    }
}
