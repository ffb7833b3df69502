//! The input of an inference: simulation files or a sample store.

use super::pixels::{check_stored, check_values, interleaved, normalised};
use super::read_from::ReadFrom;
use super::{BadInput, Ensemble, InferOptions};
use crate::clips::in_time;
use crate::error::{JobError, Result};
use crate::upload::{Sent, Upload};
use squall_data::archive::Archive;
use squall_data::error::InputFault;
use squall_data::facts::FileFacts;
use squall_data::gaps::usual_step_seconds;
use squall_data::store::{Encoding, SampleReader, Split, View};
use squall_data::{
    Calendar, ChannelSources, DataError, LatLonGrid, Normalisation, Store, Time, Variable,
};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A time axis with fields, whatever their source.
#[derive(Debug)]
pub struct Input<'a> {
    source: Source<'a>,
    times: Vec<Time>,
    /// Time step in seconds; for a split, that of the whole store.
    step: Option<i64>,
}

#[derive(Debug)]
enum Source<'a> {
    Archive(&'a Archive),
    /// Sample ids in order of time.
    Store(Arc<Store>, Vec<usize>),
}

/// The fields of one time, in each normalisation that an ensemble needs.
#[derive(Debug)]
pub(super) struct Fields {
    pub time: Time,
    /// The fields.
    pub pixels: Pixels,
    /// Number of missing values, replaced by the mean: the maximum over the normalisations.
    pub missing: usize,
}

/// Location of the fields of one time.
#[derive(Debug)]
pub(super) enum Pixels {
    /// Normalised, `(lat, lon, channel)`, one for each of [`Ensemble::normalisations`].
    Host(Vec<Vec<f32>>),
    /// Being copied to the GPU, which normalises them; only with a single normalisation.
    Sent(Sent),
}

impl<'a> Input<'a> {
    /// Simulation files.
    pub fn archive(archive: &'a Archive) -> Self {
        Self {
            source: Source::Archive(archive),
            times: archive.times().to_vec(),
            step: usual_step_seconds(archive.times()),
        }
    }

    /// The samples of a store, or of one of its splits, in order of time.
    ///
    /// # Errors
    /// [`JobError::Data`] if there are none, or two have the same time.
    pub fn store(store: Arc<Store>, split: Option<Split>) -> Result<Self> {
        let folder = store.folder().display().to_string();
        let ids: Vec<usize> = match split {
            Some(split) => store.ids(split),
            None => (0..store.len()).collect(),
        };
        if ids.is_empty() {
            let reason = match split {
                Some(_) => InputFault::EmptySplit,
                None => InputFault::Other("the store has no samples".into()),
            };
            return Err(JobError::Data(DataError::NoInput {
                input: folder,
                reason,
            }));
        }
        let (ids, times, step) = in_time(&store, &ids);
        if let Some(at) = times.windows(2).position(|pair| pair[0] == pair[1]) {
            return Err(JobError::Data(DataError::Time(format!(
                "samples {} and {} of store `{folder}` are both of {}: masks need a time axis on which each time stands once",
                ids[at],
                ids[at + 1],
                times[at]
            ))));
        }
        Ok(Self {
            times,
            step,
            source: Source::Store(store, ids),
        })
    }

    /// Number of times that a network trained on the store with this hash has learnt from: those of its training split.
    pub(super) fn training_times(&self, data_hash: &str) -> usize {
        match &self.source {
            Source::Store(store, ids) if store.data_hash() == data_hash => {
                let samples = store.samples();
                let is_training = |&&id: &&usize| samples[id].split == Split::Train;
                ids.iter().filter(is_training).count()
            }
            _ => 0,
        }
    }

    /// Time step of the data in seconds; `None` for a single time.
    pub(super) fn step_seconds(&self) -> Option<i64> {
        self.step
    }

