//! Files of the ExtremeWeather data set, and of their layout.

use super::{found, frames, grid, write};
use squall_data::boxes::extreme_weather::ExtremeWeatherWriter;
use squall_data::boxes::{self, BoxFault};
use squall_data::{BoxClass, BoxFrames, Calendar, DataError, LatLonGrid, Time};
use std::fs;
use std::path::{Path, PathBuf};

/// A plain file of `boxes` of (times, slots, 5), as the data set has it: nothing else in it.
fn plain(path: &Path, slots: usize, values: &[i32]) {
    squall_data::archive::on_library_thread(|| {
        let mut file = netcdf::create(path).unwrap();
        file.add_dimension("t", values.len() / slots / 5).unwrap();
        file.add_dimension("slot", slots).unwrap();
        file.add_dimension("edge", 5).unwrap();
        let mut variable = file
            .add_variable::<i32>("boxes", &["t", "slot", "edge"])
            .unwrap();
        variable.put_values(values, ..).unwrap();
        file.close().unwrap();
    });
}

/// A year of four times a day; the first time holds these rows.
fn year(folder: &Path, rows: &[[i32; 5]]) -> PathBuf {
    let path = folder.join("climo_1979.h5");
    let mut values = vec![-1; 1460 * 15 * 5];
    values[..5 * rows.len()].copy_from_slice(rows.as_flattened());
    plain(&path, 15, &values);
    path
}

fn read_year(rows: &[[i32; 5]]) -> Result<BoxFrames, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = year(folder.path(), rows);
    let grid = LatLonGrid::global(768, 1152).unwrap();
    boxes::read(&path, &grid, Calendar::NoLeap)
}

#[test]
fn the_order_of_extreme_weather_files_is_told_by_their_numbers() {
    // One box of rows 500 to 540 and columns 1000 to 1050, class depression, in three orders.
    let documented = read_year(&[[500, 1000, 540, 1050, 0], [10, 20, 50, 70, 1]]).unwrap();
    let converter = read_year(&[[500, 540, 1000, 1050, 1], [10, 50, 20, 70, 2]]).unwrap();
    let columns = read_year(&[[1000, 1050, 500, 540, 1], [20, 70, 10, 50, 2]]).unwrap();
    assert_eq!(documented.frames().len(), 1460);
    assert_eq!(
        documented.frames()[5].time.to_string(),
        "1979-01-02T06:00:00"
    );
    for other in [&converter, &columns] {
        assert_eq!(other.frames()[0].boxes, documented.frames()[0].boxes);
    }
    let geo = documented.frames()[0].boxes[0].geo;
    assert_eq!(geo.class, BoxClass::TropicalDepression);
    let grid = LatLonGrid::global(768, 1152).unwrap();
    assert!((geo.south_deg - grid.lat_bounds_deg()[500]).abs() < 1e-9);
    assert!((geo.width_deg() - 50.0 * 0.3125).abs() < 1e-9);
    for (read, words) in [
        (&documented, "ymin, xmin, ymax, xmax, classes from 0"),
        (&converter, "x along the latitudes, classes from 1"),
        (&columns, "x along the longitudes, classes from 1"),
    ] {
        assert!(read.notes[0].contains(words), "{:?}", read.notes);
    }
    // Both orders fit: the documented one is taken, and that is said.
    let unsure = read_year(&[[100, 200, 300, 400, 3]]).unwrap();
    assert!(
        unsure.notes[0].contains("another order fits"),
        "{:?}",
        unsure.notes
    );
    assert_eq!(
        unsure.frames()[0].boxes[0].geo.class,
        BoxClass::AtmosphericRiver
    );
}

