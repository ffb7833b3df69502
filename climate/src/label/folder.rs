//! The output folder of a labelling run: its tables, and the saved state for resuming.

use super::{LabelStream, LabelledSnapshot};
use crate::error::Result;
use crate::partial::{BoxPart, EventPart, PartialFolder, sync_folder};
use serde::{Deserialize, Serialize};
use squall_data::wire;
use std::path::{Path, PathBuf};

const PARTIAL: &str = ".label.partial";
const OBJECTS: &str = "objects.csv";
const BOXES: &str = "boxes.csv";
const STATE: &str = "state.cbor";

/// The output folder of a run. `objects.csv` and `boxes.csv` appear in it, complete, when all times are labelled; until
/// then `.label.partial` holds their partial files and the run's state.
///
/// [`LabelFolder::save`] saves a state from which [`LabelFolder::open`] resumes. It truncates rows written after that
/// state, and the run writes them again, so the tables equal those of an uninterrupted run. A run with other inputs or
/// options (another fingerprint) starts over.
pub struct LabelFolder {
    out: PathBuf,
    partial: PartialFolder,
    fingerprint: String,
    objects: EventPart,
    boxes: BoxPart,
}

/// The state on disk; `S` is a [`LabelStream`], borrowed for writing.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    fingerprint: String,
    objects_bytes: u64,
    boxes_bytes: u64,
    stream: S,
}

/// The part of [`Saved`] that says how far a run is.
#[derive(Deserialize)]
struct Position {
    stream: Passes,
}

#[derive(Deserialize)]
struct Passes {
    seen: usize,
    done: usize,
}

impl LabelFolder {
    /// The numbers of times that the first and the second pass had done before the saved state of an interrupted or
    /// active run; `None` without a readable one.
    pub fn times_saved(out: &Path) -> Option<[usize; 2]> {
        let position: Position = wire::read_file(out.join(PARTIAL).join(STATE)).ok()?;
        let Passes { seen, done } = position.stream;
        Some([seen, done])
    }

    /// Opens the folder of a run. Returns the state to resume from, or `new` if none was saved.
    ///
    /// `fingerprint` must change with everything that affects the result: inputs, their times, thresholds. A saved
    /// state is only used if `whole` confirms that all other output of the times it covers exists.
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
        let partial = PartialFolder::open(&out, PARTIAL)?;
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

    /// Writes the rows of the next labelled time.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails, or a box has no valid position on the globe.
    pub fn write(&mut self, labelled: &LabelledSnapshot) -> Result<()> {
        for object in &labelled.objects {
            self.objects.write(object)?;
        }
        self.boxes.write(labelled.mask.time, &labelled.boxes)
    }

    /// Saves a state to resume from.
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

    /// Flushes the boxes written so far and returns the path of their partial file.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn boxes(&mut self) -> Result<PathBuf> {
        self.flush()?;
        Ok(self.boxes.path().into())
    }

    /// Finishes the run: renames both tables to their final names.
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

    /// Syncs all rows to disk and returns the sizes of the files.
    fn flush(&mut self) -> Result<[u64; 2]> {
        let boxes_bytes = self.boxes.flush()?;
        Ok([self.objects.flush()?, boxes_bytes])
    }
}
