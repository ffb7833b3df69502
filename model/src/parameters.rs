//! What training changes: named f32 tensors, and the flat buffer that their gradients land in.

use crate::error::{ModelError, Result};
use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ops::Range;

/// Shape and values by name: what a model file holds.
pub type NamedTensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Which parameter of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParameterId(usize);

/// Which running statistic of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId(usize);

/// What a parameter does; weight decay and LARC ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A convolution's kernel.
    Weight,
    /// A convolution's bias.
    Bias,
    /// γ of a batch normalisation.
    Scale,
    /// β of a batch normalisation.
    Shift,
    /// Of a parametric ReLU below zero.
    Slope,
}

/// One trainable tensor.
#[derive(Debug)]
pub struct Parameter {
    /// Its path in the network, such as `encoder.block1.unit1.conv2.weight`.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// Its place in the flat gradient.
    pub range: Range<usize>,
    tensor: Tensor,
}

impl Parameter {
    /// The f32 master.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

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
    seed: u64,
    total: usize,
}

impl Parameters {
    /// No parameters yet; initial values will follow from `seed` and each parameter's name.
    pub fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            buffers: Vec::new(),
            seed,
            total: 0,
        }
    }

    /// Adds a kernel, uniform in ±√(6 / `fan_in`) (He et al. 2015, as TensorFlow's `he_uniform`).
    pub(crate) fn weight(
        &mut self,
        name: String,
        shape: &[usize],
        fan_in: usize,
    ) -> Result<ParameterId> {
        // The stream depends on the name, not on the order: another decoder leaves the encoder's start as it was.
        let digest = Sha256::new()
            .chain_update(self.seed.to_le_bytes())
            .chain_update(name.as_bytes())
            .finalize();
        let mut rng = ChaCha8Rng::from_seed(digest.into());
        let bound = (6.0 / fan_in as f32).sqrt();
        let count = shape.iter().product();
        let values = (0..count)
            .map(|_| rng.random_range(-bound..bound))
            .collect();
        self.push(name, Kind::Weight, shape, values)
    }

    /// Adds a vector of one value.
    pub(crate) fn vector(
        &mut self,
        name: String,
        kind: Kind,
        length: usize,
        value: f32,
    ) -> Result<ParameterId> {
        self.push(name, kind, &[length], vec![value; length])
    }

    fn push(
        &mut self,
        name: String,
        kind: Kind,
        shape: &[usize],
        values: Vec<f32>,
    ) -> Result<ParameterId> {
        let range = self.total..self.total + values.len();
        self.total = range.end;
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?;
        self.entries.push(Parameter {
            name,
            kind,
            range,
            tensor,
        });
        Ok(ParameterId(self.entries.len() - 1))
    }

    /// Adds a running statistic.
    pub(crate) fn buffer(&mut self, name: String, length: usize, value: f32) -> BufferId {
        let values = vec![value; length];
        self.buffers.push(Buffer { name, values });
        BufferId(self.buffers.len() - 1)
    }

    /// The f32 master of a parameter.
    pub(crate) fn get(&self, id: ParameterId) -> &Tensor {
        &self.entries[id.0].tensor
    }

    /// A parameter's values.
    pub(crate) fn values(&self, id: ParameterId) -> Result<Vec<f32>> {
        Ok(self.get(id).flatten_all()?.to_vec1()?)
    }

    pub(crate) fn range(&self, id: ParameterId) -> Range<usize> {
        self.entries[id.0].range.clone()
    }

    pub(crate) fn running(&self, id: BufferId) -> &[f32] {
        &self.buffers[id.0].values
    }

    pub(crate) fn running_mut(&mut self, id: BufferId) -> &mut [f32] {
        &mut self.buffers[id.0].values
    }

    /// Every parameter, in forward order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Parameter> {
        self.entries.iter()
    }

    /// Every running statistic, in forward order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Trainable values.
    pub fn count(&self) -> usize {
        self.total
    }

    /// Gives every parameter and its values, mutable, to `change`.
    ///
    /// # Errors
    /// [`ModelError::Candle`] if a tensor is not in host memory.
    pub fn update(&mut self, mut change: impl FnMut(&Parameter, &mut [f32])) -> Result<()> {
        for entry in &self.entries {
            let op = Change(std::cell::RefCell::new(|values: &mut [f32]| {
                change(entry, values)
            }));
            entry.tensor.inplace_op1(&op)?;
        }
        Ok(())
    }

    /// Parameters and running statistics by name.
    ///
    /// # Errors
    /// [`ModelError::Candle`] if a tensor cannot be read.
    pub fn to_named(&self) -> Result<NamedTensors> {
        let mut named = NamedTensors::new();
        for entry in &self.entries {
            let values = entry.tensor.flatten_all()?.to_vec1()?;
            named.insert(entry.name.clone(), (entry.tensor.dims().to_vec(), values));
        }
        for Buffer { name, values } in &self.buffers {
            named.insert(name.clone(), (vec![values.len()], values.clone()));
        }
        Ok(named)
    }

    /// Replaces all values by those that `find` gives for a name.
    ///
    /// # Errors
    /// [`ModelError::MissingWeight`] or [`ModelError::WeightShape`] naming the first that does not fit.
    pub fn load<'a>(
        &mut self,
        path: &std::path::Path,
        find: impl Fn(&str) -> Option<(&'a [usize], &'a [f32])>,
    ) -> Result<()> {
        let fitting = |name: &str, expected: &[usize]| match find(name) {
            None => Err(ModelError::MissingWeight {
                path: path.into(),
                name: name.into(),
                expected: expected.into(),
            }),
            Some((found, _)) if found != expected => Err(ModelError::WeightShape {
                path: path.into(),
                name: name.into(),
                expected: expected.into(),
                found: found.into(),
            }),
            Some((_, values)) => Ok(values.to_vec()),
        };
        for entry in &mut self.entries {
            let values = fitting(&entry.name, entry.tensor.dims())?;
            entry.tensor = Tensor::from_vec(values, entry.tensor.dims(), &Device::Cpu)?;
        }
        for buffer in &mut self.buffers {
            buffer.values = fitting(&buffer.name, &[buffer.values.len()])?;
        }
        Ok(())
    }
}

