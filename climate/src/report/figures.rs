//! The plots of the page.

use crate::compare::capital;
use crate::report::html::escape;
use crate::report::numbers::{self, MONTHS, grouped};
use crate::report::parts::region_word;
use crate::report::summary::{is_tracked, objects};
use crate::report::svg::Plot;
use crate::report::ticks::{count_ticks, nice_ticks};
use crate::report::{Agreement, Source, class_css, class_word};
use crate::statistics::{Basin, Category};
use squall_data::{Calendar, Class, Time};
use std::fmt::Write as _;

/// Lower bounds of the Saffir–Simpson categories, m/s of one-minute wind at 10 m, rounded as published, and their short
/// names.
pub(crate) const SAFFIR_SIMPSON: [(f64, &str); 6] = [
    (17.5, "TS"),
    (33.0, "1"),
    (43.0, "2"),
    (50.0, "3"),
    (58.0, "4"),
    (70.0, "5"),
];

/// Category of a wind as in the tables: 0 below tropical storm, 1 tropical storm, 2..=6 categories 1 to 5.
pub(crate) fn category(wind_m_s: f64) -> usize {
    Category::saffir_simpson(wind_m_s).map_or(0, |category| category as usize)
}

/// A plot with its heading and an optional note below.
pub(crate) fn figure(title: &str, svg: &str, note: &str) -> String {
    let mut out = format!(
        "<figure class=\"chart\"><figcaption>{}</figcaption>\n{svg}",
        escape(title)
    );
    if !note.is_empty() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out.push_str("</figure>\n");
    out
}

/// The legend of the sources.
pub(crate) fn source_legend(sources: &[Source]) -> String {
    let mut out = String::from("<ul class=\"legend sources\">");
    for source in sources {
        let _ = write!(
            out,
            "<li><i class=\"key {}\"></i>{}</li>",
            source.kind.css(),
            escape(&source.label)
        );
    }
    out.push_str("</ul>\n");
    out
}

/// The seasonal cycle: counts per month of genesis; from two years of data on, per month of data. Months without data
/// are marked.
pub(crate) fn seasonal(
    sources: &[&Source],
    class: Class,
    days: &[f64; 12],
    years: f64,
    calendar: Calendar,
) -> String {
    let scale = per_month_of_data(days, years, calendar);
    let per_year = scale.is_some();
    // A source without objects does not count as untracked.
    let tracked = (sources.iter())
        .all(|s| is_tracked(s, class) || s.events.iter().all(|event| event.class != class));
    let counts: Vec<[f64; 12]> = sources
        .iter()
        .map(|source| {
            let mut counts = counts_by_month(source, class);
            if let Some(scale) = &scale {
                counts.iter_mut().zip(scale).for_each(|(n, of)| *n *= of);
            }
            counts
        })
        .collect();
    let highest = counts.iter().flatten().copied().fold(0.0, f64::max);
    let ticks = if per_year {
        nice_ticks(0.0, highest.max(0.1), 4)
    } else {
        count_ticks(highest, 4)
    };
    let mut plot = Plot::over((0.0, 12.0), &ticks);
    mark_months_without_data(&mut plot, days);
    let what = if tracked { "tracks begun" } else { "objects" };
    let heading = if per_year {
        format!("{what} per month of data")
    } else {
        what.to_string()
    };
    plot.y_axis(&ticks, &heading);
    let labels: Vec<_> = (0..12)
        .map(|m| (m as f64 + 0.5, MONTHS[m][..1].to_string()))
        .collect();
    plot.x_labels(&labels, "month", false);
    let width = 0.8 / sources.len().max(1) as f64;
    for (k, (source, counts)) in sources.iter().zip(&counts).enumerate() {
        for (m, n) in counts.iter().enumerate() {
            let from = m as f64 + 0.1 + k as f64 * width;
            let number = if per_year {
                numbers::significant(*n, 3)
            } else {
                grouped(*n, 0)
            };
            let tip = format!("{}, {}: {number}", source.label, MONTHS[m]);
            plot.bar((from, from + width), *n, source.kind.css(), &tip);
        }
    }
    let title = format!("{}s by month", capital(class_word(class)));
    let description = format!(
        "Bar chart: {heading} in each month, for {} sources.",
        sources.len()
    );
    figure(&title, &plot.finish(&description), "")
}

