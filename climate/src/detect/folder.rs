//! Where the tables of several methods are written, and where labelling by them goes on after a kill.

use super::{Agreement, FirstPass, Method, MethodLabels, SecondPass};
use crate::error::Result;
use crate::partial::{EventPart, forget, is_as_long, read_state, sweep, sync_folder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use squall_data::{DataError, wire};
use std::fs;
use std::path::{Path, PathBuf};

/// The state of the first pass, which may be large, and that of the second.
const FIRST: &str = "first.cbor";
const SECOND: &str = "second.cbor";

/// The folder of a run: `objects.csv` of each method appears whole, in the method's folder, when all times are
/// labelled; until then their parts and the run's states lie in `.methods.partial`.
///
/// A saved state is what a run goes on from: rows written after it are cut off and made again, so that the tables are
/// those of a run that nothing interrupted. A run of other inputs or options (another fingerprint) begins anew.
pub struct MethodsFolder {
    partial: PathBuf,
    fingerprint: String,
    /// The objects of each method, and the table that they become.
    tables: Vec<(EventPart, PathBuf)>,
}

/// A state on disk, borrowed where it is written.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    fingerprint: String,
    state: S,
}

/// How far masks are drawn.
#[derive(Serialize, Deserialize)]
struct Drawn<S, A> {
    objects_bytes: Vec<u64>,
    pass: S,
    agreement: A,
}

impl MethodsFolder {
    /// Opens the folder of a run whose methods write into folders of their own; gives the states to go on from, those
    /// given where there are none.
    ///
    /// `fingerprint` must differ for whatever would change the result. The second state is taken up if it is `whole`:
    /// all else that was written of the times that it has labelled is there.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if the folder cannot be written.
    pub fn open(
        out: impl AsRef<Path>,
        fingerprint: &str,
        methods: &[(Method, PathBuf)],
        (first, second, agreement): (FirstPass, SecondPass, Agreement),
        whole: impl Fn(&SecondPass) -> bool,
    ) -> Result<(Self, FirstPass, SecondPass, Agreement)> {
        let partial = out.as_ref().join(".methods.partial");
        fs::create_dir_all(&partial).map_err(DataError::io("create folder", &partial))?;
        sweep(out.as_ref(), &partial)?;
        let name_of = |method: Method| format!("objects.{}.csv", method.name());
        let saved_first: Option<FirstPass> = read(&partial.join(FIRST), fingerprint);
        let drawn: Option<Drawn<SecondPass, Agreement>> = read(&partial.join(SECOND), fingerprint);
        // Masks follow from the first pass over all times.
        let drawn = drawn.filter(|drawn| {
            let mut tables = methods.iter().zip(&drawn.objects_bytes);
            (saved_first.is_some() || !first.is_needed())
                && drawn.objects_bytes.len() == methods.len()
                && tables
                    .all(|((method, _), bytes)| is_as_long(&partial, &name_of(*method), *bytes))
                && whole(&drawn.pass)
        });
        if saved_first.is_none() {
            forget(&partial.join(FIRST))?;
        }
        if drawn.is_none() {
            // Before its tables are cut: nobody may go on from it with the rows of another run.
            forget(&partial.join(SECOND))?;
        }
        let (second, agreement, lengths) = match drawn {
            Some(drawn) => (drawn.pass, drawn.agreement, drawn.objects_bytes),
            None => (second, agreement, vec![0; methods.len()]),
        };
        let mut tables = Vec::with_capacity(methods.len());
        for ((method, folder), bytes) in methods.iter().zip(lengths) {
            fs::create_dir_all(folder).map_err(DataError::io("create folder", folder))?;
            let part = EventPart::open(partial.join(name_of(*method)), bytes)?;
            tables.push((part, folder.join("objects.csv")));
        }
        let folder = Self {
            partial,
            fingerprint: fingerprint.into(),
            tables,
        };
        Ok((folder, saved_first.unwrap_or(first), second, agreement))
    }

    /// Fixes the state of the first pass.
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
        for ((part, _), labels) in self.tables.iter_mut().zip(labels) {
            for object in &labels.labelled.objects {
                part.write(object)?;
            }
        }
        Ok(())
    }

    /// Fixes the state of the second pass.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn save_second(&mut self, pass: &SecondPass, agreement: &Agreement) -> Result<()> {
        let lengths = self.tables.iter_mut().map(|(part, _)| part.flush());
        let drawn = Drawn {
            objects_bytes: lengths.collect::<Result<_>>()?,
            pass,
            agreement,
        };
        self.save(SECOND, &drawn)
    }

    /// Ends the run: the tables take their names.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn finish(mut self) -> Result<()> {
        for (part, table) in &mut self.tables {
            part.flush()?;
            part.rename(table)?;
            table.parent().into_iter().for_each(sync_folder);
        }
        let removed = fs::remove_dir_all(&self.partial);
        Ok(removed.map_err(DataError::io("remove", &self.partial))?)
    }

    fn save<S: Serialize>(&self, name: &str, state: &S) -> Result<()> {
        let saved = Saved {
            fingerprint: self.fingerprint.clone(),
            state,
        };
        Ok(wire::write_file(self.partial.join(name), &saved)?)
    }
}

/// A state of this run, if there is one.
fn read<S: DeserializeOwned>(path: &Path, fingerprint: &str) -> Option<S> {
    let saved: Saved<S> = read_state(path)?;
    (saved.fingerprint == fingerprint).then_some(saved.state)
}
