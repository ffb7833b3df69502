//! Formats numbers for sentences.

/// Decimals of a percentage: one below ten percent, none above.
pub(super) fn decimals(share: f64) -> usize {
    usize::from((100.0 * share).abs() < 9.95)
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

/// A number with three significant digits, without decimals from 100.
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
    format!("{number:.decimals$}")
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
