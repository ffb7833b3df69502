//! How values change: one parameter at a time, all at once, or as rounded copies beside the masters.

use super::{Kind, Parameter, ParameterId, Parameters, next_version};
use crate::error::{ModelError, Result};
use crate::optim::Mirror;
use crate::storage::Storage;
use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Tensor};
use rayon::prelude::*;
use std::cell::RefCell;

impl Parameters {
    /// Gives every parameter and its values, mutable, to `change`.
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

    /// Gives all values at once, mutable, in the order of [`Parameter::range`], to `change`.
    ///
    /// They lie in one buffer, so that an optimiser is one loop over memory and not one for each tensor.
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

    /// One tensor of all values, in the order of [`Parameter::range`], where they lie: to be read.
    ///
    /// # Errors
    /// [`ModelError::Candle`] if parameters have been added since they had values.
    pub(crate) fn flat(&self) -> Result<Tensor> {
        let none = || candle_core::Error::msg("parameters have no values yet").bt();
        Ok(self.flat.clone().ok_or_else(none)?)
    }

    /// Gives all values at once, on the GPU, to `change`.
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

    /// One tensor of all values, those that parameters start with where they have none yet, which every parameter is a
    /// view of.
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

    /// A tensor of these values, on the GPU or in host memory, that every parameter is a view of from now on.
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

    /// Has training multiply by the values of `copies` from now on, instead of the masters, in the layers that
    /// `storage` computes in bf16. Inference keeps the masters.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the copies are of other parameters; [`ModelError::Candle`], [`ModelError::Gpu`].
    pub fn compute_with(&mut self, copies: &Mirror, storage: &Storage) -> Result<()> {
        crate::ops::host::expect("parameters", "copies", self.total, copies.count())?;
        self.rounded.resize_with(self.entries.len(), || None);
        for (index, (entry, rounded)) in self.entries.iter().zip(&mut self.rounded).enumerate() {
            if entry.kind != Kind::Weight || storage.of(ParameterId(index)) != DType::BF16 {
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

    /// The first kernel that [`Self::compute_with`] put in a master's place, if there is one.
    #[cfg(feature = "cuda")]
    pub(crate) fn first_rounded(&self) -> Option<&Tensor> {
        self.rounded.iter().flatten().next()
    }
}

/// candle's way to write into a tensor that others may hold.
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
