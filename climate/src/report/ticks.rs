//! Axis ticks at round numbers.

/// Round positions for an axis from `low` to `high`, about `wanted` of them: multiples of 1, 2, 2.5 or 5 times a power
/// of ten. The first is at most `low` and the last at least `high`.
///
/// Non-finite or reversed bounds give the axis from 0 to 1.
pub(crate) fn nice_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let (low, high) = if low.is_finite() && high.is_finite() && low <= high {
        (low, high)
    } else {
        (0.0, 1.0)
    };
    let span = if high - low > 1e-9 * high.abs().max(low.abs()).max(1e-12) {
        high - low
    } else {
        low.abs().max(1.0)
    };
    let rough = span / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|&step| step >= rough * 0.999_999)
        .unwrap_or(10.0 * power);
    let first = (low / step + 1e-9).floor() as i64;
    let mut last = (high / step - 1e-9).ceil() as i64;
    if last <= first {
        last = first + 1;
    }
    (first..=last).map(|k| k as f64 * step).collect()
}

/// Ticks for counts: integers from 0.
pub(crate) fn count_ticks(high: f64, wanted: usize) -> Vec<f64> {
    let high = high.max(1.0);
    if high <= wanted as f64 {
        return (0..=high.ceil() as i64).map(|k| k as f64).collect();
    }
    let ticks = nice_ticks(0.0, high, wanted);
    if ticks.iter().all(|t| t.fract() == 0.0) {
        ticks
    } else {
        // Only a step of 2.5 is fractional; half as many ticks make it 5 or 10.
        nice_ticks(0.0, high, (wanted / 2).max(1))
    }
}

/// Tick labels with the fewest decimals that represent the values, and thin spaces between thousands.
pub(crate) fn tick_labels(ticks: &[f64]) -> Vec<String> {
    let decimals = (0..6)
        .find(|&d| {
            let scale = 10f64.powi(d);
            ticks
                .iter()
                .all(|t| (t * scale - (t * scale).round()).abs() < 1e-6 * scale.max(1.0))
        })
        .unwrap_or(6);
    ticks
        .iter()
        .map(|t| super::numbers::grouped(*t, decimals as usize))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_axes() {
        assert_eq!(
            nice_ticks(0.0, 70.0, 7),
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]
        );
        assert_eq!(
            nice_ticks(17.3, 61.0, 5),
            [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]
        );
        assert_eq!(nice_ticks(f64::NAN, 1.0, 2), [0.0, 0.5, 1.0]);
        assert_eq!(nice_ticks(3.0, 3.0, 3), [3.0, 4.0]);
        assert_eq!(count_ticks(3.0, 5), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(count_ticks(0.0, 5), [0.0, 1.0]);
        assert_eq!(tick_labels(&[0.0, 0.25, 0.5]), ["0.00", "0.25", "0.50"]);
        assert_eq!(
            tick_labels(&[0.0, 5000.0, 10000.0]),
            ["0", "5000", "10\u{202f}000"]
        );
    }

    proptest! {
        #[test]
        fn ticks_cover_the_range_evenly(low in -1e6f64..1e6, span in 1e-3f64..1e6, wanted in 2usize..12) {
            let high = low + span;
            let ticks = nice_ticks(low, high, wanted);
            let step = ticks[1] - ticks[0];
            prop_assert!(ticks.len() >= 2 && ticks.len() <= wanted + 3);
            prop_assert!(ticks[0] <= low + 1e-6 * step && *ticks.last().unwrap() >= high - 1e-6 * step);
            prop_assert!(ticks.windows(2).all(|w| ((w[1] - w[0]) / step - 1.0).abs() < 1e-6));
            let mantissa = step / 10f64.powf((step.log10() + 1e-9).floor());
            prop_assert!([1.0, 2.0, 2.5, 5.0, 10.0].iter().any(|m| (mantissa / m - 1.0).abs() < 1e-6), "{mantissa}");
        }

        #[test]
        fn counts_are_whole(high in 0.0f64..1e5, wanted in 2usize..8) {
            let ticks = count_ticks(high, wanted);
            prop_assert!(ticks.iter().all(|t| t.fract() == 0.0));
            prop_assert!(ticks[0] == 0.0 && *ticks.last().unwrap() >= high);
        }
    }
}
