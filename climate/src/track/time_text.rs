//! Serialises an instant as `"noleap 1996-08-26T03:00:00"`, so that a saved state can be read by people too.

use serde::{Deserialize, Deserializer, Serializer, de};
use squall_data::{Calendar, Time};

/// Writes the calendar's CF name and the date.
pub fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&to_text(*time))
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    from_text(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

fn to_text(time: Time) -> String {
    format!("{} {time}", time.calendar())
}

fn from_text(text: &str) -> Result<Time, String> {
    let bad = || format!("`{text}`: expected a calendar and a date");
    let (calendar, date) = text.split_once(' ').ok_or_else(bad)?;
    let calendar = Calendar::from_cf(calendar).ok_or_else(bad)?;
    Time::parse(date, calendar).map_err(|error| error.to_string())
}

/// The same for an instant that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Serializer, Time, de, from_text, to_text};

    /// Writes the text or nothing.
    pub fn serialize<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_some(&to_text(*time)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads what [`serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Time>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| from_text(&text).map_err(de::Error::custom))
            .transpose()
    }
}
