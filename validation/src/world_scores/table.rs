//! Scores against the world as text.

use super::{ClassAgreement, Taylor, TrackGroup, WorldScores};
use std::fmt;

/// Distances of fewer kilometres are printed as 0.
const ROUNDED_TO_ZERO_KM: f64 = 0.5;

/// What the tables of several classes have in common, as lines below them: how chance levels were found, which tracks a
/// row has, and what else is judged otherwise.
pub fn legend(scores: &[WorldScores]) -> Vec<String> {
    let chances: Vec<(&str, String)> = (scores.iter())
        .filter_map(|one| Some((one.rules.class.name(), one.chance.describe()?)))
        .collect();
    let mut lines: Vec<String> = match &chances[..] {
        // The span of time that both sides cover may differ between classes.
        [(_, first), others @ ..] if others.iter().all(|(_, other)| other == first) => {
            vec![first.clone()]
        }
        several => (several.iter())
            .map(|(class, chance)| format!("{class}: {chance}"))
            .collect(),
    };
    lines.push(
        "rows: basin (of rivers and extratropical cyclones sector), quarter and year (of tropical cyclones in the south from July to June) \
         of the first point of a track; a predicted one that found a true one counts where that does"
            .into(),
    );
    lines.push(
        "tracks beside masks are judged by another rule, which asks for more of the times that both sides then have"
            .into(),
    );
    lines
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |v| format!("{:.1} %", v * 100.0))
}

fn row(f: &mut fmt::Formatter<'_>, group: &TrackGroup) -> fmt::Result {
    let km = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.0}"));
    let distance = group.distance;
    writeln!(
        f,
        "{:<16} {:>8} {:>6} {:>9} {:>6} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8} {:>6}",
        group.name,
        group.reference_tracks,
        group.hits,
        group.predicted_tracks,
        group.false_alarms,
        share(group.pod),
        share(group.far),
        km(distance.map(|d| d.mean_km)),
        km(distance.map(|d| d.median_km)),
        km(distance.map(|d| d.p90_km)),
        share(group.chance_pod),
        (group.skill).map_or_else(|| "-".into(), |skill| format!("{skill:.2}"))
    )
}

impl fmt::Display for WorldScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, many) = match self.rules.class.is_cyclone() {
            true => ("storm", "storms"),
            false => ("river", "rivers"),
        };
        writeln!(
            f,
            "{} tracks from {} to {} (left out: {} of the reference, {} predicted)",
            self.rules.class.name(),
            self.first,
            self.last,
            self.reference_left_out,
            self.predicted_left_out
        )?;
        writeln!(f, "{}", self.rules.criterion.describe())?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(
            f,
            "{:<16} {:>8} {:>6} {:>9} {:>6} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8} {:>6}",
            "",
            many,
            "hits",
            "predicted",
            "false",
            "POD",
            "FAR",
            "mean km",
            "med. km",
            "90 % km",
            "chance",
            "skill"
        )?;
        row(f, &self.total)?;
        for groups in [&self.basins, &self.quarters, &self.years] {
            writeln!(f)?;
            groups.iter().try_for_each(|group| row(f, group))?;
        }
        let total = &self.total;
        for (name, interval) in [("POD", total.pod_interval), ("FAR", total.far_interval)] {
            if let Some(i) = interval {
                writeln!(
                    f,
                    "{name}: {:.1} to {:.1} % (95 % interval, years drawn again)",
                    i.low * 100.0,
                    i.high * 100.0
                )?;
            }
        }
        let is_zero = |km: f64| km < ROUNDED_TO_ZERO_KM;
        if (total.distance).is_some_and(|d| is_zero(d.mean_km) && is_zero(d.p90_km)) {
            writeln!(
                f,
                "distances are 0: both sides have the same centres, such as the pressure minima of the same fields"
            )?;
        }
        write!(
            f,
            "predicted tracks per {one} found: {}",
            (total.pieces_per_hit).map_or_else(|| "-".into(), |pieces| format!("{pieces:.2}"))
        )?;
        if let Some(wind) = total.wind_difference_m_s {
            write!(
                f,
                "\nhighest wind of a track: {wind:+.1} m/s against the reference, on average"
            )?;
        }
        if let Some(pressure) = total.pressure_difference_pa {
            let hpa = pressure / 100.0;
            write!(
                f,
                "\nlowest pressure of a track: {hpa:+.1} hPa against the reference, on average"
            )?;
        }
        if let Some(density) = &self.density
            && let Some(taylor) = &density.taylor
        {
            write!(
                f,
                "\ntracks per year in cells of {} degrees: {taylor}",
                density.cell_deg
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Taylor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| format!("{v:.3}"));
        write!(
            f,
            "correlation {}, standard deviation ratio {}, centred RMS difference {:.4}, mean {:.4} against {:.4}, {} cells",
            number(self.correlation),
            number(self.deviation_ratio),
            self.centred_rms,
            self.reference_mean + self.bias,
            self.reference_mean,
            self.cells
        )
    }
}

impl fmt::Display for ClassAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.class.name())?;
        match self.iou_per_time {
            Some(iou) => {
                let interval = self
                    .iou_interval
                    .map_or_else(String::new, |i| format!(" ({:.3} to {:.3})", i.low, i.high));
                writeln!(
                    f,
                    "IoU by area of single times {:.3}{interval} on average, {:.3} to {:.3}, median {:.3}, {} of {} times",
                    iou.mean,
                    iou.least,
                    iou.greatest,
                    iou.median,
                    self.times_with_class,
                    self.times
                )?;
            }
            None => writeln!(f, "nowhere in {} times", self.times)?,
        }
        write!(f, "  how often each cell has it: {}", self.frequency)
    }
}
