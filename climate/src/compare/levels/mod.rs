//! Return levels of both runs with confidence bands, and their changes.
//!
//! Levels come from a fit by L-moments, intervals from a posterior ([`Posterior`]). Bootstrap percentiles would have a
//! coverage of 64 to 86 % instead of 95 % for the level of 20 years, given ten to thirty years: no resample contains a
//! value above the highest, and fits to resamples seldom have a heavier tail than the truth.

use crate::compare::design::{Change, Design, Interval, NoInterval};
use crate::compare::posterior::Posterior;
use crate::compare::quantity::Extreme;
use crate::compare::return_level::{Gev, MIN_MAXIMA};
use crate::compare::side::{Ensemble, Extremes};
use crate::compare::weights::Weights;
use serde::{Deserialize, Serialize};
use squall_data::random::stream;

/// Return periods with levels: mean number of years between exceedances.
pub const RETURN_YEARS: [f64; 6] = [2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// Maximum number of bootstrap resamples that are fitted; a fit costs more than a sum.
pub(super) const MAX_FITTED_DRAWS: usize = 2000;

/// The return levels of one quantity in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReturnLevels {
    /// The name in tables.
    pub name: String,
    /// The mask code of the class whose tracks have the quantity.
    pub class: u8,
    /// Its name in a sentence.
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

impl ReturnLevels {
    /// Whether either run has a fitted distribution.
    pub(crate) fn is_fitted(&self) -> bool {
        self.fits.iter().any(|fit| fit.gev.is_some())
    }
}

/// Annual extremes of a run, and their fitted distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The extreme of each year with events, ordered from the least to the most extreme.
    pub extremes: Vec<f64>,
    /// Number of analysed years, with or without events; 0 in comparisons of earlier versions, which did not count
    /// them.
    #[serde(default)]
    pub years: usize,
    /// The distribution fitted to the extremes, or to their negatives if the lowest values are extreme; `None` for
    /// fewer than ten different values.
    pub gev: Option<Gev>,
    /// The level for each of [`RETURN_YEARS`]; `None` if years with events are too rare for the level, and beyond
    /// [`Fit::longest`].
    pub levels: Vec<Option<f64>>,
    /// Confidence bands of the levels.
    pub bands: Vec<Option<Interval>>,
}

/// Return levels of wind and pressure of cyclones and of area of rivers, where known to both runs.
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
    let has_long_blocks = (sides.iter()).any(|side| side.years.iter().any(|years| *years > 1));
    let resamples = has_long_blocks || design.is_of_pairs();
    let [(a, of_a), (b, of_b)] = [0, 1].map(|k| fit_of_side(&sides[k], k, sign, resamples, design));
    let (fits, drawn) = ([a, b], [of_a, of_b]);
    let count = fits[0].levels.len().min(fits[1].levels.len());
    let changes = (0..count).map(|index| change_at(index, &fits, &drawn, design));
    let changes = changes.collect();
    (fits, changes)
}

/// The fit of side `k` with its levels and bands, and random samples of the levels. `sign` is -1 if the lowest values
/// are extreme; `resamples` if the posterior alone does not suffice.
fn fit_of_side(
    side: &Extremes,
    k: usize,
    sign: f64,
    resamples: bool,
    design: &Design,
) -> (Fit, Drawn) {
    let mut maxima: Vec<(f64, u32)> = (side.values.iter())
        .map(|(v, block)| (sign * v, *block))
        .collect();
    maxima.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let values: Vec<f64> = maxima.iter().map(|(v, _)| *v).collect();
    let mut fit = Fit {
        extremes: values.iter().map(|v| sign * v).collect(),
        years: side.years.iter().sum::<u32>() as usize,
        gev: Gev::fit(&values),
        levels: Vec::new(),
        bands: Vec::new(),
    };
    let mut drawn = Drawn::default();
    let Some(gev) = fit.gev else {
        return (fit, drawn);
    };
    let level = |years: f64| Some(sign * gev.return_level(years, fit.share())?);
    let within_range = |years: f64| level(years).filter(|_| years <= fit.longest());
    let all = RETURN_YEARS.map(within_range);
    let (years, weights) = (&side.years, design.sides()[k]);
    let turned = |levels: Levels| levels.map(|level| sign * level);
    if let Some(posterior) = Posterior::fit(&values) {
        let mut random = stream(design.options().seed, "compare levels", &[k as u64]);
        drawn.possible = shares_of(&maxima, years, weights)
            .map(|share| turned(levels_of(&posterior.draw(&mut random), share)))
            .collect();
    }
    if resamples {
        drawn.resampled = draws_of(&maxima, years, weights).map(turned).collect();
    }
    let at =
        |draws: &[Levels], index: usize| -> Vec<f64> { draws.iter().map(|of| of[index]).collect() };
    fit.bands = (all.iter().enumerate())
        .map(|(index, level)| {
            let possible = at(&drawn.possible, index);
            interval((*level)?, possible, at(&drawn.resampled, index), design)
        })
        .collect();
    fit.levels = all.to_vec();
    (fit, drawn)
}

