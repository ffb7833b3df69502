//! The graph computed by plain loops, as the ONNX operators' specification says: what any runtime must make of it.
//!
//! Letters: b batch, c channel, h latitude, w longitude.
//!
//! # Source
//! <https://onnx.ai/onnx/operators/>, operator set 18; only the forms that our graphs use, anything else panics.

use super::{Graph, Node, Values};
use std::collections::BTreeMap;

/// Every value of the graph for an input `fields`.
pub fn run(graph: &Graph, fields: Values) -> BTreeMap<String, Values> {
    let mut known: BTreeMap<String, Values> = graph.constants.iter().cloned().collect();
    known.insert("fields".into(), fields);
    for node in &graph.nodes {
        let read = |name: &String| {
            let found = known.get(name);
            found.unwrap_or_else(|| panic!("{}: `{name}` is not known", node.name))
        };
        let inputs: Vec<&Values> = (node.inputs.iter())
            .filter(|name| !name.is_empty())
            .map(read)
            .collect();
        let output = apply(node, &inputs);
        let count: usize = output.shape.iter().product();
        assert_eq!(count, output.values.len(), "{}", node.name);
        known.insert(node.output.clone(), output);
    }
    known
}

fn apply(node: &Node, inputs: &[&Values]) -> Values {
    let x = inputs[0];
    match node.op.as_str() {
        "Conv" => conv(node, inputs),
        "ConvTranspose" => conv_transpose(node, inputs),
        "MaxPool" => pool(node, x, |seen| {
            seen.iter().copied().fold(f32::MIN, f32::max)
        }),
        "AveragePool" => pool(node, x, |seen| seen.iter().sum::<f32>() / seen.len() as f32),
        "GlobalAveragePool" => mean(x),
        "Resize" => resize(node, x, inputs[1]),
        "Relu" => each(x, |v| v.max(0.0)),
        "Sigmoid" => each(x, |v| 1.0 / (1.0 + (-v).exp())),
        "Cast" | "Identity" => x.clone(),
        "PRelu" => broadcast(x, inputs[1], |v, slope| if v < 0.0 { v * slope } else { v }),
        "Add" => broadcast(x, inputs[1], |a, b| a + b),
        "Mul" => broadcast(x, inputs[1], |a, b| a * b),
        "Expand" => {
            let shape: Vec<usize> = inputs[1].values.iter().map(|&n| n as usize).collect();
            let count = shape.iter().product();
            let values = vec![0.0; count];
            broadcast(x, &Values { shape, values }, |v, _| v)
        }
        "Concat" => concat(node, inputs),
        "Gather" => gather(node, x, inputs[1]),
        "Shape" => {
            let (start, end) = (node.ints("start", &[0])[0], node.ints("end", &[4])[0]);
            let extents = &x.shape[start as usize..end as usize];
            Values {
                shape: vec![extents.len()],
                values: extents.iter().map(|&n| n as f32).collect(),
            }
        }
        "ArgMax" => largest(node, x),
        other => panic!("operator {other}"),
    }
}

fn each(x: &Values, f: impl Fn(f32) -> f32) -> Values {
    Values {
        shape: x.shape.clone(),
        values: x.values.iter().map(|&v| f(v)).collect(),
    }
}

/// Extents of 1, and missing ones at the front, repeat.
fn broadcast(a: &Values, b: &Values, f: impl Fn(f32, f32) -> f32) -> Values {
    let rank = a.shape.len().max(b.shape.len());
    let padded = |x: &Values| [vec![1; rank - x.shape.len()], x.shape.clone()].concat();
    let (of_a, of_b) = (padded(a), padded(b));
    let shape: Vec<usize> = (of_a.iter().zip(&of_b))
        .map(|(&m, &n)| match (m, n) {
            (1, n) => n,
            (m, 1) => m,
            (m, n) if m == n => m,
            _ => panic!("{of_a:?} and {of_b:?} do not broadcast"),
        })
        .collect();
    let at = |extents: &[usize], mut index: usize| {
        let (mut offset, mut step) = (0, 1);
        for (&whole, &extent) in shape.iter().zip(extents).rev() {
            offset += index % whole % extent * step;
            step *= extent;
            index /= whole;
        }
        offset
    };
    let count: usize = shape.iter().product();
    let values = (0..count).map(|i| f(a.values[at(&of_a, i)], b.values[at(&of_b, i)]));
    Values {
        values: values.collect(),
        shape,
    }
}

/// What lies before an axis, the axis, what lies behind it.
fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    let product = |part: &[usize]| part.iter().product();
    (
        product(&shape[..axis]),
        shape[axis],
        product(&shape[axis + 1..]),
    )
}

