//! cuDNN's engines for a problem, their properties, and which of them are acceptable.

use super::descriptor::{self as is, Attribute, Descriptor, Kind};
use super::graph::Graph;
use super::library::{Answer, Functions};
use super::problem::Problem;
use super::target::{By, Target};
use candle_core::DType;
use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

/// The source of a list of engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// `CUDNN_HEUR_MODE_A`: cuDNN's heuristics, fastest first.
    Guess,
    /// `CUDNN_HEUR_MODE_FALLBACK`: engines that support nearly everything.
    Fallback,
    /// Every engine by its number, with default knobs. For kernel gradients of some dilated convolutions cuDNN 9.19
    /// suggests nothing, and its fallback has no tensor cores, but engines with tensor cores exist.
    Number,
}

impl Source {
    pub(super) const ALL: [Self; 3] = [Self::Guess, Self::Fallback, Self::Number];
}

/// The position of a configuration in a source's list, which is stable for a version of cuDNN and an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) source: Source,
    /// The index in the list.
    pub(super) place: usize,
}

/// An engine's numerical notes: `cudnnBackendNumericalNote_t`.
const TENSOR_CORE: c_int = 0;
const DOWN_CONVERT_INPUTS: c_int = 1;
const REDUCED_PRECISION_REDUCTION: c_int = 2;
const NONDETERMINISTIC: c_int = 4;
/// An engine's behavior notes: `cudnnBackendBehaviorNote_t`.
const RUNTIME_COMPILATION: c_int = 0;
/// An upper limit on the number of notes of either kind.
const MOST_NOTES: usize = 32;

/// The known properties of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Engine {
    /// Its number among all of cuDNN's engines for this direction.
    pub(in super::super) number: i64,
    pub(super) numerical: Vec<c_int>,
    pub(super) behavior: Vec<c_int>,
}

impl Engine {
    /// Whether it is deterministic, and computes in the requested precision.
    pub(super) fn is_allowed(&self, problem: &Problem) -> bool {
        let mut refused = vec![
            NONDETERMINISTIC,
            REDUCED_PRECISION_REDUCTION,
            DOWN_CONVERT_INPUTS,
        ];
        if problem.dtype == DType::F32 && !problem.tf32 {
            refused.push(TENSOR_CORE);
        }
        !self.numerical.iter().any(|note| refused.contains(note))
    }

    #[cfg(test)]
    pub(in super::super) fn has_matrix_units(&self) -> bool {
        self.numerical.contains(&TENSOR_CORE)
    }

    /// Whether it is compiled at run time when a plan is made, in every process anew: some seconds each.
    pub(super) fn is_compiled(&self) -> bool {
        self.behavior.contains(&RUNTIME_COMPILATION)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numerical = [
            "tensor core",
            "down converts inputs",
            "reduces in low precision",
            "FFT",
            "nondeterministic",
            "Winograd",
            "Winograd 4x4",
            "Winograd 6x6",
            "Winograd 13x13",
            "strict NaN",
        ];
        let behavior = [
            "compiled",
            "filter reordered",
            "bias reordered",
            "for graphs",
            "cuBLASLt",
        ];
        write!(f, "engine {}", self.number)?;
        let notes = [
            (&self.numerical, &numerical[..]),
            (&self.behavior, &behavior[..]),
        ];
        for (notes, names) in notes {
            for &note in notes {
                let name = usize::try_from(note).ok().and_then(|note| names.get(note));
                match name {
                    Some(name) => write!(f, ", {name}")?,
                    None => write!(f, ", note {note}")?,
                }
            }
        }
        Ok(())
    }
}

/// An engine with its knobs.
pub(super) struct Config {
    pub(super) at: At,
    pub(super) config: Descriptor,
    pub(super) engine: Engine,
}

/// The configurations of a source; empty if it has none.
pub(super) fn configs(
    functions: &Arc<Functions>,
    target: &Target,
    graph: &Graph,
    source: Source,
) -> Answer<Vec<Config>> {
    let mode = match source {
        Source::Guess => 3,
        Source::Fallback => 2,
        Source::Number => {
            let count = graph.graph.number(is::GRAPH_ENGINE_COUNT)?;
            let count = usize::try_from(count).unwrap_or(0);
            let numbers = (0..count).map(|number| numbered(functions, target, graph, number));
            // Engines that do not support this problem return an error.
            return Ok(numbers.filter_map(Answer::ok).collect());
        }
    };
    let heuristics = Descriptor::new(functions, Kind::Heuristics)?;
    heuristics.set_descriptors(is::HEURISTICS_GRAPH, &[&graph.graph])?;
    heuristics.set(is::HEURISTICS_MODE, &[mode])?;
    target.set_on(&heuristics, described(is::HEURISTICS_GPU))?;
    let heuristics = match heuristics.finalize() {
        Ok(heuristics) => heuristics,
        Err(refused) if refused.is_not_supported() => return Ok(Vec::new()),
        Err(refused) => return Err(refused),
    };
    let found = heuristics.get_descriptors(is::HEURISTICS_RESULTS, Kind::EngineConfig, false)?;
    let config = |(place, config)| with_engine(At { source, place }, config);
    found.into_iter().enumerate().map(config).collect()
}

