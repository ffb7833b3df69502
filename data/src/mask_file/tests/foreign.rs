//! Masks of other tools: their codes, tags, dimensions and packing.

use super::*;

/// Classes are those of the file's `flag_meanings`, whatever their numbers.
#[test]
fn codes_mean_what_the_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let grid = LatLonGrid::global(8, 12).unwrap();
    let start = Time::new(Calendar::NoLeap, 2000, 7, 1, 0, 0, 0).unwrap();
    let codes = Array2::from_shape_fn((8, 12), |(j, i)| ((j + i) % 3) as u8);
    let path = folder.path().join("masks.nc");
    let options = MaskFileOptions::default();
    let mut writer = MaskWriter::create(&path, &grid, start, &options).unwrap();
    writer
        .write(&ClassMask::new(start, codes.clone()).unwrap(), None)
        .unwrap();
    writer.finish().unwrap();
    let told = |values: Option<Vec<i8>>, meanings: &str| {
        crate::archive::nc::on_library_thread(|| {
            let mut file = netcdf::append(&path).unwrap();
            let mut labels = file.variable_mut("LABELS").unwrap();
            labels.put_attribute("flag_meanings", meanings).unwrap();
            if let Some(values) = values {
                labels.put_attribute("flag_values", values).unwrap();
            }
            file.close().unwrap();
        });
        // Closed again at once: an open file cannot be changed.
        let masks = MaskArchive::open(path.to_str().unwrap())?;
        Ok::<_, crate::DataError>((masks.read(0), masks.classes()))
    };
    let (ours, _) = told(None, "background tropical_cyclone atmospheric_river").unwrap();
    assert_eq!(ours.unwrap().codes, codes);
    let (swapped, _) = told(None, "background Atmospheric_River TC").unwrap();
    let expected = codes.mapv(|code| [0u8, 2, 1][usize::from(code)]);
    assert_eq!(swapped.unwrap().codes, expected);
    let (moved, _) = told(Some(vec![1, 2, 0]), "BG AR TC").unwrap();
    let expected = codes.mapv(|code| [1u8, 0, 2][usize::from(code)]);
    assert_eq!(moved.unwrap().codes, expected);
    // A code without a meaning, a meaning that is no class, and a value too few.
    let (short, classes) = told(Some(vec![0, 2]), "background atmospheric_river").unwrap();
    assert_eq!(classes, [Class::AtmosphericRiver]);
    let error = short.unwrap_err().to_string();
    assert!(
        error.contains("0 (background), 2 (atmospheric river), found 1"),
        "{error}"
    );
    let error = told(None, "background blocking").err().unwrap().to_string();
    assert!(
        error.contains("`blocking`") && error.contains("atmospheric_river"),
        "{error}"
    );
    let error = told(None, "background tc ar").err().unwrap().to_string();
    assert!(error.contains("3 numbers in `flag_values`"), "{error}");
}

#[test]
fn masks_of_another_detector() {
    let Some(folder) = crate::testdata::real("ar-masks-merra2-teca-bard") else {
        return;
    };
    let archive =
        MaskArchive::open(folder.join("ar_tag_merra2_1981.nc").to_str().unwrap()).unwrap();
    assert_eq!(archive.grid().shape(), (361, 576));
    let mask = archive.read(0).unwrap();
    let share = mask.pixel_counts()[2] as f64 / mask.codes.len() as f64;
    assert!((0.02..0.06).contains(&share), "{share}");
}