/// The change of the level with an index in [`RETURN_YEARS`].
fn change_at(index: usize, fits: &[Fit; 2], drawn: &[Drawn; 2], design: &Design) -> Change {
    let mut change = Change::of_values(fits[0].levels[index], fits[1].levels[index]);
    let Some(difference) = change.difference else {
        let years = RETURN_YEARS[index];
        change.no_interval = Some(if fits.iter().any(|fit| years > fit.longest()) {
            NoInterval::BeyondRecord
        } else {
            NoInterval::TooFewEvents
        });
        return change;
    };
    let between = |a: &[Levels], b: &[Levels]| -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| b[index] - a[index]).collect()
    };
    // Separate posteriors ignore the correlation within pairs.
    let possible = if design.is_of_pairs() {
        Vec::new()
    } else {
        between(&drawn[0].possible, &drawn[1].possible)
    };
    let resampled = between(&drawn[0].resampled, &drawn[1].resampled);
    change.interval = interval(difference, possible, resampled, design);
    // With resamples, the reason is too few events: in too many resamples no distribution can be fitted, or years with
    // events are too rare for the level.
    let why = if design.has_draws() {
        NoInterval::TooFewEvents
    } else {
        NoInterval::TooFewYears
    };
    change.no_interval = change.interval.is_none().then_some(why);
    change
}

/// A level for each of [`RETURN_YEARS`]: NaN without a fit, -∞ if no value is exceeded that often.
type Levels = [f64; RETURN_YEARS.len()];

/// Random samples of the levels of one side.
#[derive(Default)]
struct Drawn {
    /// Levels of distributions drawn from the posterior.
    possible: Vec<Levels>,
    /// Levels of fits to resampled blocks, if blocks have several years or are paired: extremes of a block may be
    /// correlated, which the posterior ignores.
    resampled: Vec<Levels>,
}

/// The interval of a value from both kinds of samples, either of which may be empty: the union, extended to contain the
/// value. `None` without samples, and as for [`Design::percentile_interval`].
fn interval(
    value: f64,
    mut possible: Vec<f64>,
    mut resampled: Vec<f64>,
    design: &Design,
) -> Option<Interval> {
    if possible.is_empty() && resampled.is_empty() {
        return None;
    }
    let mut found = Interval {
        low: value,
        high: value,
    };
    if !possible.is_empty() {
        found = found.union(design.credible_interval(&mut possible)?);
    }
    if !resampled.is_empty() {
        found = found.union(design.percentile_interval(&mut resampled)?);
    }
    Some(found)
}

fn levels_of(gev: &Gev, share: f64) -> Levels {
    RETURN_YEARS.map(|years| gev.return_level(years, share).unwrap_or(f64::NEG_INFINITY))
}

/// The fraction of years with a maximum in each bootstrap resample of blocks.
fn shares_of<'a>(
    maxima: &'a [(f64, u32)],
    years: &'a [u32],
    weights: &'a Weights,
) -> impl Iterator<Item = f64> + 'a {
    let mut with = vec![0u32; years.len()];
    for (_, block) in maxima {
        with[*block as usize] += 1;
    }
    (0..weights.draws()).map(move |draw| {
        let drawn = |counts: &[u32]| -> f64 {
            let often = weights.draw(draw).iter().zip(counts);
            often
                .map(|(times, n)| f64::from(*times) * f64::from(*n))
                .sum()
        };
        drawn(&with) / drawn(years)
    })
}

/// The levels of each bootstrap resample of blocks, from a fit to its maxima and its fraction of years with a maximum.
fn draws_of<'a>(
    maxima: &'a [(f64, u32)],
    years: &'a [u32],
    weights: &'a Weights,
) -> impl Iterator<Item = Levels> + 'a {
    let shares = shares_of(maxima, years, weights).take(MAX_FITTED_DRAWS);
    shares.enumerate().map(move |(draw, share)| {
        let often = weights.draw(draw);
        let mut values = Vec::with_capacity(2 * maxima.len());
        for (value, block) in maxima {
            let times = usize::from(often[*block as usize]);
            values.extend(std::iter::repeat_n(*value, times));
        }
        Gev::fit(&values).map_or([f64::NAN; RETURN_YEARS.len()], |gev| levels_of(&gev, share))
    })
}

/// Factor and unit for sentences: areas of rivers are given in million km².
pub(crate) fn spoken_unit(unit: &str) -> (f64, &str) {
    match unit {
        "km²" => (1e-6, "million km²"),
        other => (1.0, other),
    }
}

impl ReturnLevels {
    /// The reason why the change of the level with an index in [`RETURN_YEARS`] has no interval.
    pub fn no_interval(&self, index: usize) -> Option<NoInterval> {
        if let Some(change) = self.changes.get(index) {
            return change.no_interval;
        }
        let is_short = self.fits.iter().any(|fit| fit.years < MIN_MAXIMA);
        Some(if is_short {
            NoInterval::TooFewYears
        } else {
            NoInterval::TooFewEvents
        })
    }
}

impl Fit {
    /// The longest return period with a level: twice the number of years. Longer ones depend on the shape of the tail,
    /// which so few years do not constrain.
    pub fn longest(&self) -> f64 {
        2.0 * self.years.max(self.extremes.len()) as f64
    }

    /// The fraction of years with an event.
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

    /// The reason for missing levels.
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
mod tests;
