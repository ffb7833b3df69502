//! Cells of tables as data frames save them again.

/// The text of a cell that says something; empty where it is blank, NaN, or NA as R writes what is missing. C writes the
/// NaN of most processors as `-nan`.
pub fn known(text: &str) -> &str {
    match text {
        "NA" => "",
        text if text.trim_start_matches('-').eq_ignore_ascii_case("nan") => "",
        text => text,
    }
}

/// The digits of a whole number: data frames hold those of a column with gaps as reals, 7 as 7.0.
pub fn digits(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, decimals)) if !decimals.is_empty() && decimals.bytes().all(|c| c == b'0') => {
            whole
        }
        _ => text,
    }
}
