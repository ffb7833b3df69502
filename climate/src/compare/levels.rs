//! Return levels of both runs with their bands, and how they change.

use crate::compare::design::{Change, Design, Interval, NoInterval, percentile_interval};
use crate::compare::return_level::{Gev, MIN_MAXIMA};
use crate::compare::side::{Extreme, Side};
use crate::compare::weights::Weights;
use serde::{Deserialize, Serialize};
use squall_data::Class;

/// Years between two exceedances on average, for which levels are given.
pub const RETURN_YEARS: [f64; 6] = [2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// Draws that bands are made of: a fit costs more than a sum.
const MOST_DRAWS: usize = 2000;

/// The return levels of one quantity in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReturnLevels {
    /// The word in tables.
    pub name: String,
    /// Of which class: the code of masks.
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
    /// The distribution, of the negative values if the extreme is the lowest; `None` for fewer than ten.
    pub gev: Option<Gev>,
    /// For each of [`RETURN_YEARS`].
    pub levels: Vec<f64>,
    /// Bands of the levels.
    pub bands: Vec<Option<Interval>>,
}

/// Return levels of wind and pressure of cyclones and of the area of rivers, of those that both runs know.
pub(crate) fn return_levels(a: &Side, b: &Side, design: &Design) -> Vec<ReturnLevels> {
    let [cyclone, river] = Class::EVENTS.map(Class::code);
    let all = [
        (
            Extreme::CycloneWind,
            "annual_max_wind",
            cyclone,
            "the strongest wind of a tropical cyclone",
            "m/s",
        ),
        (
            Extreme::CyclonePressure,
            "annual_min_pressure",
            cyclone,
            "the lowest pressure of a tropical cyclone",
            "hPa",
        ),
        (
            Extreme::RiverArea,
            "annual_max_area",
            river,
            "the largest area of an atmospheric river",
            "km²",
        ),
    ];
    all.into_iter()
        .filter_map(|(of, name, class, subject, unit)| {
            let sides = [a, b].map(|side| side.extremes(of));
            if sides.iter().any(Vec::is_empty) {
                return None;
            }
            let lowest = of == Extreme::CyclonePressure;
            let (fits, changes) = levels(sides, lowest, design);
            Some(ReturnLevels {
                name: name.into(),
                class,
                subject: subject.into(),
                unit: unit.into(),
                lowest,
                fits,
                changes,
            })
        })
        .collect()
}

fn levels(sides: [Vec<(f64, u32)>; 2], lowest: bool, design: &Design) -> ([Fit; 2], Vec<Change>) {
    let sign = if lowest { -1.0 } else { 1.0 };
    let mut draws = Vec::new();
    let fits = [0, 1].map(|k| {
        let mut maxima: Vec<(f64, u32)> = sides[k]
            .iter()
            .map(|(v, block)| (sign * v, *block))
            .collect();
        maxima.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let values: Vec<f64> = maxima.iter().map(|(v, _)| *v).collect();
        let gev = Gev::fit_sorted(&values);
        let at = |gev: &Gev| RETURN_YEARS.map(|years| sign * gev.return_level(years));
        let drawn: Vec<[f64; RETURN_YEARS.len()]> = match gev {
            Some(_) => draws_of(&maxima, design.sides()[k])
                .map(|gev| gev.as_ref().map_or([f64::NAN; RETURN_YEARS.len()], at))
                .collect(),
            None => Vec::new(),
        };
        let band = |index: usize| {
            percentile_interval(
                design,
                &mut drawn.iter().map(|levels| levels[index]).collect(),
            )
        };
        let fit = Fit {
            extremes: values.iter().map(|v| sign * v).collect(),
            levels: gev.as_ref().map_or_else(Vec::new, |gev| at(gev).to_vec()),
            bands: gev.map_or_else(Vec::new, |_| (0..RETURN_YEARS.len()).map(band).collect()),
            gev,
        };
        draws.push(drawn);
        fit
    });
    let both = fits[0].levels.iter().zip(&fits[1].levels);
    let changes = both
        .enumerate()
        .map(|(index, (a, b))| {
            let mut change = Change::of_values(Some(*a), Some(*b));
            let pairs = draws[0].iter().zip(&draws[1]);
            change.interval = percentile_interval(
                design,
                &mut pairs.map(|(a, b)| b[index] - a[index]).collect(),
            );
            change.no_interval = change.interval.is_none().then_some(NoInterval::TooFewYears);
            change
        })
        .collect();
    (fits, changes)
}

/// The fit of each draw of blocks; `None` where it has too few maxima.
fn draws_of<'a>(
    maxima: &'a [(f64, u32)],
    weights: &'a Weights,
) -> impl Iterator<Item = Option<Gev>> + 'a {
    (0..weights.draws().min(MOST_DRAWS)).map(move |draw| {
        let often = weights.draw(draw);
        let mut values = Vec::with_capacity(2 * maxima.len());
        for (value, block) in maxima {
            let times = usize::from(often[*block as usize]);
            values.extend(std::iter::repeat_n(*value, times));
        }
        Gev::fit_sorted(&values)
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
    /// Why there are no levels.
    pub fn reason(&self) -> Option<String> {
        (self.gev.is_none()).then(|| {
            format!(
                "{} annual extremes; at least {MIN_MAXIMA} different ones are needed for three parameters",
                self.extremes.len()
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
            let mut side = |shift: f64| -> Vec<(f64, u32)> {
                (0..40)
                    .map(|k| (shift + truth.quantile(random.random_range(1e-9..1.0)), k))
                    .collect()
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
            held += usize::from(fits[0].bands[3].unwrap().holds(truth.return_level(20.0)));
            changed += usize::from(changes[3].interval.unwrap().holds(4.0));
        }
        // 190 of 200 expected, standard error 3.1; bands of fits are a little narrow at 40 years.
        assert!((176..=199).contains(&held), "{held}");
        assert!((178..=200).contains(&changed), "{changed}");
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
        let (fits, _) = levels([values.clone(), values], true, &design);
        assert_eq!(fits[0], fits[0].clone());
        let levels = &fits[0].levels;
        assert!(
            levels.windows(2).all(|pair| pair[1] < pair[0]),
            "{levels:?}"
        );
        assert!(fits[0].extremes[0] > fits[0].extremes[19]);
        let few: Vec<(f64, u32)> = (0..8u32).map(|k| (f64::from(k), k)).collect();
        let (fits, changes) = super::levels([few.clone(), few], false, &design);
        assert!(changes.is_empty() && fits[0].reason().unwrap().starts_with("8 annual"));
    }
}
