//! Dates in file names, for files without a time axis.

use crate::calendar::DAY_SECONDS;
use crate::{Calendar, Time};
use std::path::Path;

/// The time in a name such as `data-1996-08-26-03-1.nc` (DeepCAM: step 3 of 3 hours, run 1), `x.2001-05-06-10800.nc`
/// (CESM: seconds of the day), `wrfout_d01_2001-05-06_06_30_00` (WRF), `x_2001-05-06T0600.nc`, `x_2001050612.nc`,
/// `x_20010506_0600.nc` or `x_20010506.nc`. `None` if a forecast lead time follows the time of day. Other numbers after
/// a date are not times; the time is then midnight.
///
/// Names carry no calendar: noleap is assumed for CAM's names, standard for others.
pub(crate) fn from_name(path: &Path) -> Option<Time> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    let groups = groups(&stem);
    let of_cam = stem.starts_with("data-") || stem.contains(".cam");
    if let Some(at) = (0..groups.len()).find(|&at| is_date(&groups[at..])) {
        let date = [0, 1, 2].map(|k| groups[at + k].digits);
        let seconds = seconds_behind(&groups[at + 3..], stem.starts_with("data-"))?;
        let calendar = if of_cam {
            Calendar::NoLeap
        } else {
            Calendar::Standard
        };
        return instant(calendar, date, seconds);
    }
    let at = (groups.iter()).position(|g| [8, 10, 12, 14].contains(&g.digits.len()))?;
    let packed = groups[at].digits;
    let seconds = match packed.len() {
        8 => seconds_behind_packed(&groups[at + 1..])?,
        _ => clock_seconds(&packed[8..])?,
    };
    let date = [&packed[..4], &packed[4..6], &packed[6..8]];
    instant(Calendar::Standard, date, seconds)
}

/// A run of digits in a name.
struct Group<'n> {
    digits: &'n str,
    /// The text between the previous group and this one.
    before: &'n str,
    /// The letters that directly follow.
    after: &'n str,
}

impl Group<'_> {
    /// Whether it continues the preceding date, as in `20010506_0600` and `2001-05-06T06Z`, rather than being part of a
    /// word, as in `20010506_025deg`, `20010506_1000hPa` or `20010506_12hourly`.
    fn is_behind(&self) -> bool {
        let joined = ["_", "-", ".", "T", "t", "_t", "-t", ".t", "_T", "-T", ".T"];
        let is_hour = self.digits.len() == 2 && self.digits < "24";
        joined.contains(&self.before)
            && match self.after {
                "" | "z" | "Z" | "UTC" => true,
                "h" | "H" => is_hour,
                _ => false,
            }
    }

    /// Whether the name marks it as a time of day, as `T1000` and `0610Z` do.
    fn is_marked(&self) -> bool {
        self.before.ends_with(['T', 't']) || ["z", "Z", "UTC"].contains(&self.after)
    }

    /// Whether it cannot be a time of day, but must be a member, a level or a version.
    fn is_other(&self) -> bool {
        match self.digits.len() {
            3 => true,
            // Minutes of a time of day are round numbers; 2001 is a year, and 1000 a level.
            4 if !self.is_marked() => {
                let (hour, minute) = self.digits.split_at(2);
                hour >= "24" || self.digits == "1000" || !["00", "15", "30", "45"].contains(&minute)
            }
            2 | 4 | 6 => clock_seconds(self.digits).is_none(),
            _ => false,
        }
    }
}

/// All digit groups of a name.
fn groups(stem: &str) -> Vec<Group<'_>> {
    let mut found = Vec::new();
    let mut rest = stem;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit());
        let (digits, behind) = from.split_at(end.unwrap_or(from.len()));
        let word = behind.find(|c: char| !c.is_alphabetic());
        found.push(Group {
            digits,
            before,
            after: &behind[..word.unwrap_or(behind.len())],
        });
        rest = behind;
    }
    found
}

