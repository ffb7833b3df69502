//! The embedded coastline equals its source, if the source is available.

use squall_climate::map::Coastline;
use squall_data::testdata;

#[test]
fn the_asset_is_the_converted_shapefile() {
    let Some(path) = testdata::real("natural-earth/ne_110m_land.shp") else {
        return;
    };
    let bytes = std::fs::read(&path).unwrap();
    let converted = Coastline::from_shapefile(&bytes).unwrap();
    assert_eq!(converted.encode(), Coastline::natural_earth().encode());
    for cut in [50, 101, 200, bytes.len() / 2, bytes.len() - 1] {
        assert!(
            Coastline::from_shapefile(&bytes[..cut]).is_err(),
            "cut at {cut}"
        );
    }
}
