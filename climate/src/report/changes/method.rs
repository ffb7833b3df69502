//! The method of a comparison: sampling units, corrections, folders, the command.

use crate::compare::{
    Comparison, IntervalMethod, ReturnLevels, SideSummary, Unit, in_percent, untested,
};
use crate::report::numbers::grouped;
use crate::report::page::Section;
use crate::report::parts;

/// The section; `command` is the command that made the comparison, if known.
pub(crate) fn section(comparison: &Comparison, command: &str) -> Section {
    let counted = format!(
        "A track counts for the month, the basin and the hemisphere in which it begins, an object for those in which it is. {}",
        parts::seasons_of_years(comparison.year_start)
    );
    let levels = (comparison.return_levels.iter())
        .any(ReturnLevels::is_fitted)
        .then(|| of_levels(comparison));
    let paragraphs: Vec<String> = match untested(comparison) {
        Some(why) => {
            let none = format!("Nothing was tested and no change has an interval, because {why}.");
            [none, counted].into_iter().chain(levels).collect()
        }
        None => {
            let [drawn, adjusted, limits] = of_tests(comparison);
            ([drawn, adjusted, counted].into_iter())
                .chain(levels)
                .chain([limits])
                .collect()
        }
    };
    let of_side = |name: &str, side: &SideSummary| {
        let s = if side.members.is_empty() { "" } else { "s" };
        let (label, folders, calendar) = (&side.label, folders(side), &side.calendar);
        let words = format!("{label}: {folders}, calendar {calendar}");
        (format!("{name}{s}"), words)
    };
    let provenance = [
        of_side("First run", &comparison.a),
        of_side("Second run", &comparison.b),
        ("Seed".into(), comparison.draws.seed.to_string()),
    ];
    parts::method(&paragraphs, &provenance, command)
}

/// How intervals and p were found, how p is adjusted, and which uncertainties both leave out.
fn of_tests(comparison: &Comparison) -> [String; 3] {
    let confidence = in_percent(comparison.draws.confidence);
    let draws = grouped(comparison.draws.draws as f64, 0);
    let method = match comparison.draws.method {
        IntervalMethod::Percentile => "percentiles",
        IntervalMethod::Bca => "BCa percentiles, but plain ones in maps,",
    };
    [
        match comparison.unit {
            Unit::Year => format!(
                "Whole years are resampled, because storms of one season are not independent. For the {confidence} % intervals, the years of each side were resampled with replacement {draws} times ({method} of the draws, widened for the number of years after Hesterberg 2015). For p, the years of both sides were pooled and randomly assigned to the two sides {draws} times: p is the share of these permutations that differ at least as much."
            ),
            Unit::Member => format!(
                "Members with all their years are resampled as a whole, because they differ in more than their weather. For the {confidence} % intervals, the members of each side were resampled with replacement {draws} times ({method} of the draws, widened for the number of members after Hesterberg 2015). For p, the members of both sides were pooled and randomly assigned to the two sides {draws} times: p is the share of these permutations that differ at least as much."
            ),
            Unit::Pair => format!(
                "Pairs of members, one of each side with all their years, are resampled as a whole: what both have in common is no part of their difference. For the {confidence} % intervals, the pairs were resampled with replacement {draws} times ({method} of the draws, widened for the number of pairs after Hesterberg 2015). For p, the two members of each pair were randomly assigned to the two sides {draws} times: p is the share of these permutations that differ at least as much."
            ),
        },
        "p-values are adjusted by Benjamini and Hochberg's procedure in families: the rows of the whole Earth and year, those of hemispheres and basins, those of seasons, those of seasons of hemispheres and basins, the bins of each distribution, and the cells of each map. Significant is what has an adjusted p below one minus the confidence; a mean or percentile also needs values of about the same share of tracks on both sides.".into(),
        match comparison.unit {
            Unit::Year => "Intervals cover random variation from year to year within each run. They do not cover errors of the model or of the detection, which may differ between climates.".into(),
            Unit::Member | Unit::Pair => "Intervals cover random variation from year to year and differences between members. They do not cover errors that all members share, nor those of the detection, which may differ between climates.".into(),
        },
    ]
}

/// How return levels and their intervals were found.
fn of_levels(comparison: &Comparison) -> String {
    format!(
        "Return levels come from generalised extreme value distributions fitted to annual extremes by L-moments. Their intervals are those of a posterior (flat prior for location and logarithm of the scale, normal with a standard deviation of 0.25 around 0 for the shape){}; there are none beyond twice the number of years.",
        match comparison.unit {
            Unit::Year =>
                ", where blocks of years were drawn not narrower than percentiles of the draws",
            Unit::Member => ", not narrower than percentiles of the draws",
            Unit::Pair =>
                ", not narrower than percentiles of the draws, and those of changes such percentiles",
        }
    )
}

/// The folders of a run or of its members; a long list is cut off.
fn folders(side: &SideSummary) -> String {
    const MAX_FOLDERS: usize = 20;
    let runs = side.runs().iter().take(MAX_FOLDERS);
    let named: Vec<String> = runs.map(|run| run.folder.display().to_string()).collect();
    match side.runs().len().saturating_sub(MAX_FOLDERS) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_the_interval_method_and_its_exceptions() {
        let mut comparison = Comparison::of_runs([("now", 20), ("then", 20)]);
        let says = |comparison: &Comparison, words: &str| {
            let html = section(comparison, "").html;
            html.contains(&format!("({words} of the draws, widened for"))
        };
        assert!(says(&comparison, "percentiles"));
        comparison.draws.method = IntervalMethod::Bca;
        assert!(says(
            &comparison,
            "BCa percentiles, but plain ones in maps,"
        ));
    }

    /// Regression: a comparison with one year on a side claimed that it had been resampled 10 000 times.
    #[test]
    fn an_untested_comparison_describes_no_tests() {
        let html = section(&Comparison::of_runs([("now", 1), ("then", 20)]), "").html;
        let why =
            "Nothing was tested and no change has an interval, because now has only 1 whole year";
        assert!(html.contains(why), "{html}");
        for undone in [
            "resampled",
            "randomly assigned",
            "Benjamini",
            "Return levels",
        ] {
            assert!(!html.contains(undone), "{undone} in {html}");
        }
        let html = section(&Comparison::of_runs([("now", 20), ("then", 20)]), "").html;
        assert!(
            html.contains("randomly assigned") && html.contains("Benjamini"),
            "{html}"
        );
        // A small adjusted p alone does not make the change of a mean significant.
        assert!(html.contains("about the same share of tracks"), "{html}");
    }
}
