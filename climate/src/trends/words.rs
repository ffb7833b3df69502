//! Sentences about trends.

use super::{MIN_YEARS, NoTrend, Trend, TrendRow, Trends};
use crate::compare::words::{months, p_text, percent, signed_value, unit_of, value, verb};
use crate::compare::{capital, false_rate, in_percent, is_of_values, needs_values};

/// All sentences: those about the whole globe and year first, then significant ones about regions and seasons.
pub(super) fn statements(trends: &Trends) -> Vec<String> {
    let of = |wanted: fn(&TrendRow) -> bool| -> Vec<String> {
        (trends.trends.iter())
            .filter(|row| wanted(row))
            .filter_map(|row| statement(row, trends))
            .collect()
    };
    let mut all = of(TrendRow::is_of_all);
    // Seasons of regions would add hundreds of sentences.
    all.extend(of(|row| row.is_of_part() && row.significant));
    all
}

/// The sentence for a row; `None` if no year has an event.
pub fn statement(row: &TrendRow, trends: &Trends) -> Option<String> {
    let about = row.quantity.about();
    let trend = &row.trend;
    if trend.no_trend == Some(NoTrend::NoEvents) {
        return None;
    }
    let subject = format!("{}{}", about.subject, row.group.words(about.class));
    let years = years(trend, &trends.months);
    let unit = unit_of(&row.unit, &trends.months);
    let Some(slope) = trend.slope else {
        let mean = value(trend.mean.unwrap_or(f64::NAN));
        let why = match note_untested(trends) {
            // It is said once for all sentences.
            Some(_) => String::new(),
            None => format!("; no trend, because {}", reason(trend)),
        };
        return Some(capital(&format!(
            "{subject}: {mean} {unit} in the mean{why}; {years}."
        )));
    };
    let evidence = evidence(row, trends);
    let rises = trend.tau > Some(0.0);
    let text = if !row.significant {
        let number = if about.counted { "the number of " } else { "" };
        let change = amount(row, &unit, true);
        format!(
            "No significant trend of {number}{subject}: {change} per decade ({evidence}); {years}."
        )
    } else if slope == 0.0 {
        let what = if rises { "rise" } else { "fall" };
        format!(
            "{subject}: a significant {what}, but a slope of 0, because most years are alike ({evidence}); {years}."
        )
    } else {
        let change = amount(row, &unit, false);
        let becomes = match (about.counted && share(row).is_some(), rises) {
            (true, true) => format!("become {change} more frequent"),
            (true, false) => format!("become {change} fewer"),
            (false, true) => format!("{} by {change}", verb(&about, "rise")),
            (false, false) => format!("{} by {change}", verb(&about, "fall")),
        };
        format!("{subject} {becomes} per decade ({evidence}); {years}.")
    };
    Some(capital(&text))
}

/// The note that there is no trend at all, if the run has too few years for one.
pub(crate) fn note_untested(trends: &Trends) -> Option<String> {
    let years = trends.run.years.len();
    if years >= MIN_YEARS {
        return None;
    }
    let (whole, of) = match trends.months.len() {
        0 | 12 => ("whole ", String::new()),
        _ => ("", format!(" of {}", months(&trends.months))),
    };
    let (s, are) = if years == 1 { ("", "is") } else { ("s", "are") };
    Some(format!(
        "There is no trend, because only {years} {whole}year{s}{of} {are} known and at least {MIN_YEARS} are needed."
    ))
}

/// The slope with its interval and p, or the reason why there is none, without naming the quantity.
pub(crate) fn in_short(row: &TrendRow, trends: &Trends) -> String {
    if row.trend.slope.is_none() {
        if note_untested(trends).is_some() {
            return "No trend.".into();
        }
        return format!("No trend, because {}.", reason(&row.trend));
    }
    let verdict = if row.significant {
        "significant"
    } else {
        "not significant"
    };
    format!(
        "{} per decade, {verdict} ({}).",
        amount(row, &unit_of(&row.unit, &trends.months), true),
        evidence(row, trends)
    )
}

/// The reason for a missing trend or interval.
fn reason(trend: &Trend) -> String {
    let [first, last] = [trend.first_year, trend.last_year].map(|year| year.unwrap_or_default());
    match (trend.no_trend, trend.years) {
        (Some(NoTrend::TooFewYears), years) if years >= MIN_YEARS => {
            format!("{years} years are too few for one of this confidence")
        }
        (Some(NoTrend::TooFewYears), years) => {
            let are = if years == 1 { "year is" } else { "years are" };
            format!("only {years} whole {are} known and at least {MIN_YEARS} are needed")
        }
        (Some(NoTrend::MissingYears), years) => {
            format!("of the years {first} to {last} only {years} are known")
        }
        (Some(NoTrend::Constant), _) => "all years have the same value".into(),
        (Some(NoTrend::Persistence), _) => "each year depends too much on the one before".into(),
        (Some(NoTrend::NoEvents) | None, _) => "there are no such events".into(),
    }
}

