//! Table cells as saved by data frame libraries.

/// The text of a cell; empty if it is blank, NaN, or NA as R writes missing values. C formats the NaN of most
/// processors as `-nan`.
pub fn known(text: &str) -> &str {
    match text {
        "NA" => "",
        text if text.trim_start_matches('-').eq_ignore_ascii_case("nan") => "",
        text => text,
    }
}

/// The digits of an integer: data frames store integer columns with gaps as reals, so 7 becomes 7.0.
pub fn digits(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, decimals)) if !decimals.is_empty() && decimals.bytes().all(|c| c == b'0') => {
            whole
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_data_frames_say_what_is_in_them() {
        for (text, expected) in [
            ("NA", ""),
            ("NaN", ""),
            ("nan", ""),
            ("-nan", ""),
            ("", ""),
            // Basins and people.
            ("NAN1", "NAN1"),
            ("na", "na"),
            ("-1", "-1"),
        ] {
            assert_eq!(known(text), expected, "{text}");
        }
        for (text, expected) in [
            ("7.0", "7"),
            ("12.000", "12"),
            ("7", "7"),
            // What is no whole number stays what it is, to be refused.
            ("7.5", "7.5"),
            ("7.05", "7.05"),
            ("7.", "7."),
        ] {
            assert_eq!(digits(text), expected, "{text}");
        }
    }
}