/// candle's way to write into a tensor that others may hold.
struct Change<F>(std::cell::RefCell<F>);

impl<F: FnMut(&mut [f32])> InplaceOp1 for Change<F> {
    fn name(&self) -> &'static str {
        "update"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        match (storage, layout.contiguous_offsets()) {
            (CpuStorage::F32(values), Some((start, end))) => {
                (self.0.borrow_mut())(&mut values[start..end]);
                Ok(())
            }
            _ => candle_core::bail!("parameters are contiguous f32 in host memory"),
        }
    }
}

/// The gradient of every parameter, in one buffer.
#[derive(Debug, Clone)]
pub struct Gradients {
    values: Vec<f32>,
}

impl Gradients {
    /// Zeros for every parameter.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            values: vec![0.0; parameters.count()],
        }
    }

    /// Back to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.values.fill(0.0);
    }

    /// All values, parameters in forward order.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// All values, parameters in forward order.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The place of one parameter.
    pub(crate) fn of(&mut self, range: Range<usize>) -> &mut [f32] {
        &mut self.values[range]
    }

    /// The places of two parameters, the first of which comes first.
    pub(crate) fn of_two(
        &mut self,
        first: Range<usize>,
        second: Range<usize>,
    ) -> (&mut [f32], &mut [f32]) {
        let (head, tail) = self.values.split_at_mut(second.start);
        (&mut head[first], &mut tail[..second.end - second.start])
    }

    /// Consecutive ranges of at least `values` values each (the last may be shorter), in the order in which the backward
    /// pass completes them: from the end of the network to its start. Together they cover the buffer once.
    ///
    /// What several ranks average piece by piece. Boundaries lie between parameters.
    pub fn buckets(parameters: &Parameters, values: usize) -> Vec<Range<usize>> {
        let mut buckets = Vec::new();
        let mut end = parameters.count();
        for parameter in parameters.entries.iter().rev() {
            let start = parameter.range.start;
            if end - start >= values.max(1) || start == 0 && end > 0 {
                buckets.push(start..end);
                end = start;
            }
        }
        buckets
    }

    /// Whether no value is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        self.values.iter().all(|g| g.is_finite())
    }

    /// √Σ g².
    pub fn norm(&self) -> f64 {
        // Chunked so that the sum does not depend on the number of threads and stays exact enough for 10⁸ values.
        let squares = |chunk: &[f32]| {
            chunk
                .iter()
                .map(|&g| f64::from(g) * f64::from(g))
                .sum::<f64>()
        };
        self.values.chunks(4096).map(squares).sum::<f64>().sqrt()
    }

    /// Multiplies every value.
    pub fn scale(&mut self, factor: f32) {
        self.values.iter_mut().for_each(|g| *g *= factor);
    }
}