/// What makes a count in each month one per month of data, from two years of data on. The rate of a month without data
/// is unknown, even if tables have objects in it: 0.
fn per_month_of_data(days: &[f64; 12], years: f64, calendar: Calendar) -> Option<[f64; 12]> {
    let month_days = calendar.mean_year_days() / 12.0;
    let scale = |d: f64| if d > 0.0 { month_days / d } else { 0.0 };
    (years >= 2.0).then(|| days.map(scale))
}

/// The number of objects of a class that begin in each month.
fn counts_by_month(source: &Source, class: Class) -> [f64; 12] {
    let mut counts = [0.0; 12];
    for object in objects(source, class) {
        counts[(object.start.month() - 1) as usize] += 1.0;
    }
    counts
}

/// Draws bands over the months without data; adjacent months share one.
fn mark_months_without_data(plot: &mut Plot, days: &[f64; 12]) {
    let mut start = 0;
    while start < 12 {
        if days[start] > 0.0 {
            start += 1;
            continue;
        }
        let end = (start..12).find(|&m| days[m] > 0.0).unwrap_or(12);
        let word = if end - start > 1 { "no data" } else { "" };
        plot.band((start as f64, end as f64), "nodata", word);
        start = end;
    }
}

/// Counts by basin or sector and month as a shaded table, for one source; from two years of data on, per month of data.
pub(crate) fn basin_calendar(
    source: &Source,
    class: Class,
    days: &[f64; 12],
    years: f64,
    calendar: Calendar,
) -> String {
    let scale = per_month_of_data(days, years, calendar);
    let names = Basin::names_for(class);
    let mut counts = [[0usize; 12]; Basin::NAMES.len()];
    for object in objects(source, class) {
        counts[object.basin()][(object.start.month() - 1) as usize] += 1;
    }
    let shown = |b: usize, m: usize| {
        let n = counts[b][m] as f64;
        scale.map_or(n, |scale| n * scale[m])
    };
    let cells = (0..names.len()).flat_map(|b| (0..12).map(move |m| (b, m)));
    let highest = cells.map(|(b, m)| shown(b, m)).fold(0.0, f64::max);
    let highest = if scale.is_some() {
        highest
    } else {
        highest.max(1.0)
    };
    // On a narrow screen letters are larger, and the longest name takes 130.
    let (left, row, column) = (150.0, 25.0, 25.5);
    let mut svg = String::new();
    let height = 26.0 + row * names.len() as f64;
    for (b, name) in names.iter().enumerate() {
        let y = 24.0 + row * b as f64;
        let _ = write!(
            svg,
            "<text class=\"e\" x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            left - 8.0,
            y + 16.0
        );
        for m in 0..12 {
            let (n, x) = (shown(b, m), left + column * m as f64);
            let unknown = days[m] == 0.0;
            let opacity = if unknown {
                1.0
            } else {
                0.07 + 0.93 * (n / highest.max(f64::MIN_POSITIVE)).sqrt()
            };
            let (class_name, tip) = if unknown {
                ("nodata", "no data".to_string())
            } else {
                (class_css(class), in_calendar(n, scale.is_some(), 2))
            };
            let _ = write!(
                svg,
                "<rect class=\"{class_name}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{:.0}\" height=\"{:.0}\" fill-opacity=\"{opacity:.2}\"><title>{name}, {}: {tip}</title></rect>",
                column - 2.0,
                row - 2.0,
                MONTHS[m]
            );
            // Smaller rates have a shade alone.
            if n >= 0.05 {
                let digits = if n < 0.95 { 1 } else { 2 };
                let n = in_calendar(n, scale.is_some(), digits);
                let _ = write!(
                    svg,
                    "<text class=\"m cell{}\" x=\"{:.0}\" y=\"{:.0}\">{n}</text>",
                    if opacity > 0.6 { " on" } else { "" },
                    x + column / 2.0 - 1.0,
                    y + 16.0
                );
            }
        }
    }
    for (m, month) in MONTHS.iter().enumerate() {
        let _ = write!(
            svg,
            "<text class=\"m\" x=\"{:.0}\" y=\"16\">{}</text>",
            left + column * (m as f64 + 0.5) - 1.0,
            &month[..1]
        );
    }
    let unit = scale.map_or("", |_| ", per month of data");
    let title = format!(
        "{}s by {} and month{unit}: {}",
        capital(class_word(class)),
        region_word(class),
        source.label
    );
    let described = format!("In all months: {}", basin_totals(names, &counts));
    let svg = format!(
        "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 460 {height:.0}\" aria-label=\"{}\">{svg}</svg>\n",
        escape(&format!("{title}. {described}."))
    );
    figure(&title, &svg, "")
}

