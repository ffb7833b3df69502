//! The samples, and the clips of them, that a validation scores.

use crate::clips::{ClipShape, in_time, windows};
use crate::recipe::{Recipe, Task};
use squall_data::Store;
use squall_data::store::Split;
use std::collections::HashMap;

/// What a validation scores: single samples, or clips in which every sample is scored once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::train) enum ScoredUnits {
    /// Samples.
    Samples(Vec<usize>),
    /// Clips.
    Clips(ClipShape, Vec<Clip>),
}

/// One clip of a validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::train) struct Clip {
    /// The samples of its frames; the last one may repeat.
    pub frames: Vec<usize>,
    /// Pairs of a network output and the sample that it is scored against.
    pub judged: Vec<(usize, usize)>,
}

impl ScoredUnits {
    /// The validation samples of a store that have labels of the recipe's task, thinned evenly to the recipe's limit.
    /// For a network over time, clips are thinned instead.
    pub(in crate::train) fn of(recipe: &Recipe, store: &Store) -> Self {
        let mut ids = store.ids(Split::Validation);
        let limit = recipe.training.validation_samples;
        let masks = recipe.task == Task::Segment || recipe.network.mask_classes > 0;
        let has_labels = |id: usize| {
            let boxes = recipe.task == Task::Detect && store.boxes(id).is_some();
            boxes || masks && store.samples()[id].has_mask()
        };
        let Some(shape) = recipe.clips() else {
            ids.retain(|&id| has_labels(id));
            return Self::Samples(thinned(ids, limit));
        };
        let (ids, times, step) = in_time(store, &ids);
        let clips = windows(&times, step, shape).into_iter().map(|window| Clip {
            frames: window.frames.iter().map(|&place| ids[place]).collect(),
            judged: window
                .takes
                .iter()
                .map(|&(answer, place)| (answer, ids[place]))
                .collect(),
        });
        let clips = clips.filter(|clip| clip.judged.iter().any(|&(_, id)| has_labels(id)));
        let limit = limit.map(|samples| samples.div_ceil(shape.answers()));
        Self::Clips(shape, thinned(clips.collect(), limit))
    }

    /// Number of samples that are scored.
    pub(in crate::train) fn samples(&self) -> usize {
        match self {
            Self::Samples(ids) => ids.len(),
            Self::Clips(_, clips) => clips.iter().map(|clip| clip.judged.len()).sum(),
        }
    }

    /// Number of units that are dealt to ranks: samples or clips.
    pub(super) fn units(&self) -> usize {
        match self {
            Self::Samples(ids) => ids.len(),
            Self::Clips(_, clips) => clips.len(),
        }
    }

    /// The samples to read for these units.
    pub(super) fn read(&self, units: &[usize]) -> Vec<usize> {
        match self {
            Self::Samples(ids) => units.iter().map(|&unit| ids[unit]).collect(),
            Self::Clips(_, clips) => {
                let frames = units.iter().flat_map(|&unit| &clips[unit].frames);
                frames.copied().collect()
            }
        }
    }

    /// Samples that a unit takes in a batch.
    pub(super) fn frames(&self) -> usize {
        match self {
            Self::Samples(_) => 1,
            Self::Clips(shape, _) => shape.frames,
        }
    }

    /// For a unit read as these samples, pairs of a scored network output and the position of its sample in the batch.
    pub(super) fn judged(&self, read: &[usize]) -> Vec<(usize, usize)> {
        match self {
            Self::Samples(_) => vec![(0, 0)],
            Self::Clips(shape, clips) => {
                let clip = clips.iter().find(|clip| clip.frames == read);
                let judged = clip.map_or(&[][..], |clip| &clip.judged);
                let at = |&(answer, _): &(usize, usize)| (answer, answer * shape.every);
                judged.iter().map(at).collect()
            }
        }
    }

    /// Network outputs per unit.
    pub(super) fn answers(&self) -> usize {
        match self {
            Self::Samples(_) => 1,
            Self::Clips(shape, _) => shape.answers(),
        }
    }

    /// Maps each sample's id to its position in the overall order.
    pub(in crate::train) fn places(&self) -> HashMap<usize, usize> {
        let ids: Vec<usize> = match self {
            Self::Samples(ids) => ids.clone(),
            Self::Clips(_, clips) => {
                let judged = clips.iter().flat_map(|clip| &clip.judged);
                judged.map(|&(_, id)| id).collect()
            }
        };
        ids.into_iter()
            .enumerate()
            .map(|(at, id)| (id, at))
            .collect()
    }
}

/// At most `limit` elements, evenly spaced.
fn thinned<T: Clone>(all: Vec<T>, limit: Option<usize>) -> Vec<T> {
    let count = limit.unwrap_or(all.len()).min(all.len());
    (0..count)
        .map(|k| all[k * all.len() / count].clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_evenly() {
        let of_ten = |limit| thinned((0..10usize).collect(), limit);
        assert_eq!(of_ten(Some(4)), [0, 2, 5, 7]);
        assert_eq!(of_ten(Some(1)), [0]);
        assert_eq!(of_ten(Some(20)), of_ten(None));
        assert_eq!(of_ten(None), (0..10usize).collect::<Vec<_>>());
        assert!(thinned(Vec::<usize>::new(), Some(3)).is_empty());
    }

    /// Of three frames each, with an answer for every second one; the last sample stands for one that is not there.
    #[test]
    fn clips_are_judged_where_their_answers_are() {
        let shape = ClipShape {
            frames: 3,
            stride: 1,
            every: 2,
        };
        let clips = [
            Clip {
                frames: vec![10, 11, 12],
                judged: vec![(0, 10), (1, 12)],
            },
            Clip {
                frames: vec![11, 12, 12],
                judged: vec![(0, 11)],
            },
        ];
        let scored = ScoredUnits::Clips(shape, clips.to_vec());
        assert_eq!((scored.units(), scored.samples()), (2, 3));
        assert_eq!((scored.frames(), scored.answers()), (3, 2));
        assert_eq!(scored.read(&[1, 0]), [11, 12, 12, 10, 11, 12]);
        assert_eq!(scored.judged(&[10, 11, 12]), [(0, 0), (1, 2)]);
        assert_eq!(scored.judged(&[11, 12, 12]), [(0, 0)]);
        assert_eq!(scored.places(), HashMap::from([(10, 0), (12, 1), (11, 2)]));
    }
}