/// A regional detector fills the rest of the globe; netCDF's own fill stands where nobody wrote.
#[test]
fn where_a_tag_is_missing_there_is_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tags.nc");
    let values = [1.0, 255.0, -3.0e5, 9.969_21e36, f32::NAN, 0.0];
    crate::archive::nc::on_library_thread(|| {
        let mut file = netcdf::create(&path).unwrap();
        let units = ["hours since 2000-07-01", "degrees_north", "degrees_east"];
        for ((name, length), unit) in [("time", 3), ("lat", 8), ("lon", 12)].iter().zip(units) {
            file.add_dimension(name, *length).unwrap();
            let mut axis = file.add_variable::<f64>(name, &[*name]).unwrap();
            axis.put_attribute("units", unit).unwrap();
            let step =
                [6.0, 20.0, 30.0][usize::from(*name != "time") + usize::from(*name == "lon")];
            let first = if *name == "lat" { -70.0 } else { 0.0 };
            let places: Vec<f64> = (0..*length).map(|k| first + step * k as f64).collect();
            axis.put_values(&places, ..).unwrap();
        }
        let mut tags = (file.add_variable::<f32>("binary_tag", &["time", "lat", "lon"])).unwrap();
        tags.put_attribute("missing_value", -3.0e5f32).unwrap();
        tags.put_attribute("_FillValue", 255.0f32).unwrap();
        let all = Array3::from_shape_fn((3, 8, 12), |(_, j, i)| values[(j + i) % 6]);
        tags.put(all.view(), ..).unwrap();
        file.close().unwrap();
    });
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    let known = archive.read_known(2).unwrap().unwrap();
    let missing = known.missing.unwrap();
    for ((j, i), code) in known.mask.codes.indexed_iter() {
        assert_eq!(*code > 0, (j + i) % 6 == 0, "row {j}, column {i}");
        let is_missing = (1..5).contains(&((j + i) % 6));
        assert_eq!(missing[[j, i]], is_missing, "row {j}, column {i}");
    }
}

/// A time without any value had been one without objects. But in masks that never name the background, a missing value
/// means it.
#[test]
fn a_mask_that_is_missing_everywhere_is_no_mask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tags.nc");
    // Objects, or nothing at all; then a number of background beside one of the objects, too.
    for (background, is_told) in [(f32::NAN, false), (0.0, true)] {
        write_square(&path, 2, &["time", "lat", "lon"]);
        crate::archive::nc::on_library_thread(|| {
            let mut file = netcdf::append(&path).unwrap();
            let dimensions = ["time", "lat", "lon"];
            let mut tags = (file.add_variable::<f32>("ar_binary_tag", &dimensions)).unwrap();
            let values: Vec<f32> = (0..128)
                .map(|cell| match cell {
                    0..64 => f32::NAN,
                    64..72 => 1.0,
                    72..80 => background,
                    _ => f32::NAN,
                })
                .collect();
            tags.put_values(&values, ..).unwrap();
            file.close().unwrap();
        });
        let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
        let [empty, other] = [0, 1].map(|index| archive.read_known(index).unwrap());
        let other = other.unwrap();
        assert_eq!(other.mask.pixel_counts(), [56, 0, 8]);
        let missing = other
            .missing
            .map(|cells| cells.iter().filter(|is| **is).count());
        assert_eq!(missing, is_told.then_some(48));
        assert_eq!(empty.is_none(), is_told);
        match archive.read(0) {
            Ok(mask) => assert_eq!((mask.pixel_counts(), is_told), ([64, 0, 0], false)),
            Err(error) => {
                let error = error.to_string();
                let words = ["2000-07-01T00:00:00", "only missing values"];
                assert!(
                    is_told && words.iter().all(|w| error.contains(w)),
                    "{error}"
                );
            }
        }
    }
}

/// As netCDF classic keeps the numbers of more than 127 objects in bytes: those above had been no objects.
#[test]
fn numbers_of_objects_may_be_unsigned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.nc");
    write_square(&path, 1, &["lat", "lon"]);
    // 0, 1, 127, 128, 254; 255 is told to be missing.
    let stored = [0i8, 1, 127, -128, -2, -1];
    crate::archive::nc::on_library_thread(|| {
        let mut file = netcdf::append(&path).unwrap();
        let mut objects = file
            .add_variable::<i8>("ar_binary_tag", &["lat", "lon"])
            .unwrap();
        objects.put_attribute("_Unsigned", "true").unwrap();
        objects.put_attribute("missing_value", 255i16).unwrap();
        let values: Vec<i8> = stored.into_iter().cycle().take(64).collect();
        objects.put_values(&values, ..).unwrap();
        file.close().unwrap();
    });
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    let found = archive.read(0).unwrap().codes;
    for (code, expected) in found.iter().zip([0, 2, 2, 2, 2, 0].into_iter().cycle()) {
        assert_eq!(*code, expected, "{found}");
    }
}

