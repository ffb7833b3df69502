//! The output folder of labelling by several methods: its tables, and the saved states for resuming.

use super::{Agreement, FirstPass, Method, MethodLabels, SecondPass};
use crate::error::Result;
use crate::partial::{BoxPart, EventPart, PartialFolder, sync_folder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use squall_data::{DataError, wire};
use std::fs;
use std::path::{Path, PathBuf};

const PARTIAL: &str = ".methods.partial";
/// File names of the states of both passes. They are separate because the first may be large.
const FIRST: &str = "first.cbor";
const SECOND: &str = "second.cbor";

/// The output folder of a run. When all times are labelled, each method's folder gets a complete `objects.csv`, and a
/// `boxes.csv` if the method draws no masks; until then `.methods.partial` holds their partial files and the run's
/// states.
///
/// An interrupted run resumes from the saved state. It truncates rows written after that state and writes them again,
/// so the tables equal those of an uninterrupted run. A run with other inputs or options (another fingerprint) starts
/// over.
pub struct MethodsFolder {
    partial: PartialFolder,
    fingerprint: String,
    tables: Vec<Tables>,
}

/// The tables of one method.
struct Tables {
    objects: EventPart,
    /// Only for a method that has boxes but no masks.
    boxes: Option<BoxPart>,
    /// The folder of the finished tables.
    folder: PathBuf,
}

impl Tables {
    /// Syncs all rows to disk and returns the sizes of both tables.
    fn flush(&mut self) -> Result<[u64; 2]> {
        let boxes = self.boxes.as_mut().map_or(Ok(0), BoxPart::flush)?;
        Ok([self.objects.flush()?, boxes])
    }
}

/// File names of a method's partial tables.
fn partial_names(method: Method) -> [String; 2] {
    ["objects", "boxes"].map(|table| format!("{table}.{}.csv", method.name()))
}

/// A state on disk, borrowed for writing.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    fingerprint: String,
    state: S,
}

/// The progress of the second pass.
#[derive(Serialize, Deserialize)]
struct SecondState<S, A> {
    /// Sizes of the tables of objects and boxes, per method.
    bytes: Vec<[u64; 2]>,
    pass: S,
    agreement: A,
}

/// The parts of [`Saved`] that say how far a pass is.
#[derive(Deserialize)]
struct Position<S> {
    state: S,
}

#[derive(Deserialize)]
struct Seen {
    seen: usize,
}

#[derive(Deserialize)]
struct Drawn {
    pass: Done,
}

#[derive(Deserialize)]
struct Done {
    done: usize,
}

/// How far the pass in this file is.
fn position<S: DeserializeOwned>(out: &Path, name: &str) -> Option<S> {
    let position: Position<S> = wire::read_file(out.join(PARTIAL).join(name)).ok()?;
    Some(position.state)
}

/// How far a run is.
#[derive(Debug)]
pub struct MethodsState {
    /// The first pass.
    pub first: FirstPass,
    /// The second pass.
    pub second: SecondPass,
    /// The agreement of the masks drawn so far.
    pub agreement: Agreement,
}

/// What the caller demands of saved states.
pub struct UsableStates<F, S> {
    /// Whether the first pass may be resumed.
    pub first: F,
    /// Whether the second pass may be resumed: all other output of the times that it covers must exist.
    pub second: S,
}

impl MethodsFolder {
    /// The numbers of times that the first and the second pass had done before the saved states of an interrupted or
    /// active run; `None` without a readable one.
    pub fn times_saved(out: &Path) -> Option<[usize; 2]> {
        let first: Option<Seen> = position(out, FIRST);
        let second: Option<Drawn> = position(out, SECOND);
        let times = [
            first.as_ref().map_or(0, |first| first.seen),
            second.as_ref().map_or(0, |second| second.pass.done),
        ];
        (first.is_some() || second.is_some()).then_some(times)
    }

