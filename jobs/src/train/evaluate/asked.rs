//! Which samples a validation asks about, and in which clips.

use crate::clips::{ClipShape, in_time, windows};
use crate::recipe::{Recipe, Task};
use squall_data::Store;
use squall_data::store::Split;
use std::collections::HashMap;

/// What a network is asked about: samples, or clips of them in which every sample is asked about once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::train) enum Asked {
    /// Samples.
    Samples(Vec<usize>),
    /// Clips.
    Clips(ClipShape, Vec<Clip>),
}

/// A clip of a validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::train) struct Clip {
    /// Samples of its frames; the last ones may be one and the same.
    pub frames: Vec<usize>,
    /// Which answers are judged, and the samples that they are about.
    pub judged: Vec<(usize, usize)>,
}

impl Asked {
    /// The validation samples of a store that have labels of the recipe's task, thinned evenly to the recipe's number;
    /// of a network over time clips are thinned.
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

    /// Samples asked about.
    pub(in crate::train) fn samples(&self) -> usize {
        match self {
            Self::Samples(ids) => ids.len(),
            Self::Clips(_, clips) => clips.iter().map(|clip| clip.judged.len()).sum(),
        }
    }

    /// What is dealt to ranks: samples or clips.
    pub(super) fn units(&self) -> usize {
        match self {
            Self::Samples(ids) => ids.len(),
            Self::Clips(_, clips) => clips.len(),
        }
    }

    /// The samples that are read for some units.
    pub(super) fn read(&self, units: &[usize]) -> Vec<usize> {
        match self {
            Self::Samples(ids) => units.iter().map(|&unit| ids[unit]).collect(),
            Self::Clips(_, clips) => {
                let frames = units.iter().flat_map(|&unit| &clips[unit].frames);
                frames.copied().collect()
            }
        }
    }

    /// Samples of a unit in a batch.
    pub(super) fn frames(&self) -> usize {
        match self {
            Self::Samples(_) => 1,
            Self::Clips(shape, _) => shape.frames,
        }
    }

    /// What is judged of a unit that was read as these samples: which answers, and where in a batch of its samples they
    /// stand.
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

    /// Answers of the network about a unit.
    pub(super) fn answers(&self) -> usize {
        match self {
            Self::Samples(_) => 1,
            Self::Clips(shape, _) => shape.answers(),
        }
    }

    /// The place of every sample in the order of all.
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

/// At most `limit` of them, evenly spaced.
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
        let asked = Asked::Clips(shape, clips.to_vec());
        assert_eq!((asked.units(), asked.samples()), (2, 3));
        assert_eq!((asked.frames(), asked.answers()), (3, 2));
        assert_eq!(asked.read(&[1, 0]), [11, 12, 12, 10, 11, 12]);
        assert_eq!(asked.judged(&[10, 11, 12]), [(0, 0), (1, 2)]);
        assert_eq!(asked.judged(&[11, 12, 12]), [(0, 0)]);
        assert_eq!(asked.places(), HashMap::from([(10, 0), (12, 1), (11, 2)]));
    }
}
