//! The state of every group at a checkpoint in round-robin order, so that a run resumes as if uninterrupted.
//!
//! In round-robin order a run is a deterministic function of its start, but its state is more than the parameters:
//! every group has a gradient in progress, computed from the parameters as it last read them. A checkpoint stores those
//! parameters, too, and whose turn it is, which steps are assigned, and the counters. In order of arrival nothing is
//! guaranteed, and none of this is stored.

use super::plan::{self, Layout};
use super::staleness::StalenessSummary;
use crate::error::{JobError, Result};
use serde::{Deserialize, Serialize};
use squall_model::{ModelFile, Tensors};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Name of the fact in a checkpoint.
const FACT: &str = "groups";

/// Groups and servers between two updates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(in crate::train) struct Standing {
    /// Whose turn is next.
    pub next: usize,
    /// The steps assigned to each group.
    pub held: Vec<Vec<u64>>,
    /// The state of each server.
    pub servers: Vec<ServerStanding>,
    /// Groups that are scoring the network, each with the step that they score.
    pub validating: Vec<(usize, u64)>,
    /// All parameters as each group last read them.
    #[serde(skip)]
    pub views: Vec<Vec<f32>>,
    /// The running statistics with which each of `validating` scores.
    #[serde(skip)]
    pub running: Vec<Vec<f32>>,
}

/// Counters of a server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(in crate::train) struct ServerStanding {
    /// Version of its parameters.
    pub version: u64,
    /// Version that each group last read.
    pub views: Vec<u64>,
    /// Staleness of updates.
    pub staleness: StalenessSummary,
}

impl Standing {
    /// Whether it matches this layout and number of parameters.
    pub fn fits(&self, layout: Layout, parameters: usize) -> bool {
        self.views.len() == layout.groups
            && self.held.len() == layout.groups
            && self.next < layout.groups
            && self.servers.len() == layout.servers
            && self.views.iter().all(|view| view.len() == parameters)
            && self.servers.iter().all(|s| s.views.len() == layout.groups)
    }

    /// Stores it in a checkpoint.
    pub fn save_into(&self, file: &mut ModelFile, path: &Path) -> Result<()> {
        let all = [("view", &self.views), ("running", &self.running)];
        for (what, lists) in all {
            for (at, values) in lists.iter().enumerate() {
                let tensor = (vec![values.len()], values.clone());
                file.tensors.insert(name(what, at), tensor);
            }
        }
        let fact = crate::metrics::to_json(self, path)?;
        file.facts.insert(FACT.into(), fact);
        Ok(())
    }

    /// Loads it from a checkpoint's facts and tensors, if present.
    ///
    /// # Errors
    /// [`JobError::Damaged`] if a part of it is missing; [`JobError::Model`] if a tensor cannot be read.
    pub fn load_from(
        path: &Path,
        facts: &BTreeMap<String, String>,
        tensors: &impl Tensors,
    ) -> Result<Option<Self>> {
        let damaged = |reason: String| JobError::damaged(path, reason);
        let Some(fact) = facts.get(FACT) else {
            return Ok(None);
        };
        let mut standing: Self = serde_json::from_str(fact)
            .map_err(|error| damaged(format!("where groups stood: {error}")))?;
        let get = |what: &str, count: usize| -> Result<Vec<Vec<f32>>> {
            let one = |at: usize| -> Result<Vec<f32>> {
                let found = tensors.values_of(&name(what, at))?;
                found.ok_or_else(|| damaged(format!("tensor `{}` is missing", name(what, at))))
            };
            (0..count).map(one).collect()
        };
        standing.views = get("view", standing.held.len())?;
        standing.running = get("running", standing.validating.len())?;
        Ok(Some(standing))
    }

    /// The running statistics with which a group scores the network, if it does.
    pub fn running_of(&self, group: usize) -> Option<&[f32]> {
        let at = self.validating.iter().position(|(who, _)| *who == group)?;
        self.running.get(at).map(Vec::as_slice)
    }
}

fn name(what: &str, at: usize) -> String {
    format!("groups.{what}.{at}")
}

/// What each group last read of a server's part, in round-robin order.
#[derive(Debug, Clone, Default)]
pub(super) struct Views {
    /// Version and values.
    of: Vec<(u64, Vec<f32>)>,
}