    /// Opens the folder of a run; each method has its own output folder. Returns the state to resume from, or the given
    /// `new` one if none was saved.
    ///
    /// `fingerprint` must change with everything that affects the result. A saved pass is used if it is `usable`; the
    /// second only along with the first.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if the folder cannot be written.
    pub fn open(
        out: impl AsRef<Path>,
        fingerprint: &str,
        methods: &[(Method, PathBuf)],
        new: MethodsState,
        usable: UsableStates<impl Fn(&FirstPass) -> bool, impl Fn(&SecondPass) -> bool>,
    ) -> Result<(Self, MethodsState)> {
        let partial = PartialFolder::open(out.as_ref(), PARTIAL)?;
        let seen = partial.state(FIRST, |saved: &Saved<FirstPass>| {
            saved.fingerprint == fingerprint && (usable.first)(&saved.state)
        })?;
        let drawn = partial.state(
            SECOND,
            |saved: &Saved<SecondState<SecondPass, Agreement>>| {
                let drawn = &saved.state;
                let mut tables = methods.iter().zip(&drawn.bytes);
                let is_there = |method: Method, bytes: [u64; 2]| {
                    let mut parts = partial_names(method).into_iter().zip(bytes);
                    parts.all(|(name, bytes)| bytes == 0 || partial.is_as_long(&name, bytes))
                };
                saved.fingerprint == fingerprint
                // Masks depend on the first pass over all times.
                && (seen.is_some() || !new.first.is_needed())
                && drawn.bytes.len() == methods.len()
                && tables.all(|((method, _), bytes)| is_there(*method, *bytes))
                && (usable.second)(&drawn.pass)
            },
        )?;
        let first = seen.map_or(new.first, |saved| saved.state);
        let (second, agreement, lengths) = match drawn.map(|saved| saved.state) {
            Some(drawn) => (drawn.pass, drawn.agreement, drawn.bytes),
            None => (new.second, new.agreement, vec![[0; 2]; methods.len()]),
        };
        let mut tables = Vec::with_capacity(methods.len());
        for ((method, folder), bytes) in methods.iter().zip(lengths) {
            fs::create_dir_all(folder).map_err(DataError::io("create folder", folder))?;
            let [objects, boxes] = partial_names(*method).map(|name| partial.file(&name));
            let boxes = (!method.draws_masks()).then(|| BoxPart::open(boxes, bytes[1]));
            tables.push(Tables {
                objects: EventPart::open(objects, bytes[0])?,
                boxes: boxes.transpose()?,
                folder: folder.clone(),
            });
        }
        let folder = Self {
            partial,
            fingerprint: fingerprint.into(),
            tables,
        };
        let state = MethodsState {
            first,
            second,
            agreement,
        };
        Ok((folder, state))
    }

    /// Saves the state of the first pass.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn save_first(&self, pass: &FirstPass) -> Result<()> {
        self.save(FIRST, pass)
    }

    /// Writes the rows of the next time.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn write(&mut self, labels: &[MethodLabels]) -> Result<()> {
        for (tables, MethodLabels { labelled, .. }) in self.tables.iter_mut().zip(labels) {
            for object in &labelled.objects {
                tables.objects.write(object)?;
            }
            if let Some(boxes) = &mut tables.boxes {
                boxes.write(labelled.mask.time, &labelled.boxes)?;
            }
        }
        Ok(())
    }

    /// Flushes the boxes written so far and returns the path of their partial file; `None` if no method has a table of
    /// boxes.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn boxes(&mut self) -> Result<Option<PathBuf>> {
        let mut parts = self.tables.iter_mut().filter_map(|of| of.boxes.as_mut());
        let Some(boxes) = parts.next() else {
            return Ok(None);
        };
        boxes.flush()?;
        Ok(Some(boxes.path().into()))
    }

    /// Saves the state of the second pass.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn save_second(&mut self, pass: &SecondPass, agreement: &Agreement) -> Result<()> {
        let lengths = self.tables.iter_mut().map(Tables::flush);
        let drawn = SecondState {
            bytes: lengths.collect::<Result<_>>()?,
            pass,
            agreement,
        };
        self.save(SECOND, &drawn)
    }

    /// Finishes the run: renames the tables to their final names.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn finish(mut self) -> Result<()> {
        for tables in &mut self.tables {
            tables.flush()?;
            if let Some(boxes) = &tables.boxes {
                boxes.rename(&tables.folder.join("boxes.csv"))?;
            }
            tables.objects.rename(&tables.folder.join("objects.csv"))?;
            sync_folder(&tables.folder);
        }
        self.partial.remove()
    }

    fn save<S: Serialize>(&self, name: &str, state: &S) -> Result<()> {
        let saved = Saved {
            fingerprint: self.fingerprint.clone(),
            state,
        };
        self.partial.save(name, &saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_run_is_follows_from_its_saved_states() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let (first, second) = (FirstPass::new(&[]), SecondPass::new(&[]));
        let agreement = Agreement::new(Vec::new());
        let new = MethodsState {
            first: first.clone(),
            second: second.clone(),
            agreement: agreement.clone(),
        };
        let usable = UsableStates {
            first: |_: &FirstPass| true,
            second: |_: &SecondPass| true,
        };
        let (mut tables, _) = MethodsFolder::open(out, "a", &[], new, usable).unwrap();
        assert_eq!(MethodsFolder::times_saved(out), None);
        tables.save_second(&second, &agreement).unwrap();
        assert_eq!(MethodsFolder::times_saved(out), Some([0, 0]));
        fs::remove_file(out.join(PARTIAL).join(SECOND)).unwrap();
        tables.save_first(&first).unwrap();
        assert_eq!(MethodsFolder::times_saved(out), Some([0, 0]));
    }
}
