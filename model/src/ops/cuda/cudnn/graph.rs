//! A problem as a graph of one operation.

use super::descriptor::{self as is, Attribute, Descriptor, Kind, OperationAttributes};
use super::library::{Answer, CROSS_CORRELATION, Direction, FLOAT, Functions, code};
use super::problem::{Alignment, Problem, Result};
use super::target::{By, Target};
use std::sync::Arc;

/// What tensors are called in a pack of addresses: first operand, second operand, result.
pub(super) const IDS: [i64; 3] = [1, 2, 3];

/// What is asked of cuDNN.
pub(super) struct Graph {
    pub(super) graph: Descriptor,
    pub(super) problem: Problem,
    pub(super) result: Result,
    /// What the graph is made of.
    _parts: [Descriptor; 5],
}

impl Graph {
    pub(super) fn new(
        functions: &Arc<Functions>,
        target: &Target,
        problem: &Problem,
        result: Result,
        alignment: Alignment,
    ) -> Answer<Self> {
        let (kind, [x, w, y]) = match problem.direction {
            Direction::Forward => (Kind::Forward, [IDS[0], IDS[1], IDS[2]]),
            Direction::BackwardData => (Kind::BackwardData, [IDS[2], IDS[0], IDS[1]]),
            Direction::BackwardFilter => (Kind::BackwardFilter, [IDS[0], IDS[2], IDS[1]]),
        };
        let tensor = |id: i64, [b, h, w, c]: [usize; 4]| -> Answer<Descriptor> {
            let dtype = match id == IDS[2] {
                true => result.dtype(problem),
                false => problem.dtype,
            };
            let size = |value: usize| value as i64;
            let tensor = Descriptor::new(functions, Kind::Tensor)?;
            tensor.set(is::TENSOR_TYPE, &[code(dtype)])?;
            // In the order of the header's names, whatever the order in memory, which strides tell.
            tensor.set(is::TENSOR_DIMENSIONS, &[b, c, h, w].map(size))?;
            tensor.set(is::TENSOR_STRIDES, &[h * w * c, 1, w * c, c].map(size))?;
            tensor.set(is::TENSOR_ID, &[id])?;
            // Of f32 beside half types: what it is made for begins where it can be read.
            let aligned = alignment.bytes().max(dtype.size_in_bytes() as i64);
            tensor.set(is::TENSOR_ALIGNMENT, &[aligned])?;
            tensor.finalize()
        };
        let ([outer, _, inner], kernel) = (problem.kernels(), problem.kernel);
        let (x, y) = (tensor(x, problem.x)?, tensor(y, problem.y)?);
        let w = tensor(w, [outer, kernel.0, kernel.1, inner])?;
        let convolution = convolution(functions, problem)?;
        let operation = Descriptor::new(functions, kind)?;
        let to = OperationAttributes::of(kind);
        operation.set(to.alpha, &[1.0])?;
        operation.set(to.beta, &[0.0])?;
        operation.set_descriptors(to.convolution, &[&convolution])?;
        operation.set_descriptors(to.w, &[&w])?;
        operation.set_descriptors(to.x, &[&x])?;
        operation.set_descriptors(to.y, &[&y])?;
        let operation = operation.finalize()?;
        let graph = Descriptor::new(functions, Kind::OperationGraph)?;
        let by = By {
            handle: Some(is::GRAPH_HANDLE),
            described: None,
        };
        target.tell(&graph, by)?;
        graph.set_descriptors(is::GRAPH_OPERATIONS, &[&operation])?;
        Ok(Self {
            graph: graph.finalize()?,
            problem: *problem,
            result,
            _parts: [x, y, w, convolution, operation],
        })
    }
}

/// How kernels go over pixels. Groups are not told: cuDNN sees them from the channels of a kernel.
fn convolution(functions: &Arc<Functions>, problem: &Problem) -> Answer<Descriptor> {
    let convolution = Descriptor::new(functions, Kind::Convolution)?;
    let both = |attribute: Attribute<i64>, (down, across): (usize, usize)| {
        convolution.set(attribute, &[down as i64, across as i64])
    };
    convolution.set(is::CONVOLUTION_COMPUTE_TYPE, &[FLOAT])?;
    convolution.set(is::CONVOLUTION_MODE, &[CROSS_CORRELATION])?;
    convolution.set(is::CONVOLUTION_DIMENSIONS, &[2])?;
    both(is::CONVOLUTION_PRE_PADDINGS, problem.padding)?;
    both(is::CONVOLUTION_POST_PADDINGS, problem.padding)?;
    both(is::CONVOLUTION_STRIDES, (problem.stride, problem.stride))?;
    both(
        is::CONVOLUTION_DILATIONS,
        (problem.dilation, problem.dilation),
    )?;
    convolution.finalize()
}