/// The years and months of a trend, in words.
fn years(trend: &Trend, of: &[i64]) -> String {
    let [first, last] = [trend.first_year, trend.last_year].map(|year| year.unwrap_or_default());
    let years = match trend.years {
        1 => format!("1 year, {first}"),
        years if years as i64 == last - first + 1 => format!("{years} years, {first} to {last}"),
        years => format!("{years} of the years {first} to {last}"),
    };
    match of.len() {
        0 | 12 => years,
        _ => format!("{years}, {} only", months(of)),
    }
}

/// The slope relative to the mean, if percentages are meaningful: nothing falls by more than 100 %.
fn share(row: &TrendRow) -> Option<f64> {
    row.relative.filter(|relative| *relative > -1.0)
}

/// The slope: in percent of the mean if meaningful, otherwise in the quantity's unit.
fn amount(row: &TrendRow, unit: &str, signed: bool) -> String {
    match share(row) {
        Some(relative) => percent(relative, decimals(relative), signed),
        None => {
            let slope = row.trend.slope.unwrap_or(f64::NAN);
            let text = if signed {
                signed_value(slope)
            } else {
                value(slope.abs())
            };
            format!("{text} {unit}")
        }
    }
}

/// Interval and p of a row with a slope, and whether it would be significant on its own.
fn evidence(row: &TrendRow, trends: &Trends) -> String {
    let confidence = trends.confidence;
    let p = row.trend.p.unwrap_or(f64::NAN);
    let confident = in_percent(confidence);
    let in_percent = share(row).and(row.relative_interval);
    let ends = match (in_percent, row.trend.interval) {
        (Some(interval), _) => {
            let digits = decimals(interval.low).max(decimals(interval.high));
            let low = percent(interval.low, digits, true);
            format!(
                "{confident} % interval {} to {}",
                low.trim_end_matches(" %"),
                percent(interval.high, digits, true)
            )
        }
        (None, Some(interval)) => format!(
            "{confident} % interval {} to {} {}",
            signed_value(interval.low),
            signed_value(interval.high),
            unit_of(&row.unit, &trends.months)
        ),
        (None, None) => format!("no interval, because {}", reason(&row.trend)),
    };
    let rate = false_rate(confidence);
    let alone = if row.significant {
        ""
    } else if row.adjusted_p.is_some_and(|p| p < rate) {
        if is_of_values(row.quantity) && needs_values(row.quantity) {
            ", but the share of tracks without a value changes"
        } else {
            ", but maybe not by climate alone, as the notes say"
        }
    } else if p < rate {
        " for this row alone, more after correction for the number of rows"
    } else {
        ""
    };
    format!("{ends}, {}{alone}", p_text(p))
}

