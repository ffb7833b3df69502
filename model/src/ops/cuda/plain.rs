//! Convolutions by a kernel of our own, as they are written down: what cuDNN has no deterministic algorithm for.

use super::cudnn::{Direction, Problem};
use super::device::Gpu;
use super::kernels::{CONVOLVE, Grid, int};
use crate::error::Result;
use candle_core::Tensor;

/// Solves a problem: `to` of `a` and `b`, in the order of [`Direction`].
pub(super) fn convolve(
    gpu: &Gpu,
    problem: &Problem,
    a: &Tensor,
    b: &Tensor,
    to: &Tensor,
) -> Result<()> {
    let name = match problem.direction {
        Direction::Forward => "convolve",
        Direction::BackwardData => "convolve_backward_data",
        Direction::BackwardFilter => "convolve_backward_filter",
    };
    let ([n, h, w, c], [_, p, q, o]) = (problem.x, problem.y);
    let (kernel, padding) = (problem.kernel, problem.padding);
    let extents = [
        n,
        h,
        w,
        c,
        p,
        q,
        o,
        kernel.0,
        kernel.1,
        padding.0,
        padding.1,
        problem.stride,
        problem.dilation,
        problem.groups,
    ];
    let arguments = [&[to.into(), a.into(), b.into()], &extents.map(int)[..]];
    let grid = Grid::flat(to.elem_count());
    gpu.launch(CONVOLVE, name, problem.dtype, grid, &arguments.concat())
}
