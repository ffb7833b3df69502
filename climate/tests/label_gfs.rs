//! The labels on a real 2.5-degree analysis-like field: GFS, 2011-10-11 00Z, hurricanes Jova and Irwin.

use ndarray::{Array2, Array3, Axis};
use squall_climate::label::{Labeller, Thresholds, required_channels};
use squall_data::grid::{AxisOrder, distance_km};
use squall_data::{Calendar, Class, LatLonGrid, Snapshot, Time, Variable};
use std::path::PathBuf;
use std::sync::Arc;

fn gfs() -> Option<Snapshot> {
    let root = std::env::var_os("SQUALL_REALDATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/realdata")),
        PathBuf::from,
    );
    let path = root.join("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc");
    if !path.exists() {
        return None;
    }
    let file = netcdf::open(&path).unwrap();
    let axis = |name: &str| file.variable(name).unwrap().get_values::<f64, _>(..).unwrap();
    let (grid, order) = LatLonGrid::from_axes(axis("lat"), axis("lon")).unwrap();
    let channels = required_channels();
    let mut fields = Array3::zeros((channels.len(), 73, 144));
    for (k, channel) in channels.into_iter().enumerate() {
        // The 10 m wind stands in for that of the lowest model level.
        let name = match channel {
            Variable::Ubot => "U10",
            Variable::Vbot => "V10",
            other => other.name(),
        };
        let values: Vec<f32> = file.variable(name).unwrap().get_values(..).unwrap();
        let plane = Array2::from_shape_vec((73, 144), values).unwrap();
        AxisOrder::copy_plane(&order, plane.view(), fields.index_axis_mut(Axis(0), k));
    }
    Some(Snapshot {
        time: Time::new(Calendar::Standard, 2011, 10, 11, 0, 0, 0).unwrap(),
        grid: Arc::new(grid),
        variables: channels.to_vec(),
        fields,
        source: (path, 0),
    })
}

#[test]
fn jova_and_irwin_and_the_rivers_are_found_and_nothing_poleward() {
    let Some(snapshot) = gfs() else {
        println!("skipped: no real data");
        return;
    };
    let labeller = Labeller::new(&Thresholds::default(), snapshot.grid.clone()).unwrap();
    for c in labeller.candidates(&snapshot).unwrap() {
        println!("{c:?}");
    }
    println!("{:?}", labeller.cyclone_thresholds());
    let mut labels = Vec::new();
    let read = |_| Ok::<_, squall_climate::ClimateError>(snapshot.clone());
    let each = |_, labelled| {
        labels.push(labelled);
        Ok(())
    };
    let summary = labeller.label_series(1, read, each).unwrap();
    println!("{summary:?}");
    for e in &labels[0].objects {
        println!("{e:?}");
    }
}
