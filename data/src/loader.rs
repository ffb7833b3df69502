//! Loads batches ahead of time on threads and delivers them in the order of the plan.

use crate::batch::HostBatch;
use crate::error::{DataError, Result};
use crate::normalise::{ChannelFactors, Normalisation};
use crate::random::stream;
use crate::sampler::BatchPlan;
use crate::store::{Encoding, SampleReader, Store, View};
use crate::{GeoBox, LatLonGrid, PixelBox, Variable};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Augmentation: random transforms, drawn anew for every sample and epoch, of fields and labels alike. A roll keeps labels
/// true; a mirror does so only of labels that know no hemisphere, which the cyclones of DeepCAM's rules do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augmentation {
    /// Rotates the globe eastward by a random number of columns.
    pub roll: bool,
    /// Swaps the hemispheres of half of the samples, on average, and negates their meridional winds. DeepCAM's rules draw
    /// cyclones from the signed wind, and would draw others in the mirrored field.
    pub mirror: bool,
}

impl Augmentation {
    /// The transform of a sample in an epoch: a pure function, so that it does not depend on the rank or thread that
    /// reads it.
    pub fn view(self, seed: u64, epoch: u64, id: usize, columns: usize) -> View {
        let mut random = stream(seed, "augment", &[epoch, id as u64]);
        // Both are always drawn, so that disabling one does not change the other.
        let (roll, mirror) = (
            random.random_range(0..columns.max(1)),
            random.random::<bool>(),
        );
        View {
            roll: if self.roll { roll } else { 0 },
            mirror: self.mirror && mirror,
        }
    }

    /// Rejects a grid on which these transforms are impossible.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if it does not span the globe, or is not symmetric about the equator.
    pub fn check(self, grid: &LatLonGrid) -> Result<()> {
        if self.roll && !grid.is_periodic() {
            return Err(DataError::Invalid(format!(
                "{} does not go around the globe, so it cannot be rolled",
                grid.describe()
            )));
        }
        let lat = grid.lat_deg();
        let symmetric = lat
            .iter()
            .zip(lat.iter().rev())
            .all(|(a, b)| (a + b).abs() < 1e-3);
        if self.mirror && !symmetric {
            return Err(DataError::Invalid(format!(
                "{} is not symmetric about the equator, so it cannot be mirrored",
                grid.describe()
            )));
        }
        Ok(())
    }
}

/// Settings of a [`Loader`].
#[derive(Debug, Clone)]
pub struct LoaderConfig {
    /// Channels of the batches, in order.
    pub channels: Vec<Variable>,
    /// Normalisation of at least those channels; `None` leaves SI units.
    pub normalisation: Option<Normalisation>,
    /// Random transforms; none for validation.
    pub augmentation: Augmentation,
    /// Seed of the augmentation.
    pub seed: u64,
    /// Number of consecutive samples of a batch that share a transform, as the frames of a clip do; at least 1.
    pub frames: usize,
    /// Reading threads, at least 1.
    pub threads: usize,
    /// Leaves fields in stored form ([`HostBatch::stored`]), for a GPU that normalises them with [`Loader::factors`].
    pub stored: bool,
    /// Maximum number of batches prefetched beyond the one in use, at least 1. Memory holds at most one batch more.
    pub prefetch: usize,
}

impl LoaderConfig {
    /// All channels of a store in SI units, without augmentation; two threads, two prefetched batches.
    pub fn new(store: &Store) -> Self {
        Self {
            channels: store.channels().to_vec(),
            normalisation: None,
            augmentation: Augmentation::default(),
            seed: 0,
            frames: 1,
            stored: false,
            threads: 2,
            prefetch: 2,
        }
    }
}

/// A batch with its number, and the interval in which it was read.
type Numbered = (u64, Result<HostBatch>, Range<Instant>);

