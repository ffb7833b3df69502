//! Finds the calendar of a table from other files in its folder.

use squall_data::Calendar;
use squall_data::archive::on_library_thread;
use std::path::{Path, PathBuf};

/// Returns the calendar of the tables in a folder, which do not state it themselves. It is that of `statistics.nc`,
/// otherwise of the time axis of the first netCDF file with one, such as masks; `None` if there is none.
///
/// Unreadable files are ignored here; their own reader reports the problem.
pub fn calendar_beside(folder: &Path) -> Option<Calendar> {
    // The parent of a bare file name is empty.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "nc"))
        .collect();
    // `statistics.nc` describes the tables next to it; other files may cover only a part.
    files.sort_by_key(|path| (!path.ends_with("statistics.nc"), path.clone()));
    on_library_thread(|| files.iter().find_map(|path| calendar_of(path)))
}

fn calendar_of(path: &Path) -> Option<Calendar> {
    let file = netcdf::open(path).ok()?;
    let reported = match file.attribute("calendar_of_the_data") {
        Some(attribute) => attribute.value().ok()?,
        None => file.variable("time")?.attribute_value("calendar")?.ok()?,
    };
    match reported {
        netcdf::AttributeValue::Str(name) => Calendar::from_cf(&name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_come_before_other_files_and_those_before_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(calendar_beside(folder.path()), None);
        assert_eq!(calendar_beside(&at("absent")), None);
        std::fs::write(at("a.nc"), "cut short").unwrap();
        assert_eq!(calendar_beside(folder.path()), None);
        let masks = || -> Result<(), netcdf::Error> {
            let mut file = netcdf::create(at("masks.nc"))?;
            file.add_dimension("time", 1)?;
            let mut time = file.add_variable::<f64>("time", &["time"])?;
            time.put_attribute("calendar", "noleap")?;
            Ok(())
        };
        on_library_thread(masks).unwrap();
        assert_eq!(calendar_beside(folder.path()), Some(Calendar::NoLeap));
        let statistics = || -> Result<(), netcdf::Error> {
            let mut file = netcdf::create(at("statistics.nc"))?;
            file.add_attribute("calendar_of_the_data", "360_day")?;
            Ok(())
        };
        on_library_thread(statistics).unwrap();
        assert_eq!(calendar_beside(folder.path()), Some(Calendar::Day360));
    }
}
