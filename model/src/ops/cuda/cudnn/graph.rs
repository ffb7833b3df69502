//! A problem as a graph of one operation, or of a convolution and its pointwise epilogue.

use super::descriptor::{self as is, Attribute, Descriptor, Kind, OperationAttributes};
use super::library::{
    ADD, Answer, CROSS_CORRELATION, Direction, FLOAT, Functions, PROPAGATE_NAN, RELU, code,
};
use super::problem::{Alignment, Ending, Problem, ResultType};
use super::target::{By, Target};
use candle_core::DType;
use std::ffi::c_int;
use std::sync::Arc;

/// The tensor ids in a variant pack: first operand, second operand, result; for a convolution with an epilogue, then
/// bias and residual.
pub(super) const IDS: [i64; 5] = [1, 2, 3, 4, 5];
/// The first id of virtual tensors, which are internal to the graph and f32.
const FIRST_INNER_ID: i64 = 100;

/// A cuDNN operation graph.
pub(super) struct Graph {
    pub(super) graph: Descriptor,
    pub(super) problem: Problem,
    pub(super) result: ResultType,
    /// The descriptors of which the graph consists, kept alive with it.
    _parts: Vec<Descriptor>,
}

impl Graph {
    pub(super) fn new(
        functions: &Arc<Functions>,
        target: &Target,
        problem: &Problem,
        result: ResultType,
        alignment: Alignment,
    ) -> Answer<Self> {
        let tensors = Tensors {
            functions,
            problem,
            result,
            alignment,
        };
        let mut parts = Vec::new();
        let operations = match problem.ending {
            None => {
                let y = tensors.result()?;
                let operations = vec![convolve(&tensors, &y, &mut parts)?];
                parts.push(y);
                operations
            }
            Some(ending) => convolve_and_end(&tensors, ending, &mut parts)?,
        };
        let graph = Descriptor::new(functions, Kind::OperationGraph)?;
        let by = By {
            handle: Some(is::GRAPH_HANDLE),
            described: None,
        };
        target.set_on(&graph, by)?;
        let all: Vec<&Descriptor> = operations.iter().collect();
        graph.set_descriptors(is::GRAPH_OPERATIONS, &all)?;
        parts.extend(operations);
        Ok(Self {
            graph: graph.finalize()?,
            problem: *problem,
            result,
            _parts: parts,
        })
    }
}

/// Builds the tensors of a problem.
struct Tensors<'a> {
    functions: &'a Arc<Functions>,
    problem: &'a Problem,
    result: ResultType,
    alignment: Alignment,
}

impl Tensors<'_> {
    /// A tensor (b, h, w, c) with an address, or a virtual one of f32 between two operations.
    fn tensor(&self, id: i64, [b, h, w, c]: [usize; 4], dtype: DType) -> Answer<Descriptor> {
        let size = |value: usize| value as i64;
        let tensor = Descriptor::new(self.functions, Kind::Tensor)?;
        tensor.set(is::TENSOR_TYPE, &[code(dtype)])?;
        // Extents are given in cuDNN's axis order; strides describe the memory layout.
        tensor.set(is::TENSOR_DIMENSIONS, &[b, c, h, w].map(size))?;
        tensor.set(is::TENSOR_STRIDES, &[h * w * c, 1, w * c, c].map(size))?;
        tensor.set(is::TENSOR_ID, &[id])?;
        // f32 among half types: its alignment is at least its size.
        let aligned = self.alignment.bytes().max(dtype.size_in_bytes() as i64);
        tensor.set(is::TENSOR_ALIGNMENT, &[aligned])?;
        if id >= FIRST_INNER_ID {
            tensor.set(is::TENSOR_IS_VIRTUAL, &[true])?;
        }
        tensor.finalize()
    }

    fn operand(&self, id: i64, shape: [usize; 4]) -> Answer<Descriptor> {
        self.tensor(id, shape, self.problem.dtype)
    }

    /// The result tensor, in its stored type.
    fn result(&self) -> Answer<Descriptor> {
        let ([outer, _, inner], kernel) = (self.problem.kernels(), self.problem.kernel);
        let shape = match self.problem.direction {
            Direction::Forward => self.problem.y,
            Direction::BackwardData => self.problem.x,
            Direction::BackwardFilter => [outer, kernel.0, kernel.1, inner],
        };
        self.tensor(IDS[2], shape, self.result.dtype(self.problem))
    }
}

