//! Combines small values over all ranks: flags, and sums that do not depend on the order of ranks.

use crate::comm::collectives::tree;
use crate::comm::{CommError, Communicator, Result};

/// Whether any rank sets the flag. A stop signal reaches ranks at different times, but all must obey it at the same
/// step.
///
/// # Errors
/// Those of the backend.
pub fn any(comm: &mut dyn Communicator, flag: bool) -> Result<bool> {
    let mut flags = [flag];
    any_of_each(comm, &mut flags)?;
    Ok(flags[0])
}

/// Element-wise logical OR of equally many flags over all ranks.
///
/// # Errors
/// Those of the backend.
pub fn any_of_each(comm: &mut dyn Communicator, flags: &mut [bool]) -> Result<()> {
    let mut words = vec![0u64; flags.len().div_ceil(64)];
    for (at, _) in flags.iter().enumerate().filter(|(_, flag)| **flag) {
        words[at / 64] |= 1 << (at % 64);
    }
    tree::all_fold(comm, &mut words, |total, value| *total |= value)?;
    for (at, flag) in flags.iter_mut().enumerate() {
        *flag = words[at / 64] >> (at % 64) & 1 == 1;
    }
    Ok(())
}

/// Replaces counts by their sums over all ranks.
///
/// # Errors
/// [`CommError::Layout`] on all ranks if a sum needs more than 64 bits; those of the backend.
pub fn sum_counts(comm: &mut dyn Communicator, counts: &mut [u64]) -> Result<()> {
    let mut sums: Vec<u128> = counts.iter().map(|&count| u128::from(count)).collect();
    tree::all_fold(comm, &mut sums, |total, value| *total += value)?;
    for (count, sum) in counts.iter_mut().zip(sums) {
        *count = u64::try_from(sum).map_err(|_| {
            CommError::Layout(format!("a count over all ranks is {sum}: too large"))
        })?;
    }
    Ok(())
}

/// Replaces values by their exactly rounded sums over all ranks, which do not depend on the order of ranks.
///
/// Every rank receives the values of all ranks, so this is for scores, not for gradients. If a partial sum overflows
/// f64, or a value is not finite, the result is that of plain additions in rank order.
///
/// # Errors
/// [`CommError::Size`] if ranks have different numbers of values; errors of the backend.
pub fn sum_exactly(comm: &mut dyn Communicator, values: &mut [f64]) -> Result<()> {
    let bytes = tree::all_gather(comm, bytemuck::cast_slice(values))?;
    let all: Vec<f64> = bytemuck::pod_collect_to_vec(&bytes);
    let count = values.len();
    for (place, value) in values.iter_mut().enumerate() {
        let column = all.iter().skip(place).step_by(count);
        *value = exact_sum(column.clone()).unwrap_or_else(|| column.sum());
    }
    Ok(())
}

/// The sum of all values, rounded once; `None` if an intermediate result is not finite.
///
/// # Source
/// Shewchuk 1997, doi:10.1007/PL00009321: keeps a sum as non-overlapping terms.
fn exact_sum<'a>(values: impl Iterator<Item = &'a f64>) -> Option<f64> {
    let mut terms: Vec<f64> = Vec::new();
    for &value in values {
        let mut carried = value;
        let mut kept = 0;
        for place in 0..terms.len() {
            let (sum, error) = two_sum(carried, terms[place]);
            if !sum.is_finite() {
                return None;
            }
            if error != 0.0 {
                terms[kept] = error;
                kept += 1;
            }
            carried = sum;
        }
        if !carried.is_finite() {
            return None;
        }
        terms.truncate(kept);
        terms.push(carried);
    }
    Some(round_once(&terms))
}

/// The rounded sum and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// Rounds a sum of non-overlapping terms, smallest first, to the nearest f64; ties go to even.
fn round_once(terms: &[f64]) -> f64 {
    let mut total = 0.0;
    for place in (0..terms.len()).rev() {
        let (sum, error) = two_sum(total, terms[place]);
        total = sum;
        if error == 0.0 {
            continue;
        }
        // A tie was rounded to even without regard to the smaller terms, which break it.
        let below = place.checked_sub(1).map_or(0.0, |next| terms[next]);
        if (error < 0.0 && below < 0.0) || (error > 0.0 && below > 0.0) {
            let twice = 2.0 * error;
            let moved = total + twice;
            if moved - total == twice {
                total = moved;
            }
        }
        break;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_rounded_once() {
        let check = |values: &[f64], expected: Option<f64>| {
            let backwards: Vec<f64> = values.iter().rev().copied().collect();
            assert_eq!(exact_sum(values.iter()), expected, "{values:?}");
            assert_eq!(exact_sum(backwards.iter()), expected, "{backwards:?}");
        };
        check(&[], Some(0.0));
        check(&[0.1; 10], Some(1.0));
        check(&[1e16, 1.0, -1e16], Some(1.0));
        check(&[1e100, 1.0, -1e100, 1e-100], Some(1.0));
        // Half a unit in the last place, and a little more: up, not to even.
        check(
            &[1.0, 2.0_f64.powi(-53), 2.0_f64.powi(-100)],
            Some(1.0 + f64::EPSILON),
        );
        check(&[1.0, 2.0_f64.powi(-53)], Some(1.0));
        check(&[f64::INFINITY, 1.0], None);
        check(&[f64::MAX, f64::MAX], None);
    }
}
