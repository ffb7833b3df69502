//! Units that a file does not have as it says, or says in a word of its own.

mod archive_support;

use archive_support::{FileSpec, values_of, write};
use ndarray::Array3;
use squall_data::archive::on_library_thread;
use squall_data::{Archive, Calendar, LatLonGrid, Snapshot, Time, Variable};
use std::path::PathBuf;
use std::sync::Arc;

#[test]
fn coordinates_in_radians_become_degrees() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("radians.nc");
    let spec = FileSpec {
        flip_lat: true,
        ..FileSpec::default()
    };
    write(&path, &spec);
    let expected = Archive::open(path.to_str().unwrap()).unwrap();
    on_library_thread(|| {
        let mut file = netcdf::append(&path).unwrap();
        for name in ["lat", "lon"] {
            let mut axis = file.variable_mut(name).unwrap();
            let degrees: Vec<f64> = axis.get_values(..).unwrap();
            let radians: Vec<f64> = degrees.into_iter().map(f64::to_radians).collect();
            axis.put_values(&radians, ..).unwrap();
            axis.put_attribute("units", "radians").unwrap();
        }
        file.close().unwrap();
    });
    let found = Archive::open(path.to_str().unwrap()).unwrap();
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-9);
    assert!(!apart(found.grid().lat_deg(), expected.grid().lat_deg()));
    assert!(!apart(found.grid().lon_deg(), expected.grid().lon_deg()));
    let read = found.read(0, &[Variable::Psl]).unwrap();
    assert_eq!(read.fields, values_of(expected.grid(), 0.0, 1.0));
}

/// One variable of one value, and another value in one cell.
fn field(variable: Variable, usual: f32, once: f32, grid: LatLonGrid) -> Snapshot {
    let (rows, columns) = grid.shape();
    let mut fields = Array3::from_elem((1, rows, columns), usual);
    fields[[0, 1, 2]] = once;
    Snapshot {
        time: Time::new(Calendar::NoLeap, 2001, 8, 1, 0, 0, 0).unwrap(),
        grid: Arc::new(grid),
        variables: vec![variable],
        fields,
        source: (PathBuf::from("run.nc"), 0),
    }
}

#[test]
fn winds_and_column_water_in_other_units_are_doubted() {
    let globe = || LatLonGrid::global(96, 144).unwrap();
    let refused = |variable, usual, once, grid| {
        let checked = field(variable, usual, once, grid).check_plausible();
        checked.err().map(|error| error.to_string())
    };
    // A storm of 64 m/s is one of 230 km/h.
    let said = refused(Variable::Vbot, 3.0, -230.0, globe()).unwrap();
    assert!(
        said.contains("VBOT") && said.contains("150 m s-1") && said.contains("230.0"),
        "{said}"
    );
    assert!(said.contains("is its unit right"), "{said}");
    for variable in [
        Variable::U850,
        Variable::V850,
        Variable::Ubot,
        Variable::Vbot,
    ] {
        for once in [95.0, f32::INFINITY, f32::NAN] {
            assert_eq!(refused(variable, 3.0, once, globe()), None);
        }
    }
    // 2.5 cm on the globe; as little as 2.5 kg m-2 lies over Antarctica.
    let said = refused(Variable::Tmq, 2.5, 6.0, globe()).unwrap();
    assert!(
        said.contains("TMQ") && said.contains("a mean of 8 to 120 kg m-2"),
        "{said}"
    );
    let south: Vec<f64> = (0..20).map(|j| -88.0 + f64::from(j)).collect();
    let lon = (0..180).map(|i| 2.0 * f64::from(i)).collect();
    let pole = LatLonGrid::from_axes(south, lon).unwrap().0;
    assert_eq!(refused(Variable::Tmq, 2.5, 6.0, pole), None);
    assert_eq!(refused(Variable::Tmq, 25.0, f32::NAN, globe()), None);
    let said = refused(Variable::Prect, 3e-3, 0.0, globe()).unwrap();
    assert!(
        said.contains("a mean of -0.000000001 to 0.0002 m s-1"),
        "{said}"
    );
}
