//! Feeds batches to the network. On the CPU the loader normalises them; for a GPU a thread copies them during the
//! previous step, and the GPU normalises them.

use crate::error::{JobError, Result};
use crate::upload::{self, Sent, Upload};
use candle_core::{Device, Tensor};
use squall_data::loader::LoaderConfig;
use squall_data::sampler::BatchPlan;
use squall_data::{HostBatch, Loader, Store};
use squall_model::Backend;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// Batches that wait on the GPU for their step, besides the one being copied.
const AHEAD: usize = 1;

/// Unnormalised batches in GPU memory: the one in use, those that wait, and the one being copied.
pub(super) const STORED_ON_GPU: u64 = AHEAD as u64 + 2;

/// A batch and the location of its fields.
#[derive(Debug)]
pub struct Batch {
    /// Labels, boxes, ids and fields; the fields may also be on the GPU.
    pub host: HostBatch,
    /// When a separate thread read it.
    pub read: Option<Range<Instant>>,
    sent: Option<Sent>,
}

impl From<HostBatch> for Batch {
    fn from(host: HostBatch) -> Self {
        Self {
            host,
            read: None,
            sent: None,
        }
    }
}

impl Batch {
    /// The normalised fields, `(b, h, w, c)`.
    ///
    /// # Errors
    /// [`JobError::Model`] if the GPU fails.
    pub fn tensor(&self) -> Result<Tensor> {
        let [b, h, w, c] = self.host.shape;
        let (Some(sent), Some(stored)) = (&self.sent, &self.host.stored) else {
            let x = &self.host.x;
            return Ok(Tensor::from_slice(x, (b, h, w, c), &Device::Cpu)?);
        };
        let samples = stored.mirrored.iter().enumerate();
        let samples = samples.map(|(at, &mirrored)| (sent, at, usize::from(mirrored)));
        upload::normalised(samples, (h, w))
    }
}

/// An iterator over the batches of a loader, in order.
pub(super) enum Feed {
    /// Batches directly from the loader.
    Host(Loader),
    /// Batches from a thread that copies them to the GPU.
    Gpu(Ahead),
}

/// A thread that prepares batches in advance.
pub(super) struct Ahead {
    /// `None` during shutdown.
    batches: Option<Receiver<Result<Batch>>>,
    used: Sender<HostBatch>,
    missing: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Starts reading planned batches for a network on this backend.
    ///
    /// # Errors
    /// As [`Loader::new`]; [`JobError::Model`] if a GPU has no room; [`JobError::Thread`].
    pub fn new(
        store: &Arc<Store>,
        plans: impl Iterator<Item = BatchPlan> + Send + 'static,
        config: &LoaderConfig,
        backend: Backend,
    ) -> Result<Self> {
        if !backend.is_gpu() {
            return Ok(Self::Host(Loader::new(store, plans, config)?));
        }
        let config = LoaderConfig {
            stored: true,
            ..config.clone()
        };
        let loader = Loader::new(store, plans, &config)?;
        let factors = [false, true].map(|mirrored| loader.factors(mirrored));
        match Upload::of(backend, loader.encoding(), factors)? {
            Some(upload) => Ahead::start(loader, upload).map(Self::Gpu),
            None => Err(JobError::Thread("upload")),
        }
    }

    /// Returns a used batch so that its memory can be reused.
    pub fn give_back(&self, batch: Batch) {
        match self {
            Self::Host(loader) => loader.give_back(batch.host),
            Self::Gpu(ahead) => {
                let _ = ahead.used.send(batch.host);
            }
        }
    }

    /// Number of missing values replaced in the batches read so far.
    pub fn missing_values(&self) -> u64 {
        match self {
            Self::Host(loader) => loader.missing_values(),
            Self::Gpu(ahead) => ahead.missing.load(Ordering::Relaxed),
        }
    }
}

impl Ahead {
    fn start(loader: Loader, upload: Upload) -> Result<Self> {
        let (to_network, batches) = sync_channel(AHEAD);
        let (used, back) = channel();
        let missing = Arc::new(AtomicU64::new(0));
        let sender = Sending {
            loader,
            upload,
            back,
            missing: Arc::clone(&missing),
        };
        let thread = std::thread::Builder::new()
            .name("upload".into())
            .spawn(move || sender.run(&to_network));
        Ok(Self {
            batches: Some(batches),
            used,
            missing,
            thread: Some(thread.map_err(|_| JobError::Thread("upload"))?),
        })
    }
}

/// The state of the copying thread.
struct Sending {
    loader: Loader,
    upload: Upload,
    back: Receiver<HostBatch>,
    missing: Arc<AtomicU64>,
}

impl Sending {
    /// Sends batches until there are no more or the receiver is dropped.
    fn run(mut self, to_network: &SyncSender<Result<Batch>>) {
        while let Some(batch) = self.loader.next() {
            let batch = batch.map_err(JobError::from).and_then(|host| {
                let bytes = host.stored.as_ref().map_or(&[][..], |s| &s.bytes[..]);
                let sent = Some(self.upload.send(bytes)?);
                let read = self.loader.last_read();
                Ok(Batch { host, read, sent })
            });
            let missing = self.loader.missing_values();
            self.missing.store(missing, Ordering::Relaxed);
            if to_network.send(batch).is_err() {
                return;
            }
            self.back
                .try_iter()
                .for_each(|used| self.loader.give_back(used));
        }
    }
}

impl Iterator for Feed {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Host(loader) => {
                let host = loader.next()?.map_err(JobError::from);
                let read = loader.last_read();
                Some(host.map(|host| Batch {
                    read,
                    ..Batch::from(host)
                }))
            }
            Self::Gpu(ahead) => ahead.batches.as_ref()?.recv().ok(),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Dropping the receiver wakes a thread that is blocked on sending.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
