//! The search for cuDNN's fastest engine for a problem.
//!
//! cuDNN's heuristics take milliseconds and list the fastest engines first, so only the first few are timed; the
//! workspace of each is read from its plan. The choice is kept between runs as a number that encodes its position in
//! the list.

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

/// The number of suggested engines that are timed.
const TIMED: usize = 3;
/// The number of engines timed if cuDNN suggests none.
const TIMED_WITHOUT_GUESS: usize = 12;
/// cuDNN's plain loop in every direction: fast for the smallest problems, seconds for a large one. It is run only if
/// nothing else runs, or if the best other engine takes no longer than [`SMALL`].
const PLAIN_LOOP: i64 = 0;
const SMALL: Duration = Duration::from_micros(200);
/// A plan is not run again if its first run, including loading, takes longer than this and [`MUCH_SLOWER`] times the
/// best so far.
const SLOW: Duration = Duration::from_millis(100);
const MUCH_SLOWER: u32 = 4;
/// The radices of a stored choice: result types and sources, then engines, then list positions.
const ENGINES: i32 = 1000;
const PLACES: i32 = 1000;

/// The result of a search.
pub(super) struct Found {
    pub(super) plan: Plan,
    /// Whether all candidates were timed, so that the result is certainly the fastest.
    pub(super) all_ran: bool,
}

/// A choice encoded for the cache file; `None` if its numbers are too large.
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

/// Decodes a stored choice; `None` if the number is invalid.
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
    /// The graph of a problem with a result of this type; `None` if cuDNN does not support it.
    pub(super) fn graph(
        &self,
        problem: &Problem,
        result: ResultType,
        alignment: Alignment,
    ) -> Result<Option<Arc<Graph>>> {
        let graph = Graph::new(&self.functions, &self.target, problem, result, alignment);
        Ok(if_supported(graph)?.map(Arc::new))
    }

    /// The plan of a stored choice; `None` if it no longer exists or needs too much memory.
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
            // The file may be damaged, or come from a build of this cuDNN version for another CUDA. An invalid choice
            // only means that another engine is used.
            Err(refused) => {
                tracing::debug!("{}: no engine any more: {}", problem.text(), refused.reason);
                return Ok(None);
            }
        };
        // On a different GPU of the same architecture, another engine may have this position.
        if config.engine.number != engine {
            return Ok(None);
        }
        Ok(self.fitting(&graph, config))
    }

    /// The plan of a configuration, if that is acceptable and its workspace fits.
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
            // Another engine will be used.
            Err(refused) => {
                let problem = graph.problem.text();
                tracing::warn!("cuDNN's {told} for {problem} fails: {}", refused.reason);
                return None;
            }
        };
        (plan.memory <= graph.problem.memory(self.most_memory)).then_some(plan)
    }

    /// A fast deterministic plan for operands at these addresses, in the order of [`super::graph::IDS`]. The third
    /// buffer is overwritten and must have room for f32. `None` if there is no plan.
    pub(super) fn find(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        alignment: Alignment,
        places: &[u64],
    ) -> Result<Option<Found>> {
        // Engines compiled at run time cost some seconds in every process, so they are considered only if there is no
        // other.
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

    /// The plans that are worth timing.
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
                // Heuristics list a few engines with several knob settings; later sources add only engines that have no
                // plan yet.
                let known = |plan: &Plan| plan.config.engine.number == engine.number;
                let new = source == Source::Guess || !plans.iter().any(known);
                if plans.len() < most && new && engine.is_compiled() == compiled {
                    plans.extend(self.fitting(graph, config));
                }
            }
            if source == Source::Guess && plans.is_empty() && !compiled {
                most = TIMED_WITHOUT_GUESS;
            }
            // Suggested engines are hardly ever slower than the others. If there are none, all engines are considered,
            // but for a wider result type they offer only engines that need compilation.
            let enough = most == TIMED || graph.result == ResultType::F32;
            if source == Source::Fallback && enough {
                break;
            }
        }
        Ok(plans)
    }

    /// The fastest plan; `None` if none runs.
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
                // Used only if there is no other; the next run may determine which is fast.
                Ok(None) => {
                    tracing::warn!("{told}, cannot be timed");
                    untimed = untimed.or(Some(plan));
                    all_ran = false;
                }
                // Memory may be short, or the engine broken; another one will be used.
                Err(error) => {
                    tracing::warn!("{told}, does not run: {error}");
                    all_ran = false;
                }
            }
        }
        let plan = best.map(|(_, plan)| plan).or(untimed)?;
        Some(Found { plan, all_ran })
    }

    /// The time of a plan's second and third run. The first run, which loads it, suffices if the best so far is much
    /// faster. `None` if the GPU reports no time, since such a plan cannot be compared.
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
            // The plan may be dropped now, so none of its work may remain on the stream.
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