fn concat(node: &Node, inputs: &[&Values]) -> Values {
    let axis = node.ints("axis", &[])[0] as usize;
    let mut shape = inputs[0].shape.clone();
    shape[axis] = inputs.iter().map(|x| x.shape[axis]).sum();
    let (before, ..) = around(&shape, axis);
    let mut values = Vec::new();
    for outer in 0..before {
        for x in inputs {
            let (outers, here, behind) = around(&x.shape, axis);
            assert_eq!(outers, before, "{}", node.name);
            assert_eq!(x.shape[axis + 1..], shape[axis + 1..], "{}", node.name);
            values.extend_from_slice(&x.values[outer * here * behind..][..here * behind]);
        }
    }
    Values { shape, values }
}

fn gather(node: &Node, x: &Values, positions: &Values) -> Values {
    let axis = node.ints("axis", &[])[0] as usize;
    let (before, extent, behind) = around(&x.shape, axis);
    let mut shape = x.shape.clone();
    shape[axis] = positions.values.len();
    let mut values = Vec::new();
    for outer in 0..before {
        for &at in &positions.values {
            let from = (outer * extent + at as usize) * behind;
            values.extend_from_slice(&x.values[from..from + behind]);
        }
    }
    Values { shape, values }
}

fn largest(node: &Node, x: &Values) -> Values {
    let axis = node.ints("axis", &[])[0] as usize;
    assert_eq!(node.ints("keepdims", &[1]), [0]);
    let (before, extent, behind) = around(&x.shape, axis);
    let mut shape = x.shape.clone();
    shape.remove(axis);
    let pixels = (0..before).flat_map(|outer| (0..behind).map(move |inner| (outer, inner)));
    let values = pixels.map(|(outer, inner)| {
        let value = |k: usize| x.values[(outer * extent + k) * behind + inner];
        let best = (1..extent).fold(0, |best, k| if value(k) > value(best) { k } else { best });
        best as f32
    });
    Values {
        values: values.collect(),
        shape,
    }
}

fn extents(x: &Values) -> [usize; 4] {
    x.shape[..].try_into().expect("four extents")
}

/// Kernel, strides, dilations, pads (top, left, bottom, right) of a window.
struct Window {
    kernel: [i64; 2],
    stride: [i64; 2],
    dilation: [i64; 2],
    pads: [i64; 4],
}

impl Window {
    fn of(node: &Node) -> Self {
        let pair = |name: &str| node.ints(name, &[1, 1])[..].try_into().expect("a pair");
        Self {
            kernel: pair("kernel_shape"),
            stride: pair("strides"),
            dilation: pair("dilations"),
            pads: node.ints("pads", &[0; 4])[..].try_into().expect("four"),
        }
    }

    /// Output extent of an axis.
    fn output(&self, axis: usize, extent: usize) -> usize {
        let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
        let room = extent as i64 + self.pads[axis] + self.pads[axis + 2] - reach;
        assert!(room >= 0, "a window larger than its field");
        (room / self.stride[axis]) as usize + 1
    }

    /// The taps of output `p` of an axis that lie in the field, and where.
    fn taps(&self, axis: usize, p: usize, extent: usize) -> Vec<(usize, usize)> {
        let at =
            |tap: i64| p as i64 * self.stride[axis] + tap * self.dilation[axis] - self.pads[axis];
        (0..self.kernel[axis])
            .map(|tap| (tap as usize, at(tap)))
            .filter(|(_, at)| (0..extent as i64).contains(at))
            .map(|(tap, at)| (tap, at as usize))
            .collect()
    }
}

fn conv(node: &Node, inputs: &[&Values]) -> Values {
    let (x, kernel, window) = (inputs[0], inputs[1], Window::of(node));
    let ([batch, channels, h, w], [outs, inner, kh, kw]) = (extents(x), extents(kernel));
    let groups = node.ints("group", &[1])[0] as usize;
    assert_eq!(inner * groups, channels, "{}", node.name);
    let (p, q) = (window.output(0, h), window.output(1, w));
    let mut values = Vec::with_capacity(batch * outs * p * q);
    for (b, k) in (0..batch).flat_map(|b| (0..outs).map(move |k| (b, k))) {
        let bias = inputs.get(2).map_or(0.0, |bias| bias.values[k]);
        let first = k / (outs / groups) * inner;
        for row in 0..p {
            let rows = window.taps(0, row, h);
            for column in 0..q {
                let columns = window.taps(1, column, w);
                let mut sum = bias;
                for c in 0..inner {
                    let field = &x.values[(b * channels + first + c) * h * w..][..h * w];
                    let taps = &kernel.values[(k * inner + c) * kh * kw..][..kh * kw];
                    for &(r, at_h) in &rows {
                        for &(s, at_w) in &columns {
                            sum += field[at_h * w + at_w] * taps[r * kw + s];
                        }
                    }
                }
                values.push(sum);
            }
        }
    }
    Values {
        shape: vec![batch, outs, p, q],
        values,
    }
}