/// Codes are kept as the numbers of the mask are: 255 is -1 in both.
#[test]
fn codes_of_classes_may_be_unsigned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("classes.nc");
    write_square(&path, 1, &["lat", "lon"]);
    let stored = [0i8, 1, -1];
    crate::archive::nc::on_library_thread(|| {
        let mut file = netcdf::append(&path).unwrap();
        let mut labels = file.add_variable::<i8>("LABELS", &["lat", "lon"]).unwrap();
        labels.put_attribute("_Unsigned", "true").unwrap();
        labels
            .put_attribute("flag_values", stored.to_vec())
            .unwrap();
        labels.put_attribute("flag_meanings", "bg tc ar").unwrap();
        let values: Vec<i8> = stored.into_iter().cycle().take(64).collect();
        labels.put_values(&values, ..).unwrap();
        file.close().unwrap();
    });
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    let found = archive.read(0).unwrap().codes;
    for (code, expected) in found.iter().zip([0, 1, 2].into_iter().cycle()) {
        assert_eq!(*code, expected, "{found}");
    }
}

/// A file of tags on a square grid, whose variable has these dimensions; marked is what is second along the last.
fn write_square(path: &std::path::Path, times: usize, dimensions: &[&str]) {
    crate::archive::nc::on_library_thread(|| {
        let mut file = netcdf::create(path).unwrap();
        for (name, length, unit) in [
            ("time", times, "hours since 2000-07-01"),
            ("lat", 8, "degrees_north"),
            ("lon", 8, "degrees_east"),
        ] {
            file.add_dimension(name, length).unwrap();
            let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
            axis.put_attribute("units", unit).unwrap();
            let places: Vec<f64> = (0..length).map(|k| 6.0 * k as f64).collect();
            axis.put_values(&places, ..).unwrap();
        }
        for name in ["x", "y"] {
            file.add_dimension(name, 8).unwrap();
        }
        let mut tags = file.add_variable::<i8>("binary_tag", dimensions).unwrap();
        let all: usize = tags.dimensions().iter().map(|d| d.len()).product();
        let values: Vec<i8> = (0..all).map(|n| i8::from(n % 8 == 1)).collect();
        tags.put_values(&values, ..).unwrap();
        file.close().unwrap();
    });
}

/// From north to south and from 180°W, as many tools write.
#[test]
fn masks_are_turned_as_fields_are() {
    let folder = tempfile::tempdir().unwrap();
    for (name, most) in [("LABELS", 1i8), ("binary_tag", 7)] {
        let path = folder.path().join(format!("{name}.nc"));
        crate::archive::nc::on_library_thread(|| {
            let mut file = netcdf::create(&path).unwrap();
            for (name, unit, places) in [
                ("time", "hours since 2000-07-01", &[6.0][..]),
                ("lat", "degrees_north", &[60.0, 20.0, -20.0]),
                ("lon", "degrees_east", &[-180.0, -90.0, 0.0, 90.0]),
            ] {
                file.add_dimension(name, places.len()).unwrap();
                let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
                axis.put_attribute("units", unit).unwrap();
                axis.put_values(places, ..).unwrap();
            }
            let mut mask = file
                .add_variable::<i8>(name, &["time", "lat", "lon"])
                .unwrap();
            // At 60°N 90°E and at 20°S 90°W.
            let values = [0, 0, 0, most, 0, 0, 0, 0, 0, most, 0, 0];
            mask.put_values(&values, ..).unwrap();
            file.close().unwrap();
        });
        let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
        let codes = archive.read(0).unwrap().codes;
        let places = [(60.0, 90.0), (-20.0, 270.0)];
        let expected = places.map(|(lat, lon)| archive.grid().nearest(lat, lon));
        assert_eq!(expected, [(2, 1), (0, 3)]);
        for (place, code) in codes.indexed_iter() {
            assert_eq!(*code > 0, expected.contains(&place), "{name} {place:?}");
        }
    }
}

/// One mask beside many times had been that of each of them.
#[test]
fn a_mask_without_time_is_that_of_one_time_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tags.nc");
    write_square(&path, 1, &["lat", "lon"]);
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    assert_eq!(archive.read(0).unwrap().pixel_counts()[2], 8);
    drop(archive);
    write_square(&path, 3, &["lat", "lon"]);
    let error = MaskArchive::open(path.to_str().unwrap()).err().unwrap();
    let error = error.to_string();
    assert!(error.contains("a mask for each of 3 times"), "{error}");
}

