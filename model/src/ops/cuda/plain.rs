//! Convolutions by a simple kernel of our own, for problems without a deterministic cuDNN algorithm.

use super::cudnn::{Direction, Problem};
use super::device::Gpu;
use super::kernels::{Arg, CONVOLVE, Grid, int};
use crate::error::Result;
use candle_core::Tensor;

/// Solves a problem: computes `to` from `a` and `b`, in the order of [`Direction`].
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
    let arguments = [&[to.into(), a.into(), b.into()], &extents(problem)[..]];
    let grid = Grid::flat(to.elem_count());
    gpu.launch(CONVOLVE, name, problem.dtype, grid, &arguments.concat())
}

/// The gradient of a few inputs, f32, from the products of each output with the kernels that read it, given as channels
/// of one pixel: (b, p, q, at least taps · c).
pub(super) fn gather(gpu: &Gpu, problem: &Problem, parts: &Tensor, dx: &Tensor) -> Result<()> {
    let [b, p, q, _] = problem.y;
    let problem = Problem {
        y: [b, p, q, parts.elem_count() / (b * p * q)],
        ..*problem
    };
    let arguments = [&[dx.into(), parts.into()], &extents(&problem)[..]];
    let grid = Grid::flat(dx.elem_count());
    gpu.launch_named(CONVOLVE, "gather_f32", grid, &arguments.concat())
}

/// The extents as kernel arguments.
fn extents(problem: &Problem) -> [Arg<'static>; 14] {
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
    extents.map(int)
}
