//! Histograms of the properties of a class's objects.

use crate::report::figures::{SAFFIR_SIMPSON, category, figure, whole};
use crate::report::html::escape;
use crate::report::numbers::{grouped, quantiles, significant};
use crate::report::summary::{Object, is_tracked, objects};
use crate::report::svg::Plot;
use crate::report::ticks::{count_ticks, nice_ticks, tick_labels};
use crate::report::{Source, SourceKind, class_word};
use squall_data::Class;

/// The quantity of a histogram.
pub(crate) struct Quantity {
    pub(crate) title: &'static str,
    pub(crate) axis: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) value: fn(&Object<'_>) -> Option<f64>,
    /// Formats a value.
    pub(crate) text: fn(f64) -> String,
    /// Whether to mark the thresholds of the Saffir–Simpson scale.
    pub(crate) categories: bool,
}

/// The quantities shown for a class.
pub(crate) fn quantities(class: Class) -> Vec<Quantity> {
    let plain = |title, axis, unit, value| Quantity {
        title,
        axis,
        unit,
        value,
        text: |value| significant(value, 3),
        categories: false,
    };
    let days: fn(&Object<'_>) -> Option<f64> = |o| o.duration_hours.map(|h| h / 24.0);
    if class == Class::TropicalCyclone {
        vec![
            Quantity {
                categories: true,
                ..plain(
                    "Strongest wind",
                    "lifetime-maximum wind (m s⁻¹)",
                    "m s⁻¹",
                    |o| o.max_wind_m_s,
                )
            },
            Quantity {
                // Three digits would turn everything from 1005 to 1015 into 1010.
                text: |value| grouped(value, 0),
                ..plain(
                    "Lowest pressure",
                    "lifetime-minimum sea-level pressure (hPa)",
                    "hPa",
                    |o| o.min_psl_pa.map(|p| p / 100.0),
                )
            },
            plain(
                "Lifetime",
                "days from first to last time seen",
                "days",
                days,
            ),
            plain(
                "Size",
                "largest marked area (thousand km²)",
                "thousand km²",
                |o| Some(o.max_area_km2 / 1e3),
            ),
        ]
    } else {
        vec![
            plain("Length", "largest length (km)", "km", |o| {
                o.longest.map(|e| e.length_km)
            }),
            plain(
                "Water",
                "largest precipitable water (kg m⁻²)",
                "kg m⁻²",
                |o| o.max_tmq_kg_m2,
            ),
            plain(
                "Lifetime",
                "days from first to last time seen",
                "days",
                days,
            ),
            plain("Size", "largest area (million km²)", "million km²", |o| {
                Some(o.max_area_km2 / 1e6)
            }),
        ]
    }
}

/// Fewest values of which a tenth is a value.
const MIN_VALUES: usize = 10;

/// The known values of a source.
struct Sample<'a> {
    source: &'a Source,
    values: Vec<f64>,
    text: fn(f64) -> String,
}

impl<'a> Sample<'a> {
    /// `None` if the source has no values.
    fn collect(source: &'a Source, class: Class, quantity: &Quantity) -> Option<Self> {
        let found = objects(source, class);
        let values = found.iter().filter_map(quantity.value);
        let values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
        (!values.is_empty()).then_some(Self {
            source,
            values,
            text: quantity.text,
        })
    }

    /// Number of values between adjacent edges, which must be equally spaced.
    fn counts(&self, edges: &[f64]) -> Vec<f64> {
        let bins = edges.len() - 1;
        let mut counts = vec![0.0; bins];
        for value in &self.values {
            let bin = ((value - edges[0]) / (edges[1] - edges[0])) as usize;
            counts[bin.min(bins - 1)] += 1.0;
        }
        counts
    }

    /// The median, and the first and the last decile if there are enough values for them, formatted.
    fn quantiles(&self) -> Option<(String, Option<[String; 2]>)> {
        let [p10, p50, p90] = quantiles(&self.values)?.map(self.text);
        let enough = self.values.len() >= MIN_VALUES;
        Some((p50, enough.then_some([p10, p90])))
    }
}

