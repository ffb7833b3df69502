//! Which algorithm of cuDNN solves a problem.
//!
//! `cudnnFind...` runs every algorithm with every kind of multiplication: 25 s for a training step of DeepCAM on an H200. cuDNN's guess costs nothing
//! and names what it takes for fast first, so the first few are timed.

use super::calls::{Performance, Place, Pointer};
use super::{Cudnn, Gpu, OWN, Plan, Problem};
use crate::error::Result;
use crate::ops::cuda::stream::Mark;
use candle_core::DType;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::time::Duration;

/// More than cuDNN has in any direction.
const MOST_ALGORITHMS: usize = 16;
/// How many of those that it guesses are timed.
const TIMED: usize = 3;
/// What cuDNN 9 answers where it cannot solve a problem at all.
const NOT_SUPPORTED: RangeInclusive<c_int> = 3000..=3999;

/// An algorithm and its working memory.
type Way = (c_int, usize);

impl Cudnn {
    /// A fast deterministic algorithm and its working memory; what is at `to` is overwritten. [`OWN`] where there is none.
    pub(super) fn find(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        plan: &Plan,
        places: [u64; 3],
    ) -> Result<Way> {
        let offered = match self.guess(problem, plan)? {
            Some(offered) => offered,
            None => return Ok((OWN, 0)),
        };
        let ways = match &self.fitting(problem, plan, &offered)[..] {
            // What the guess leaves out may be there all the same.
            [] => self.fitting(problem, plan, &self.measured(gpu, problem, plan, places)?),
            found => found.to_vec(),
        };
        let first = match ways[..] {
            [] => return Ok((OWN, 0)),
            [only] => return Ok(only),
            [first, ..] => first,
        };
        let timed = ways.into_iter().take(TIMED).filter_map(|way| {
            let time = self.timed(gpu, problem, plan, way, places)?;
            Some((time, way))
        });
        // Where none of them runs, the first says why when it is run.
        Ok(timed.min().map_or(first, |(_, way)| way))
    }

    /// What cuDNN takes for fast, the fastest first; nothing is run. None where it cannot solve the problem.
    fn guess(&self, problem: &Problem, plan: &Plan) -> Result<Option<Vec<Performance>>> {
        let [first, second, result] = plan.descriptors(problem.direction);
        let mut found = [Performance::default(); MOST_ALGORITHMS];
        let mut count = 0;
        // SAFETY: the descriptors are the problem's, `found` holds so many entries.
        let status = unsafe {
            (self.functions.guess(problem.direction))(
                self.handle,
                first,
                second,
                plan.convolution,
                result,
                MOST_ALGORITHMS as c_int,
                &mut count,
                found.as_mut_ptr(),
            )
        };
        if NOT_SUPPORTED.contains(&status) {
            return Ok(None);
        }
        self.check("cudnnGetConvolutionAlgorithm_v7", status)?;
        Ok(Some(found[..count.max(0) as usize].to_vec()))
    }

    /// All that cuDNN has, each timed by it.
    fn measured(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        plan: &Plan,
        [a, b, to]: [u64; 3],
    ) -> Result<Vec<Performance>> {
        let [first, second, result] = plan.descriptors(problem.direction);
        let mut found = [Performance::default(); MOST_ALGORITHMS];
        let mut count = 0;
        // What does not fit next to a large batch is no reason to fail.
        let work = [self.most_memory, self.most_memory / 8].into_iter();
        let work = work
            .filter_map(|bytes| gpu.empty(&[bytes], DType::U8).ok())
            .next();
        if let Some(work) = &work {
            let room = gpu.address(work)?;
            // SAFETY: operands and result are as large as their descriptors say, `found` holds so many entries, and the working
            // memory is `work`.
            unsafe {
                (self.functions.measure(problem.direction))(
                    self.handle,
                    first,
                    a as Place,
                    second,
                    b as Place,
                    plan.convolution,
                    result,
                    to as Pointer,
                    MOST_ALGORITHMS as c_int,
                    &mut count,
                    found.as_mut_ptr(),
                    room as Pointer,
                    work.elem_count(),
                )
            };
        }
        Ok(found[..count.max(0) as usize].to_vec())
    }

    fn fitting(&self, problem: &Problem, plan: &Plan, found: &[Performance]) -> Vec<Way> {
        let memory = |algorithm| self.memory(problem, plan, algorithm);
        fitting(found, plan.math, memory, self.most_memory)
    }

    /// How long an algorithm takes, the second and third time: the first time loads it. None if it does not run.
    fn timed(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        plan: &Plan,
        way: Way,
        places: [u64; 3],
    ) -> Option<Duration> {
        self.run(gpu, problem, plan, way, places).ok()?;
        let from = Mark::here()?;
        for _ in 0..2 {
            self.run(gpu, problem, plan, way, places).ok()?;
        }
        from.until(&Mark::here()?)
    }
}

/// Those that work, are deterministic and fit into so many bytes, each once, in cuDNN's order.
///
/// An algorithm is listed with every kind of multiplication, so those of the kind that will run come first. What that run needs is
/// asked for: the list has the memory of the kind that it speaks of, which can be less (seen with cuDNN 9.19 on an H200).
fn fitting(
    found: &[Performance],
    math: c_int,
    memory: impl Fn(c_int) -> Option<usize>,
    most_memory: usize,
) -> Vec<Way> {
    let works = |p: &&Performance| p.status == 0 && p.determinism == 1;
    let (same, other): (Vec<&Performance>, Vec<_>) =
        found.iter().filter(works).partition(|p| p.math == math);
    let mut ways: Vec<Way> = Vec::new();
    for p in same.into_iter().chain(other) {
        let known = ways.iter().any(|&(algorithm, _)| algorithm == p.algorithm);
        let bytes = memory(p.algorithm).filter(|&bytes| bytes <= most_memory && !known);
        ways.extend(bytes.map(|bytes| (p.algorithm, bytes)));
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_deterministic_and_fits_is_taken() {
        let offer = |algorithm, status, determinism, math| Performance {
            algorithm,
            status,
            determinism,
            math,
            ..Performance::default()
        };
        let found = [
            offer(0, 0, 0, 1),
            offer(1, 3, 1, 1),
            offer(2, 0, 1, 1),
            offer(3, 0, 1, 0),
            offer(4, 0, 1, 1),
            offer(5, 0, 1, 1),
            offer(5, 0, 1, 0),
        ];
        // As cuDNN says for the run: 2 takes too much, 4 is refused.
        let memory = |algorithm| match algorithm {
            2 => Some(1001),
            4 => None,
            of => Some(64 + of as usize),
        };
        // What was listed with another kind of multiplication comes last.
        assert_eq!(fitting(&found, 1, memory, 1000), [(5, 69), (3, 67)]);
        assert_eq!(fitting(&found[..3], 1, memory, 1000), []);
    }
}
