//! Writing and reading of climatologies, and files that are rejected.

use super::read::Stored;
use super::{BLOCK, LEVELS, MOISTURE, PERCENTILE, THRESHOLD};
use crate::detect::percentile::{
    ClimateOrigin, MoistureRecord, PercentileThresholds, SavedClimatology, TransportClimatology,
};
use ndarray::Array2;
use netcdf::{AttributeValue, FileMut};
use squall_data::LatLonGrid;
use squall_data::archive::on_library_thread;
use std::sync::Arc;

fn rules() -> PercentileThresholds {
    PercentileThresholds {
        min_times: 1,
        climatology_spacing_deg: 15.0,
        ..PercentileThresholds::default()
    }
}

/// A climatology of January and March on blocks of 3 x 2 cells; moisture is missing at all times in one block.
fn climatology() -> SavedClimatology {
    let lat_deg: Vec<f64> = (0..19).map(|j| -45.0 + 5.0 * f64::from(j)).collect();
    // Across the seam.
    let lon_deg = (0..11)
        .map(|i| (340.0 + 7.5 * f64::from(i)) % 360.0)
        .collect();
    let grid = Arc::new(LatLonGrid::from_axes(lat_deg, lon_deg).unwrap().0);
    let rules = rules();
    let mut counts = TransportClimatology::new(&rules, &grid);
    for (month, times) in [(1, 5), (3, 7)] {
        for time in 0..times {
            let plane = Array2::from_shape_fn(grid.shape(), |(j, i)| {
                if j < 3 && i < 2 {
                    f32::NAN
                } else {
                    37.0 * (1 + (j * 5 + i * 3 + time * 11) % 23) as f32
                }
            });
            counts.add(month, plane.view()).unwrap();
        }
    }
    let thresholds = Arc::new(counts.thresholds(&rules).unwrap());
    let origin = ClimateOrigin {
        input: "a.nc and 3 more files".into(),
        span: ["2000-01-01T00:00:00", "2000-03-31T18:00:00"].map(String::from),
        calendar: "360_day".into(),
        transport: None,
        moisture: Some(MoistureRecord {
            computation: "transport integrated over levels".into(),
            levels_pa: vec![30_000.0, 85_000.0, 92_500.0],
            variables: "hus, ua, va".into(),
            units: "1, m s-1, m s-1".into(),
        }),
    };
    SavedClimatology::new(thresholds, &rules, grid, origin).unwrap()
}

#[test]
fn a_climatology_comes_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/percentile_thresholds.nc");
    let written = climatology();
    written.write(&path).unwrap();
    let read = SavedClimatology::read(&path).unwrap();
    assert!(read == written);
    assert_eq!(read.describe(), written.describe());
    let usual = read.thresholds();
    assert_eq!(usual.at(3, (0, 1)), Some(f32::INFINITY));
    assert!(usual.at(3, (18, 10)).is_some_and(|value| value > 100.0));
    assert_eq!(usual.at(2, (18, 10)), None);
    assert_eq!((usual.times[0], usual.times[2]), (5, 7));
}

/// The file as other tools see it.
#[test]
fn a_file_has_the_centres_and_units_of_its_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("percentile_thresholds.nc");
    climatology().write(&path).unwrap();
    on_library_thread(|| {
        let stored = Stored::open(&path).unwrap();
        assert_eq!(stored.column("month").unwrap(), [1.0, 3.0]);
        // Rows -45, -40, -35 form one block; 45 is alone in the last.
        let lat_deg = stored.column("lat").unwrap();
        assert_eq!((lat_deg.len(), lat_deg[0], lat_deg[6]), (7, -40.0, 45.0));
        // Columns 340 and 347.5, 355 and 2.5, ...; 55 is alone.
        let lon_deg = stored.column("lon").unwrap();
        assert_eq!(lon_deg, [343.75, 358.75, 13.75, 28.75, 43.75, 55.0]);
        let threshold = stored.file.variable(THRESHOLD).unwrap();
        let units = threshold.attribute_value("units").unwrap().unwrap();
        assert_eq!(units, AttributeValue::from("kg m-1 s-1"));
        let values = threshold
            .get_values::<f32, _>((1usize, 0usize, ..))
            .unwrap();
        assert!(values[0].is_nan() && values[1].is_finite(), "{values:?}");
    });
}

