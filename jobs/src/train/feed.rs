//! Batches on their way to the network: normalised by who reads them, or copied to the GPU beside the step before and
//! normalised there.

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

/// Batches that wait on the GPU for their step, besides the one that is being sent.
const AHEAD: usize = 1;

/// Batches that lie on the GPU as they are stored: the one in use, those that wait, the one that is being sent.
pub(super) const STORED_ON_GPU: u64 = AHEAD as u64 + 2;

/// A batch, and where its fields are.
#[derive(Debug)]
pub struct Batch {
    /// Labels, boxes and ids; also the fields, which may be on the GPU as well.
    pub host: HostBatch,
    /// From when to when it was read, by a thread of its own.
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
    /// [`JobError::Model`] if the GPU cannot.
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

/// The batches of a loader, in order; an iterator.
pub(super) enum Feed {
    /// Batches as the loader gives them.
    Host(Loader),
    /// Batches by way of a thread that sends them to the GPU.
    Gpu(Ahead),
}

/// A thread that is some batches ahead.
pub(super) struct Ahead {
    /// None once it ends.
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

    /// Takes back a batch whose memory may be used again.
    pub fn give_back(&self, batch: Batch) {
        match self {
            Self::Host(loader) => loader.give_back(batch.host),
            Self::Gpu(ahead) => {
                let _ = ahead.used.send(batch.host);
            }
        }
    }

    /// Missing values that were replaced in the batches read so far.
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

/// What the thread works with.
struct Sending {
    loader: Loader,
    upload: Upload,
    back: Receiver<HostBatch>,
    missing: Arc<AtomicU64>,
}

impl Sending {
    /// Sends batches until there are no more, or nobody wants them.
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
        // A thread that waits to hand over a batch sees that the receiver is gone.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
