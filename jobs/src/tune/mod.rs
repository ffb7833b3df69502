//! Hyper-parameter search: many short runs of one recipe, most of which end early.
//!
//! Every trial is a run of [`train`](mod@crate::train) in its own folder, with the recipe's full length and schedule.
//! After, say, a ninth of the steps all are halted and compared by their validation; the best third continue to a third
//! of the steps, and the best third of those to the end: successive halving. A halted run resumes bit for bit, so a
//! trial that reaches the end equals the run that `squall train` makes of its recipe.
//!
//! A trial may have several runs, with other seeds (`repeats`): their mean decides.
//!
//! Any number of processes may work on one folder: each claims a free run (a lock in its folder) and continues trials
//! left by killed processes. Which trials advance depends only on their results, not on who was fast.
//!
//! # Source
//! Jamieson & Talwalkar 2016, arXiv:1502.07943 (successive halving); Li et al. 2018, arXiv:1603.06560.

mod board;
mod described;
mod ladder;
mod outcome;
mod repeats;
mod search;
mod space;
mod waiting;

pub use board::{BestModel, Board, LeaderboardEntry, Trial};
pub use ladder::Ladder;
pub use search::{Search, TuneEvent};
pub use space::{Dimension, Space};

use crate::error::Result;
use crate::memory;
use crate::recipe::Recipe;
use std::collections::HashSet;
use std::path::Path;

/// Bytes of host memory for each of this many processes of a search on a node; `None` for a single process, or if the
/// system does not report it. Call it before the first trial: later the memory of the others is no longer free.
#[must_use]
pub fn share_of_memory(processes: usize) -> Option<u64> {
    match processes {
        0 | 1 => None,
        several => memory::available_memory(several as u64),
    }
}

/// Recipe keys with the values that a trial gives them.
pub type Values = Vec<(String, String)>;

/// The first trials, up to this number, whose recipes are distinct: lists often contain the recipe's own value.
///
/// # Errors
/// [`JobError::Recipe`](crate::JobError::Recipe) if the recipe rejects a value.
pub fn distinct(
    recipe: &Path,
    overrides: &[String],
    candidates: impl IntoIterator<Item = Values>,
    most: usize,
) -> Result<Vec<Values>> {
    let mut candidates = candidates.into_iter();
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    while kept.len() < most {
        let Some(values) = candidates.next() else {
            break;
        };
        if seen.insert(changed(recipe, overrides, &values)?.to_toml()) {
            kept.push(values);
        }
    }
    Ok(kept)
}

/// The recipe with the values of a trial.
fn changed(recipe: &Path, overrides: &[String], values: &Values) -> Result<Recipe> {
    let changes = values.iter().map(|(key, value)| format!("{key}={value}"));
    let overrides: Vec<String> = overrides.iter().cloned().chain(changes).collect();
    Recipe::named(recipe, &overrides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Team;

    #[test]
    fn only_several_processes_share_the_memory_of_a_node() {
        assert_eq!(share_of_memory(1), None);
        #[cfg(target_os = "linux")]
        assert!(share_of_memory(3).is_some_and(|bytes| bytes > 0));
        let team = Team::solo().within(Some(5));
        assert_eq!(
            [3, 7].map(|left| team.may_hold(Some(left))),
            [Some(3), Some(5)]
        );
        assert_eq!(Team::solo().may_hold(Some(7)), Some(7));
    }

    /// Four combinations, one of which is the recipe's own: all of them are the four trials, whatever is drawn first.
    #[test]
    fn a_trial_that_repeats_the_recipe_leaves_its_place_to_another() {
        let small = Path::new("small");
        let own = ["training.batch=1".to_string(), "seed=1".to_string()];
        for seed in 0..8 {
            let lists =
                ["training.batch=1,2", "seed=1,2"].map(|list| list.parse::<Dimension>().unwrap());
            let space = Space::new(Vec::from(lists), seed).unwrap();
            let trials = distinct(small, &own, space.candidates(4), 4).unwrap();
            assert_eq!(trials.len(), 4, "{trials:?}");
            assert!(trials[0].is_empty(), "{trials:?}");
            let fewer = distinct(small, &own, space.candidates(3), 3).unwrap();
            assert_eq!(fewer.len(), 3, "{fewer:?}");
        }
    }
}
