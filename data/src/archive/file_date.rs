//! Dates in file names, for files without a time axis.

use crate::{Calendar, Time};
use std::path::Path;

/// The time in a name such as `data-1996-08-26-03-1.nc` (DeepCAM: step 3 of 3 hours, run 1), `x.2001-05-06-10800.nc`
/// (CESM: seconds of the day), `x_2001050612.nc` or `x_20010506.nc`.
///
/// Names carry no calendar: noleap is assumed where the name is CAM's, standard elsewhere.
pub(crate) fn from_name(path: &Path) -> Option<Time> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    let calendar = |name| Calendar::from_cf(name).expect("a known word");
    let groups: Vec<&str> = stem
        .split(|c: char| !c.is_ascii_digit())
        .filter(|g| !g.is_empty())
        .collect();
    let number = |text: &str| text.parse::<i64>().ok();
    for window in groups.windows(3) {
        let [year, month, day] = window else { continue };
        if (year.len(), month.len(), day.len()) != (4, 2, 2) {
            continue;
        }
        let at = groups.iter().position(|g| std::ptr::eq(*g, *year))?;
        let seconds = match groups.get(at + 3) {
            Some(step) if step.len() == 2 && stem.starts_with("data-") => number(step)? * 3 * 3600,
            Some(seconds) if seconds.len() == 5 => number(seconds)?,
            Some(hour) if hour.len() == 2 => number(hour)? * 3600,
            _ => 0,
        };
        let cam = stem.starts_with("data-") || stem.contains(".cam");
        let calendar = calendar(if cam { "noleap" } else { "standard" });
        let midnight = Time::new(
            calendar,
            number(year)?,
            number(month)?,
            number(day)?,
            0,
            0,
            0,
        )
        .ok()?;
        return (seconds < 86_400).then(|| midnight.add_seconds(seconds));
    }
    let packed = groups.iter().find(|g| [8, 10].contains(&g.len()))?;
    let hour = packed.get(8..10).map_or(Some(0), number)?;
    let standard = calendar("standard");
    Time::new(
        standard,
        number(&packed[..4])?,
        number(&packed[4..6])?,
        number(&packed[6..8])?,
        hour,
        0,
        0,
    )
    .ok()
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
}
