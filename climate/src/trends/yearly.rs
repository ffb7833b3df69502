//! Annual values of a statistic.

use crate::compare::Statistic;

/// The value of each block of years on its own, here of each year; `None` if unknown or undefined, such as a mean over
/// no events.
pub(super) fn by_year(statistic: &Statistic) -> Vec<Option<f64>> {
    match statistic {
        Statistic::Ratio {
            numerator,
            denominator,
        } => (numerator.iter().zip(denominator))
            .map(|(above, below)| Some(above / below).filter(|value| value.is_finite()))
            .collect(),
        Statistic::Quantile {
            share,
            values,
            blocks,
        } => {
            let mut of_year = vec![Vec::new(); *blocks];
            for (value, year) in values {
                of_year[*year as usize].push((*value, 0));
            }
            (of_year.into_iter())
                .map(|values| Statistic::quantile(*share, values, 1).value())
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_year_has_a_number_of_its_own() {
        let rate = Statistic::ratio(vec![3.0, 0.0, 0.0], vec![2.0, 4.0, 0.0]);
        assert_eq!(by_year(&rate), [Some(1.5), Some(0.0), None]);
        let values = vec![(5.0, 2), (1.0, 0), (3.0, 0), (2.0, 2), (4.0, 2)];
        let median = Statistic::quantile(0.5, values, 3);
        assert_eq!(by_year(&median), [Some(1.0), None, Some(4.0)]);
    }
}
