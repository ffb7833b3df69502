//! The labels on a real 2.5-degree analysis-like field: GFS, 2011-10-11 00Z, hurricanes Jova and Irwin.

use squall_climate::label::{Labeller, Pass, REQUIRED_CHANNELS, Thresholds};
use squall_data::grid::lon_difference_deg;
use squall_data::{Archive, BoxClass, Class, GeoBox, testdata};

#[test]
fn jova_and_irwin_and_the_rivers_are_found_and_nothing_poleward() {
    let Some(path) = testdata::real("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc") else {
        return;
    };
    // The archive uses the 10 m wind for that of the lowest model level.
    let archive = Archive::open(&path.to_string_lossy()).unwrap();
    let snapshot = archive.read(0, &REQUIRED_CHANNELS).unwrap();
    let labeller = Labeller::new(&Thresholds::default(), snapshot.grid.clone()).unwrap();
    // Lows of all kinds are candidates, also outside the tropics; only cyclones meet the criteria of wind, warm core
    // and thickness.
    assert!(
        labeller
            .candidates(&snapshot)
            .unwrap()
            .iter()
            .any(|c| c.lat_deg.abs() > 35.0)
    );
    let mut labels = Vec::new();
    let read = |index, pass: Pass| archive.read(index, pass.channels());
    let each = |_, labelled| {
        labels.push(labelled);
        Ok(())
    };
    let summary = labeller.label_series(1, read, each).unwrap();
    assert!(summary.untracked, "one time is too short for tracks");
    let of = |class: Class| labels[0].objects.iter().filter(move |e| e.class == class);
    let storms: Vec<_> = of(Class::TropicalCyclone).collect();
    for (name, lat_deg, lon_deg) in [("Jova", 17.5, 255.0), ("Irwin", 17.5, 242.5)] {
        let near = storms
            .iter()
            .filter(|e| (e.lat_deg - lat_deg).hypot(lon_difference_deg(e.lon_deg, lon_deg)) < 1.25);
        assert_eq!(near.count(), 1, "{name}: {storms:?}");
    }
    assert_eq!(storms.len(), 2, "{storms:?}");
    assert!(
        storms
            .iter()
            .all(|e| e.min_psl_pa.unwrap() < 99_700.0 && e.track_id.is_none())
    );
    // Hurricanes have cyclone boxes: 34 and 25 m/s in their strongest cells, 10 and 11 m/s around their best circles.
    let boxed = (labels[0].boxes.iter()).filter(|b| b.geo.class == BoxClass::TropicalCyclone);
    let boxed: Vec<_> = boxed.map(|b| b.geo).collect();
    assert_eq!(boxed.len(), 2, "{boxed:?}");
    for storm in &storms {
        let holds = |geo: &GeoBox| geo.contains(storm.lat_deg, storm.lon_deg);
        assert!(boxed.iter().any(holds), "{boxed:?}");
    }
    let rivers: Vec<_> = of(Class::AtmosphericRiver).collect();
    assert!(rivers.len() >= 4, "{rivers:?}");
    let seam = rivers
        .iter()
        .find(|e| e.west_deg > e.east_deg && e.lat_deg > 25.0);
    let seam = seam.expect("the North Atlantic river crosses the seam");
    assert!(
        seam.length_km > 4000.0 && seam.width_km < 1000.0,
        "{seam:?}"
    );
    let codes = &labels[0].mask.codes;
    let on = |lat: f64, lon: f64| codes[snapshot.grid.nearest(lat, lon)];
    assert_eq!((on(17.5, 255.0), on(17.5, 242.5)), (1, 1));
    assert_eq!((on(0.0, 255.0), on(-80.0, 100.0)), (0, 0));
}
