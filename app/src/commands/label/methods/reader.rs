//! Reads the fields that the methods need, time by time.

use crate::commands::label::rules::Rules;
use crate::interrupt;
use crate::missing::Missing;
use crate::skipped::Skipped;
use squall_climate::ClimateError;
use squall_climate::detect::percentile::MoistureRecord;
use squall_climate::detect::{DetectFields, TransportSource};
use squall_climate::label::Pass;
use squall_data::{Archive, DataError};

/// Reads fields for the methods, and counts missing values and skipped times.
pub struct Reader<'a> {
    pub archive: &'a Archive,
    pub rules: &'a Rules,
    /// The source of vapour transport by which rivers are detected, if any.
    pub transport: Option<TransportSource>,
    /// The moisture that the percentile method uses, if it runs.
    pub moisture: Option<MoistureRecord>,
    pub missing: Missing,
    pub skipped: Skipped,
}

impl Reader<'_> {
    /// The fields of a time; `None` if they are unreadable and may be skipped.
    pub fn read(&self, index: usize, pass: Pass) -> Result<Option<DetectFields>, ClimateError> {
        interrupt::check()?;
        let request = self.rules.fields_to_read(pass);
        // A skipped time is skipped in both passes.
        let fields = (self.rules.check_has(self.archive, index))
            .and_then(|()| self.check_transport(index))
            .and_then(|()| DetectFields::read(self.archive, index, &request));
        let time = self.archive.times()[index];
        let Some(fields) = self.skipped.or_none(time, fields)? else {
            return Ok(None);
        };
        self.missing.note(&fields.snapshot);
        if let (Some(expected), true) = (self.transport, request.transport) {
            fields.check_transport(expected)?;
        }
        Ok(Some(fields))
    }

    /// Rejects a time whose files lack the transport that the others have, or have one that the others lack.
    fn check_transport(&self, index: usize) -> Result<(), DataError> {
        let reason = match (self.transport, self.archive.has_transport(index)) {
            (Some(TransportSource::File), false) => {
                "it has no vapour transport, by which rivers are found"
            }
            (Some(TransportSource::Levels | TransportSource::Proxy), true) => {
                "it has vapour transport, which most times lack: rivers are found without it"
            }
            _ => return Ok(()),
        };
        let path = self.archive.source_of(index).0;
        Err(DataError::unreadable(path, reason))
    }

    /// Number of times.
    pub fn times(&self) -> usize {
        self.archive.times().len()
    }
}