/// A histogram of a quantity, one series per source; empty if no source has values, or all values are zero.
pub(crate) fn histogram(sources: &[Source], class: Class, quantity: &Quantity) -> String {
    let samples: Vec<Sample<'_>> = sources
        .iter()
        .filter_map(|source| Sample::collect(source, class, quantity))
        .collect();
    if samples.is_empty() {
        return String::new();
    }
    let all = samples.iter().flat_map(|s| s.values.iter().copied());
    let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |r, v| {
        (r.0.min(v), r.1.max(v))
    });
    // Objects seen at a single time have a lifetime of zero.
    if low == 0.0 && high == 0.0 {
        return String::new();
    }
    let edges = nice_ticks(low, high, 12);
    let counts: Vec<Vec<f64>> = samples.iter().map(|s| s.counts(&edges)).collect();
    let highest = counts.iter().flatten().copied().fold(1.0, f64::max);
    let tracked = samples.iter().all(|s| is_tracked(s.source, class));
    let heading = if tracked { "tracks" } else { "objects" };
    let mut plot = axes(quantity, &edges, highest, heading);
    draw(&mut plot, &samples, &counts, &edges, quantity.unit);
    if quantity.categories {
        mark_categories(&mut plot, (edges[0], edges[edges.len() - 1]));
    }
    let description = format!(
        "Histogram of {} of {}s. {}.",
        quantity.title.to_lowercase(),
        class_word(class),
        sentence(&samples, quantity.unit)
    );
    let table = table(&samples, quantity.unit);
    figure(quantity.title, &(plot.finish(&description) + &table), "")
}

fn axes(quantity: &Quantity, edges: &[f64], highest: f64, heading: &str) -> Plot {
    let (first, last) = (edges[0], edges[edges.len() - 1]);
    let ticks = count_ticks(highest, 4);
    let mut plot = Plot::over((first, last), &ticks);
    plot.y_axis(&ticks, heading);
    let labels: Vec<f64> = nice_ticks(first, last, 5)
        .into_iter()
        .filter(|t| (first..=last).contains(t))
        .collect();
    plot.x_axis(&labels, quantity.axis);
    plot
}

/// Marks the thresholds of the Saffir–Simpson scale above the bars that are drawn already, and names the category at
/// the lower end of the axis.
fn mark_categories(plot: &mut Plot, (first, last): (f64, f64)) {
    let mut is_named = false;
    // Bare digits do not tell what they are of.
    let mut label = |name: &str| match (name, is_named) {
        ("TS", _) | (_, true) => name.to_string(),
        _ => {
            is_named = true;
            format!("cat. {name}")
        }
    };
    let inside = |(wind, _): &(f64, &str)| *wind > first && *wind < last;
    let marks: Vec<(f64, &str)> = SAFFIR_SIMPSON.into_iter().filter(inside).collect();
    let share = |wind: f64| (wind - first) / (last - first);
    let has_room = marks.first().is_none_or(|(wind, _)| share(*wind) > 0.13);
    if let (Some(below), true) = (category(first).checked_sub(1), has_room) {
        plot.word(
            first + 0.045 * (last - first),
            &label(SAFFIR_SIMPSON[below].1),
        );
    }
    for (wind, name) in marks {
        plot.mark(wind, &label(name));
    }
}

