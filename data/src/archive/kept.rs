//! Leaves out times that only fields have for which there is no use.
//!
//! A mean over an interval stands at its middle, as 3-hourly `pr` of CMIP does, between the times of all other fields:
//! on one axis with them no time would have everything.

use super::Archive;
use crate::gaps::usual_step_seconds;
use crate::{Time, Variable};
use std::sync::OnceLock;

impl Archive {
    /// The channels of a time that has the most of them. All sixteen if a channel is at every time, or if another time
    /// has as many others: then no times are those of the input more than others.
    pub fn most_together(&self) -> Vec<Variable> {
        if !self.available.is_empty() {
            return Variable::CHANNELS.to_vec();
        }
        let (mut most, mut is_tie): (Vec<Variable>, bool) = (Vec::new(), false);
        for index in 0..self.times.len() {
            let channels = Variable::CHANNELS.into_iter();
            let found: Vec<Variable> = channels.filter(|v| self.offers(index, *v)).collect();
            if found.len() > most.len() {
                (most, is_tie) = (found, false);
            } else if found.len() == most.len() && found != most {
                is_tie = true;
            }
        }
        if is_tie || most.is_empty() {
            Variable::CHANNELS.to_vec()
        } else {
            most
        }
    }

    /// Leaves out the times that have other channels alone: none of the `needed` ones, no vapour transport and no field
    /// on pressure levels. Returns a sentence about them.
    ///
    /// All stay if one of them is a usual step or more from all others: then it is a time at which what is needed is
    /// lacking.
    pub fn leave_out_times_without(&mut self, needed: &[Variable]) -> Option<String> {
        if needed.iter().any(|v| self.available.contains(v)) {
            return None;
        }
        let all = self.times.len();
        let has_some = |index: usize| {
            needed.iter().any(|v| self.offers(index, *v))
                || self.has_transport(index)
                || !self.level_fields(index).is_empty()
        };
        let kept: Vec<bool> = (0..all).map(has_some).collect();
        let first = kept.iter().position(|is_kept| !is_kept)?;
        let (own, others): (Vec<usize>, Vec<usize>) = (0..all).partition(|index| kept[*index]);
        let own: Vec<Time> = own.into_iter().map(|index| self.times[index]).collect();
        let step = usual_step_seconds(&own)?;
        let mut off = others.iter().map(|index| self.times[*index]);
        if !off.all(|time| is_near_one_of(&own, time, step)) {
            return None;
        }
        let has = |v: &Variable| others.iter().any(|index| self.offers(*index, *v));
        let found = Variable::CHANNELS.into_iter().filter(has);
        let names: Vec<&str> = found.map(Variable::name).collect();
        let names = match names.is_empty() {
            true => "no channel".to_string(),
            false => names.join(", "),
        };
        let told = format!(
            "{} of {all} times have {names} alone, first {} in `{}`, and no field that is needed: they are left out. A mean over an interval stands at its middle: to use it with the other fields, move it to their times first (`cdo shifttime`)",
            others.len(),
            self.times[first],
            self.source_of(first).0.display()
        );
        let mut of_times = kept.iter();
        self.times.retain(|_| of_times.next() == Some(&true));
        let mut of_places = kept.iter();
        self.places.retain(|_| of_places.next() == Some(&true));
        self.times_of_files = OnceLock::new();
        self.find_problems();
        Some(told)
    }
}

/// Whether a time is less than a step, in seconds, from one of ascending times.
fn is_near_one_of(times: &[Time], time: Time, step: i64) -> bool {
    let next = times.partition_point(|other| other.seconds_since(time) < 0);
    let before = next
        .checked_sub(1)
        .map(|last| time.seconds_since(times[last]));
    let after = times.get(next).map(|other| other.seconds_since(time));
    before
        .into_iter()
        .chain(after)
        .any(|seconds| seconds < step)
}
