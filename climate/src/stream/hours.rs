//! The hours that a time of a series represents.

use squall_data::Time;

/// Longer steps are gaps in the data. Tracks bridge at most this step, too.
const LONGEST_STEP_HOURS: f64 = 24.0;

/// Hours that a single time represents.
const USUAL_HOURS: f64 = 6.0;

/// Number of steps on either side that determine the interval of a time between two gaps.
const NEAR: usize = 3;

/// Hours that a time of an axis represents: half of the steps before and after it. The sum over all times is therefore
/// the covered period, however uneven the steps.
///
/// A step of more than a day is a gap, which does not count as lifetime of a storm; next to it, and at the ends of the
/// axis, a time represents its other step. A time between two gaps represents the shortest of the three steps before
/// and after it, but at most a day. A single time represents six hours.
///
/// # Example
/// ```
/// use squall_data::{Calendar, Time};
/// let at = |h: i64| Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap().add_seconds(3600 * h);
/// let times = [at(0), at(3), at(6), at(12), at(150), at(153)];
/// let hours = [0, 1, 2, 3, 4].map(|k| squall_climate::stream::hours_of(&times, k));
/// assert_eq!(hours, [3.0, 3.0, 4.5, 6.0, 3.0]);
/// assert_eq!(squall_climate::stream::hours_of(&times[..1], 0), 6.0);
/// ```
pub fn hours_of(times: &[Time], index: usize) -> f64 {
    let step = |from: usize| {
        let (time, next) = (times.get(from)?, times.get(from + 1)?);
        Some(next.hours_since(*time))
    };
    let steps = [index.checked_sub(1).and_then(step), step(index)];
    half_of_both(steps, LONGEST_STEP_HOURS).unwrap_or_else(|| {
        let near = index.saturating_sub(NEAR)..index + NEAR;
        let shortest = near.filter_map(step).reduce(f64::min);
        shortest.map_or(USUAL_HOURS, |hours| hours.min(LONGEST_STEP_HOURS))
    })
}

/// Half the sum of the steps before and after a time, hours. A missing step, or one longer than `longest_hours`, is
/// replaced by the other; `None` if neither is usable.
pub(crate) fn half_of_both(steps_hours: [Option<f64>; 2], longest_hours: f64) -> Option<f64> {
    let known = steps_hours.map(|step| step.filter(|hours| *hours <= longest_hours + 1e-9));
    match known {
        [Some(before), Some(after)] => Some(0.5 * (before + after)),
        [Some(one), None] | [None, Some(one)] => Some(one),
        [None, None] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    fn hours(all: &[i64]) -> Vec<f64> {
        let start = Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap();
        let times = all.iter().map(|hours| start.add_seconds(3600 * hours));
        let times: Vec<Time> = times.collect();
        (0..times.len()).map(|k| hours_of(&times, k)).collect()
    }

    #[test]
    fn times_represent_what_lies_half_way_to_their_neighbours() {
        assert_eq!(hours(&[0, 6, 12, 18]), [6.0; 4]);
        // With every third six-hourly time missing, the remaining two thirds represent the same period.
        let uneven = hours(&[0, 6, 18, 24, 36, 42, 54, 60]);
        assert_eq!(uneven, [6.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 6.0]);
        assert_eq!(uneven.iter().sum::<f64>(), 66.0);
        // An extra time between others does not change the sum.
        assert_eq!(hours(&[0, 6, 7, 12, 18]), [6.0, 3.5, 3.0, 5.5, 6.0]);
        // Three-hourly, then six-hourly.
        let found = hours(&[0, 3, 6, 9, 15, 21, 27]);
        assert_eq!(found, [3.0, 3.0, 3.0, 4.5, 6.0, 6.0, 6.0]);
        // A step of a day is not a gap.
        assert_eq!(hours(&[0, 6, 30, 36]), [6.0, 15.0, 15.0, 6.0]);
    }

    #[test]
    fn holes_are_nobodys_time() {
        assert_eq!(hours(&[0, 6, 31, 37]), [6.0; 4]);
        // A single time between two gaps.
        assert_eq!(hours(&[0, 3, 6, 9, 159, 309, 312, 315, 318]), [3.0; 9]);
        // All steps are longer than a day.
        assert_eq!(hours(&[0, 120, 240]), [24.0; 3]);
        assert_eq!(hours(&[0]), [6.0]);
    }
}
