//! Uploads fields to a GPU: converts between the types of the data crate and those of the model crate.

use crate::error::Result;
use candle_core::{DType, Tensor};
use squall_data::normalise::ChannelFactors;
use squall_data::store::Encoding;
use squall_model::Backend;
use squall_model::input::{Arriving, Samples, Scaling, Stored, Uploader};
use std::sync::Arc;

/// Uploads fields of one shape and encoding to the GPU.
#[derive(Debug, Clone)]
pub(crate) struct Upload(Arc<Uploader>);

/// Uploaded fields, sample after sample.
#[derive(Debug)]
pub(crate) struct Sent {
    arriving: Arriving,
    upload: Upload,
}

impl Upload {
    /// An uploader of fields in this encoding, where each sample is normalised by one of `factors`; `None` if the host
    /// normalises.
    ///
    /// # Errors
    /// [`crate::JobError::Model`] if the GPU fails.
    pub fn of(
        backend: Backend,
        encoding: Encoding,
        factors: impl IntoIterator<Item = ChannelFactors>,
    ) -> Result<Option<Self>> {
        let stored = match encoding {
            Encoding::F32 => Stored::F32,
            Encoding::F16 => Stored::F16,
        };
        let scalings: Vec<Scaling> = factors.into_iter().map(scaling).collect();
        let uploader = Uploader::of(backend, stored, &scalings)?;
        Ok(uploader.map(|uploader| Self(Arc::new(uploader))))
    }

    /// Starts copying samples; the buffer may be reused as soon as this returns.
    ///
    /// # Errors
    /// [`crate::JobError::Model`] if the GPU has no room for them.
    pub fn send(&self, bytes: &[u8]) -> Result<Sent> {
        Ok(Sent {
            arriving: self.0.send(bytes)?,
            upload: self.clone(),
        })
    }
}

/// A batch of normalised samples, `(b, h, w, c)` in f32, since the first convolution keeps f32 whatever the others
/// compute in. Each sample is given by an upload, its index there, and the index of its factors.
///
/// All uploads must come from one [`Upload`].
///
/// # Errors
/// [`crate::JobError::Model`] if an upload has fewer samples of this size.
pub(crate) fn normalised<'a>(
    samples: impl IntoIterator<Item = (&'a Sent, usize, usize)>,
    shape: (usize, usize),
) -> Result<Tensor> {
    let mut by = None;
    let samples: Vec<Samples<'_>> = samples
        .into_iter()
        .map(|(sent, first, scaling)| {
            by = Some(&sent.upload.0);
            Samples {
                arriving: &sent.arriving,
                first,
                count: 1,
                scaling,
            }
        })
        .collect();
    let Some(uploader) = by else {
        let none = squall_data::DataError::Invalid("no fields to normalise: this is a bug".into());
        return Err(none.into());
    };
    Ok(uploader.normalised(&samples, shape, DType::F32)?)
}

/// Converts the factors to the model crate's type.
fn scaling(factors: ChannelFactors) -> Scaling {
    let ChannelFactors {
        subtract,
        factor,
        fill,
    } = factors;
    Scaling {
        subtract,
        factor,
        fill,
    }
}
