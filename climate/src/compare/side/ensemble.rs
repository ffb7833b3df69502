//! The runs of one side, which are resampled together: one run, or the members of an ensemble.

use super::{Extremes, Side, SideOptions, sum_of_years};
use crate::compare::CancelCheck;
use crate::compare::coverage::Coverage;
use crate::compare::group::Group;
use crate::compare::quantity::{Extreme, Quantity};
use crate::compare::statistic::Statistic;
use crate::error::Result;
use squall_data::Class;

/// The runs of a side, at least one. Their blocks of years are concatenated; no block spans two runs.
#[derive(Debug, Clone)]
pub(crate) struct Ensemble {
    members: Vec<Side>,
}

impl Ensemble {
    /// Reads the tables and statistics of each run; calls `check_cancelled` before each.
    ///
    /// # Errors
    /// Errors of [`Side::read`] and `check_cancelled`.
    pub(crate) fn read(
        runs: Vec<Coverage>,
        options: &SideOptions,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let read = |run: Coverage| {
            check_cancelled()?;
            Side::read(run, options)
        };
        let members = runs.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Self { members })
    }

    /// The runs.
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

    /// Whether the tables of every run contain a quantity. Otherwise the years of a run without it would count as if it
    /// were known.
    pub(crate) fn knows(&self, quantity: Quantity) -> bool {
        self.members.iter().all(|run| run.knows(quantity))
    }

    /// Whether the tables of every run cover a class.
    pub(crate) fn covers(&self, class: Class) -> bool {
        self.members.iter().all(|run| run.covers(class))
    }

    /// The statistic of a quantity in a group, from the blocks of all runs.
    pub(crate) fn statistic(&self, quantity: Quantity, group: Group) -> Statistic {
        let members = self.members.iter();
        joined(members.map(|run| run.statistic(quantity, group)))
    }

    /// The extremes of the years of all runs. `None` if there are none, if the tracks of a run have no values, or if a
    /// run does not cover the class, in which case its years would count as years without events.
    pub(crate) fn extremes(&self, of: Extreme) -> Option<Extremes> {
        if !self.covers(of.tracks().about().class) {
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

    /// Number of years of all runs in which an annual number or mean of a group is known.
    pub(crate) fn known_years(&self, quantity: Quantity, group: Group) -> usize {
        let of_run = |run: &Side| {
            let known = run.known_years(quantity, group).into_iter();
            known.filter(|known| *known).count()
        };
        self.members.iter().map(of_run).sum()
    }

    /// The shares of tracks or events without a value, of all years and of the known ones, if the latter is not
    /// negligible.
    pub(crate) fn shares_without(&self, quantity: Quantity) -> Option<[f64; 2]> {
        let of_runs = (self.members.iter()).map(|run| run.total_and_valued_of_all(quantity));
        let of_runs: Option<Vec<(f64, f64)>> = of_runs.collect();
        let known = self.total_and_valued(quantity, Group::ALL)?;
        super::known::shares_without(sum_of_years(&of_runs?), known)
    }

    /// The number of tracks or events of a group summed by an annual number or mean in the known years of all runs, and
    /// how many of them have a value; `None` for numbers that every table contains.
    pub(crate) fn total_and_valued(&self, quantity: Quantity, group: Group) -> Option<(f64, f64)> {
        let of_runs = (self.members.iter()).map(|run| run.total_and_valued(quantity, group));
        let of_runs: Option<Vec<(f64, f64)>> = of_runs.collect();
        Some(sum_of_years(&of_runs?))
    }

    /// The number of tracks in the known years of an extreme of all runs, and how many of them have its value.
    pub(crate) fn total_and_valued_of(&self, of: Extreme) -> (f64, f64) {
        let of_runs = (self.members.iter()).map(|run| run.total_and_valued_of(of));
        sum_of_years(&of_runs.collect::<Vec<_>>())
    }
}

/// Joins statistics of several runs by concatenating their blocks.
pub(crate) fn joined(of_runs: impl Iterator<Item = Statistic>) -> Statistic {
    let of_runs: Vec<Statistic> = of_runs.collect();
    // All are of one quantity, hence of one kind.
    Statistic::concat(&of_runs).unwrap_or_else(|| Statistic::ratio(Vec::new(), Vec::new()))
}
