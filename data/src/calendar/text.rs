//! Human-readable text for instants in saved state, `"noleap 1996-08-26T03:00:00"`, and time zones of dates.

use super::{Calendar, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The calendar's CF name and the date.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{} {self}", self.calendar()))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || de::Error::custom(format!("`{text}`: expected a calendar and a date"));
        let (calendar, date) = text.split_once(' ').ok_or_else(bad)?;
        let calendar = Calendar::from_cf(calendar).ok_or_else(bad)?;
        Time::parse(date, calendar).map_err(de::Error::custom)
    }
}

/// The text before a word for UTC at its end, in any letter case; `None` without such a word.
pub(super) fn before_utc(text: &str) -> Option<&str> {
    ["UTC", "GMT", "Z"].iter().find_map(|word| {
        let (before, end) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
        end.eq_ignore_ascii_case(word).then(|| before.trim_end())
    })
}

/// Splits a time of day from its zone, which is returned as seconds ahead of UTC; `None` if the zone is a word rather
/// than an offset. A zone without a sign, such as `0:00`, must be zero.
///
/// # Source
/// CF conventions, section 4.4, and `udunits2`: `seconds since 1992-10-8 15:15:42.5 -6:00`.
pub(super) fn clock_and_zone(text: &str) -> Option<(&str, i64)> {
    let text = text.trim();
    let at = text.find(['+', '-', ' ']).unwrap_or(text.len());
    let (clock, zone) = (&text[..at], text[at..].trim());
    if zone.is_empty() {
        return Some((clock, 0));
    }
    let (sign, digits) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
        (Some(digits), _) => (1, digits.trim()),
        (None, Some(digits)) => (-1, digits.trim()),
        (None, None) => (0, zone),
    };
    // `HH:MM`, `HHMM`, or hours alone.
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some(parts), _) => parts,
        (None, 4) if digits.is_ascii() => digits.split_at(2),
        (None, _) => (digits, "0"),
    };
    let number = |text: &str| {
        let is_number = text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| is_number)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if hours > 18 || minutes > 59 {
        return None;
    }
    let distance = hours * 3600 + minutes * 60;
    (sign != 0 || distance == 0).then_some((clock, sign * distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_time_zones_are_those_of_utc() {
        for (text, expected) in [
            ("1992-10-8 15:15:42.5 -6:00", "1992-10-08T21:15:43"),
            ("2000-01-01T00:00:00+02:00", "1999-12-31T22:00:00"),
            ("2000-01-01 00:00:00 +0530", "1999-12-31T18:30:00"),
            ("2000-01-01 00:00 +1", "1999-12-31T23:00:00"),
            ("2000-01-01 12:00:00 0:00", "2000-01-01T12:00:00"),
            ("2000-01-01 12:00:00 -00:00", "2000-01-01T12:00:00"),
            ("2000-01-01 12:00:00 0", "2000-01-01T12:00:00"),
            ("2000-01-01 12:00:00 UTC", "2000-01-01T12:00:00"),
            ("2000-01-01 12:00:00 utc", "2000-01-01T12:00:00"),
            ("2000-01-01 12:00 GMT", "2000-01-01T12:00:00"),
            ("2000-01-01 12:00:00 +0000 UTC", "2000-01-01T12:00:00"),
            ("2000-01-01T12:00:00Z", "2000-01-01T12:00:00"),
            ("2000-01-01UTC", "2000-01-01T00:00:00"),
            ("2000-01-01", "2000-01-01T00:00:00"),
        ] {
            let found = Time::parse(text, Calendar::Standard);
            assert_eq!(found.unwrap().to_string(), expected, "{text}");
        }
        let units = "hours since 2000-01-01 00:00:00 +02:00";
        let found = Time::from_cf(3.0, units, Calendar::NoLeap).unwrap();
        assert_eq!(found.to_string(), "2000-01-01T01:00:00");
        for text in [
            "2000-01-01 12:00:00 2:00",
            "2000-01-01 12:00:00 +25:00",
            "2000-01-01 12:00:00 +02:75",
            "2000-01-01 12:00:00 +two1",
            "2000-01-01 12:00:00 1",
            "2000-01-01 12:00:00 ++1",
            "2000-01-01 12:00:00 +02:00 UTC",
            "2000-01-01 12:00:00 +9000000000000000000",
        ] {
            assert!(Time::parse(text, Calendar::Standard).is_err(), "{text}");
        }
    }

    /// All of these had been 12:00 UTC.
    #[test]
    fn words_behind_a_clock_are_no_zones() {
        for word in [
            "soon", "EST", "PM", "NZ", "UTC UTC", "noleap", "+", "-:", "0x", "§",
        ] {
            let text = format!("2000-01-01 12:00 {word}");
            assert!(Time::parse(&text, Calendar::Standard).is_err(), "{text}");
            let units = format!("hours since {text}");
            let error = Time::from_cf(3.0, &units, Calendar::Standard).unwrap_err();
            assert!(error.to_string().contains(&units), "{error}");
        }
    }

    #[test]
    fn an_instant_comes_back_with_its_calendar() {
        for calendar in [Calendar::NoLeap, Calendar::Standard, Calendar::Day360] {
            let time = Time::new(calendar, 1996, 2, 28, 21, 30, 5).unwrap();
            let text = serde_json::to_string(&Some(time)).unwrap();
            let back: Option<Time> = serde_json::from_str(&text).unwrap();
            assert_eq!(back, Some(time), "{text}");
        }
        for text in [
            "\"1996-02-28\"",
            "\"moon 1996-02-28\"",
            "\"noleap 1996-02-30\"",
        ] {
            assert!(serde_json::from_str::<Time>(text).is_err(), "{text}");
        }
    }
}
