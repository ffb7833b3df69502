//! Changes of values: one parameter at a time, all at once, or as rounded copies beside the master weights.

use super::{Kind, Parameter, ParameterId, Parameters, next_version};
use crate::error::{ModelError, Result};
use crate::optim::Mirror;
use crate::storage::Storage;
use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Tensor};
use rayon::prelude::*;
use std::cell::RefCell;

impl Parameters {
    /// Calls `change` with every parameter and its values for modification.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if values on a GPU cannot be read or written.
    pub fn update(&mut self, mut change: impl FnMut(&Parameter, &mut [f32])) -> Result<()> {
        self.changes();
        self.version = next_version();
        if self.flat.is_none() {
            self.flat = Some(self.join(self.on_gpu)?);
        }
        #[cfg(feature = "cuda")]
        if self.on_gpu {
            for entry in &self.entries {
                let mut values = entry.values()?;
                change(entry, &mut values);
                crate::ops::cuda::write(&entry.tensor, &values)?;
            }
            return Ok(());
        }
        for entry in &self.entries {
            let op = Change(RefCell::new(|values: &mut [f32]| change(entry, values)));
            entry.tensor.inplace_op1(&op)?;
        }
        Ok(())
    }

    /// Calls `change` with all values for modification, in the order of [`Parameter::range`].
    ///
    /// They are one buffer, so that an optimiser is a single loop over memory instead of one loop per tensor.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if values on a GPU cannot be read or written.
    pub fn update_all<R>(&mut self, change: impl FnOnce(&mut [f32]) -> R) -> Result<R> {
        self.changes();
        self.version = next_version();
        let flat = match self.flat.take() {
            Some(flat) => flat,
            None => self.join(self.on_gpu)?,
        };
        #[cfg(feature = "cuda")]
        if self.on_gpu {
            let mut values: Vec<f32> = crate::ops::cuda::read(&flat)?;
            let answer = change(&mut values);
            crate::ops::cuda::write(&flat, &values)?;
            self.flat = Some(flat);
            return Ok(answer);
        }
        let (mut change, mut answer) = (Some(change), None);
        flat.inplace_op1(&Change(RefCell::new(|values: &mut [f32]| {
            answer = change.take().map(|change| change(values));
        })))?;
        self.flat = Some(flat);
        answer.ok_or_else(|| {
            candle_core::Error::msg("the update was not run")
                .bt()
                .into()
        })
    }

    /// One tensor of all values, in the order of [`Parameter::range`], on their device; for reading only.
    ///
    /// # Errors
    /// [`ModelError::Candle`] if parameters have been added since the values were allocated.
    pub(crate) fn flat(&self) -> Result<Tensor> {
        let none = || candle_core::Error::msg("parameters have no values yet").bt();
        Ok(self.flat.clone().ok_or_else(none)?)
    }

    /// Calls `change` with all values on the GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn update_on_gpu<R>(
        &mut self,
        change: impl FnOnce(&Tensor) -> Result<R>,
    ) -> Result<R> {
        self.changes();
        self.version = next_version();
        let flat = match self.flat.take() {
            Some(flat) => flat,
            None => self.join(self.on_gpu)?,
        };
        let answer = change(&flat);
        self.flat = Some(flat);
        answer
    }

    /// Builds one tensor of all values, initialising those that have none, and makes every parameter a view of it.
    pub(super) fn join(&mut self, on_gpu: bool) -> Result<Tensor> {
        let mut values = vec![0.0; self.total];
        let (mut places, mut left) = (Vec::with_capacity(self.entries.len()), &mut values[..]);
        for entry in &self.entries {
            let (place, others) = left.split_at_mut(entry.range.len());
            places.push(place);
            left = others;
        }
        (places.into_par_iter().zip(&self.entries)).try_for_each(|(place, entry)| {
            match entry.initial {
                Some(initial) => initial.fill(place),
                None => place.copy_from_slice(&entry.values()?),
            }
            Ok::<_, ModelError>(())
        })?;
        self.lay_out(values, on_gpu)
    }

    /// Makes a tensor of these values, on the GPU or in host memory, and makes every parameter a view of it.
    pub(super) fn lay_out(&mut self, values: Vec<f32>, on_gpu: bool) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        let flat = match on_gpu {
            true => crate::ops::cuda::give(&values)?,
            false => Tensor::from_vec(values, self.total, &Device::Cpu)?,
        };
        #[cfg(not(feature = "cuda"))]
        let flat = Tensor::from_vec(values, self.total, &Device::Cpu)?;
        for entry in &mut self.entries {
            let view = flat.narrow(0, entry.range.start, entry.range.len())?;
            entry.tensor = view.reshape(&entry.shape[..])?;
            entry.initial = None;
        }
        self.on_gpu = on_gpu;
        Ok(flat)
    }

    /// Makes training multiply by the values of `copies` instead of the master weights, in the layers that `storage`
    /// computes in bf16. Inference keeps using the master weights.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the copies belong to other parameters; [`ModelError::Candle`], [`ModelError::Gpu`].
    pub fn compute_with(&mut self, copies: &Mirror, storage: &Storage) -> Result<()> {
        crate::ops::host::expect("parameters", "copies", self.total, copies.count())?;
        self.rounded.resize_with(self.entries.len(), || None);
        for (index, (entry, rounded)) in self.entries.iter().zip(&mut self.rounded).enumerate() {
            if entry.kind != Kind::Weight
                || storage.compute_dtype(ParameterId(index)) != DType::BF16
            {
                continue;
            }
            #[cfg(feature = "cuda")]
            if let Some(copies) = copies.on_gpu() {
                let view = copies.narrow(0, entry.range.start, entry.range.len())?;
                *rounded = Some(view.reshape(&entry.shape[..])?);
                continue;
            }
            let copies = &copies.in_host_memory()[entry.range.clone()];
            match rounded {
                Some(rounded) => {
                    rounded.inplace_op1(&Change(RefCell::new(|values: &mut [f32]| {
                        (values.par_iter_mut().zip(copies))
                            .with_min_len(1 << 14)
                            .for_each(|(value, copy)| *value = copy.to_f32());
                    })))?;
                }
                None => {
                    let values = copies.iter().map(|copy| copy.to_f32()).collect();
                    let shape = entry.tensor.dims();
                    *rounded = Some(Tensor::from_vec(values, shape, &Device::Cpu)?);
                }
            }
        }
        Ok(())
    }

    /// The first kernel set by [`Self::compute_with`], if there is one.
    #[cfg(feature = "cuda")]
    pub(crate) fn first_rounded(&self) -> Option<&Tensor> {
        self.rounded.iter().flatten().next()
    }
}

/// candle's mechanism for writing into a shared tensor.
struct Change<F>(RefCell<F>);

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