/// Whether groups begin with year, month and day.
fn is_date(groups: &[Group<'_>]) -> bool {
    let lengths: Vec<usize> = groups.iter().take(3).map(|g| g.digits.len()).collect();
    lengths == [4, 2, 2]
}

/// Seconds of the day in the groups that follow year, month and day; 0 if there are none.
fn seconds_behind(groups: &[Group<'_>], of_deepcam: bool) -> Option<i64> {
    let Some(next) = groups.first() else {
        return Some(0);
    };
    match next.digits.len() {
        2 if of_deepcam => Some(3 * 3600 * next.digits.parse::<i64>().ok()?),
        5 => clock_seconds(next.digits),
        // The end date of a range.
        _ if is_date(groups) => Some(0),
        2..=6 if next.is_behind() && !next.is_other() => clock_of(groups),
        _ => Some(0),
    }
}

/// Seconds of the day in the first group, or in several of the form `hh:mm`, `hh:mm:ss`, `hh-mm-ss` or `hh_mm_ss`.
fn clock_of(groups: &[Group<'_>]) -> Option<i64> {
    let hour = groups[0].digits;
    // WRF's names where colons are not allowed. Members and versions have the same form, but rarely two numbers below
    // 60.
    if let [_, minute, second, ..] = groups
        && hour.len() == 2
        && [minute, second].into_iter().all(is_sixtieth)
    {
        return clock_seconds(&format!("{hour}{}{}", minute.digits, second.digits));
    }
    let pair = |at: usize, before: &str| {
        let group = groups.get(at)?;
        (hour.len() == 2 && group.digits.len() == 2 && group.before == before)
            .then_some(group.digits)
    };
    let parts = match (pair(1, ":"), pair(2, ":"), pair(1, "-").zip(pair(2, "-"))) {
        (Some(minute), second, _) => Some((minute, second.unwrap_or("00"))),
        (None, _, both) => both,
    };
    match parts {
        Some((minute, second)) => clock_seconds(&format!("{hour}{minute}{second}")),
        None => clock_seconds(hour),
    }
}

/// Whether a group may be minutes or seconds after `_`.
fn is_sixtieth(group: &Group<'_>) -> bool {
    group.before == "_" && group.is_behind() && group.digits.len() == 2 && group.digits < "60"
}

/// Seconds of the day in what follows an eight-digit date; 0 if nothing does; `None` if a forecast lead follows that
/// time, as in GFS's `20111011_0600_003`.
fn seconds_behind_packed(groups: &[Group<'_>]) -> Option<i64> {
    let mut behind = groups.iter().take_while(|group| group.is_behind());
    let Some(next) = behind.next() else {
        return Some(0);
    };
    let lead = behind.next().filter(|group| group.digits.len() == 3);
    match next.digits.len() {
        // A level has no lead after it.
        2..=6 if next.is_other() && !(next.digits == "1000" && lead.is_some()) => Some(0),
        2..=6 if lead.is_some_and(|lead| lead.digits != "000") => None,
        2..=6 => clock_of(groups),
        _ => Some(0),
    }
}

/// Seconds of the day for `hh`, `hhmm`, `hhmmss`, or five digits of seconds; `None` otherwise.
fn clock_seconds(digits: &str) -> Option<i64> {
    let number = |from: usize, to: usize| digits.get(from..to)?.parse::<i64>().ok();
    let [hour, minute, second] = match digits.len() {
        2 => [number(0, 2)?, 0, 0],
        4 => [number(0, 2)?, number(2, 4)?, 0],
        5 => return number(0, 5).filter(|seconds| *seconds < DAY_SECONDS),
        6 => [number(0, 2)?, number(2, 4)?, number(4, 6)?],
        _ => return None,
    };
    (hour < 24 && minute < 60 && second < 60).then_some(3600 * hour + 60 * minute + second)
}

/// The instant this many seconds after the midnight of a date.
fn instant(calendar: Calendar, date: [&str; 3], seconds: i64) -> Option<Time> {
    let [year, month, day] = date.map(|digits| digits.parse::<i64>().ok());
    let midnight = Time::new(calendar, year?, month?, day?, 0, 0, 0).ok()?;
    (seconds < DAY_SECONDS).then(|| midnight.add_seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_field() {
        let date = |name: &str| from_name(Path::new(name)).map(|t| t.to_string());
        let expect = |text: &str| Some(text.to_string());
        assert_eq!(
            date("data-1996-08-26-03-1.nc"),
            expect("1996-08-26T09:00:00")
        );
        assert_eq!(
            date("run1.cam.h2.2001-05-06-10800.nc"),
            expect("2001-05-06T03:00:00")
        );
        assert_eq!(date("x_2001050612.nc"), expect("2001-05-06T12:00:00"));
        assert_eq!(date("era5_20010506.nc"), expect("2001-05-06T00:00:00"));
        assert_eq!(date("x_2001-13-06.nc"), None);
        assert_eq!(date("topography.nc"), None);
    }

    /// CAM's years have 365 days, those of other names the days of the calendar in use.
    #[test]
    fn names_of_cam_are_of_its_calendar() {
        let calendar = |name: &str| from_name(Path::new(name)).map(Time::calendar);
        for (name, expected) in [
            ("data-1996-02-28-01-1.nc", Some(Calendar::NoLeap)),
            ("data-1996-02-29-01-1.nc", None),
            ("run.cam.h2.1996-02-28-10800.nc", Some(Calendar::NoLeap)),
            ("run.cam.h2.1996-02-29-10800.nc", None),
            ("x.1996-02-29-10800.nc", Some(Calendar::Standard)),
            ("x_19960229.nc", Some(Calendar::Standard)),
            ("x_19950229.nc", None),
        ] {
            assert_eq!(calendar(name), expected, "{name}");
        }
    }

    /// The time of the day had been midnight in all of these.
    #[test]
    fn times_of_the_day_behind_a_date() {
        for (name, time) in [
            ("gfs_4_20111011_0600_000.nc", Some("06:00:00")),
            ("gfs_4_20111011_1830.nc", Some("18:30:00")),
            // The lead of a forecast, in hours as it seems.
            ("gfs_4_20111011_0600_003.nc", None),
            ("x_2011-10-11T0600.nc", Some("06:00:00")),
            ("x_2011-10-11_0600Z.nc", Some("06:00:00")),
            ("x_20111011T0600Z.nc", Some("06:00:00")),
            ("x_20111011_06.nc", Some("06:00:00")),
            ("x.20111011.t06z.nc", Some("06:00:00")),
            ("x_20111011_061530.nc", Some("06:15:30")),
            ("x_20111011-21600.nc", Some("06:00:00")),
            ("x_201110110630.nc", Some("06:30:00")),
            ("b.e21.cam.h2.2011-10-11-00000.nc", Some("00:00:00")),
            ("wrfout_d01_2011-10-11_06:30:00", Some("06:30:00")),
            ("wrfout_d01_2011-10-11_06-30-15.nc", Some("06:30:15")),
            ("wrfout_d01_2011-10-11_06_30_00", Some("06:30:00")),
            ("wrfout_d01_2011-10-11_06_30_00.nc", Some("06:30:00")),
            ("wrfout_d01_2011-10-11_18_05_59.nc4", Some("18:05:59")),
            ("x_20111011_06_30_00.nc", Some("06:30:00")),
            ("x_20111011_06_01.nc", Some("06:00:00")),
            ("x_20111011_06_30_99.nc", Some("06:00:00")),
            ("x_20111011_12h.nc", Some("12:00:00")),
            ("x_20111011_12UTC.nc", Some("12:00:00")),
            // Names that say that it is a time need no round minutes, and 1000 before a lead is no level.
            ("x_20111011T1000Z.nc", Some("10:00:00")),
            ("x_2011-10-11T1000.nc", Some("10:00:00")),
            ("x_20111011_1000Z.nc", Some("10:00:00")),
            ("x_20111011T0610.nc", Some("06:10:00")),
            ("rap_130_20111011_1000_000.nc", Some("10:00:00")),
            ("rap_130_20111011_1000_003.nc", None),
            // What is no time: levels, steps, members, years.
            ("x_20111011_2460.nc", Some("00:00:00")),
            ("x_20111011_2500.nc", Some("00:00:00")),
            ("x_20111011_000.nc", Some("00:00:00")),
            ("x_20111011_001.nc", Some("00:00:00")),
            ("x_2011-10-11_0660.nc", Some("00:00:00")),
            ("x_20111011_1000hPa.nc", Some("00:00:00")),
            ("x_2011-10-11_850hPa.nc", Some("00:00:00")),
            ("x_20111011_1000.nc", Some("00:00:00")),
            ("x_20111011_850.nc", Some("00:00:00")),
            ("x_20111011_12hourly.nc", Some("00:00:00")),
            ("x_20111011_24h.nc", Some("00:00:00")),
            ("x_20111011_24hr.nc", Some("00:00:00")),
            ("x_20111011_31.nc", Some("00:00:00")),
            ("x_20111011_2001.nc", Some("00:00:00")),
            ("x_20111011_500hPa.nc", Some("00:00:00")),
            ("x_2011-10-11_001.nc", Some("00:00:00")),
            ("x_2011-10-11_31.nc", Some("00:00:00")),
            ("x_20111011T2500.nc", Some("00:00:00")),
            ("x_20111011_987654.nc", Some("00:00:00")),
            ("x_20111011_0600_850hPa.nc", Some("06:00:00")),
            ("x_2011101124.nc", None),
            // What stands apart from the date, or is a date itself.
            ("x_20111011_025deg.nc", Some("00:00:00")),
            ("x_20111011_v2.nc", Some("00:00:00")),
            ("x_20111011-20111012.nc", Some("00:00:00")),
            ("x_2011-10-11_2011-10-12.nc", Some("00:00:00")),
        ] {
            let found = from_name(Path::new(name)).map(|found| found.to_string());
            let expected = time.map(|time| format!("2011-10-11T{time}"));
            assert_eq!(found, expected, "{name}");
        }
    }
}
