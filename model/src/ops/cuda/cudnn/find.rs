//! The search for the fastest engine of cuDNN for a problem.
//!
//! cuDNN's heuristics take milliseconds and list the fastest engines first, so the first few are timed; the memory that
//! each needs is read from its plan. The choice is kept from one run to the next as a number: its place in the list.

use super::engine::{At, Config, Source, config, configs};
use super::graph::Graph;
use super::library::if_supported;
use super::plan::Plan;
use super::problem::{Alignment, Problem, ResultType};
use super::{Cudnn, Gpu};
use crate::error::Result;
use crate::ops::cuda::stream::Mark;
use std::sync::Arc;
use std::time::Duration;

/// How many of those that cuDNN guesses are timed.
const TIMED: usize = 3;
/// How many are timed where it guesses none.
const TIMED_WITHOUT_GUESS: usize = 12;
/// cuDNN's plain loop in every direction: fast for the smallest problems, seconds for a large one. It is run where
/// nothing else runs, or where the best of the others takes no longer than [`SMALL`].
const PLAIN_LOOP: i64 = 0;
const SMALL: Duration = Duration::from_micros(200);
/// A plan that takes longer than this and [`MUCH_SLOWER`] times the best so far, loading included, is not run again.
const SLOW: Duration = Duration::from_millis(100);
const MUCH_SLOWER: u32 = 4;
/// What a kept number counts by: types of the result and sources, then engines, then places in their lists.
const ENGINES: i32 = 1000;
const PLACES: i32 = 1000;

/// What was found.
pub(super) struct Found {
    pub(super) plan: Plan,
    /// Whether all candidates ran and were timed, so that it is the fastest of them.
    pub(super) all_ran: bool,
}

/// A choice as it is kept on disk; none where its numbers are too large for that.
pub(super) fn number(plan: &Plan) -> Option<i32> {
    let (at, engine) = (plan.config.at, plan.config.engine.number);
    number_of(plan.graph.result, at, engine)
}

fn number_of(result: ResultType, at: At, engine: i64) -> Option<i32> {
    let source = Source::ALL.iter().position(|&source| source == at.source)?;
    let result = i32::from(result == ResultType::F32);
    let first = result * Source::ALL.len() as i32 + source as i32;
    let engine = i32::try_from(engine)
        .ok()
        .filter(|engine| (0..ENGINES).contains(engine))?;
    let place = i32::try_from(at.place)
        .ok()
        .filter(|place| (0..PLACES).contains(place))?;
    Some((first * ENGINES + engine) * PLACES + place)
}

/// What was kept as this number, with the engine's; none for one that stands for nothing.
fn choice(number: i32) -> Option<(ResultType, At, i64)> {
    let number = u32::try_from(number).ok()?;
    let (places, engines) = (PLACES.unsigned_abs(), ENGINES.unsigned_abs());
    let place = (number % places) as usize;
    let engine = i64::from(number / places % engines);
    let first = (number / places / engines) as usize;
    let result = match first / Source::ALL.len() {
        0 => ResultType::Same,
        1 => ResultType::F32,
        _ => return None,
    };
    let source = Source::ALL[first % Source::ALL.len()];
    Some((result, At { source, place }, engine))
}

impl Cudnn {
    /// A problem with a result of this type; none where cuDNN does not know such a problem.
    pub(super) fn graph(
        &self,
        problem: &Problem,
        result: ResultType,
        alignment: Alignment,
    ) -> Result<Option<Arc<Graph>>> {
        let graph = Graph::new(&self.functions, &self.target, problem, result, alignment);
        Ok(if_supported(graph)?.map(Arc::new))
    }

    /// The plan that was chosen earlier; none if it is not there any more, or takes too much memory here.
    pub(super) fn kept(
        &self,
        problem: &Problem,
        alignment: Alignment,
        kept: i32,
    ) -> Result<Option<Plan>> {
        let known = choice(kept).filter(|(result, ..)| problem.results().contains(result));
        let Some((result, at, engine)) = known else {
            return Ok(None);
        };
        let Some(graph) = self.graph(problem, result, alignment)? else {
            return Ok(None);
        };
        let config = match config(&self.functions, &self.target, &graph, at) {
            Ok(Some(config)) => config,
            Ok(None) => return Ok(None),
            // The file may be damaged, or of a cuDNN of this version for another CUDA: whatever is wrong with a number
            // of no engine, another one will do.
            Err(refused) => {
                tracing::debug!("{}: no engine any more: {}", problem.text(), refused.reason);
                return Ok(None);
            }
        };
        // On another kind of GPU of the same architecture a different engine may be named there.
        if config.engine.number != engine {
            return Ok(None);
        }
        Ok(self.fitting(&graph, config))
    }

    /// The plan of a configuration that is allowed and works within the memory that there is.
    fn fitting(&self, graph: &Arc<Graph>, config: Config) -> Option<Plan> {
        if !config.engine.is_allowed(&graph.problem) {
            return None;
        }
        let told = config.engine.to_string();
        let plan = match self.plan(graph, config) {
            Ok(plan) => plan,
            Err(refused) if refused.is_not_supported() => {
                tracing::debug!("{told}: no plan: {}", refused.reason);
                return None;
            }
            // Another engine will do.
            Err(refused) => {
                let problem = graph.problem.text();
                tracing::warn!("cuDNN's {told} for {problem} fails: {}", refused.reason);
                return None;
            }
        };
        (plan.memory <= graph.problem.memory(self.most_memory)).then_some(plan)
    }