/// Prefetches planned batches and returns them in order; an iterator.
///
/// A batch that cannot be read is an `Err` in its place; later batches still follow. Dropping the loader stops its
/// threads. Return used batches with [`Loader::give_back`] so that their memory is reused.
pub struct Loader {
    results: Receiver<Numbered>,
    /// One permit per batch in progress; `None` during shutdown.
    permits: Option<Sender<()>>,
    spare: Sender<HostBatch>,
    early: BTreeMap<u64, (Result<HostBatch>, Range<Instant>)>,
    next: u64,
    last_read: Option<Range<Instant>>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Plans {
    plans: Box<dyn Iterator<Item = BatchPlan> + Send>,
    /// Number of plans taken, including one whose iterator panicked.
    taken: u64,
}

/// State shared by the threads.
struct Shared {
    plans: Mutex<Plans>,
    missing: AtomicU64,
    reader: SampleReader,
    /// The source of boxes, if there are any.
    boxes: Option<Arc<Store>>,
    augmentation: Augmentation,
    seed: u64,
    frames: usize,
    stored: bool,
}

/// The boxes of a sample, transformed like its fields, and clipped to a regional grid.
fn boxes_of(store: &Store, id: usize, view: View) -> Result<Option<Vec<PixelBox>>> {
    let Some(boxes) = store.boxes_to_learn(id) else {
        return Ok(None);
    };
    let grid = store.grid();
    let turned = |(index, found): (usize, &GeoBox)| {
        let pixels = found.to_pixels(grid).map_err(|error| {
            let time = &store.samples()[id].time;
            let folder = store.folder().display();
            DataError::Invalid(format!(
                "box {index} of the sample of {time} in `{folder}`: {error}; stage again"
            ))
        })?;
        Ok(view.turn_box(pixels, grid.shape()))
    };
    (boxes.iter().enumerate())
        .map(turned)
        .collect::<Result<_>>()
        .map(Some)
}

impl Loader {
    /// Starts reading the planned batches, for instance [`crate::sampler::Sampler::endless`].
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a channel that store or normalisation lacks, or an augmentation that the grid does
    /// not allow; [`DataError::Io`] if a thread cannot be started.
    pub fn new(
        store: &Arc<Store>,
        plans: impl Iterator<Item = BatchPlan> + Send + 'static,
        config: &LoaderConfig,
    ) -> Result<Self> {
        config.augmentation.check(store.grid())?;
        let prefetch = config.prefetch.max(1);
        let shared = Arc::new(Shared {
            plans: Mutex::new(Plans {
                plans: Box::new(plans),
                taken: 0,
            }),
            missing: AtomicU64::new(0),
            reader: store.reader(&config.channels, config.normalisation.as_ref())?,
            boxes: (store.has_boxes() || store.found_boxes_hash().is_some())
                .then(|| Arc::clone(store)),
            augmentation: config.augmentation,
            seed: config.seed,
            frames: config.frames.max(1),
            stored: config.stored,
        });
        let (permit, permits) = bounded(prefetch);
        let (result, results) = unbounded();
        let (spare, spares) = bounded(prefetch + 1);
        for _ in 0..prefetch {
            let _ = permit.try_send(());
        }
        let mut loader = Self {
            results,
            permits: Some(permit),
            spare,
            early: BTreeMap::new(),
            next: 0,
            last_read: None,
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        for index in 0..config.threads.clamp(1, prefetch) {
            let (shared, permits) = (Arc::clone(&shared), permits.clone());
            let (result, spares) = (result.clone(), spares.clone());
            let thread = std::thread::Builder::new()
                .name(format!("loader-{index}"))
                .spawn(move || shared.work(&permits, &spares, &result))
                .map_err(DataError::io("start a thread for", store.folder()))?;
            loader.threads.push(thread);
        }
        Ok(loader)
    }

    /// Returns a batch so that its memory can be reused.
    pub fn give_back(&self, batch: HostBatch) {
        let _ = self.spare.try_send(batch);
    }

    /// The encoding in which the store holds fields.
    pub fn encoding(&self) -> Encoding {
        self.shared.reader.encoding()
    }

    /// The factors that normalise stored fields; if `mirrored`, of samples with swapped hemispheres.
    pub fn factors(&self, mirrored: bool) -> ChannelFactors {
        self.shared.reader.factors(mirrored)
    }

    /// The interval in which the most recent batch was read; `None` before the first.
    pub fn last_read(&self) -> Option<Range<Instant>> {
        self.last_read.clone()
    }

    /// Number of missing values in the batches read so far, which were replaced, or will be for fields in stored form.
    pub fn missing_values(&self) -> u64 {
        self.shared.missing.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// A thread's loop: take a permit and a plan, read a batch; ends with the plans or the loader.
    fn work(
        &self,
        permits: &Receiver<()>,
        spares: &Receiver<HostBatch>,
        result: &Sender<Numbered>,
    ) {
        while permits.recv().is_ok() {
            let (number, plan) = {
                // A poisoned lock means that the plan's iterator panicked: the loader then reports the missing batch.
                let Ok(mut plans) = self.plans.lock() else {
                    return;
                };
                // Counted first: if the iterator panics, this batch is missing.
                plans.taken += 1;
                let Some(plan) = plans.plans.next() else {
                    plans.taken -= 1;
                    return;
                };
                (plans.taken - 1, plan)
            };
            let began = Instant::now();
            let spare = spares.try_recv().unwrap_or_default();
            // A panic must not leave a gap: later batches would wait forever.
            let read = AssertUnwindSafe(|| self.read(plan, spare));
            let batch = catch_unwind(read).unwrap_or_else(|_| {
                Err(DataError::Invalid(format!(
                    "reading batch {number} panicked: this is a bug"
                )))
            });
            if result.send((number, batch, began..Instant::now())).is_err() {
                return;
            }
        }
    }

    /// [`Plans::taken`], even after a panic.
    fn taken(&self) -> u64 {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.taken
    }

    fn read(&self, plan: BatchPlan, mut batch: HostBatch) -> Result<HostBatch> {
        let shape @ [rows, columns, channels] = self.reader.shape();
        let each = self.stored.then(|| self.reader.encoding().bytes());
        batch.resize(plan.ids, shape, each);
        let pixels = rows * columns;
        let mut boxes = Vec::new();
        let firsts = batch.ids.iter().zip(&plan.epochs).step_by(self.frames);
        let views: Vec<View> = firsts
            .map(|(&first, &epoch)| self.augmentation.view(self.seed, epoch, first, columns))
            .collect();
        let labels = batch.labels.chunks_exact_mut(pixels);
        for (at, (labels, &id)) in labels.zip(&batch.ids).enumerate() {
            let view = views[at / self.frames];
            let values = at * pixels * channels..(at + 1) * pixels * channels;
            let missing = match (&mut batch.stored, each) {
                (Some(stored), Some(each)) => {
                    stored.mirrored.push(view.mirror);
                    let bytes = &mut stored.bytes[values.start * each..values.end * each];
                    self.reader.copy_into(id, view, bytes, labels)?
                }
                _ => (self.reader).read_into(id, view, &mut batch.x[values], labels)?,
            };
            if let Some(store) = &self.boxes {
                boxes.push(boxes_of(store, id, view)?);
            }
            self.missing.fetch_add(missing as u64, Ordering::Relaxed);
        }
        batch.boxes = boxes;
        Ok(batch)
    }
}

impl Iterator for Loader {
    type Item = Result<HostBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((batch, read)) = self.early.remove(&self.next) {
                self.next += 1;
                self.last_read = Some(read);
                if let Some(permits) = &self.permits {
                    let _ = permits.try_send(());
                }
                return Some(batch);
            }
            match self.results.recv() {
                Ok((number, batch, read)) => {
                    self.early.insert(number, (batch, read));
                }
                Err(_) if self.next < self.shared.taken() => {
                    self.next += 1;
                    return Some(Err(DataError::Invalid(format!(
                        "batch {} of the loader was lost: its plan panicked",
                        self.next - 1
                    ))));
                }
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.permits = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
