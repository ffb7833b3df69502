//! Our layers as ONNX nodes, in (batch, channel, latitude, longitude).

use super::graph::{Attribute, Graph};
use crate::error::{ModelError, Result};
use crate::layers::conv::Fold;
use crate::layers::wrapped::Padding;
use crate::networks::NetworkConfig;
use crate::ops::norm::fold;
use crate::parameters::NamedTensors;

/// A tensor of the graph: its name and extents (c, h, w).
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub name: String,
    pub channels: usize,
    pub size: (usize, usize),
}

/// Stride and dilation of a square kernel whose padding preserves the extents at stride 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    pub stride: usize,
    pub dilation: usize,
}

/// Neither stride nor dilation.
pub(super) const SAME: Steps = Steps {
    stride: 1,
    dilation: 1,
};

impl Steps {
    pub fn stride(stride: usize) -> Self {
        Self { stride, ..SAME }
    }

    pub fn dilation(dilation: usize) -> Self {
        Self { dilation, ..SAME }
    }
}

/// A graph, and the weights that have not been added to it yet.
pub(super) struct Layers<'a> {
    pub graph: Graph,
    pub config: &'a NetworkConfig,
    /// Removed one by one: each is added to the graph once.
    pub weights: NamedTensors,
    pub padding: Padding,
    /// The ε added to variances.
    pub epsilon: f32,
}

/// The error for a graph that does not match the network: a bug in this module, reported before a wrong file is
/// written.
pub(super) fn mismatch(what: &'static str, expected: String, got: String) -> ModelError {
    ModelError::Shape {
        op: "onnx",
        what,
        expected,
        got,
    }
}

fn disagree(reason: String) -> ModelError {
    ModelError::Config {
        key: "onnx",
        reason: format!("{reason}: the graph and the network's layers disagree"),
    }
}