    /// A fast deterministic plan for operands that lie at these places, in the order of [`super::graph::IDS`]; what is
    /// at the third is overwritten, which has room for f32. None where there is none.
    pub(super) fn find(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        alignment: Alignment,
        places: &[u64],
    ) -> Result<Option<Found>> {
        // What is compiled is compiled again in every process, some seconds each: only where there is nothing else.
        for compiled in [false, true] {
            for &result in problem.results() {
                let Some(graph) = self.graph(problem, result, alignment)? else {
                    continue;
                };
                let plans = self.candidates(&graph, compiled)?;
                if let Some(found) = self.fastest(gpu, problem, plans, places) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Plans that are worth timing.
    pub(super) fn candidates(&self, graph: &Arc<Graph>, compiled: bool) -> Result<Vec<Plan>> {
        let mut plans: Vec<Plan> = Vec::new();
        let mut most = if compiled { 1 } else { TIMED };
        for source in Source::ALL {
            if plans.len() >= most {
                break;
            }
            let named = if_supported(configs(&self.functions, &self.target, graph, source))?
                .unwrap_or_default();
            for config in named {
                let engine = &config.engine;
                // Guesses name a few engines with different choices; of later sources only engines without a plan
                // count.
                let known = |plan: &Plan| plan.config.engine.number == engine.number;
                let new = source == Source::Guess || !plans.iter().any(known);
                if plans.len() < most && new && engine.is_compiled() == compiled {
                    plans.extend(self.fitting(graph, config));
                }
            }
            if source == Source::Guess && plans.is_empty() && !compiled {
                most = TIMED_WITHOUT_GUESS;
            }
            // What cuDNN guesses is hardly ever worse than what it leaves out; where it guesses nothing all engines are
            // looked at, but for a wider result they have nothing that is not compiled.
            let enough = most == TIMED || graph.result == ResultType::F32;
            if source == Source::Fallback && enough {
                break;
            }
        }
        Ok(plans)
    }

    /// The one that takes the least time; none where none runs.
    fn fastest(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        plans: Vec<Plan>,
        places: &[u64],
    ) -> Option<Found> {
        let mut best: Option<(Duration, Plan)> = None;
        let mut untimed: Option<Plan> = None;
        let mut all_ran = true;
        let is_loop = |plan: &Plan| plan.config.engine.number == PLAIN_LOOP;
        let (last, first): (Vec<Plan>, Vec<Plan>) = plans.into_iter().partition(is_loop);
        for plan in first.into_iter().chain(last) {
            let another = best.as_ref().map(|(least, _)| *least > SMALL);
            if is_loop(&plan) && another.unwrap_or(untimed.is_some()) {
                break;
            }
            let told = format!(
                "{}: {:?} {} of cuDNN's {:?}: {}, {} bytes",
                problem.text(),
                plan.graph.result,
                plan.config.at.place,
                plan.config.at.source,
                plan.config.engine,
                plan.memory
            );
            let least = best.as_ref().map(|(least, _)| *least);
            match self.timed(gpu, &plan, places, least) {
                Ok(Some(time)) => {
                    tracing::debug!("{told}, {:.1} us", 1e6 * time.as_secs_f64());
                    if best.as_ref().is_none_or(|(least, _)| time < *least) {
                        best = Some((time, plan));
                    }
                }
                // It will do where there is no other; the next run may see which is fast.
                Ok(None) => {
                    tracing::warn!("{told}, cannot be timed");
                    untimed = untimed.or(Some(plan));
                    all_ran = false;
                }
                // Memory may be short, or the engine broken: another will do.
                Err(error) => {
                    tracing::warn!("{told}, does not run: {error}");
                    all_ran = false;
                }
            }
        }
        let plan = best.map(|(_, plan)| plan).or(untimed)?;
        Some(Found { plan, all_ran })
    }

    /// How long a plan takes, the second and third time: the first time loads it, which is enough where the best so far
    /// is much faster. None if the GPU does not tell, which is no time that could be compared.
    fn timed(
        &self,
        gpu: &Gpu,
        plan: &Plan,
        places: &[u64],
        best: Option<Duration>,
    ) -> Result<Option<Duration>> {
        let run = |times: u32| -> Result<Option<Duration>> {
            let from = Mark::here();
            for _ in 0..times {
                self.run(gpu, plan, places)?;
            }
            let time = from.and_then(|from| from.until(&Mark::here()?));
            Ok(time.map(|time| time / times))
        };
        let runs = || -> Result<Option<Duration>> {
            let first = run(1)?;
            match (first, best) {
                (Some(first), Some(best)) if first > SLOW + MUCH_SLOWER * best => Ok(Some(first)),
                _ => run(2),
            }
        };
        let time = runs();
        if !matches!(time, Ok(Some(_))) {
            // The plan may be dropped now, so none of its work may be on the stream.
            let _ = gpu.wait();
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_come_back_from_their_numbers() {
        let mut numbers = Vec::new();
        for result in [ResultType::Same, ResultType::F32] {
            for source in Source::ALL {
                for (place, engine) in [(0, 0), (3, 62), (999, 999)] {
                    let at = At { source, place };
                    let number = number_of(result, at, engine).unwrap();
                    assert_eq!(choice(number), Some((result, at, engine)));
                    numbers.push(number);
                }
            }
        }
        let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
        assert_eq!(distinct.len(), numbers.len());
        for nothing in [-1, -10_000, 6_000_000, i32::MAX, i32::MIN] {
            assert_eq!(choice(nothing), None, "{nothing}");
        }
        let at = |place| At {
            source: Source::Guess,
            place,
        };
        assert_eq!(number_of(ResultType::Same, at(1000), 1), None);
        assert_eq!(number_of(ResultType::Same, at(1), -1), None);
    }
}
