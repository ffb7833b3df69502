//! Thins many lives so that a century fits on the page. Levels of a fixed table are tried in order, each keeping fewer
//! points than the one before; if the last is still too large, whole lives are dropped.

use super::clock::Clock;
use super::life::Life;
use super::pack::pack;
use crate::error::Result;
use crate::report::numbers::{counted, grouped};
use squall_data::Time;
use squall_data::boxes::BoxClass;
use std::collections::HashSet;

/// Hours between kept points of tropical cyclones and of all others, per level; 0 keeps all.
///
/// A life always keeps its first, last and strongest points, and those at times with a picture.
const STEPS_HOURS: [(i64, i64); 7] = [
    (0, 0),
    (0, 6),
    (0, 12),
    (6, 24),
    (6, 48),
    (12, 96),
    (24, 24 * 365),
];

/// Lives packed into a given number of bytes.
pub(super) struct Thinned {
    /// The result of [`pack`].
    pub(super) bytes: Vec<u8>,
    /// Number of rows of the table.
    pub(super) rows: usize,
    /// Number of lives before thinning.
    pub(super) lives: usize,
    /// Number of points kept.
    pub(super) points: usize,
    /// Number of points before thinning.
    pub(super) all_points: usize,
    /// The level of [`STEPS_HOURS`] that was used.
    steps_hours: (i64, i64),
}

/// Packs as much as fits into `max_bytes`. Points are dropped by the levels of [`STEPS_HOURS`], then whole lives from
/// the lowest rank up. Tropical cyclones rank above all others, by their wind; others rank by the length of their life,
/// those with a single time by confidence.
///
/// # Errors
/// As [`pack`].
pub(super) fn thin(
    lives: &[Life],
    clock: &Clock,
    pictured: &[Time],
    max_bytes: usize,
) -> Result<Thinned> {
    let pictured: HashSet<i64> = pictured.iter().map(|t| clock.units(*t)).collect();
    let all_points = lives.iter().map(|life| life.points.len()).sum();
    let points_of =
        |life: &Life, steps_hours: (i64, i64)| keep(life, clock, &pictured, steps_hours);
    let packed = |kept: &[&Life], steps_hours: (i64, i64), stop: usize| -> Result<Thinned> {
        let (bytes, points) = pack(kept, clock, |life| points_of(life, steps_hours), stop)?;
        Ok(Thinned {
            bytes,
            rows: kept.len(),
            lives: lives.len(),
            points,
            all_points,
            steps_hours,
        })
    };
    let all: Vec<&Life> = lives.iter().collect();
    let [first @ .., last] = STEPS_HOURS;
    let mut too_many = None;
    for steps_hours in first {
        let points = lives.iter().map(|life| points_of(life, steps_hours).len());
        let points = Some(points.sum::<usize>());
        // The same number of points as at the previous level, most often the same points, would be too large again.
        if points == too_many {
            continue;
        }
        let found = packed(&all, steps_hours, max_bytes)?;
        if found.bytes.len() <= max_bytes {
            return Ok(found);
        }
        too_many = points;
    }
    // The size of all lives determines how many of them can be kept.
    let mut found = packed(&all, last, usize::MAX)?;
    let mut ranked: Vec<usize> = (0..lives.len()).collect();
    ranked.sort_by(|&a, &b| rank(&lives[b]).total_cmp(&rank(&lives[a])).then(a.cmp(&b)));
    let mut count = lives.len();
    while found.bytes.len() > max_bytes && count > 0 {
        // Slightly less than what would fit if all lives had the same size.
        count = (count as f64 * 0.97 * max_bytes as f64 / found.bytes.len() as f64) as usize;
        let mut chosen = ranked[..count].to_vec();
        chosen.sort_unstable();
        let kept: Vec<&Life> = chosen.iter().map(|&k| &lives[k]).collect();
        found = packed(&kept, last, usize::MAX)?;
    }
    Ok(found)
}

/// The rank of a life: those with higher values are kept.
fn rank(life: &Life) -> f64 {
    let confidence = f64::from(life.confidence.unwrap_or(0.0));
    match life.class {
        BoxClass::TropicalCyclone => {
            1e6 + life.max_wind_m_s.unwrap_or(life.hours() / 24.0) + confidence
        }
        _ => life.hours() + confidence,
    }
}

/// Indices of the kept points of a life.
fn keep(
    life: &Life,
    clock: &Clock,
    pictured: &HashSet<i64>,
    (cyclone, other): (i64, i64),
) -> Vec<usize> {
    let hours = if life.class == BoxClass::TropicalCyclone {
        cyclone
    } else {
        other
    };
    if hours == 0 {
        return (0..life.points.len()).collect();
    }
    let step = clock.units_of_hours(hours);
    let (peak, last) = (life.peak(), life.points.len().saturating_sub(1));
    let on_step = |k: usize| {
        let at = clock.units(life.points[k].time);
        at % step == 0 || pictured.contains(&at)
    };
    (0..life.points.len())
        .filter(|&k| k == 0 || k == last || k == peak || on_step(k))
        .collect()
}

impl Thinned {
    /// Describes what was dropped; empty if nothing was.
    pub(super) fn words(&self) -> String {
        let every = |hours: i64| match hours {
            0 => "all".to_string(),
            8760.. => "none".into(),
            hours => format!("one every {hours} h"),
        };
        let mut text = String::new();
        if self.points < self.all_points || self.rows < self.lives {
            let (cyclone, other) = self.steps_hours;
            text = format!(
                "To keep the file small, points of lives are left out: tropical cyclones keep {}, all else {}, and everything its first, its last, its strongest and those of the map's pictures ({} of {} points).",
                every(cyclone),
                every(other),
                grouped(self.points as f64, 0),
                grouped(self.all_points as f64, 0)
            );
        }
        if self.rows < self.lives {
            text += &format!(
                " {} of {} are listed: tropical cyclones by wind, then the others by length of life.",
                counted(self.rows, "event"),
                grouped(self.lives as f64, 0)
            );
        }
        text
    }
}
