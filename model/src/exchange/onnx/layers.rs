//! Our layers as ONNX nodes, (batch, channel, latitude, longitude).

use super::graph::{Attribute, Graph};
use crate::error::{ModelError, Result};
use crate::exchange::EPSILON;
use crate::networks::NetworkConfig;
use crate::ops::resample::Axis;
use crate::parameters::NamedTensors;

/// A tensor of the graph: its name, and its extents (c, h, w).
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub name: String,
    pub channels: usize,
    pub size: (usize, usize),
}

/// What follows a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum After {
    /// Its normalisation, folded in, and a ReLU.
    NormRelu,
    /// Its bias, if it has one.
    Bias,
}

/// A graph, and the weights that go into it.
pub(super) struct Layers<'a> {
    pub graph: Graph,
    pub config: &'a NetworkConfig,
    pub weights: &'a NamedTensors,
}

impl Layers<'_> {
    fn weight(&self, name: &str) -> Result<&(Vec<usize>, Vec<f32>)> {
        self.weights.get(name).ok_or_else(|| ModelError::Config {
            key: "onnx",
            reason: format!(
                "the network has no weight `{name}`: its graph and its layers disagree"
            ),
        })
    }

    /// A normalisation as one multiply and one add per channel.
    fn scale_and_shift(&self, norm: &str, channels: usize) -> Result<(Vec<f32>, Vec<f32>)> {
        if !self.config.batch_norm {
            return Ok((vec![0.5; channels], vec![0.0; channels]));
        }
        let leaf = |leaf: &str| Ok::<_, ModelError>(&self.weight(&format!("{norm}.{leaf}"))?.1);
        let (gamma, beta) = (leaf("scale")?, leaf("shift")?);
        let (mean, variance) = (leaf("running_mean")?, leaf("running_variance")?);
        let scale: Vec<f32> = (gamma.iter().zip(variance))
            .map(|(g, v)| g / (v + EPSILON).sqrt())
            .collect();
        let shift = (0..channels)
            .map(|i| beta[i] - mean[i] * scale[i])
            .collect();
        Ok((scale, shift))
    }

    fn relu(&mut self, x: &str) -> String {
        self.graph.node("Relu", &[x], &[])
    }

    /// Columns of the other side of the globe on both sides, where longitude wraps; the padding that is left to zeros.
    fn wrap(&mut self, x: &Value, left: usize, right: usize) -> (String, [usize; 2]) {
        if !self.config.periodic_longitude || left + right == 0 {
            return (x.name.clone(), [left, right]);
        }
        let width = x.size.1 as i64;
        let columns: Vec<i64> = (-(left as i64)..width + right as i64)
            .map(|column| column.rem_euclid(width))
            .collect();
        (self.gather_columns(&x.name, &columns), [0, 0])
    }

    fn gather_columns(&mut self, x: &str, columns: &[i64]) -> String {
        let columns = self.graph.ints("columns", columns);
        self.graph
            .node("Gather", &[x, &columns], &[("axis", Attribute::Int(3))])
    }

    /// A square kernel with padding that keeps the size, before its stride.
    pub fn conv(
        &mut self,
        name: &str,
        x: &Value,
        (stride, dilation): (usize, usize),
        after: After,
    ) -> Result<Value> {
        let (shape, mut values) = self.weight(&format!("{name}.weight"))?.clone();
        let (channels, kernel) = (shape[0], shape[2]);
        let mut bias = self
            .weights
            .get(&format!("{name}.bias"))
            .map(|(_, b)| b.clone());
        if after == After::NormRelu {
            let (scale, shift) = self.scale_and_shift(&format!("{name}.norm"), channels)?;
            let per_output = values.len() / channels;
            for (kernel, scale) in values.chunks_exact_mut(per_output).zip(&scale) {
                kernel.iter_mut().for_each(|w| *w *= scale);
            }
            bias = self.config.batch_norm.then_some(shift);
        }
        let reach = kernel / 2 * dilation;
        let (padded, [left, right]) = self.wrap(x, reach, reach);
        let weight = self
            .graph
            .floats(&format!("{name}.weight"), &shape, &values);
        let bias = bias.map(|b| self.graph.floats(&format!("{name}.bias"), &[channels], &b));
        let mut inputs = vec![padded.as_str(), &weight];
        inputs.extend(bias.as_deref());
        let (stride, dilation) = (stride as i64, dilation as i64);
        let attributes = [
            ("kernel_shape", Attribute::Ints(&[kernel as i64; 2])),
            ("strides", Attribute::Ints(&[stride; 2])),
            ("dilations", Attribute::Ints(&[dilation; 2])),
            (
                "pads",
                Attribute::Ints(&[reach as i64, left as i64, reach as i64, right as i64]),
            ),
        ];
        let mut y = self.graph.node("Conv", &inputs, &attributes);
        if after == After::NormRelu {
            y = self.relu(&y);
        }
        let shrunk = |extent: usize| (extent - 1) / stride as usize + 1;
        Ok(Value {
            name: y,
            channels,
            size: (shrunk(x.size.0), shrunk(x.size.1)),
        })
    }

    /// A transposed 3x3 kernel that doubles the extents, cut to `size`.
    pub fn double(&mut self, name: &str, x: &Value, size: (usize, usize)) -> Result<Value> {
        let (shape, mut values) = self.weight(&format!("{name}.weight"))?.clone();
        let channels = shape[1];
        let mut bias = self
            .weights
            .get(&format!("{name}.bias"))
            .map(|(_, b)| b.clone());
        let normalised = self.config.batch_norm;
        if normalised {
            let (scale, shift) = self.scale_and_shift(&format!("{name}.norm"), channels)?;
            let taps = shape[2] * shape[3];
            for (index, kernel) in values.chunks_exact_mut(taps).enumerate() {
                kernel
                    .iter_mut()
                    .for_each(|w| *w *= scale[index % channels]);
            }
            bias = Some(shift);
        }
        // The last column reaches past the date line: one more column of input, and its overhang is cut.
        let (padded, [_, right]) = self.wrap(x, 0, 1);
        let columns = x.size.1 + 1 - right;
        let weight = self
            .graph
            .floats(&format!("{name}.weight"), &shape, &values);
        let bias = bias.map(|b| self.graph.floats(&format!("{name}.bias"), &[channels], &b));
        let mut inputs = vec![padded.as_str(), &weight];
        inputs.extend(bias.as_deref());
        // 2 n + 1 values come out of n; one is cut at the start, the rest at the end.
        let cut = |n: usize, target: usize| match (2 * n).checked_sub(target) {
            Some(cut) => Ok(cut as i64),
            None => Err(ModelError::Shape {
                op: "onnx",
                what: "input of the doubling",
                expected: format!("at least half of {target}"),
                got: n.to_string(),
            }),
        };
        let attributes = [
            ("kernel_shape", Attribute::Ints(&[3, 3])),
            ("strides", Attribute::Ints(&[2, 2])),
            (
                "pads",
                Attribute::Ints(&[1, 1, cut(x.size.0, size.0)?, cut(columns, size.1)?]),
            ),
        ];
        let mut y = self.graph.node("ConvTranspose", &inputs, &attributes);
        if normalised {
            y = self.relu(&y);
        }
        Ok(Value {
            name: y,
            channels,
            size,
        })
    }

    /// A normalisation that no kernel comes before, and its ReLU.
    pub fn norm(&mut self, name: &str, x: &Value) -> Result<Value> {
        let (scale, shift) = self.scale_and_shift(name, x.channels)?;
        let shape = [1, x.channels, 1, 1];
        let scale = self.graph.floats(&format!("{name}.scale"), &shape, &scale);
        let mut y = self.graph.node("Mul", &[&x.name, &scale], &[]);
        if self.config.batch_norm {
            let shift = self.graph.floats(&format!("{name}.shift"), &shape, &shift);
            y = self.graph.node("Add", &[&y, &shift], &[]);
        }
        Ok(Value {
            name: self.relu(&y),
            ..x.clone()
        })
    }

    /// The largest value of every 3x3 window, every second one.
    pub fn stem_pool(&mut self, x: &Value) -> Value {
        let (padded, [left, right]) = self.wrap(x, 1, 1);
        let pads = [1, left as i64, 1, right as i64];
        let attributes = [
            ("kernel_shape", Attribute::Ints(&[3, 3])),
            ("strides", Attribute::Ints(&[2, 2])),
            ("pads", Attribute::Ints(&pads)),
        ];
        Value {
            name: self.graph.node("MaxPool", &[&padded], &attributes),
            channels: x.channels,
            size: (x.size.0.div_ceil(2), x.size.1.div_ceil(2)),
        }
    }

    /// Every `stride`-th pixel.
    pub fn subsample(&mut self, x: &Value, stride: usize) -> Value {
        let attributes = [
            ("kernel_shape", Attribute::Ints(&[1, 1][..])),
            ("strides", Attribute::Ints(&[stride as i64; 2])),
        ];
        Value {
            name: self.graph.node("MaxPool", &[&x.name], &attributes),
            channels: x.channels,
            size: (x.size.0.div_ceil(stride), x.size.1.div_ceil(stride)),
        }
    }

    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        Value {
            name: self.graph.node("Add", &[&a.name, &b.name], &[]),
            ..a.clone()
        }
    }

    /// Side by side along the channels.
    pub fn concat(&mut self, parts: &[Value]) -> Value {
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        Value {
            name: (self.graph).node("Concat", &names, &[("axis", Attribute::Int(1))]),
            channels: parts.iter().map(|part| part.channels).sum(),
            size: parts[0].size,
        }
    }

    /// The field's mean through a 1x1 and a ReLU, at every pixel.
    pub fn image_pooling(&mut self, name: &str, x: &Value) -> Result<Value> {
        let mean = Value {
            name: self.graph.node("GlobalAveragePool", &[&x.name], &[]),
            channels: x.channels,
            size: (1, 1),
        };
        let mut y = self.conv(name, &mean, (1, 1), After::Bias)?;
        if !self.config.batch_norm {
            let half = self.graph.floats(&format!("{name}.half"), &[1], &[0.5]);
            y.name = self.graph.node("Mul", &[&y.name, &half], &[]);
        }
        y.name = self.relu(&y.name);
        let size = (self.graph).ints("size", &[1, 1, x.size.0 as i64, x.size.1 as i64]);
        Ok(Value {
            name: self.graph.node("Expand", &[&y.name, &size], &[]),
            size: x.size,
            ..y
        })
    }

    /// Bilinear, half-pixel centres, across the date line where longitude wraps.
    pub fn resize(&mut self, x: &Value, size: (usize, usize)) -> Value {
        let periodic = self.config.periodic_longitude;
        let width = if periodic { x.size.1 } else { size.1 };
        let sizes = self.graph.ints("size", &[size.0 as i64, width as i64]);
        let attributes = [
            ("mode", Attribute::Text("linear")),
            (
                "coordinate_transformation_mode",
                Attribute::Text("half_pixel"),
            ),
            ("axes", Attribute::Ints(&[2, 3])),
        ];
        let mut name = (self.graph).node("Resize", &[&x.name, "", "", &sizes], &attributes);
        if periodic {
            name = self.blend_columns(&name, &Axis::new(x.size.1, size.1, true));
        }
        Value {
            name,
            size,
            ..x.clone()
        }
    }

    /// Every column as the weighted sum of two.
    fn blend_columns(&mut self, x: &str, axis: &Axis) -> String {
        let mut sides = [0, 1].map(|side| {
            let taps: Vec<(usize, f32)> = (0..axis.len()).map(|q| axis.taps(q)[side]).collect();
            let columns: Vec<i64> = taps.iter().map(|tap| tap.0 as i64).collect();
            let shares: Vec<f32> = taps.iter().map(|tap| tap.1).collect();
            let taken = self.gather_columns(x, &columns);
            let name = format!("{taken}.share");
            let shares = self.graph.floats(&name, &[shares.len()], &shares);
            self.graph.node("Mul", &[&taken, &shares], &[])
        });
        let [low, high] = &mut sides;
        self.graph.node("Add", &[low, high], &[])
    }

    /// The input with two channels that say where a row lies (`latitude_input`).
    pub fn with_latitude(&mut self, x: &Value) -> Value {
        let (h, w) = x.size;
        let position = |row: usize| 2.0 * (row as f32 + 0.5) / h as f32 - 1.0;
        let rows = || (0..h * w).map(|pixel| position(pixel / w));
        let values: Vec<f32> = rows().chain(rows().map(|p| p * p)).collect();
        let latitude = self.graph.floats("latitude", &[1, 2, h, w], &values);
        let range = [("start", Attribute::Int(0)), ("end", Attribute::Int(1))];
        let batch = self.graph.node("Shape", &[&x.name], &range);
        let rest = self.graph.ints("size", &[2, h as i64, w as i64]);
        let size = (self.graph).node("Concat", &[&batch, &rest], &[("axis", Attribute::Int(0))]);
        let latitude = Value {
            name: self.graph.node("Expand", &[&latitude, &size], &[]),
            channels: 2,
            size: x.size,
        };
        self.concat(&[x.clone(), latitude])
    }
}