/// A number of the shaded table: a count, or a rate of so many digits, if it is less than 100.
fn in_calendar(n: f64, is_rate: bool, digits: i32) -> String {
    if is_rate && n < 99.5 {
        numbers::significant(n, digits)
    } else {
        grouped(n, 0)
    }
}

/// The total of each region that has any, as text.
fn basin_totals(names: &[&str], counts: &[[usize; 12]]) -> String {
    let totals = names
        .iter()
        .zip(counts)
        .map(|(name, months)| (name, months.iter().sum::<usize>()))
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name} {n}"))
        .collect::<Vec<_>>()
        .join(", ");
    if totals.is_empty() {
        "none".into()
    } else {
        totals
    }
}

/// IoU of two sources over time for both classes.
pub(crate) fn agreement_series(agreement: &Agreement, names: (&str, &str)) -> String {
    let Some((first, _)) = agreement.series.first() else {
        return String::new();
    };
    let days = |k: usize| agreement.series[k].0.days_since(*first);
    let last = days(agreement.series.len() - 1);
    if last <= 0.0 {
        return String::new();
    }
    // More points than pixels add nothing: a long run is averaged over intervals.
    let every = agreement.series.len().div_ceil(600).max(1);
    let ticks = nice_ticks(0.0, last, 6);
    let mut plot = Plot::new((0.0, last), (0.0, 1.0));
    plot.y_axis(&[0.0, 0.25, 0.5, 0.75, 1.0], "IoU of the areas");
    let whole_days = |tick: &f64| *tick <= last && tick.fract() == 0.0;
    let labels: Vec<(f64, String)> = (ticks.into_iter().filter(whole_days))
        .map(|tick| {
            (
                tick,
                short_date(first.add_seconds(86_400 * tick as i64), last),
            )
        })
        .collect();
    plot.x_labels(&labels, &format!("from {} on", numbers::day(*first)), true);
    for (index, class) in Class::EVENTS.into_iter().enumerate() {
        let points: Vec<_> = agreement
            .series
            .chunks(every)
            .enumerate()
            .map(|(k, chunk)| {
                let known: Vec<f64> = chunk.iter().filter_map(|(_, iou)| iou[index]).collect();
                let mean = known.iter().sum::<f64>() / known.len() as f64;
                let middle = k * every + chunk.len() / 2;
                (days(middle), (!known.is_empty()).then_some(mean))
            })
            .collect();
        plot.line(&points, class_css(class));
    }
    let title = format!("{} against {} over time", names.0, names.1);
    let svg = plot.finish(&format!(
        "Line chart: {title}, intersection over union of tropical cyclones and atmospheric rivers."
    ));
    let note = if every > 1 {
        format!("Means over {every} times each. Gaps: neither has the class.")
    } else {
        "Gaps: times at which neither has the class.".into()
    };
    figure(&title, &svg, &note)
}

/// A date on an axis of some days: `5 Aug`, or `Aug 2005` over the better part of a year and more.
fn short_date(time: Time, days: f64) -> String {
    let (year, month, day) = time.date();
    let month = MONTHS[(month - 1) as usize];
    if days < 300.0 {
        format!("{day} {month}")
    } else {
        format!("{month} {year}")
    }
}

/// The legend of the two classes.
pub(crate) fn class_legend() -> String {
    "<ul class=\"legend\"><li><i class=\"key cyclone\"></i>tropical cyclones</li><li><i class=\"key river\"></i>atmospheric rivers</li></ul>\n".into()
}