impl Layers<'_> {
    /// Removes and returns a weight.
    fn take(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f32>)> {
        self.weights
            .remove(name)
            .ok_or_else(|| disagree(format!("weight `{name}` is missing or used twice")))
    }

    /// Removes and returns a weight with one value per channel.
    fn take_vector(&mut self, name: &str, channels: usize) -> Result<Vec<f32>> {
        let (shape, values) = self.take(name)?;
        if shape != [channels] {
            let reason = format!("weight `{name}`: expected shape [{channels}], got {shape:?}");
            return Err(disagree(reason));
        }
        Ok(values)
    }

    /// Returns the graph, after checking that every weight has been used and the logits have the right extents.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the unused weights; [`ModelError::Shape`] if the logits do not have the field's
    /// extents.
    pub fn finish(self, logits: &Value, size: (usize, usize)) -> Result<Graph> {
        let (expected, got) = ((self.config.classes, size), (logits.channels, logits.size));
        if expected != got {
            return Err(mismatch(
                "logits",
                format!("{expected:?}"),
                format!("{got:?}"),
            ));
        }
        if !self.weights.is_empty() {
            let left: Vec<&str> = self.weights.keys().map(String::as_str).collect();
            return Err(disagree(format!("weights not used: {}", left.join(", "))));
        }
        Ok(self.graph)
    }

    /// A normalisation as one scale and shift per channel.
    pub fn norm_fold(&mut self, norm: &str, channels: usize) -> Result<Fold> {
        if !self.config.batch_norm {
            return Ok((vec![0.5; channels], vec![0.0; channels]));
        }
        let mut leaf = |leaf: &str| self.take_vector(&format!("{norm}.{leaf}"), channels);
        let (gamma, beta) = (leaf("scale")?, leaf("shift")?);
        let (mean, variance) = (leaf("running_mean")?, leaf("running_variance")?);
        let inv_std: Vec<f32> = (variance.iter())
            .map(|v| 1.0 / (v + self.epsilon).sqrt())
            .collect();
        Ok(fold(&gamma, &beta, &mean, &inv_std))
    }

    /// A trainable scale and shift per channel as a fold.
    pub fn affine_fold(&mut self, name: &str, channels: usize) -> Result<Fold> {
        Ok((
            self.take_vector(&format!("{name}.scale"), channels)?,
            self.take_vector(&format!("{name}.shift"), channels)?,
        ))
    }

    /// Adds a kernel and its bias, if it has one, as constants; returns the shape and their names. `fold` is folded
    /// into both.
    ///
    /// `owner` returns the output channel of the kernel value at an index.
    fn kernel(
        &mut self,
        name: &str,
        output: usize,
        owner: impl Fn(&[usize], usize) -> usize,
        fold: Option<Fold>,
    ) -> Result<(Vec<usize>, Vec<String>)> {
        let weight = format!("{name}.weight");
        let (shape, mut values) = self.take(&weight)?;
        let channels = shape[output];
        let at = format!("{name}.bias");
        let mut bias = match self.weights.contains_key(&at) {
            true => Some(self.take_vector(&at, channels)?),
            false => None,
        };
        if let Some((scale, mut shift)) = fold {
            if scale.len() != channels {
                let (expected, got) = (channels.to_string(), scale.len().to_string());
                return Err(mismatch("normalised channels", expected, got));
            }
            for (index, value) in values.iter_mut().enumerate() {
                *value *= scale[owner(&shape, index)];
            }
            if let Some(bias) = &bias {
                (shift.iter_mut().zip(&scale).zip(bias))
                    .for_each(|((shift, scale), bias)| *shift += scale * bias);
            }
            bias = (bias.is_some() || shift.iter().any(|&shift| shift != 0.0)).then_some(shift);
        }
        let mut names = vec![self.graph.floats(&weight, &shape, &values)];
        names.extend(bias.map(|bias| self.graph.floats(&at, &[channels], &bias)));
        Ok((shape, names))
    }

    /// A square kernel, with its bias if it has one; the number of groups follows from its weights.
    pub fn conv(
        &mut self,
        name: &str,
        x: &Value,
        Steps { stride, dilation }: Steps,
        fold: Option<Fold>,
    ) -> Result<Value> {
        let owner = |shape: &[usize], index| index / (shape[1] * shape[2] * shape[3]);
        let (shape, names) = self.kernel(name, 0, owner, fold)?;
        let (channels, kernel) = (shape[0], shape[2]);
        // Every output reads either all channels or only its own.
        let depthwise = shape[1] == 1 && channels == x.channels;
        let groups = if depthwise { channels } else { 1 };
        if shape[1] * groups != x.channels {
            let expected = format!("channels for a kernel of shape {shape:?}");
            return Err(mismatch(
                "input of a convolution",
                expected,
                x.channels.to_string(),
            ));
        }
        let (padded, pads) = self.surround(x, kernel / 2 * dilation);
        let inputs: Vec<&str> = std::iter::once(padded.as_str())
            .chain(names.iter().map(String::as_str))
            .collect();
        let attributes = [
            ("kernel_shape", Attribute::Ints(&[kernel as i64; 2])),
            ("strides", Attribute::Ints(&[stride as i64; 2])),
            ("dilations", Attribute::Ints(&[dilation as i64; 2])),
            ("pads", Attribute::Ints(&pads)),
            ("group", Attribute::Int(groups as i64)),
        ];
        let (h, w) = x.size;
        Ok(Value {
            name: self.graph.node("Conv", &inputs, &attributes),
            channels,
            size: (h.div_ceil(stride), w.div_ceil(stride)),
        })
    }

    /// A convolution, its normalisation and a ReLU.
    pub fn unit(&mut self, name: &str, x: &Value, steps: Steps) -> Result<Value> {
        let y = self.normed(name, x, steps)?;
        Ok(self.relu(&y))
    }

    /// A convolution and its normalisation.
    pub fn normed(&mut self, name: &str, x: &Value, steps: Steps) -> Result<Value> {
        let channels = self.outputs(&format!("{name}.weight"), 0)?;
        let fold = self.norm_fold(&format!("{name}.norm"), channels)?;
        self.conv(name, x, steps, Some(fold))
    }

    /// Extent `axis` of a weight that has not been taken yet.
    pub fn outputs(&self, weight: &str, axis: usize) -> Result<usize> {
        let shape = self.weights.get(weight).map(|(shape, _)| shape);
        (shape.and_then(|shape| shape.get(axis)).copied())
            .ok_or_else(|| disagree(format!("weight `{weight}` is missing or used twice")))
    }

    /// A transposed 3x3 convolution that doubles the extents, cropped to `size`.
    pub fn upsample(
        &mut self,
        name: &str,
        x: &Value,
        size: (usize, usize),
        fold: Option<Fold>,
    ) -> Result<Value> {
        let owner = |shape: &[usize], index| index / (shape[2] * shape[3]) % shape[1];
        let (shape, names) = self.kernel(name, 1, owner, fold)?;
        if shape[0] != x.channels {
            let (expected, got) = (shape[0].to_string(), x.channels.to_string());
            return Err(mismatch("channels of a doubling", expected, got));
        }
        // The last column extends past the date line: the input gets one more column, and the excess is cropped.
        let (padded, wraps) = self.wrap_columns(x, 0, 1);
        let columns = x.size.1 + usize::from(wraps);
        let inputs: Vec<&str> = std::iter::once(padded.as_str())
            .chain(names.iter().map(String::as_str))
            .collect();
        // n inputs yield 2 n + 1 outputs; one is cropped at the start, the rest at the end.
        let cut = |n: usize, target: usize| match (2 * n).checked_sub(target) {
            Some(cut) => Ok(cut as i64),
            None => {
                let expected = format!("at least half of {target}");
                Err(mismatch("input of a doubling", expected, n.to_string()))
            }
        };
        let pads = [1, 1, cut(x.size.0, size.0)?, cut(columns, size.1)?];
        let attributes = [
            ("kernel_shape", Attribute::Ints(&[3, 3])),
            ("strides", Attribute::Ints(&[2, 2])),
            ("pads", Attribute::Ints(&pads)),
        ];
        Ok(Value {
            name: self.graph.node("ConvTranspose", &inputs, &attributes),
            channels: shape[1],
            size,
        })
    }

    /// A transposed convolution, followed by normalisation and ReLU if batch normalisation is on.
    pub fn double(&mut self, name: &str, x: &Value, size: (usize, usize)) -> Result<Value> {
        if !self.config.batch_norm {
            return self.upsample(name, x, size, None);
        }
        let channels = self.outputs(&format!("{name}.weight"), 1)?;
        let fold = self.norm_fold(&format!("{name}.norm"), channels)?;
        let y = self.upsample(name, x, size, Some(fold))?;
        Ok(self.relu(&y))
    }

    /// A normalisation that does not follow a convolution.
    pub fn norm(&mut self, name: &str, x: &Value) -> Result<Value> {
        let (scale, shift) = self.norm_fold(name, x.channels)?;
        let shape = [1, x.channels, 1, 1];
        let scale = self.graph.floats(&format!("{name}.scale"), &shape, &scale);
        let mut y = self.graph.node("Mul", &[&x.name, &scale], &[]);
        if self.config.batch_norm {
            let shift = self.graph.floats(&format!("{name}.shift"), &shape, &shift);
            y = self.graph.node("Add", &[&y, &shift], &[]);
        }
        Ok(Value {
            name: y,
            ..x.clone()
        })
    }

    /// A slope per channel below zero.
    pub fn prelu(&mut self, name: &str, x: &Value) -> Result<Value> {
        let slope = format!("{name}.slope");
        let values = self.take_vector(&slope, x.channels)?;
        let slope = self.graph.floats(&slope, &[x.channels, 1, 1], &values);
        Ok(Value {
            name: self.graph.node("PRelu", &[&x.name, &slope], &[]),
            ..x.clone()
        })
    }

    /// Channels weighted by a function of the field's mean: mean, 1x1, ReLU, 1x1, sigmoid.
    pub fn gate(&mut self, name: &str, x: &Value) -> Result<Value> {
        let mean = self.mean(x);
        let inner = self.conv(&format!("{name}.reduce"), &mean, SAME, None)?;
        let inner = self.relu(&inner);
        let z = self.conv(&format!("{name}.expand"), &inner, SAME, None)?;
        let share = self.graph.node("Sigmoid", &[&z.name], &[]);
        Ok(Value {
            name: self.graph.node("Mul", &[&x.name, &share], &[]),
            ..x.clone()
        })
    }
}
