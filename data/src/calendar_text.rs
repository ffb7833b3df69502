//! An instant as text, `"noleap 1996-08-26T03:00:00"`, so that a saved state can be read by people too.

use crate::calendar::{Calendar, Time};
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

#[cfg(test)]
mod tests {
    use super::*;

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
