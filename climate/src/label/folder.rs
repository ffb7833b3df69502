//! The folder of a labelling run: its tables, and the saved state from which an interrupted run continues.

use super::{LabelStream, LabelledSnapshot};
use crate::error::Result;
use crate::partial::{BoxPart, EventPart, PartialFolder, sync_folder};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const OBJECTS: &str = "objects.csv";
const BOXES: &str = "boxes.csv";
const STATE: &str = "state.cbor";

/// The folder of a run: `objects.csv` and `boxes.csv` appear in it whole when all times are labelled; until then their
/// parts and the run's state lie in `.label.partial`.
///
/// [`LabelFolder::save`] saves a state from which [`LabelFolder::open`] continues: rows written after it are cut off
/// and made again, so that the tables are those of a run that nothing interrupted. A run of other inputs or options
/// (another fingerprint) begins anew.
pub struct LabelFolder {
    out: PathBuf,
    partial: PartialFolder,
    fingerprint: String,
    objects: EventPart,
    boxes: BoxPart,
}

/// The state on disk; `S` is a [`LabelStream`], borrowed where it is written.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    fingerprint: String,
    objects_bytes: u64,
    boxes_bytes: u64,
    stream: S,
}

impl LabelFolder {
    /// Opens the folder of a run; returns the state to continue from, which is `new` if none was saved.
    ///
    /// `fingerprint` must differ for whatever would change the result: inputs, their times, thresholds. A state is
    /// taken up if it is `whole`: all else that was written of the times that it has labelled is there.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if the folder cannot be written.
    pub fn open(
        out: impl AsRef<Path>,
        fingerprint: &str,
        new: LabelStream,
        whole: impl Fn(&LabelStream) -> bool,
    ) -> Result<(Self, LabelStream)> {
        let out = out.as_ref().to_path_buf();
        let partial = PartialFolder::open(&out, ".label.partial")?;
        let saved = partial.state(STATE, |saved: &Saved<LabelStream>| {
            saved.fingerprint == fingerprint
                && partial.is_as_long(OBJECTS, saved.objects_bytes)
                && partial.is_as_long(BOXES, saved.boxes_bytes)
                && whole(&saved.stream)
        })?;
        let (stream, [objects_bytes, boxes_bytes]) = match saved {
            Some(saved) => (saved.stream, [saved.objects_bytes, saved.boxes_bytes]),
            None => (new, [0; 2]),
        };
        let folder = Self {
            objects: EventPart::open(partial.file(OBJECTS), objects_bytes)?,
            boxes: BoxPart::open(partial.file(BOXES), boxes_bytes)?,
            out,
            partial,
            fingerprint: fingerprint.into(),
        };
        Ok((folder, stream))
    }

    /// Writes the rows of the next time.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails, or a box has no place on the globe.
    pub fn write(&mut self, labelled: &LabelledSnapshot) -> Result<()> {
        for object in &labelled.objects {
            self.objects.write(object)?;
        }
        self.boxes.write(labelled.mask.time, &labelled.boxes)
    }

    /// Saves a state, from which an interrupted run continues.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn save(&mut self, stream: &LabelStream) -> Result<()> {
        let [objects_bytes, boxes_bytes] = self.flush()?;
        let saved = Saved {
            fingerprint: self.fingerprint.clone(),
            objects_bytes,
            boxes_bytes,
            stream,
        };
        self.partial.save(STATE, &saved)
    }

    /// The table of boxes as far as it is written, which is still a part.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn boxes(&mut self) -> Result<PathBuf> {
        self.flush()?;
        Ok(self.boxes.path().into())
    }

    /// Ends the run: both tables take their names.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.boxes.rename(&self.out.join(BOXES))?;
        self.objects.rename(&self.out.join(OBJECTS))?;
        sync_folder(&self.out);
        self.partial.remove()
    }

    /// Brings all rows to the disk and says how long the files are.
    fn flush(&mut self) -> Result<[u64; 2]> {
        let boxes_bytes = self.boxes.flush()?;
        Ok([self.objects.flush()?, boxes_bytes])
    }
}
