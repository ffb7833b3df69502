//! Operations without weights as ONNX nodes: wrapping, pooling, resizing, concatenation.

use super::graph::Attribute;
use super::layers::{Layers, Value, mismatch};
use crate::error::Result;
use crate::layers::upsample_unit::half;
use crate::layers::wrapped::Padding;
use crate::ops::resample::Axis;

/// The positions from `before` before an axis to `after` after it, wrapped.
fn wrapped(extent: usize, before: usize, after: usize) -> Vec<i64> {
    let extent = extent as i64;
    (-(before as i64)..extent + after as i64)
        .map(|at| at.rem_euclid(extent))
        .collect()
}

impl Layers<'_> {
    /// Gathers the rows (axis 2) or columns (axis 3) at these positions.
    fn gather(&mut self, x: &str, axis: i64, positions: &[i64]) -> String {
        let what = if axis == 2 { "rows" } else { "columns" };
        let positions = self.graph.ints(what, positions);
        self.graph.node(
            "Gather",
            &[x, &positions],
            &[("axis", Attribute::Int(axis))],
        )
    }

    /// Pads with `before` and `after` columns from the other side of the globe, if longitude wraps; also returns
    /// whether it does.
    pub fn wrap_columns(&mut self, x: &Value, before: usize, after: usize) -> (String, bool) {
        if self.padding == Padding::Zero {
            return (x.name.clone(), false);
        }
        let columns = wrapped(x.size.1, before, after);
        (self.gather(&x.name, 3, &columns), true)
    }

    /// Pads a margin with wrapped values on the axes that wrap; also returns the zero padding that remains: top, left,
    /// bottom, right.
    pub fn surround(&mut self, x: &Value, margin: usize) -> (String, [i64; 4]) {
        let pad = margin as i64;
        if margin == 0 || self.padding == Padding::Zero {
            return (x.name.clone(), [pad; 4]);
        }
        let (mut name, _) = self.wrap_columns(x, margin, margin);
        if self.padding == Padding::Longitude {
            return (name, [pad, 0, pad, 0]);
        }
        name = self.gather(&name, 2, &wrapped(x.size.0, margin, margin));
        (name, [0; 4])
    }

    /// max(x, 0).
    pub fn relu(&mut self, x: &Value) -> Value {
        Value {
            name: self.graph.node("Relu", &[&x.name], &[]),
            ..x.clone()
        }
    }

    /// Applies `op` to 3x3 windows with stride 2: `MaxPool`, or `AveragePool`, which excludes padding.
    pub fn pool(&mut self, op: &str, x: &Value) -> Value {
        let (padded, pads) = self.surround(x, 1);
        let attributes = [
            ("kernel_shape", Attribute::Ints(&[3, 3])),
            ("strides", Attribute::Ints(&[2, 2])),
            ("pads", Attribute::Ints(&pads)),
        ];
        Value {
            name: self.graph.node(op, &[&padded], &attributes),
            channels: x.channels,
            size: half(x.size),
        }
    }

    /// The mean of the whole field, as one pixel.
    pub fn mean(&mut self, x: &Value) -> Value {
        Value {
            name: self.graph.node("GlobalAveragePool", &[&x.name], &[]),
            channels: x.channels,
            size: (1, 1),
        }
    }

    /// Broadcasts one pixel to a field.
    pub fn spread(&mut self, x: &Value, size: (usize, usize)) -> Value {
        let extents = (self.graph).ints("size", &[1, 1, size.0 as i64, size.1 as i64]);
        Value {
            name: self.graph.node("Expand", &[&x.name, &extents], &[]),
            channels: x.channels,
            size,
        }
    }

    /// Takes every `stride`-th pixel.
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

    /// The sum of two fields.
    pub fn add(&mut self, a: &Value, b: &Value) -> Result<Value> {
        let extents = |value: &Value| (value.channels, value.size);
        if extents(a) != extents(b) {
            let (expected, got) = (extents(a), extents(b));
            return Err(mismatch(
                "the summand",
                format!("{expected:?}"),
                format!("{got:?}"),
            ));
        }
        Ok(Value {
            name: self.graph.node("Add", &[&a.name, &b.name], &[]),
            ..a.clone()
        })
    }

    /// Concatenates fields along the channels.
    pub fn concat(&mut self, parts: &[Value]) -> Result<Value> {
        let size = parts[0].size;
        if let Some(other) = parts.iter().find(|part| part.size != size) {
            let (expected, got) = (format!("{size:?}"), format!("{:?}", other.size));
            return Err(mismatch("the field to join", expected, got));
        }
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        Ok(Value {
            name: (self.graph).node("Concat", &names, &[("axis", Attribute::Int(1))]),
            channels: parts.iter().map(|part| part.channels).sum(),
            size,
        })
    }

    /// Bilinear with half-pixel centres, across the date line if only longitude wraps.
    pub fn resize(&mut self, x: &Value, size: (usize, usize)) -> Value {
        let periodic = self.padding == Padding::Longitude;
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

    /// Computes every column as a weighted sum of two.
    fn blend_columns(&mut self, x: &str, axis: &Axis) -> String {
        let mut sides = [0, 1].map(|side| {
            let taps: Vec<(usize, f32)> = (0..axis.len()).map(|q| axis.taps(q)[side]).collect();
            let columns: Vec<i64> = taps.iter().map(|tap| tap.0 as i64).collect();
            let shares: Vec<f32> = taps.iter().map(|tap| tap.1).collect();
            let taken = self.gather(x, 3, &columns);
            let name = format!("{taken}.share");
            let shares = self.graph.floats(&name, &[shares.len()], &shares);
            self.graph.node("Mul", &[&taken, &shares], &[])
        });
        let [low, high] = &mut sides;
        self.graph.node("Add", &[low, high], &[])
    }

    /// Appends the two latitude channels to the input (`latitude_input`).
    pub fn with_latitude(&mut self, x: &Value) -> Result<Value> {
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