#[test]
fn wrong_extreme_weather_files_are_named_errors() {
    for (rows, fault, words) in [
        // The first row is one order only, the second another.
        (
            vec![[500, 1000, 540, 1050, 0], [100, 50, 700, 800, 1]],
            None,
            "",
        ),
        (
            vec![[500, 1000, 540, 1050, 0], [700, 740, 600, 650, 1]],
            Some(BoxFault::NoOrder),
            "time 0, box 1",
        ),
        (
            vec![[500, 1000, 540, 2500, 0]],
            Some(BoxFault::NoOrder),
            "768 x 1152",
        ),
        (
            vec![[500, 500, 500, 500, 0]],
            Some(BoxFault::NoExtent),
            "time 0, box 0",
        ),
        (
            vec![[540, 500, 540, 400, 0]],
            Some(BoxFault::NoExtent),
            "time 0, box 0",
        ),
        (
            vec![[500, 1000, 540, 1050, 7]],
            Some(BoxFault::UnknownClass),
            "found 7",
        ),
        (
            vec![[500, 1000, 540, 1050, 0], [500, 1000, 540, 1050, 4]],
            Some(BoxFault::UnknownClass),
            "both 0 and 4",
        ),
    ] {
        let read = read_year(&rows);
        match (fault, read) {
            (None, read) => assert!(read.is_ok(), "{rows:?}"),
            (Some(expected), Err(error)) => {
                let text = error.to_string();
                let DataError::BadBox { fault, .. } = error else {
                    panic!("{rows:?}: {text}")
                };
                assert_eq!(fault, expected, "{text}");
                assert!(
                    text.contains(words) && text.contains("climo_1979.h5"),
                    "{text}"
                );
            }
            (Some(_), Ok(read)) => panic!("{rows:?}: {:?}", read.notes),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let nameless = folder.path().join("boxes.h5");
    plain(&nameless, 2, &[-1; 10]);
    let cam5 = LatLonGrid::global(768, 1152).unwrap();
    let error = boxes::read(&nameless, &cam5, Calendar::NoLeap).unwrap_err();
    assert!(error.to_string().contains("climo_1979.h5"), "{error}");
    let short = folder.path().join("climo_1980.h5");
    plain(&short, 2, &[-1; 10]);
    let error = boxes::read(&short, &cam5, Calendar::NoLeap).unwrap_err();
    assert!(error.to_string().contains("1460"), "{error}");
    let flat = folder.path().join("flat.h5");
    plain(&flat, 1, &[-1; 5]);
    fs::write(folder.path().join("text.h5"), "no HDF5 at all").unwrap();
    let error = boxes::read(&folder.path().join("text.h5"), &cam5, Calendar::NoLeap).unwrap_err();
    assert!(matches!(error, DataError::Unreadable { .. }), "{error}");
    // Ours know their grid and calendar.
    let ours = folder.path().join("ours.h5");
    write(
        Box::new(ExtremeWeatherWriter::new(&ours, grid())),
        &frames(),
    );
    let error = boxes::read(&ours, &cam5, Calendar::NoLeap).unwrap_err();
    assert!(
        matches!(error, DataError::Mismatch { what: "grid", .. }),
        "{error}"
    );
    let error = boxes::read(&ours, &grid(), Calendar::Standard).unwrap_err();
    assert!(
        matches!(
            error,
            DataError::Mismatch {
                what: "calendar",
                ..
            }
        ),
        "{error}"
    );
}

/// Masks of the one calendar are at the times of fields of the other, too.
#[test]
fn the_gregorian_calendars_are_one_since_1582() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.h5");
    let storm = found(BoxClass::TropicalCyclone, 20.0, 5.0, 30.0, 15.0);
    for (year, are_one) in [(1996, true), (1500, false)] {
        let time = |calendar| Time::new(calendar, year, 2, 28, 18, 0, 0).unwrap();
        let sink = Box::new(ExtremeWeatherWriter::new(&path, grid()));
        write(sink, &[(time(Calendar::Standard), vec![storm])]);
        match boxes::read(&path, &grid(), Calendar::ProlepticGregorian) {
            Ok(back) => {
                assert!(are_one, "{year}");
                assert_eq!(back.frames()[0].time, time(Calendar::ProlepticGregorian));
            }
            Err(error) => assert!(
                !are_one && error.to_string().contains("calendar"),
                "{error}"
            ),
        }
    }
}
