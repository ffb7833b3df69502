//! Scores against the world as text.

use super::{ClassAgreement, Taylor, TrackGroup, WorldScores};
use std::fmt;

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
        writeln!(
            f,
            "{} tracks from {} to {} (left out: {} of the reference, {} predicted)",
            self.rules.class.name(),
            self.first,
            self.last,
            self.reference_left_out,
            self.predicted_left_out
        )?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(
            f,
            "{:<16} {:>8} {:>6} {:>9} {:>6} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8} {:>6}",
            "",
            "storms",
            "hits",
            "predicted",
            "false",
            "POD",
            "FAR",
            "mean km",
            "median",
            "90 %",
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
        if let Some(chance) = self.chance.describe() {
            writeln!(f, "{chance}")?;
        }
        if let Some(pieces) = total.pieces_per_hit {
            writeln!(f, "{pieces:.2} predicted tracks per storm found")?;
        }
        if let Some(wind) = total.wind_difference_m_s {
            writeln!(f, "highest wind: {wind:+.1} m/s against the reference")?;
        }
        if let Some(pressure) = total.pressure_difference_pa {
            let hpa = pressure / 100.0;
            writeln!(f, "lowest pressure: {hpa:+.1} hPa against the reference")?;
        }
        if let Some(density) = &self.density
            && let Some(taylor) = &density.taylor
        {
            writeln!(
                f,
                "tracks per year in cells of {} degrees: {taylor}",
                density.cell_deg
            )?;
        }
        write!(
            f,
            "{}; storms and tracks belong to the basin (rivers: sector), quarter and year (of tropical cyclones in the south from July to June) of their first point; \
             tracks beside masks are judged by another rule, which asks for more of the times that both sides then have",
            self.rules.criterion.describe()
        )
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