/// A convolution alone, with the result `to`.
fn convolve(
    tensors: &Tensors<'_>,
    to: &Descriptor,
    parts: &mut Vec<Descriptor>,
) -> Answer<Descriptor> {
    let (problem, functions) = (tensors.problem, tensors.functions);
    let ([outer, _, inner], kernel) = (problem.kernels(), problem.kernel);
    let (x, w, y) = (problem.x, [outer, kernel.0, kernel.1, inner], problem.y);
    let (kind, [first, second]) = match problem.direction {
        Direction::Forward => (Kind::Forward, [x, w]),
        Direction::BackwardData => (Kind::BackwardData, [w, y]),
        Direction::BackwardFilter => (Kind::BackwardFilter, [x, y]),
    };
    let (first, second) = (
        tensors.operand(IDS[0], first)?,
        tensors.operand(IDS[1], second)?,
    );
    let [x, w, y] = match problem.direction {
        Direction::Forward => [&first, &second, to],
        Direction::BackwardData => [to, &first, &second],
        Direction::BackwardFilter => [&first, to, &second],
    };
    let convolution = convolution(functions, problem)?;
    let operation = Descriptor::new(functions, kind)?;
    let names = OperationAttributes::of(kind);
    operation.set(names.alpha, &[1.0])?;
    operation.set(names.beta, &[0.0])?;
    operation.set_descriptors(names.convolution, &[&convolution])?;
    operation.set_descriptors(names.w, &[w])?;
    operation.set_descriptors(names.x, &[x])?;
    operation.set_descriptors(names.y, &[y])?;
    let operation = operation.finalize()?;
    parts.extend([first, second, convolution]);
    Ok(operation)
}

/// A convolution, plus residual, plus bias, then ReLU: the order that cuDNN supports.
fn convolve_and_end(
    tensors: &Tensors<'_>,
    ending: Ending,
    parts: &mut Vec<Descriptor>,
) -> Answer<Vec<Descriptor>> {
    let y = tensors.problem.y;
    let bias = tensors.operand(IDS[3], [1, 1, 1, y[3]])?;
    let residual = match ending.residual {
        true => Some(tensors.operand(IDS[4], y)?),
        false => None,
    };
    let steps = [
        residual.as_ref().map(|residual| (ADD, Some(residual))),
        Some((ADD, Some(&bias))),
        ending.relu.then_some((RELU, None)),
    ];
    let steps: Vec<(c_int, Option<&Descriptor>)> = steps.into_iter().flatten().collect();
    let inner = |id: i64| tensors.tensor(FIRST_INNER_ID + id, y, DType::F32);
    let mut at = inner(0)?;
    let mut operations = vec![convolve(tensors, &at, parts)?];
    for (done, (mode, second)) in steps.iter().enumerate() {
        let to = match done + 1 == steps.len() {
            true => tensors.result()?,
            false => inner(done as i64 + 1)?,
        };
        operations.push(pointwise(
            tensors.functions,
            *mode,
            [&at, &to],
            *second,
            parts,
        )?);
        parts.push(std::mem::replace(&mut at, to));
    }
    drop(steps);
    parts.push(at);
    parts.push(bias);
    parts.extend(residual);
    Ok(operations)
}

/// A pointwise operation: computes `to` from `from` and an optional second operand.
fn pointwise(
    functions: &Arc<Functions>,
    mode: c_int,
    [from, to]: [&Descriptor; 2],
    second: Option<&Descriptor>,
    parts: &mut Vec<Descriptor>,
) -> Answer<Descriptor> {
    let what = Descriptor::new(functions, Kind::Pointwise)?;
    what.set(is::POINTWISE_MODE, &[mode])?;
    what.set(is::POINTWISE_COMPUTE_TYPE, &[FLOAT])?;
    if mode == RELU {
        what.set(is::POINTWISE_NAN, &[PROPAGATE_NAN])?;
    }
    let what = what.finalize()?;
    let operation = Descriptor::new(functions, Kind::PointwiseOperation)?;
    operation.set_descriptors(is::OPERATION_POINTWISE, &[&what])?;
    operation.set_descriptors(is::OPERATION_FIRST, &[from])?;
    if let Some(second) = second {
        operation.set_descriptors(is::OPERATION_SECOND, &[second])?;
        for factor in is::OPERATION_FACTORS {
            operation.set(factor, &[1.0])?;
        }
    }
    operation.set_descriptors(is::OPERATION_RESULT, &[to])?;
    parts.push(what);
    operation.finalize()
}

/// The convolution descriptor. Groups are not set: cuDNN infers them from the kernel's channels.
fn convolution(functions: &Arc<Functions>, problem: &Problem) -> Answer<Descriptor> {
    let convolution = Descriptor::new(functions, Kind::Convolution)?;
    let both = |attribute: Attribute<i64>, (down, across): (usize, usize)| {
        convolution.set(attribute, &[down as i64, across as i64])
    };
    convolution.set(is::CONVOLUTION_COMPUTE_TYPE, &[FLOAT])?;
    convolution.set(is::CONVOLUTION_MODE, &[CROSS_CORRELATION])?;
    convolution.set(is::CONVOLUTION_DIMENSIONS, &[2])?;
    both(is::CONVOLUTION_PRE_PADDINGS, problem.padding)?;
    let after = (problem.padding_below, problem.padding.1);
    both(is::CONVOLUTION_POST_PADDINGS, after)?;
    both(is::CONVOLUTION_STRIDES, (problem.stride, problem.stride))?;
    both(
        is::CONVOLUTION_DILATIONS,
        (problem.dilation, problem.dilation),
    )?;
    convolution.finalize()
}