    /// All times, strictly ascending.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// The grid of every field.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        match &self.source {
            Source::Archive(archive) => archive.grid(),
            Source::Store(store, _) => store.grid(),
        }
    }

    /// The calendar of the time axis.
    pub fn calendar(&self) -> Calendar {
        match &self.source {
            Source::Archive(archive) => archive.calendar(),
            Source::Store(store, _) => store.meta().calendar,
        }
    }

    /// What serves as each of these channels; a channel whose source is not known is absent.
    pub(super) fn sources(&self, channels: &[Variable]) -> ChannelSources {
        match &self.source {
            Source::Archive(archive) => archive.sources(0..archive.times().len(), channels),
            Source::Store(store, _) => store.sources().clone(),
        }
    }

    /// What was skipped, guessed or replaced, one sentence each.
    pub fn problems(&self) -> &[String] {
        match &self.source {
            Source::Archive(archive) => archive.problems(),
            Source::Store(..) => &[],
        }
    }

    /// Number of files that were skipped as unusable.
    pub(super) fn skipped_files(&self) -> usize {
        match &self.source {
            Source::Archive(archive) => archive.skipped_files(),
            Source::Store(..) => 0,
        }
    }

    /// The files that hold these variables at these times, in order of time; none for a store.
    fn files(&self, indices: Range<usize>, variables: &[Variable]) -> Vec<&Path> {
        let mut files: Vec<&Path> = Vec::new();
        let Source::Archive(archive) = &self.source else {
            return files;
        };
        let mut known = HashSet::new();
        files.extend(
            indices
                .flat_map(|index| archive.files_read(index, variables))
                .filter(|path| known.insert(*path)),
        );
        files
    }

    /// The current state of the files that these times are read from.
    pub(super) fn read_from(&self, indices: Range<usize>, variables: &[Variable]) -> ReadFrom {
        if let Source::Store(store, _) = &self.source {
            let (first, state) = (store_name(store), String::new());
            return ReadFrom { first, state };
        }
        let files = self.files(indices, variables);
        let facts: Vec<_> = (files.iter())
            .map(|path| format!("{} {:?}", name(path), FileFacts::of(path)))
            .collect();
        ReadFrom {
            first: files.first().map(|path| name(path)).unwrap_or_default(),
            state: format!("{:016x}", xxh3_64(facts.join("\n").as_bytes())),
        }
    }

    /// Whether it contains a file of this name, ignoring folders.
    pub(super) fn has_file(&self, wanted: &str) -> bool {
        match &self.source {
            Source::Archive(archive) => archive.paths().any(|path| name(path) == wanted),
            Source::Store(..) => false,
        }
    }

    /// The origin of these variables at these times, for a file's history: names without folders, so that it does not
    /// depend on the location.
    pub(super) fn origin_of(&self, indices: Range<usize>, variables: &[Variable]) -> String {
        if let Source::Store(store, _) = &self.source {
            return store_name(store);
        }
        let files = self.files(indices, variables);
        match files[..] {
            [] => String::new(),
            [one] => name(one),
            [first, second] => format!("{}, {}", name(first), name(second)),
            [first, .., last] => {
                format!("{} to {} ({} files)", name(first), name(last), files.len())
            }
        }
    }

    /// The requested channels that every time has; if bad times may be skipped, also those that only some times have.
    pub(super) fn readable(&self, wanted: &[Variable], options: &InferOptions) -> Vec<Variable> {
        let archive = match &self.source {
            Source::Archive(archive) => archive,
            Source::Store(store, _) => return store.channels().to_vec(),
        };
        let mut available = archive.available().to_vec();
        if options.bad_input == BadInput::Skip {
            for &variable in wanted {
                // Reads only times whose files offer the channel, so that a channel that exists nowhere costs nothing.
                let anywhere = || {
                    (0..archive.times().len())
                        .filter(|&index| archive.offers(index, variable))
                        .any(|index| archive.read(index, &[variable]).is_ok())
                };
                if !available.contains(&variable) && anywhere() {
                    available.push(variable);
                }
            }
        }
        available
    }

    /// Uncompressed bytes of one time of this many channels in the files or the store.
    pub(super) fn bytes_read(&self, channels: usize) -> u64 {
        match &self.source {
            Source::Archive(archive) => {
                let (rows, columns) = archive.grid().shape();
                4 * (rows * columns * channels) as u64
            }
            Source::Store(store, _) => store.meta().record_bytes(),
        }
    }

    /// Creates a reader of the fields that an ensemble needs.
    ///
    /// # Errors
    /// [`JobError::Data`] naming a channel that a store lacks.
    pub(super) fn reader(&self, ensemble: &Ensemble<'_>) -> Result<Reader<'_>> {
        let normalisations = ensemble.normalisations().to_vec();
        let mut variables: Vec<Variable> = Vec::new();
        for variable in normalisations.iter().flat_map(Normalisation::variables) {
            if !variables.contains(&variable) {
                variables.push(variable);
            }
        }
        let stored = match &self.source {
            Source::Archive(_) => Vec::new(),
            Source::Store(store, _) => {
                let reader = |normalisation: &Normalisation| {
                    store.reader(&normalisation.variables(), Some(normalisation))
                };
                normalisations
                    .iter()
                    .map(reader)
                    .collect::<std::result::Result<_, _>>()?
            }
        };
        let backend = ensemble.first().network().backend();
        // Members of an ensemble see rolled and mirrored fields, which the host computes.
        let upload = match &normalisations[..] {
            [normalisation] if ensemble.members() == 1 => {
                let (encoding, factors) = match stored.first() {
                    Some(reader) => (reader.encoding(), reader.factors(false)),
                    None => (Encoding::F32, normalisation.factors()),
                };
                Upload::of(backend, encoding, [factors])?
            }
            _ => None,
        };
        Ok(Reader {
            input: self,
            normalisations,
            variables,
            stored,
            labels: vec![0; self.grid().lat_deg().len() * self.grid().lon_deg().len()],
            upload,
        })
    }
}