/// Decimals of a percentage: trends per decade are small.
fn decimals(share: f64) -> usize {
    match (100.0 * share).abs() {
        percent if percent >= 9.95 => 0,
        percent if percent >= 0.995 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Group, Quantity};
    use crate::statistics::Basin;

    /// Values around a line that rises by `slope` per year from `first`, alternately above and below it. Their mean is
    /// `first` plus half of the total rise.
    fn rising(first: f64, slope: f64) -> impl Iterator<Item = Option<f64>> {
        (0..40).map(move |k| {
            let above = if k % 2 == 0 { 1.0 } else { -1.0 };
            Some(first + slope * f64::from(k) + above * slope.abs())
        })
    }

    #[test]
    fn trends_read_as_sentences() {
        let of = Trends::of_years(40);
        let say = |row: &TrendRow| statement(row, &of).unwrap();
        let row = of.row(Quantity::CycloneTracks, Group::ALL, rising(80.0, 0.5));
        let text = say(&row);
        // 5 per decade, with a mean of 89.75.
        assert!(
            text.starts_with(
                "Tropical cyclones become 5.6 % more frequent per decade (95 % interval +"
            ) && text.ends_with(" %, p < 0.001); 40 years, 1951 to 1990."),
            "{text}"
        );
        assert!(in_short(&row, &of).starts_with("+5.6 % per decade, significant (95 % interval +"));
        let basin = Group::of_basin(Basin::NorthAtlantic);
        let text = say(&of.row(Quantity::RiverTracks, basin, rising(80.0, -0.5)));
        let begin = "Atmospheric rivers in the sector 109°W–30°E north become 7.1 % fewer per decade (95 % interval -";
        assert!(text.starts_with(begin), "{text}");
        let text = say(&of.row(Quantity::CyclonePressure, Group::ALL, rising(960.0, -0.1)));
        let begin = "The mean lifetime-minimum pressure of tropical cyclones falls by 1.00 hPa per decade (95 % interval -";
        assert!(
            text.starts_with(begin) && text.contains(" hPa, p < 0.001)"),
            "{text}"
        );
        let text = say(&of.row(Quantity::CycloneWind, Group::ALL, rising(40.0, 0.01)));
        assert!(
            text.contains("tropical cyclones rises by 0.25 % per decade"),
            "{text}"
        );
    }

    #[test]
    fn no_statement_of_a_fall_by_more_than_100_percent() {
        let of = Trends::of_years(12);
        // 20 per decade, with a mean of 16.
        let falling = (0..12).map(|k| Some(27.0 - 2.0 * f64::from(k)));
        let row = of.row(Quantity::CycloneTracks, Group::ALL, falling);
        assert_eq!(row.relative, Some(-1.25));
        assert_eq!(
            statement(&row, &of).unwrap(),
            "Tropical cyclones fall by 20.0 a year per decade (95 % interval -20.0 to -20.0 a year, p < 0.001); 12 years, 1951 to 1962."
        );
    }

    #[test]
    fn no_trend_is_claimed_where_there_is_none() {
        let mut of = Trends::of_years(40);
        let flat = (0..40).map(|k| Some(20.0 + f64::from(k % 2)));
        let row = of.row(Quantity::CycloneTracks, Group::of_season(0), flat);
        let text = statement(&row, &of).unwrap();
        let begin = "No significant trend of the number of tropical cyclones in December to February: +0.00 % per decade (95 % interval ";
        assert!(text.starts_with(begin), "{text}");
        // p is below 0.05, but not after correction.
        let mut row = of.row(Quantity::CycloneWind, Group::ALL, rising(40.0, 0.01));
        (row.adjusted_p, row.significant) = (Some(0.06), false);
        let text = statement(&row, &of).unwrap();
        assert!(
            text.starts_with("No significant trend of the mean lifetime-maximum wind")
                && text.contains("+0.25 % per decade")
                && text.contains("p < 0.001 for this row alone, more after correction"),
            "{text}"
        );
        row.trend.p = Some(0.05);
        let text = statement(&row, &of).unwrap();
        assert!(text.contains("p = 0.050); 40 years"), "{text}");
        // p is below 0.05 even after correction, but more of the early tracks have no wind.
        (row.trend.p, row.adjusted_p) = (Some(0.001), Some(0.002));
        let text = statement(&row, &of).unwrap();
        let end = "p = 0.001, but the share of tracks without a value changes); 40 years";
        assert!(text.contains(end), "{text}");
        let none = of.row(Quantity::CycloneTracks, Group::ALL, [Some(0.0); 40]);
        assert_eq!(statement(&none, &of), None);
        of.months = vec![6, 7, 8];
        let few = rising(80.0, 0.5).take(9);
        let row = of.row(Quantity::CycloneTracks, Group::ALL, few);
        assert_eq!(
            statement(&row, &of).unwrap(),
            "Tropical cyclones: 82.1 each June to August in the mean; no trend, because only 9 whole years are known and at least 10 are needed; 9 years, 1951 to 1959, June to August only."
        );
        // Ten years can never reach this confidence.
        of.confidence = 0.99999;
        let row = of.row(
            Quantity::CycloneTracks,
            Group::ALL,
            rising(80.0, 0.5).take(10),
        );
        let said = in_short(&row, &of);
        let why = "no interval, because 10 years are too few for one of this confidence";
        assert!(said.contains(why), "{said}");
        of.confidence = 0.95;
        let gaps = rising(80.0, 0.5).enumerate();
        let gaps = gaps.map(|(k, value)| value.filter(|_| k % 2 == 0));
        let row = of.row(Quantity::CycloneTracks, Group::ALL, gaps);
        let said = in_short(&row, &of);
        let missing = "No trend, because of the years 1951 to 1989 only 20 are known.";
        assert_eq!(said, missing);
    }

    /// Regression: each of 33 sentences gave the reason, and three months were a whole year.
    #[test]
    fn too_few_years_are_told_once() {
        let mut of = Trends::of_years(1);
        of.months = vec![8, 9, 10];
        let row = of.row(Quantity::CycloneTracks, Group::ALL, [Some(14.0)]);
        assert_eq!(
            statement(&row, &of).unwrap(),
            "Tropical cyclones: 14.0 each August to October in the mean; 1 year, 1951, August to October only."
        );
        assert_eq!(
            note_untested(&of).unwrap(),
            "There is no trend, because only 1 year of August to October is known and at least 10 are needed."
        );
        assert_eq!(in_short(&row, &of), "No trend.");
        assert_eq!(note_untested(&Trends::of_years(10)), None);
    }

    #[test]
    fn rare_things_may_have_a_trend_without_a_slope() {
        let of = Trends::of_years(40);
        // None in the first 26 years, then one in every third year.
        let rare = (0..40).map(|k| Some(f64::from(u8::from(k > 25 && k % 3 == 0))));
        let row = of.row(Quantity::MajorHurricanes, Group::ALL, rare);
        assert_eq!((row.trend.slope, row.significant), (Some(0.0), true));
        let text = statement(&row, &of).unwrap();
        let begin = "Cyclones of category 3 to 5: a significant rise, but a slope of 0, because most years are alike (95 % interval ";
        assert!(text.starts_with(begin), "{text}");
    }
}
