//! Formats numbers, dates and positions for readers.

use crate::compare::Statistic;
use crate::map::projection::signed_longitude;
use crate::statistics::is_southern;
use squall_data::Time;

/// A value with a number of decimals, and narrow spaces between thousands (from 10,000 on).
pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    for (k, digit) in whole.chars().enumerate() {
        if k > 0 && whole.len() > 4 && (whole.len() - k).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    let zero = out.chars().all(|c| matches!(c, '0' | '.'));
    if value < 0.0 && !zero {
        out.insert(0, '−');
    }
    out
}

/// A value rounded to a number of significant digits.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return grouped(value, 0);
    }
    let exponent = value.abs().log10().floor() as i32;
    let decimals = (digits - 1 - exponent).clamp(0, 8);
    let scale = 10f64.powi(exponent - digits + 1);
    grouped((value / scale).round() * scale, decimals as usize)
}

/// A number to two significant digits, or as many as distinguish it from `other`: 20.4 beside 20.
pub(crate) fn distinct_from(value: f64, other: f64) -> String {
    let digits = (2..6).find(|&digits| significant(value, digits) != significant(other, digits));
    significant(value, digits.unwrap_or(2))
}

/// `1 cyclone`, `14 cyclones`, `no cyclones`.
pub(crate) fn counted(count: usize, word: &str) -> String {
    match count {
        0 => format!("no {word}s"),
        1 => format!("1 {word}"),
        _ => format!("{} {word}s", grouped(count as f64, 0)),
    }
}

/// `18.2°N 134.5°W`.
pub(crate) fn place(lat_deg: f64, lon_deg: f64) -> String {
    let lon = signed_longitude(lon_deg);
    let (ns, ew) = (
        if is_southern(lat_deg) { 'S' } else { 'N' },
        if lon < 0.0 { 'W' } else { 'E' },
    );
    format!("{:.1}°{ns} {:.1}°{ew}", lat_deg.abs(), lon.abs())
}

/// Three-letter names of the months.
pub(crate) const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `26 Aug 1996`.
pub(crate) fn day(time: Time) -> String {
    let (year, month, day) = time.date();
    format!("{day} {} {year:04}", MONTHS[(month - 1) as usize])
}

/// `26 Aug 1996, 03:00`.
pub(crate) fn moment(time: Time) -> String {
    let seconds = time.second_of_day();
    format!(
        "{}, {:02}:{:02}",
        day(time),
        seconds / 3600,
        seconds / 60 % 60
    )
}

/// Hours as days, for columns, which have one unit.
pub(crate) fn days(hours: f64) -> String {
    let days = hours / 24.0;
    if days < 10.0 {
        significant(days, 2)
    } else {
        grouped(days, 0)
    }
}

/// A duration in a suitable unit.
pub(crate) fn duration(hours: f64) -> String {
    if hours < 48.0 {
        format!("{} h", grouped(hours, 0))
    } else if hours < 730.0 * 24.0 {
        format!("{} days", days(hours))
    } else {
        years(hours / 8766.0)
    }
}

/// A number of years: `2.54 years`, `6 years`.
pub(crate) fn years(number: f64) -> String {
    let text = significant(number, 3);
    let short = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{short} years")
}

/// A share as a percentage: `2.3 %`, `0.04 %`.
pub(crate) fn percent(share: f64) -> String {
    if share.is_finite() {
        format!("{}\u{a0}%", significant(100.0 * share, 2))
    } else {
        "–".into()
    }
}

/// The 10th percentile, median and 90th percentile of a sample; `None` if empty. The percentiles are defined as in
/// comparisons, without interpolation.
pub(crate) fn quantiles(values: &[f64]) -> Option<[f64; 3]> {
    let at = |share: f64| {
        let values = values.iter().map(|value| (*value, 0)).collect();
        Statistic::quantile(share, values, 1).value()
    };
    Some([at(0.1)?, median(values)?, at(0.9)?])
}

/// The median of the finite values; of an even number of them, the mean of the middle two.
fn median(values: &[f64]) -> Option<f64> {
    let mut numbers: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    numbers.sort_by(f64::total_cmp);
    let below = numbers.get(numbers.len().checked_sub(1)? / 2)?;
    let above = numbers.get(numbers.len() / 2)?;
    Some(0.5 * (below + above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1234567.0, 0), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(-1234.56, 1), "−1234.6");
        assert_eq!(grouped(-0.001, 1), "0.0");
        assert_eq!(significant(0.012345, 2), "0.012");
        assert_eq!(significant(98_765.0, 2), "99\u{202f}000");
        assert_eq!(significant(f64::NAN, 2), "–");
        assert_eq!(counted(0, "river"), "no rivers");
        assert_eq!(counted(1, "river"), "1 river");
        assert_eq!(place(-18.25, 225.5), "18.2°S 134.5°W");
        assert_eq!(place(5.0, 180.0), "5.0°N 180.0°W");
        assert_eq!(place(-1e-17, 225.5), "0.0°N 134.5°W");
        assert_eq!(duration(30.0), "30 h");
        assert_eq!(duration(59.875 * 24.0), "60 days");
        assert_eq!(duration(75.0), "3.1 days");
        assert_eq!([6.0, 24.0, 260.0].map(days), ["0.25", "1.0", "11"]);
        assert_eq!(years(5.996), "6 years");
        assert_eq!(years(2.541), "2.54 years");
        assert_eq!(years(100.0), "100 years");
        assert_eq!(percent(0.0234), "2.3\u{a0}%");
        assert_eq!(quantiles(&[1.0, 2.0, 3.0]).unwrap()[1], 2.0);
        // As in `squall compare`: the 90th percentile of four values is the fourth; a median may lie between two
        // values.
        let four = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantiles(&four), Some([1.0, 2.5, 4.0]));
        assert_eq!(quantiles(&[34.2, 24.6]).unwrap()[1], 0.5 * (24.6 + 34.2));
        assert_eq!(quantiles(&[f64::NAN, 7.0]), Some([7.0; 3]));
        assert_eq!(quantiles(&[f64::NAN]), None);
    }

    #[test]
    fn dates_read_well() {
        let time = Time::new(Calendar::NoLeap, 1996, 8, 26, 3, 0, 0).unwrap();
        assert_eq!(moment(time), "26 Aug 1996, 03:00");
    }
}