impl Views {
    /// The views at the start of a run: all groups have read these values.
    pub fn of_start(groups: usize, values: &[f32]) -> Self {
        Self {
            of: vec![(0, values.to_vec()); groups],
        }
    }

    /// The views in a checkpoint, for the server that holds these ranges.
    pub fn of_standing(standing: &Standing, server: usize, ranges: &[Range<usize>]) -> Self {
        let versions = &standing.servers[server].views;
        let pairs = versions.iter().zip(&standing.views);
        let of = pairs.map(|(&version, view)| {
            let mut values = Vec::with_capacity(plan::count(ranges));
            plan::gather(ranges, view, &mut values);
            (version, values)
        });
        Self { of: of.collect() }
    }

    /// Records that a group has read these values.
    pub fn read(&mut self, group: usize, version: u64, values: &[f32]) {
        if let Some(view) = self.of.get_mut(group) {
            view.0 = version;
            view.1.clear();
            view.1.extend_from_slice(values);
        }
    }

    /// The version that each group has read.
    pub fn versions(&self) -> Vec<u64> {
        self.of.iter().map(|(version, _)| *version).collect()
    }

    /// Stores the values in the file of a server's part.
    pub fn save_into(&self, file: &mut ModelFile) {
        for (at, (_, values)) in self.of.iter().enumerate() {
            let tensor = (vec![values.len()], values.clone());
            file.tensors.insert(name("view", at), tensor);
        }
    }

    /// Removes the values of a server's part from its file and puts them into place among all parameters.
    pub fn scatter(file: &mut ModelFile, ranges: &[Range<usize>], into: &mut [Vec<f32>]) {
        for (at, into) in into.iter_mut().enumerate() {
            if let Some((_, values)) = file.tensors.remove(&name("view", at)) {
                plan::scatter(ranges, &values, into);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> Standing {
        Standing {
            next: 1,
            held: vec![vec![4, 6], vec![5]],
            servers: vec![ServerStanding {
                version: 4,
                views: vec![3, 4],
                staleness: StalenessSummary::default(),
            }],
            validating: vec![(1, 4)],
            views: vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]],
            running: vec![vec![0.5]],
        }
    }

    #[test]
    fn it_comes_back_and_fits_the_same_groups_only() {
        let (mut file, path) = (ModelFile::default(), Path::new("here"));
        let load = |file: &ModelFile| Standing::load_from(path, &file.facts, &file.tensors);
        assert_eq!(load(&file).unwrap(), None);
        standing().save_into(&mut file, path).unwrap();
        let back = load(&file).unwrap().unwrap();
        assert_eq!(back, standing());
        assert_eq!(
            (back.running_of(1), back.running_of(0)),
            (Some(&[0.5][..]), None)
        );
        let layout = |groups, servers| Layout {
            groups,
            servers,
            ranks_per_group: 1,
        };
        assert!(back.fits(layout(2, 1), 3));
        for (layout, parameters) in [(layout(3, 1), 3), (layout(2, 2), 3), (layout(2, 1), 4)] {
            assert!(!back.fits(layout, parameters));
        }
        file.tensors.remove("groups.view.1");
        let error = load(&file).unwrap_err().to_string();
        assert!(error.contains("groups.view.1"), "{error}");
    }

    #[test]
    fn parts_of_servers_become_whole_views() {
        let slices = [vec![0..1, 2..3], std::iter::once(1..2).collect()];
        let mut whole = standing();
        whole.servers.push(whole.servers[0].clone());
        let mut made = vec![vec![0.0; 3]; 2];
        for (server, ranges) in slices.iter().enumerate() {
            let mut views = Views::of_standing(&whole, server, ranges);
            if server == 1 {
                views.read(0, 9, &[7.0]);
                assert_eq!(views.versions(), [9, 4]);
            }
            let mut file = ModelFile::default();
            views.save_into(&mut file);
            Views::scatter(&mut file, ranges, &mut made);
            assert!(file.tensors.is_empty());
        }
        assert_eq!(made, [[1.0, 7.0, 3.0], [4.0, 5.0, 6.0]]);
    }
}