/// The configuration at a position; `None` if it no longer exists.
pub(super) fn config(
    functions: &Arc<Functions>,
    target: &Target,
    graph: &Graph,
    at: At,
) -> Answer<Option<Config>> {
    match at.source {
        Source::Number => numbered(functions, target, graph, at.place).map(Some),
        source => {
            let mut configs = configs(functions, target, graph, source)?;
            Ok((at.place < configs.len()).then(|| configs.swap_remove(at.place)))
        }
    }
}

/// How a heuristic gets its target: only a described GPU is passed, because the graph already has the handle.
fn described(attribute: Attribute<Descriptor>) -> By {
    By {
        handle: None,
        described: Some(attribute),
    }
}

/// An engine by its number, with default knobs.
fn numbered(
    functions: &Arc<Functions>,
    target: &Target,
    graph: &Graph,
    number: usize,
) -> Answer<Config> {
    let engine = Descriptor::new(functions, Kind::Engine)?;
    engine.set_descriptors(is::ENGINE_GRAPH, &[&graph.graph])?;
    engine.set(is::ENGINE_NUMBER, &[number as i64])?;
    target.set_on(&engine, described(is::ENGINE_GPU))?;
    let engine = engine.finalize()?;
    let config = Descriptor::new(functions, Kind::EngineConfig)?;
    config.set_descriptors(is::CONFIG_ENGINE, &[&engine])?;
    let at = At {
        source: Source::Number,
        place: number,
    };
    with_engine(at, config.finalize()?)
}

/// Adds the properties of its engine to a configuration.
fn with_engine(at: At, config: Descriptor) -> Answer<Config> {
    let engines = config.get_descriptors(is::CONFIG_ENGINE, Kind::Engine, true)?;
    let engine = match engines.first() {
        Some(engine) => Engine {
            number: engine.number(is::ENGINE_NUMBER)?,
            numerical: engine.get(is::ENGINE_NUMERICAL_NOTES, MOST_NOTES)?,
            behavior: engine.get(is::ENGINE_BEHAVIOR_NOTES, MOST_NOTES)?,
        },
        // Engines without known properties are not used.
        None => Engine {
            numerical: vec![NONDETERMINISTIC],
            ..Engine::default()
        },
    };
    Ok(Config { at, config, engine })
}

#[cfg(test)]
mod tests {
    use super::super::library::Direction;
    use super::*;

    #[test]
    fn engines_are_taken_by_what_is_said_of_them() {
        let problem = |dtype, tf32| Problem {
            direction: Direction::Forward,
            dtype,
            tf32,
            x: [1, 8, 8, 8],
            y: [1, 8, 8, 8],
            kernel: (1, 1),
            padding: (0, 0),
            padding_below: 0,
            stride: 1,
            dilation: 1,
            groups: 1,
            ending: None,
        };
        let (f32s, tf32) = (problem(DType::F32, false), problem(DType::F32, true));
        let bf16 = problem(DType::BF16, false);
        // Allowed in f32, TF32, bf16.
        let cases = [
            (&[][..], [true; 3]),
            (&[9], [true; 3]),
            (&[TENSOR_CORE], [false, true, true]),
            (&[TENSOR_CORE, DOWN_CONVERT_INPUTS], [false; 3]),
            (&[REDUCED_PRECISION_REDUCTION], [false; 3]),
            (&[9, NONDETERMINISTIC], [false; 3]),
        ];
        for (notes, allowed) in cases {
            let engine = Engine {
                numerical: notes.to_vec(),
                ..Engine::default()
            };
            let got = [&f32s, &tf32, &bf16].map(|problem| engine.is_allowed(problem));
            assert_eq!(got, allowed, "{engine}");
        }
    }

    #[test]
    fn notes_read_as_words() {
        let engine = Engine {
            number: 62,
            numerical: vec![0, 77],
            behavior: vec![0],
        };
        assert_eq!(
            engine.to_string(),
            "engine 62, tensor core, note 77, compiled"
        );
        assert!(engine.is_compiled());
    }
}
