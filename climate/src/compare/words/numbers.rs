//! Formats numbers for sentences.

/// Decimals of a percentage: one below ten percent, none above, and two where one would turn it into zero.
pub(super) fn decimals(share: f64) -> usize {
    match (100.0 * share).abs() {
        percent if percent >= 9.95 => 0,
        percent if percent > 0.0 && percent < 0.05 => 2,
        _ => 1,
    }
}

/// A share as a percentage; its absolute value if unsigned.
pub(crate) fn percent(share: f64, decimals: usize, signed: bool) -> String {
    let percent = 100.0 * if signed { share } else { share.abs() };
    if signed {
        format!("{percent:+.decimals$} %")
    } else {
        format!("{percent:.decimals$} %")
    }
}

/// A number with three significant digits, without decimals from 100, and narrow spaces between thousands (from 10,000
/// on).
pub(crate) fn value(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return if number == 0.0 {
            "0".into()
        } else {
            "unknown".into()
        };
    }
    let exponent = number.abs().log10().floor() as i32;
    let decimals = (2 - exponent).clamp(0, 6) as usize;
    let text = format!("{:.decimals$}", number.abs());
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", with_thousands(&text))
}

/// Digits in groups of three, as in the tables of pages; numbers with decimals are too small for groups.
fn with_thousands(digits: &str) -> String {
    if digits.len() < 5 || digits.contains('.') {
        return digits.into();
    }
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Like [`value`], with a sign.
pub(crate) fn signed_value(number: f64) -> String {
    let sign = if number > 0.0 { "+" } else { "" };
    format!("{sign}{}", value(number))
}

/// A share as a percentage with its original digits: 95, 99.73, 99.9999.
pub(crate) fn in_percent(share: f64) -> String {
    // Rounded, because multiplication by 100 adds binary errors: numbers below 1 are within 6e-17 of the decimals that
    // they represent, their products are not.
    format!("{}", (1e15 * share).round() / 1e13)
}

/// A number without trailing zeros.
pub(crate) fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// `p < 0.001` or `p = 0.012`.
pub(crate) fn p_text(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".into()
    } else {
        format!(
            "p = {}",
            if p < 0.1 {
                format!("{p:.3}")
            } else {
                format!("{p:.2}")
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: sentences had "662008 km²" and "+0.0 %" on a page with "10 000" in its head.
    #[test]
    fn large_numbers_have_groups_and_small_percentages_are_not_zero() {
        assert_eq!(value(662_008.0), "662\u{202f}008");
        assert_eq!(signed_value(-14_908.4), "-14\u{202f}908");
        assert_eq!(signed_value(1_234_567.0), "+1\u{202f}234\u{202f}567");
        assert_eq!(value(1234.0), "1234");
        assert_eq!(value(-4.5), "-4.50");
        assert_eq!(percent(0.0004, decimals(0.0004), true), "+0.04 %");
        assert_eq!(percent(-0.08, decimals(-0.08), true), "-8.0 %");
        assert_eq!([0.0, 0.0994, 0.12].map(decimals), [1, 1, 0]);
    }
}
