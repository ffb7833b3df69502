//! Stand-in for builds without GPU support, where nothing is uploaded.

use super::{Samples, Scaling, Stored};
use crate::error::Result;
use crate::ops::Backend;
use candle_core::{DType, Tensor};

/// Uploads fields to the GPU; uninhabited in this build.
#[derive(Debug)]
pub enum Uploader {}

/// Fields being uploaded; uninhabited in this build.
#[derive(Debug)]
pub enum Arriving {}

impl Uploader {
    /// Returns `None`: without a GPU the host normalises.
    ///
    /// # Errors
    /// None.
    pub fn of(_: Backend, _: Stored, _: &[Scaling]) -> Result<Option<Self>> {
        Ok(None)
    }

    /// Starts copying samples.
    ///
    /// # Errors
    /// None.
    pub fn send(&self, _: &[u8]) -> Result<Arriving> {
        match *self {}
    }

    /// The samples as the network's input.
    ///
    /// # Errors
    /// None.
    pub fn normalised(&self, _: &[Samples<'_>], _: (usize, usize), _: DType) -> Result<Tensor> {
        match *self {}
    }
}
