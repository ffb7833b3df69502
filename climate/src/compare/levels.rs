//! Return levels of both runs with their confidence bands, and how they change.

use crate::compare::design::{Change, Design, Interval, NoInterval};
use crate::compare::return_level::{Gev, MIN_MAXIMA};
use crate::compare::side::{Ensemble, Extreme, Extremes};
use crate::compare::weights::Weights;
use serde::{Deserialize, Serialize};

/// Return periods for which levels are given: years between two exceedances on average.
pub const RETURN_YEARS: [f64; 6] = [2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// Most bootstrap draws that bands are made of: every draw needs a fit, which costs more than a sum.
pub(super) const MOST_DRAWS: usize = 2000;

/// The return levels of one quantity in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReturnLevels {
    /// The name in tables.
    pub name: String,
    /// The code of the class whose tracks have the quantity, as masks have it.
    pub class: u8,
    /// What it is called in a sentence.
    pub subject: String,
    /// The unit.
    pub unit: String,
    /// Whether the extreme is the smallest value.
    pub lowest: bool,
    /// The fit of each run.
    pub fits: [Fit; 2],
    /// The change for each of [`RETURN_YEARS`]; empty if a run has no fit.
    pub changes: Vec<Change>,
}

/// A run's annual extremes and what they say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The extreme of each year that has one, from the least to the most extreme.
    pub extremes: Vec<f64>,
    /// How many years were analysed, with or without an event; 0 in comparisons of earlier versions, which did not
    /// count them.
    #[serde(default)]
    pub years: usize,
    /// The fitted distribution of the extremes, or of their negatives if the lowest are extreme; `None` for fewer than
    /// ten different ones.
    pub gev: Option<Gev>,
    /// The level for each of [`RETURN_YEARS`]; `None` where events come in too few years for such a level.
    pub levels: Vec<Option<f64>>,
    /// Confidence bands of the levels.
    pub bands: Vec<Option<Interval>>,
}

/// Return levels of wind and pressure of cyclones and of the area of rivers, of those that both runs know.
pub(crate) fn return_levels(a: &Ensemble, b: &Ensemble, design: &Design) -> Vec<ReturnLevels> {
    let all = [
        (
            Extreme::CycloneWind,
            "annual_max_wind",
            "the strongest wind of a tropical cyclone",
        ),
        (
            Extreme::CyclonePressure,
            "annual_min_pressure",
            "the lowest pressure of a tropical cyclone",
        ),
        (
            Extreme::RiverArea,
            "annual_max_area",
            "the largest area of an atmospheric river",
        ),
    ];
    all.into_iter()
        .filter_map(|(of, name, subject)| {
            let sides = [a.extremes(of)?, b.extremes(of)?];
            let lowest = of.is_lowest();
            let (fits, changes) = levels(sides, lowest, design);
            Some(ReturnLevels {
                name: name.into(),
                class: of.tracks().about().class.code(),
                subject: subject.into(),
                unit: of.unit().into(),
                lowest,
                fits,
                changes,
            })
        })
        .collect()
}

fn levels(sides: [Extremes; 2], lowest: bool, design: &Design) -> ([Fit; 2], Vec<Change>) {
    let sign = if lowest { -1.0 } else { 1.0 };
    let mut draws = Vec::new();
    let fits = [0, 1].map(|k| {
        let mut maxima: Vec<(f64, u32)> = (sides[k].values.iter())
            .map(|(v, block)| (sign * v, *block))
            .collect();
        maxima.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let values: Vec<f64> = maxima.iter().map(|(v, _)| *v).collect();
        let mut fit = Fit {
            extremes: values.iter().map(|v| sign * v).collect(),
            years: sides[k].years.iter().sum::<u32>() as usize,
            gev: Gev::fit(&values),
            levels: Vec::new(),
            bands: Vec::new(),
        };
        let mut drawn = Vec::new();
        if let Some(gev) = fit.gev {
            let level = |years: f64| Some(sign * gev.return_level(years, fit.share())?);
            let all = RETURN_YEARS.map(level);
            drawn = draws_of(&maxima, &sides[k].years, design.sides()[k])
                .map(|levels| levels.map(|level| sign * level))
                .collect();
            let at = |index: usize| -> Vec<f64> {
                drawn.iter().map(|levels: &Levels| levels[index]).collect()
            };
            fit.bands = (all.iter().enumerate())
                .map(|(index, level)| {
                    level.and_then(|_| design.percentile_interval(&mut at(index)))
                })
                .collect();
            fit.levels = all.to_vec();
        }
        draws.push(drawn);
        fit
    });
    let both = fits[0].levels.iter().zip(&fits[1].levels);
    let changes = both
        .enumerate()
        .map(|(index, (a, b))| {
            let mut change = Change::of_values(*a, *b);
            if change.difference.is_none() {
                change.no_interval = Some(NoInterval::TooFewEvents);
                return change;
            }
            let pairs = draws[0].iter().zip(&draws[1]);
            let mut differences: Vec<f64> = pairs.map(|(a, b)| b[index] - a[index]).collect();
            change.interval = design.percentile_interval(&mut differences);
            // Where there are draws, too few events are the reason: in too many draws no distribution can be fitted, or
            // events come in too few years for the level.
            let why = if design.has_draws() {
                NoInterval::TooFewEvents
            } else {
                NoInterval::TooFewYears
            };
            change.no_interval = change.interval.is_none().then_some(why);
            change
        })
        .collect();
    (fits, changes)
}