/// On a square grid lengths do not tell which dimension is which: these masks had been read turned.
#[test]
fn dimensions_of_a_square_are_known_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tags.nc");
    for (dimensions, turned) in [
        (["time", "lat", "lon"], false),
        (["time", "lon", "lat"], true),
    ] {
        write_square(&path, 2, &dimensions);
        let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
        let mask = archive.read(1).unwrap();
        for ((j, i), code) in mask.codes.indexed_iter() {
            let second = if turned { j } else { i };
            assert_eq!(*code > 0, second == 1, "{dimensions:?} {j} {i}");
        }
    }
    write_square(&path, 2, &["time", "y", "x"]);
    let error = MaskArchive::open(path.to_str().unwrap()).err().unwrap();
    let error = error.to_string();
    let words =
        "expected a mask of (time, lat, lon) or (lat, lon), found (2, 8, 8) of (time, y, x)";
    assert!(error.contains(words), "{error}");
}

/// What a tool leaves that is killed: there had been no event at all, or one around the globe.
#[test]
fn masks_that_were_never_written_are_refused() {
    fn add<T: netcdf::NcTypeDescriptor + Copy + Default>(file: &mut netcdf::FileMut) {
        let dimensions = ["time", "lat", "lon"];
        let mut tags = file
            .add_variable::<T>("ar_binary_tag", &dimensions)
            .unwrap();
        tags.put_values(&[T::default(); 64], (0_usize, .., ..))
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.nc");
    let kinds: [fn(&mut netcdf::FileMut); 4] = [add::<i8>, add::<u8>, add::<i32>, add::<f32>];
    for (kind, add) in kinds.into_iter().enumerate() {
        write_square(&path, 2, &["time", "lat", "lon"]);
        crate::archive::nc::on_library_thread(|| {
            let mut file = netcdf::append(&path).unwrap();
            add(&mut file);
            file.close().unwrap();
        });
        let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
        assert_eq!(archive.read(0).unwrap().pixel_counts(), [64, 0, 0]);
        let error = archive.read(1).unwrap_err().to_string();
        let words = ["ar_binary_tag", "2000-07-01T06:00:00", "never written"];
        assert!(words.iter().all(|w| error.contains(w)), "{kind}: {error}");
        drop(archive);
        // A file that names it says that nothing is known there: that is no mask, either.
        crate::archive::nc::on_library_thread(|| {
            let mut file = netcdf::append(&path).unwrap();
            let mut tags = file.variable_mut("ar_binary_tag").unwrap();
            let fill = crate::archive::nc::default_fill(&tags).unwrap();
            tags.put_attribute("missing_value", fill).unwrap();
            file.close().unwrap();
        });
        let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
        assert!(archive.read_known(1).unwrap().is_none(), "{kind}");
    }
}

/// As `cdo pack` and `ncpdq` write them: the least number is stored as -32767. Half of all objects had been lost.
#[test]
fn packed_codes_are_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.nc");
    for (name, most, codes) in [
        ("ar_binary_tag", 5_i32, &[0, 2, 2, 2, 2, 2][..]),
        ("LABELS", 2, &[0, 1, 2]),
    ] {
        write_square(&path, 1, &["lat", "lon"]);
        let (scale, offset) = (f64::from(most) / 65_534.0, f64::from(most) / 2.0);
        let number = |n: i32| ((f64::from(n % (most + 1)) - offset) / scale).round() as i16;
        let stored: Vec<i16> = (0..64).map(number).collect();
        crate::archive::nc::on_library_thread(|| {
            let mut file = netcdf::append(&path).unwrap();
            let mut packed = file.add_variable::<i16>(name, &["lat", "lon"]).unwrap();
            packed.put_attribute("scale_factor", scale).unwrap();
            packed.put_attribute("add_offset", offset).unwrap();
            packed.put_values(&stored, ..).unwrap();
            file.close().unwrap();
        });
        let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
        let found = archive.read(0).unwrap().codes;
        for (code, expected) in found.iter().zip(codes.iter().cycle()) {
            assert_eq!(code, expected, "{name}: {found}");
        }
    }
}