/// Overwrites the number of times of its two months.
fn put_times(file: &mut FileMut, times: [f64; 2]) -> netcdf::Result<()> {
    let mut variable = file.variable_mut("times").ok_or("none")?;
    variable.put_values(&times, ..)
}

#[test]
fn more_times_than_fit_into_32_bits_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("percentile_thresholds.nc");
    climatology().write(&path).unwrap();
    on_library_thread(|| put_times(&mut netcdf::append(&path)?, [4e9, 4e9])).unwrap();
    let told = SavedClimatology::read(&path).unwrap().describe();
    assert!(told.contains(": 8000000000 times from"), "{told}");
}

#[test]
fn a_file_that_is_no_climatology_or_another_is_refused_by_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("percentile_thresholds.nc");
    let said = || SavedClimatology::read(&path).unwrap_err().to_string();
    assert!(said().contains("cannot open"), "{}", said());
    std::fs::write(&path, "text").unwrap();
    assert!(said().contains("netCDF: "), "{}", said());
    type Change = fn(&mut FileMut) -> netcdf::Result<()>;
    let changes: [(&str, Change); 8] = [
        (
            "attribute `moisture_levels_pa`: expected numbers, found Str(\"all\")",
            |file| file.add_attribute(LEVELS, "all").map(|_| ()),
        ),
        (
            "units of `threshold`: expected kg m-1 s-1, found kg m-2",
            |file| {
                let mut threshold = file.variable_mut(THRESHOLD).ok_or("none")?;
                threshold.put_attribute("units", "kg m-2").map(|_| ())
            },
        ),
        (
            "moisture: expected transport or column_water, found rain",
            |file| file.add_attribute(MOISTURE, "rain").map(|_| ()),
        ),
        (
            "attribute `min_column_water_kg_m2`: expected a number, found none",
            |file| file.add_attribute(MOISTURE, "column_water").map(|_| ()),
        ),
        ("percentile: expected 0 to below 100, found 185", |file| {
            file.add_attribute(PERCENTILE, 185.0).map(|_| ())
        }),
        (
            "values of `threshold`: expected (2, 10, 6), found (2, 7, 6)",
            |file| file.add_attribute(BLOCK[0], 2.0).map(|_| ()),
        ),
        (
            "variable `times`: expected whole numbers above 0, found [5.0, 2.5]",
            |file| put_times(file, [5.0, 2.5]),
        ),
        (
            "variable `times`: expected whole numbers above 0, found [0.0, 7.0]",
            |file| put_times(file, [0.0, 7.0]),
        ),
    ];
    for (expected, change) in changes {
        climatology().write(&path).unwrap();
        let changed = on_library_thread(|| change(&mut netcdf::append(&path)?));
        changed.unwrap();
        let said = said();
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(said.contains("percentile_thresholds.nc"), "{said}");
    }
    climatology().write(&path).unwrap();
    let low = on_library_thread(|| -> netcdf::Result<()> {
        let mut file = netcdf::append(&path)?;
        let mut threshold = file.variable_mut(THRESHOLD).ok_or("none")?;
        threshold.put_values(&[3.5f32], (1usize, 2usize, 1usize..2))
    });
    low.unwrap();
    assert!(
        said().contains("expected 100 or more, found 3.5"),
        "{}",
        said()
    );
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(said().contains("netCDF: "), "{}", said());
    let statistics = on_library_thread(|| netcdf::create(&path).map(drop));
    statistics.unwrap();
    assert!(
        said().contains("variable `threshold`: expected thresholds that"),
        "{}",
        said()
    );
}