/// A level for each of [`RETURN_YEARS`]: NaN if there is no fit, -∞ if no value is exceeded so often.
type Levels = [f64; RETURN_YEARS.len()];

/// The levels of each bootstrap draw of blocks, from a fit to the drawn maxima and from the share of the drawn years
/// that have one.
fn draws_of<'a>(
    maxima: &'a [(f64, u32)],
    years: &'a [u32],
    weights: &'a Weights,
) -> impl Iterator<Item = Levels> + 'a {
    (0..weights.draws().min(MOST_DRAWS)).map(move |draw| {
        let often = weights.draw(draw);
        let mut values = Vec::with_capacity(2 * maxima.len());
        for (value, block) in maxima {
            let times = usize::from(often[*block as usize]);
            values.extend(std::iter::repeat_n(*value, times));
        }
        let drawn = often
            .iter()
            .zip(years)
            .map(|(times, y)| f64::from(*times) * f64::from(*y));
        let share = values.len() as f64 / drawn.sum::<f64>();
        let Some(gev) = Gev::fit(&values) else {
            return [f64::NAN; RETURN_YEARS.len()];
        };
        RETURN_YEARS.map(|years| gev.return_level(years, share).unwrap_or(f64::NEG_INFINITY))
    })
}

/// Factor and unit of the numbers that people read: areas of rivers are millions of km².
pub(crate) fn spoken_unit(unit: &str) -> (f64, &str) {
    match unit {
        "km²" => (1e-6, "million km²"),
        other => (1.0, other),
    }
}

impl Fit {
    /// The share of the years that have an event.
    pub fn share(&self) -> f64 {
        match self.years {
            0 => 1.0,
            years => self.extremes.len() as f64 / years as f64,
        }
    }

    /// Number of years without an event.
    pub fn years_without(&self) -> usize {
        self.years.saturating_sub(self.extremes.len())
    }

