//! The trainable parameters of a network (named f32 tensors) and its running statistics.

mod parameter;
mod update;

pub use parameter::{Kind, Parameter};
pub(crate) use parameter::{fits, layer_of, lies_under, near};

use crate::error::Result;
use crate::file_contents::FileContents;
use crate::lock::locked;
use crate::ops::{Backend, Channels, Weights};
use crate::pass::Pass;
use crate::tensors::{Tensors, expect_shape};
use candle_core::{DType, Device, Tensor};
use parameter::Initial;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shape and values by name: the contents of a model file.
pub type NamedTensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A handle by which layers access a parameter in [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParameterId(usize);

impl ParameterId {
    /// Its index among the network's parameters.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// A handle by which layers access a running statistic in [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId(usize);

/// A running statistic: saved with the model, not trained.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// Its path in the network.
    pub name: String,
    /// One value per channel.
    pub values: Vec<f32>,
}

/// All parameters and running statistics of a network, in forward order.
#[derive(Debug)]
pub struct Parameters {
    entries: Vec<Parameter>,
    buffers: Vec<Buffer>,
    /// Length and initial value of each running statistic whose values are not allocated yet; `None` if they are
    /// allocated when added.
    later: Option<Vec<(usize, f32)>>,
    seed: u64,
    total: usize,
    /// One tensor of all values, of which the entries are views; `None` while parameters are being added.
    flat: Option<Tensor>,
    /// Whether the values lie on the GPU.
    on_gpu: bool,
    /// A number that changes with every change of a value and is unique within the process.
    version: u64,
    /// For each parameter the rounded kernel that training uses instead of the master weights, if there is one.
    rounded: Vec<Option<Tensor>>,
    /// Packed weights for inference; cleared by every change of a value.
    prepared: Mutex<HashMap<ParameterId, Arc<Weights>>>,
}

/// Returns a number that this process has not used before.
fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Parameters {
    /// An empty set of parameters. Initial values are derived from `seed` and each parameter's name.
    pub fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            buffers: Vec::new(),
            later: None,
            seed,
            total: 0,
            flat: None,
            on_gpu: false,
            version: next_version(),
            rounded: Vec::new(),
            prepared: Mutex::default(),
        }
    }

    /// As [`Self::new`], for a network of which only names and shapes are needed: no memory that grows with its
    /// channels is allocated before [`Self::fill`].
    pub(crate) fn without_values(seed: u64) -> Self {
        Self {
            later: Some(Vec::new()),
            ..Self::new(seed)
        }
    }

    /// Adds a kernel with initial values uniform in ±√(6 / `fan_in`) (He et al. 2015, as TensorFlow's `he_uniform`).
    pub(crate) fn weight(
        &mut self,
        name: String,
        shape: &[usize],
        fan_in: usize,
    ) -> Result<ParameterId> {
        // The random stream depends on the name, not on the order: another decoder leaves the encoder's initial values
        // unchanged.
        let digest = Sha256::new()
            .chain_update(self.seed.to_le_bytes())
            .chain_update(name.as_bytes())
            .finalize();
        let bound = (6.0 / fan_in as f32).sqrt();
        self.push(
            name,
            Kind::Weight,
            shape,
            Initial::Uniform(digest.into(), bound),
        )
    }

    /// Adds a vector whose elements all have the initial value `value`.
    pub(crate) fn vector(
        &mut self,
        name: String,
        kind: Kind,
        length: usize,
        value: f32,
    ) -> Result<ParameterId> {
        self.push(name, kind, &[length], Initial::Constant(value))
    }

    /// Sets the initial value of a parameter that has no values yet.
    pub(crate) fn start_with(&mut self, id: ParameterId, value: f32) {
        self.entries[id.0].initial = Some(Initial::Constant(value));
    }

    /// Adds a parameter. [`Self::settle`] allocates all values in one buffer.
    fn push(
        &mut self,
        name: String,
        kind: Kind,
        shape: &[usize],
        initial: Initial,
    ) -> Result<ParameterId> {
        let range = self.total..self.total + shape.iter().product::<usize>();
        self.total = range.end;
        self.flat = None;
        self.version = next_version();
        self.entries.push(Parameter {
            name,
            kind,
            range,
            shape: shape.into(),
            initial: Some(initial),
            tensor: Tensor::zeros(0, DType::F32, &Device::Cpu)?,
        });
        Ok(ParameterId(self.entries.len() - 1))
    }

    /// Adds a running statistic.
    pub(crate) fn buffer(&mut self, name: String, length: usize, value: f32) -> BufferId {
        let values = match &mut self.later {
            Some(later) => {
                later.push((length, value));
                Vec::new()
            }
            None => vec![value; length],
        };
        self.buffers.push(Buffer { name, values });
        BufferId(self.buffers.len() - 1)
    }

    /// The f32 master weights of a parameter.
    pub(crate) fn get(&self, id: ParameterId) -> &Tensor {
        &self.entries[id.0].tensor
    }

    /// The kernel that a pass multiplies by: the master weights, or in training the copy set by [`Self::compute_with`].
    pub(crate) fn kernel(&self, id: ParameterId, pass: &Pass) -> &Tensor {
        let rounded = self.rounded.get(id.0).and_then(Option::as_ref);
        (rounded.filter(|_| pass.is_training())).unwrap_or(&self.entries[id.0].tensor)
    }

    /// The cached result of `prepare` on a kernel, computed on first use after any change of a value.
    pub(crate) fn prepared(
        &self,
        kernel: ParameterId,
        prepare: impl FnOnce() -> Result<Weights>,
    ) -> Result<Arc<Weights>> {
        let mut known = locked(&self.prepared);
        if let Some(weights) = known.get(&kernel) {
            return Ok(weights.clone());
        }
        let made = Arc::new(prepare()?.kept());
        known.insert(kernel, made.clone());
        Ok(made)
    }

    /// Clears the cache of prepared weights, because values change.
    fn changes(&mut self) {
        let known = self.prepared.get_mut();
        known.unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A number that changes whenever a trainable value changes.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// A parameter's values.
    pub(crate) fn values(&self, id: ParameterId) -> Result<Vec<f32>> {
        self.entries[id.0].values()
    }

    /// A parameter's per-channel values, on their device.
    pub(crate) fn channels(&self, id: ParameterId) -> Result<Channels<'static>> {
        #[cfg(feature = "cuda")]
        if self.on_gpu {
            return Ok(Channels::Gpu(self.get(id).flatten_all()?));
        }
        Ok(self.values(id)?.into())
    }

    /// Whether the values lie on the GPU.
    pub(crate) fn is_on_gpu(&self) -> bool {
        self.on_gpu
    }

    /// Puts all values into one buffer on the backend's device, once all parameters have been added.
    pub(crate) fn settle(&mut self, backend: Backend) -> Result<()> {
        if self.flat.is_none() || backend.is_gpu() != self.on_gpu {
            self.flat = Some(self.join(backend.is_gpu())?);
        }
        Ok(())
    }

    /// Allocates all values on the backend's device and initialises them.
    pub(crate) fn fill(&mut self, backend: Backend) -> Result<()> {
        let later = self.later.take().into_iter().flatten();
        for (buffer, (length, value)) in self.buffers.iter_mut().zip(later) {
            buffer.values = vec![value; length];
        }
        self.settle(backend)
    }

    pub(crate) fn range(&self, id: ParameterId) -> Range<usize> {
        self.entries[id.0].range.clone()
    }

    pub(crate) fn running(&self, id: BufferId) -> &[f32] {
        &self.buffers[id.0].values
    }

    pub(crate) fn running_mut(&mut self, id: BufferId) -> &mut [f32] {
        self.changes();
        &mut self.buffers[id.0].values
    }

    /// Every parameter, in forward order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Parameter> + ExactSizeIterator {
        self.entries.iter()
    }

    /// The ids of all running statistics, in the order in which they were added.
    pub(crate) fn buffer_ids(&self) -> Vec<BufferId> {
        (0..self.buffers.len()).map(BufferId).collect()
    }

    /// Every running statistic, in forward order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The number of values of all running statistics, allocated or not.
    pub fn statistics_count(&self) -> usize {
        let later = self.later.iter().flatten().map(|(length, _)| length);
        let allocated = self.buffers.iter().map(|buffer| buffer.values.len());
        later.sum::<usize>() + allocated.sum::<usize>()
    }

    /// The number of trainable values.
    pub fn count(&self) -> usize {
        self.total
    }

    /// The first parameter with an infinite or NaN value.
    ///
    /// # Errors
    /// [`crate::ModelError::Candle`] if a tensor cannot be read.
    pub fn first_not_finite(&self) -> Result<Option<&Parameter>> {
        for entry in &self.entries {
            let values = entry.values()?;
            if values.iter().any(|value| !value.is_finite()) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Parameters and running statistics by name.
    ///
    /// # Errors
    /// [`crate::ModelError::Candle`] if a tensor cannot be read.
    pub fn to_named(&self) -> Result<NamedTensors> {
        let mut named = NamedTensors::new();
        for entry in &self.entries {
            let values = entry.values()?;
            named.insert(entry.name.clone(), (entry.shape.clone(), values));
        }
        for Buffer { name, values } in &self.buffers {
            named.insert(name.clone(), (vec![values.len()], values.clone()));
        }
        Ok(named)
    }

    /// As [`Self::to_named`], for a file, without copying.
    pub fn lend(&self) -> FileContents<'_> {
        let mut contents = FileContents::default();
        for entry in &self.entries {
            contents.lend_parameter(&entry.shape, entry);
        }
        for Buffer { name, values } in &self.buffers {
            contents.lend(name, &[values.len()], values);
        }
        contents
    }

    /// A copy of the parameters in these ranges of the flat order, without running statistics: the share of one of
    /// several owners of the parameters.
    ///
    /// # Errors
    /// [`crate::ModelError::Candle`] if a tensor cannot be read.
    pub fn part(&self, ranges: &[Range<usize>]) -> Result<Self> {
        let mut part = Self::new(self.seed);
        let lies_there = |p: &Parameter| ranges.iter().any(|r| r.contains(&p.range.start));
        let mut values = Vec::new();
        for entry in self.entries.iter().filter(|p| lies_there(p)) {
            values.extend(entry.values()?);
            let zero = Initial::Constant(0.0);
            part.push(entry.name.clone(), entry.kind, &entry.shape, zero)?;
        }
        part.flat = Some(part.lay_out(values, false)?);
        Ok(part)
    }

    /// Replaces the running statistics by these values, in the order of [`Parameters::buffers`].
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if their number differs.
    pub fn set_buffers(&mut self, values: &[f32]) -> Result<()> {
        let expected = self.buffers.iter().map(|b| b.values.len()).sum();
        crate::ops::host::expect("running statistics", "values", expected, values.len())?;
        self.changes();
        let mut left = values;
        for buffer in &mut self.buffers {
            let (values, others) = left.split_at(buffer.values.len());
            buffer.values.copy_from_slice(values);
            left = others;
        }
        Ok(())
    }

    /// Replaces all values by those of the tensors of the same names, read in place; on a GPU one at a time is staged
    /// in host memory. `path` is for errors.
    ///
    /// # Errors
    /// [`crate::ModelError::MissingWeight`] or [`crate::ModelError::WeightShape`] naming the first tensor that does not
    /// fit, in which case nothing changes; [`crate::ModelError::Io`] if a tensor cannot be read, in which case some are
    /// already replaced.
    pub fn load(&mut self, path: &Path, tensors: &impl Tensors) -> Result<()> {
        for entry in &self.entries {
            expect_shape(path, tensors, &entry.name, &entry.shape)?;
        }
        for buffer in &self.buffers {
            expect_shape(path, tensors, &buffer.name, &[buffer.values.len()])?;
        }
        for Buffer { name, values } in &mut self.buffers {
            tensors.read_into(name, values)?;
        }
        let mut read = Ok(());
        self.update(|entry, values| {
            if read.is_ok() {
                read = tensors.read_into(&entry.name, values);
            }
        })?;
        read
    }
}
