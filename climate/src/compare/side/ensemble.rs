//! The runs of one side, whose years are drawn together: one run, or the members of an ensemble.

use super::{Extreme, Extremes, Side, SideOptions};
use crate::compare::GoesOn;
use crate::compare::coverage::Coverage;
use crate::compare::group::Group;
use crate::compare::quantity::Quantity;
use crate::compare::statistic::Statistic;
use crate::error::Result;
use squall_data::Class;

/// The runs of a side, at least one. Their blocks of years follow each other, and none is of two runs.
#[derive(Debug, Clone)]
pub(crate) struct Ensemble {
    members: Vec<Side>,
}

impl Ensemble {
    /// Reads the tables and statistics of each run; `goes_on` is asked before each.
    ///
    /// # Errors
    /// As [`Side::read`], and what `goes_on` gives.
    pub(crate) fn read(
        runs: Vec<Coverage>,
        options: &SideOptions,
        goes_on: GoesOn<'_>,
    ) -> Result<Self> {
        let read = |run: Coverage| {
            goes_on()?;
            Side::read(run, options)
        };
        let members = runs.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Self { members })
    }

    /// Each run by itself.
    pub(crate) fn members(&self) -> &[Side] {
        &self.members
    }

    /// Number of blocks of all runs.
    pub(crate) fn blocks(&self) -> usize {
        self.members.iter().map(Side::blocks).sum()
    }

    /// Number of used years of all runs.
    pub(crate) fn years(&self) -> usize {
        let years = self.members.iter().map(|run| run.years.used.len());
        years.sum()
    }

    /// Whether the tables of every run have what a quantity needs: years of a run without it would be taken for years
    /// like those of the others.
    pub(crate) fn knows(&self, quantity: Quantity) -> bool {
        self.members.iter().all(|run| run.knows(quantity))
    }

    /// Whether the tables of every run tell events of a class.
    pub(crate) fn tells(&self, class: Class) -> bool {
        self.members.iter().all(|run| run.tells(class))
    }

    /// The number of a quantity in a group, from the blocks of all runs.
    pub(crate) fn statistic(&self, quantity: Quantity, group: Group) -> Statistic {
        let members = self.members.iter();
        joined(members.map(|run| run.statistic(quantity, group)))
    }

    /// The extremes of the years of all runs; `None` where there is none, where the tracks of a run have no values, or
    /// where a run does not tell the class: its years would be taken for years without an event.
    pub(crate) fn extremes(&self, of: Extreme) -> Option<Extremes> {
        if !self.tells(of.tracks().about().class) {
            return None;
        }
        let mut all = Extremes {
            values: Vec::new(),
            years: Vec::new(),
        };
        for run in &self.members {
            let own = run.extremes(of);
            if own.values.is_empty() && run.has_any(of.tracks()) {
                return None;
            }
            let before = all.years.len() as u32;
            let values = own.values.into_iter();
            all.values
                .extend(values.map(|(value, block)| (value, before + block)));
            all.years.extend(own.years);
        }
        (!all.values.is_empty()).then_some(all)
    }

    /// The share of the tracks or events of the known years that have no value, where it is not small.
    pub(crate) fn share_without(&self, quantity: Quantity) -> Option<f64> {
        let mut sums = (0.0, 0.0);
        for run in &self.members {
            let (seen, valued) = run.seen_and_valued(quantity)?;
            sums = (sums.0 + seen, sums.1 + valued);
        }
        super::known::share_without(sums)
    }
}

/// Numbers of several runs as one, their blocks one after the other.
pub(crate) fn joined(of_runs: impl Iterator<Item = Statistic>) -> Statistic {
    let of_runs: Vec<Statistic> = of_runs.collect();
    // All are of one quantity, and so of one kind.
    Statistic::concat(&of_runs).unwrap_or_else(|| Statistic::ratio(Vec::new(), Vec::new()))
}