/// Every input pixel adds its kernel to the output, of which the pads are cut.
fn conv_transpose(node: &Node, inputs: &[&Values]) -> Values {
    let (x, kernel, window) = (inputs[0], inputs[1], Window::of(node));
    let ([batch, channels, h, w], [ins, outs, kh, kw]) = (extents(x), extents(kernel));
    assert_eq!(
        (ins, node.ints("group", &[1])),
        (channels, vec![1]),
        "{}",
        node.name
    );
    let whole = |axis: usize, extent: usize| {
        let last = (extent as i64 - 1) * window.stride[axis] + window.kernel[axis];
        (last - window.pads[axis] - window.pads[axis + 2]) as usize
    };
    let (p, q) = (whole(0, h), whole(1, w));
    let mut values = vec![0.0; batch * outs * p * q];
    for (plane, y) in values.chunks_exact_mut(p * q).enumerate() {
        let (b, k) = (plane / outs, plane % outs);
        y.fill(inputs.get(2).map_or(0.0, |bias| bias.values[k]));
        for (c, row) in (0..channels).flat_map(|c| (0..h).map(move |row| (c, row))) {
            for (column, tap) in (0..w).flat_map(|w| (0..kh * kw).map(move |tap| (w, tap))) {
                let to_h = row as i64 * window.stride[0] + (tap / kw) as i64 - window.pads[0];
                let to_w = column as i64 * window.stride[1] + (tap % kw) as i64 - window.pads[1];
                if (0..p as i64).contains(&to_h) && (0..q as i64).contains(&to_w) {
                    y[to_h as usize * q + to_w as usize] += x.values
                        [((b * channels + c) * h + row) * w + column]
                        * kernel.values[(c * outs + k) * kh * kw + tap];
                }
            }
        }
    }
    Values {
        shape: vec![batch, outs, p, q],
        values,
    }
}

/// `summary` of what every window sees of the field itself.
fn pool(node: &Node, x: &Values, summary: impl Fn(&[f32]) -> f32) -> Values {
    assert_eq!(node.ints("count_include_pad", &[0]), [0]);
    let (window, [batch, channels, h, w]) = (Window::of(node), extents(x));
    let (p, q) = (window.output(0, h), window.output(1, w));
    let mut values = Vec::with_capacity(batch * channels * p * q);
    for field in x.values.chunks_exact(h * w) {
        for (row, column) in (0..p).flat_map(|row| (0..q).map(move |column| (row, column))) {
            let columns = window.taps(1, column, w);
            let seen: Vec<f32> = (window.taps(0, row, h).iter())
                .flat_map(|&(_, at)| columns.iter().map(move |&(_, w_at)| field[at * w + w_at]))
                .collect();
            values.push(summary(&seen));
        }
    }
    Values {
        shape: vec![batch, channels, p, q],
        values,
    }
}

fn mean(x: &Values) -> Values {
    let [batch, channels, h, w] = extents(x);
    let planes = x.values.chunks_exact(h * w);
    Values {
        shape: vec![batch, channels, 1, 1],
        values: planes
            .map(|plane| plane.iter().sum::<f32>() / plane.len() as f32)
            .collect(),
    }
}

/// Bilinear, half-pixel centres; the ends hold their values.
fn resize(node: &Node, x: &Values, sizes: &Values) -> Values {
    assert_eq!(node.text("mode"), "linear");
    assert_eq!(node.text("coordinate_transformation_mode"), "half_pixel");
    assert_eq!(node.ints("axes", &[]), [2, 3]);
    let [batch, channels, h, w] = extents(x);
    let (p, q) = (sizes.values[0] as usize, sizes.values[1] as usize);
    let blend = |output: usize, from: usize, to: usize| {
        let at = (output as f64 + 0.5) * from as f64 / to as f64 - 0.5;
        let hold = |at: f64| at.clamp(0.0, from as f64 - 1.0) as usize;
        (
            hold(at.floor()),
            hold(at.floor() + 1.0),
            (at - at.floor()) as f32,
        )
    };
    let mut values = Vec::with_capacity(batch * channels * p * q);
    for field in x.values.chunks_exact(h * w) {
        for (row, column) in (0..p).flat_map(|row| (0..q).map(move |column| (row, column))) {
            let (low, high, share) = blend(row, h, p);
            let (west, east, part) = blend(column, w, q);
            let line =
                |at: usize| field[at * w + west] * (1.0 - part) + field[at * w + east] * part;
            values.push(line(low) * (1.0 - share) + line(high) * share);
        }
    }
    Values {
        shape: vec![batch, channels, p, q],
        values,
    }
}