/// Bars side by side; among several sources, the truth is an outline around them.
fn draw(plot: &mut Plot, samples: &[Sample<'_>], counts: &[Vec<f64>], edges: &[f64], unit: &str) {
    let bars = samples
        .iter()
        .filter(|s| s.source.kind != SourceKind::Truth)
        .count()
        .max(1);
    let mut slot = 0;
    for (Sample { source, .. }, counts) in samples.iter().zip(counts) {
        if source.kind == SourceKind::Truth && samples.len() > 1 {
            plot.steps(edges, counts, "truth");
            continue;
        }
        let width = (edges[1] - edges[0]) * 0.88 / bars as f64;
        for (k, n) in counts.iter().enumerate() {
            let from = edges[k] + (edges[1] - edges[0]) * 0.06 + slot as f64 * width;
            let range = tick_labels(&edges[k..=k + 1]).join("–");
            let tip = format!("{}: {n} between {range} {unit}", source.label);
            plot.bar((from, from + width), *n, source.kind.css(), &tip);
        }
        slot += 1;
    }
}

/// A text description of the histogram for screen readers.
fn sentence(samples: &[Sample<'_>], unit: &str) -> String {
    let of_each = samples.iter().filter_map(|s| {
        let (median, deciles) = s.quantiles()?;
        let deciles = deciles.map_or(String::new(), |[p10, p90]| {
            format!(", 10–90 % {p10} to {p90}")
        });
        Some(format!(
            "{}: median {median}{deciles} {unit} (n = {})",
            s.source.label,
            s.values.len()
        ))
    });
    of_each.collect::<Vec<_>>().join(". ")
}

fn table(samples: &[Sample<'_>], unit: &str) -> String {
    let rows = samples.iter().filter_map(|s| {
        let (median, deciles) = s.quantiles()?;
        let deciles = deciles.map_or("–".into(), |[p10, p90]| format!("{p10} to {p90}"));
        Some(format!(
            "<tr><th scope=\"row\"><i class=\"key {}\"></i>{}</th><td class=\"n\">{median}</td><td class=\"n\">{deciles}</td><td class=\"n\">{}</td></tr>",
            s.source.kind.css(),
            escape(&s.source.label),
            whole(s.values.len())
        ))
    });
    format!(
        "<table class=\"stats\"><thead><tr><th scope=\"col\">{}</th><th scope=\"col\" class=\"n\">median</th><th scope=\"col\" class=\"n\">10–90 %</th><th scope=\"col\" class=\"n\">n</th></tr></thead><tbody>{}</tbody></table>\n",
        escape(unit),
        rows.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::{Track, testdata};
    use squall_data::{Calendar, Time};

    #[test]
    fn values_are_in_the_units_of_their_axes_and_in_the_bin_above_an_edge() {
        let start = Time::new(Calendar::NoLeap, 2001, 8, 1, 0, 0, 0).unwrap();
        let track = Track {
            max_wind_m_s: Some(40.0),
            min_psl_pa: Some(97_000.0),
            max_tmq_kg_m2: Some(60.0),
            max_area_km2: 2.5e6,
            ..testdata::cyclone(start)
        };
        let source = Source::new(SourceKind::Truth, Vec::new(), vec![track]);
        let found = objects(&source, Class::TropicalCyclone);
        let cyclone = &found[0];
        let values = |class: Class| -> Vec<(&str, Option<f64>)> {
            let all = quantities(class).into_iter();
            all.map(|quantity| (quantity.unit, (quantity.value)(cyclone)))
                .collect()
        };
        assert_eq!(
            values(Class::TropicalCyclone),
            [
                ("m s⁻¹", Some(40.0)),
                ("hPa", Some(970.0)),
                ("days", Some(2.0)),
                ("thousand km²", Some(2500.0)),
            ]
        );
        assert_eq!(
            values(Class::AtmosphericRiver)[1..],
            [
                ("kg m⁻²", Some(60.0)),
                ("days", Some(2.0)),
                ("million km²", Some(2.5)),
            ]
        );
        let sample = Sample {
            source: &source,
            values: vec![10.0, 14.9, 15.0, 19.9, 20.0],
            text: |value| significant(value, 3),
        };
        // The last edge belongs to the last bin.
        assert_eq!(sample.counts(&[10.0, 15.0, 20.0]), [2.0, 3.0]);
        // Regression: one value had deciles, "45.5 to 45.5".
        assert_eq!(sample.quantiles(), Some((String::from("15.0"), None)));
        let ten = Sample {
            values: (1..=10).map(f64::from).collect(),
            ..sample
        };
        let deciles = ["1.00", "9.00"].map(String::from);
        let median = String::from("5.50");
        assert_eq!(ten.quantiles(), Some((median, Some(deciles))));
    }

    /// Regression: bars hid the lines, and the labels were bare digits, none for the weakest cyclones.
    #[test]
    fn categories_are_marked_above_the_bars_and_named() {
        let start = Time::new(Calendar::NoLeap, 2001, 8, 1, 0, 0, 0).unwrap();
        let tracks = [45.0, 62.0].map(|wind| Track {
            max_wind_m_s: Some(wind),
            ..testdata::cyclone(start)
        });
        let source = Source::new(SourceKind::Truth, Vec::new(), tracks.to_vec());
        let class = Class::TropicalCyclone;
        let svg = histogram(&[source], class, &quantities(class)[0]);
        let last_bar = svg.rfind("<rect class=\"truth\"").expect("bars");
        let first_mark = svg.find("<line class=\"mark\"").expect("marks");
        assert!(last_bar < first_mark, "{svg}");
        for label in [">cat. 2</text>", ">3</text>", ">4</text>"] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
    }

    #[test]
    fn pressures_are_read_as_whole_hectopascals_and_others_to_three_digits() {
        let all = quantities(Class::TropicalCyclone);
        let read = |unit: &str, value: f64| {
            let quantity = all.iter().find(|quantity| quantity.unit == unit);
            (quantity.expect("one of this unit").text)(value)
        };
        assert_eq!(read("hPa", 1013.4), "1013");
        assert_eq!(read("hPa", 986.04), "986");
        assert_eq!(read("m s⁻¹", 39.84), "39.8");
    }
}