fn store_name(store: &Store) -> String {
    format!("sample store {}", store.data_hash())
}

/// The name of a file without its folder.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Reads one time after the other.
pub(super) struct Reader<'a> {
    input: &'a Input<'a>,
    normalisations: Vec<Normalisation>,
    /// The channels of all normalisations.
    variables: Vec<Variable>,
    stored: Vec<SampleReader>,
    labels: Vec<u8>,
    /// Uploads fields, if the GPU normalises.
    upload: Option<Upload>,
}

impl Reader<'_> {
    /// Reads the fields of a time; fails if a field has a larger share of missing values than allowed.
    ///
    /// # Errors
    /// [`JobError::Data`] naming file and variable, or shard and sample.
    pub fn read(&mut self, index: usize, max_missing_share: f64) -> Result<Fields> {
        let time = self.input.times[index];
        let mut missing = 0;
        let (mut fields, mut raw) = (Vec::new(), Vec::new());
        match &self.input.source {
            Source::Archive(archive) => {
                let snapshot = archive.read(index, &self.variables)?;
                check_values(archive, (index, &snapshot), max_missing_share)?;
                for normalisation in &self.normalisations {
                    let (values, lacking) = match self.upload {
                        Some(_) => interleaved(&snapshot, normalisation)?,
                        None => normalised(&snapshot, normalisation)?,
                    };
                    missing = missing.max(lacking);
                    fields.push(values);
                }
            }
            Source::Store(_, ids) => {
                let (id, view) = (ids[index], View::default());
                for (reader, normalisation) in self.stored.iter().zip(&self.normalisations) {
                    let [rows, columns, channels] = reader.shape();
                    let size = rows * columns * channels;
                    let mut copy = |labels: &mut [u8]| {
                        raw = vec![0u8; size * reader.encoding().bytes()];
                        reader.copy_into(id, view, &mut raw, labels)
                    };
                    let lacking = if self.upload.is_some() {
                        copy(&mut self.labels)?
                    } else {
                        let mut values = vec![0f32; size];
                        let lacking = reader.read_into(id, view, &mut values, &mut self.labels)?;
                        fields.push(values);
                        lacking
                    };
                    missing = missing.max(lacking);
                    // All missing values may be in one channel, which the normalised values no longer show.
                    if lacking as f64 > max_missing_share * (rows * columns) as f64 {
                        if self.upload.is_none() {
                            copy(&mut self.labels)?;
                        }
                        let variables = normalisation.variables();
                        let what = (&variables[..], time);
                        check_stored(&raw, reader, what, max_missing_share)?;
                    }
                }
            }
        }
        let pixels = match &self.upload {
            Some(upload) => {
                let of_files = fields.first().map(|v| bytemuck::cast_slice::<f32, u8>(v));
                Pixels::Sent(upload.send(of_files.unwrap_or(&raw[..]))?)
            }
            None => Pixels::Host(fields),
        };
        Ok(Fields {
            time,
            pixels,
            missing,
        })
    }
}