    /// Why there are no levels.
    pub fn reason(&self) -> Option<String> {
        (self.gev.is_none()).then(|| {
            let count = self.extremes.len();
            let extremes = if count == 1 { "extreme" } else { "extremes" };
            format!(
                "{count} annual {extremes}; at least {MIN_MAXIMA} different ones are needed for three parameters"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::design::DrawOptions;
    use rand::Rng;
    use squall_data::random::stream;

    #[test]
    fn bands_hold_the_true_level() {
        let truth = Gev {
            location: 55.0,
            scale: 5.0,
            shape: -0.1,
        };
        let (mut held, mut changed) = (0, 0);
        for repetition in 0..200 {
            let mut random = stream(31, "levels", &[repetition]);
            let mut side = |shift: f64| Extremes {
                values: (0..40)
                    .map(|k| (shift + truth.quantile(random.random_range(1e-9..1.0)), k))
                    .collect(),
                years: vec![1; 40],
            };
            let sides = [side(0.0), side(4.0)];
            let options = DrawOptions {
                draws: 500,
                seed: repetition,
                ..DrawOptions::default()
            };
            let design = Design::new((40, 40), options).unwrap();
            let (fits, changes) = levels(sides, false, &design);
            // The level of 20 years, RETURN_YEARS[3].
            held += usize::from(
                fits[0].bands[3]
                    .unwrap()
                    .holds(truth.return_level(20.0, 1.0).unwrap()),
            );
            changed += usize::from(changes[3].interval.unwrap().holds(4.0));
        }
        // 190 of 200 expected, standard error 3.1; bands of fits are a little narrow at 40 years.
        assert!((176..=199).contains(&held), "{held}");
        assert!((178..=200).contains(&changed), "{changed}");
    }

    /// Extremes of years that all have one.
    fn all(values: Vec<(f64, u32)>) -> Extremes {
        let years = vec![1; values.len()];
        Extremes { values, years }
    }

    #[test]
    fn years_without_events_make_levels_lower() {
        let truth = Gev {
            location: 55.0,
            scale: 5.0,
            shape: -0.1,
        };
        // 30 % of the years have no event: once in 20 years is once in 14 of the others.
        let true_level = truth.return_level(20.0, 0.7).unwrap();
        let (mut held, mut higher) = (0, 0);
        for repetition in 0..200 {
            let mut random = stream(32, "levels", &[repetition]);
            let values: Vec<(f64, u32)> = (0..60u32)
                .filter_map(|k| {
                    let drawn = truth.quantile(random.random_range(1e-9..1.0));
                    random.random_bool(0.7).then_some((drawn, k))
                })
                .collect();
            let side = Extremes {
                values,
                years: vec![1; 60],
            };
            let options = DrawOptions {
                draws: 300,
                seed: repetition,
                ..DrawOptions::default()
            };
            let design = Design::new((60, 60), options).unwrap();
            let (fits, _) = levels([side.clone(), side], false, &design);
            let band = fits[0].bands[3].unwrap();
            held += usize::from(band.holds(true_level));
            higher += usize::from(
                fits[0].levels[3].unwrap() >= fits[0].gev.unwrap().return_level(20.0, 1.0).unwrap(),
            );
            assert_eq!(fits[0].years_without(), 60 - fits[0].extremes.len());
        }
        assert!((176..=199).contains(&held), "{held}");
        assert_eq!(higher, 0);
    }

    #[test]
    fn levels_of_rare_events_are_refused_and_bands_know_of_such_draws() {
        // 24 of 60 years have an event: none is as frequent as every second year, and 5 years are near the edge.
        let values = (0..24u32)
            .map(|k| (40.0 + f64::from(k * k % 23), k))
            .collect();
        let side = Extremes {
            values,
            years: vec![1; 60],
        };
        let design = Design::new((60, 60), DrawOptions::default()).unwrap();
        let (fits, changes) = levels([side.clone(), side], false, &design);
        assert_eq!((fits[0].levels[0], fits[0].bands[0]), (None, None));
        assert!(fits[0].levels[1].is_some() && fits[0].levels[5].is_some());
        assert_eq!(changes[0].no_interval, Some(NoInterval::TooFewEvents));
        assert!(changes[3].interval.unwrap().holds(0.0));
        // Draws below all events are the lowest, not passed over.
        let mut draws: Vec<f64> = (0..990).map(f64::from).collect();
        let low = |draws: &[f64]| {
            design
                .percentile_interval(&mut draws.to_vec())
                .map(|band| band.low)
        };
        let whole = low(&draws).unwrap();
        draws.extend([f64::NEG_INFINITY; 10]);
        assert!(low(&draws).unwrap() < whole - 5.0);
        draws.extend([f64::NEG_INFINITY; 90]);
        assert_eq!(low(&draws), None);
    }

    #[test]
    fn of_many_years_with_few_events_it_is_not_the_years_that_are_too_few() {
        // 24 of 200 years have an event: once in 10 years is once in 1.2 of those, and a quarter of the draws has too few.
        let side = |years: u32| Extremes {
            values: (0..24u32)
                .map(|k| (40.0 + f64::from(k * k % 23), k % years))
                .collect(),
            years: vec![1; years as usize],
        };
        let options = DrawOptions {
            draws: 400,
            ..DrawOptions::default()
        };
        let why = |years: u32| {
            let design = Design::new((years as usize, years as usize), options).unwrap();
            let change = levels([side(years), side(years)], false, &design).1[2];
            assert!(change.difference.is_some() && change.interval.is_none());
            change.no_interval
        };
        assert_eq!(why(200), Some(NoInterval::TooFewEvents));
        assert_eq!(why(4), Some(NoInterval::TooFewYears));
    }

    #[test]
    fn minima_are_maxima_of_the_negative() {
        let values: Vec<(f64, u32)> = (0..20u32)
            .map(|k| (930.0 + f64::from(k * k % 17), k))
            .collect();
        let design = Design::new(
            (20, 20),
            DrawOptions {
                draws: 200,
                ..DrawOptions::default()
            },
        )
        .unwrap();
        let (fits, _) = levels([all(values.clone()), all(values)], true, &design);
        let levels = &fits[0].levels;
        assert!(
            levels
                .windows(2)
                .all(|pair| pair[1].unwrap() < pair[0].unwrap()),
            "{levels:?}"
        );
        assert!(fits[0].extremes[0] > fits[0].extremes[19]);
        let few: Vec<(f64, u32)> = (0..8u32).map(|k| (f64::from(k), k)).collect();
        let one = few[..1].to_vec();
        let (fits, changes) = super::levels([all(few), all(one)], false, &design);
        let begins = |side: usize, words: &str| fits[side].reason().unwrap().starts_with(words);
        assert!(changes.is_empty());
        assert!(begins(0, "8 annual extremes;") && begins(1, "1 annual extreme;"));
    }
}