/// A formatted count.
pub(crate) fn whole(count: usize) -> String {
    grouped(count as f64, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SourceKind;
    use crate::track::{Track, testdata};

    #[test]
    fn an_axis_has_dates_as_the_lives_have() {
        let start = Time::new(Calendar::NoLeap, 2005, 8, 5, 0, 0, 0).unwrap();
        assert_eq!(short_date(start, 92.0), "5 Aug");
        assert_eq!(short_date(start, 3650.0), "Aug 2005");
    }

    #[test]
    fn categories_have_the_published_bounds() {
        // 64 kt = 32.9 m/s is category 1, 96 kt = 49.4 m/s category 3, 137 kt = 70.5 m/s category 5 (NHC).
        let found = [10.0, 17.5, 32.0, 33.0, 49.3, 49.5, 69.0, 70.5].map(category);
        assert_eq!(found, [0, 1, 1, 2, 3, 4, 5, 6]);
    }

    /// A cyclone that begins in this month of 2001.
    fn cyclone(month: i64) -> Track {
        let start = Time::new(Calendar::NoLeap, 2001, month, 5, 0, 0, 0).unwrap();
        Track {
            track_id: month as u64,
            ..testdata::cyclone(start)
        }
    }

    #[test]
    fn months_of_which_others_alone_have_data_have_no_rate() {
        let tracks = vec![cyclone(1), cyclone(2)];
        let source = Source::new(SourceKind::Heuristic, Vec::new(), tracks);
        let mut days = [60.0; 12];
        (days[0], days[1]) = (0.0, 56.0);
        // 365 / 12 / 56, and 360 / 12 / 56.
        for (calendar, rate) in [(Calendar::NoLeap, "0.543"), (Calendar::Day360, "0.536")] {
            let svg = seasonal(&[&source], Class::TropicalCyclone, &days, 2.0, calendar);
            let february = format!("Heuristic, Feb: {rate}");
            assert!(svg.contains(&february), "{svg}");
            assert!(!svg.contains("Heuristic, Jan"), "{svg}");
        }
    }

    /// Regression: 1768 were told as 1770, and 45 as 45.0.
    #[test]
    fn counts_are_whole_and_in_full() {
        for count in [8, 1768] {
            let tracks = (1..=count).map(|id| Track {
                track_id: id,
                ..cyclone(8)
            });
            let source = Source::new(SourceKind::Heuristic, Vec::new(), tracks.collect());
            let class = Class::TropicalCyclone;
            let svg = seasonal(&[&source], class, &[31.0; 12], 1.0, Calendar::NoLeap);
            assert!(svg.contains(&format!("Heuristic, Aug: {count}<")), "{svg}");
        }
    }

    #[test]
    fn months_without_data_have_no_count() {
        let source = Source::new(SourceKind::Heuristic, Vec::new(), Vec::new());
        let mut days = [31.0; 12];
        days[0] = 0.0;
        let class = Class::TropicalCyclone;
        let svg = basin_calendar(&source, class, &days, 1.0, Calendar::NoLeap);
        assert!(svg.contains("<title>North Atlantic, Jan: no data</title>"));
        assert!(svg.contains("<title>North Atlantic, Feb: 0</title>"));
        assert_eq!(svg.matches("class=\"nodata\"").count(), Basin::NAMES.len());
        assert_eq!(svg.matches("no data").count(), Basin::NAMES.len());
    }

    /// Regression: with three Januaries and two Aprils, January had half as many again, beside bars that had not.
    #[test]
    fn months_of_regions_are_per_month_of_data_as_the_bars_are() {
        let tracks = vec![cyclone(1), cyclone(1), cyclone(1), cyclone(4), cyclone(4)];
        let source = Source::new(SourceKind::Heuristic, Vec::new(), tracks);
        let month = 365.0 / 12.0;
        let mut days = [2.0 * month; 12];
        days[0] = 3.0 * month;
        let class = Class::TropicalCyclone;
        let svg = |years| basin_calendar(&source, class, &days, years, Calendar::NoLeap);
        let (rates, counts) = (svg(2.2), svg(1.9));
        for (of, told) in [
            (&rates, ["Jan: 1.0<", "Apr: 1.0<"]),
            (&counts, ["Jan: 3<", "Apr: 2<"]),
        ] {
            assert!(told.iter().all(|words| of.contains(words)), "{of}");
        }
        let unit = "by basin and month, per month of data: ";
        assert_eq!([&rates, &counts].map(|of| of.contains(unit)), [true, false]);
    }
}
