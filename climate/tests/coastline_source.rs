//! The embedded coastline is what its source says, wherever the source is at hand.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use squall_climate::map::Coastline;
use std::path::PathBuf;

#[test]
fn the_asset_is_the_converted_shapefile() {
    let folder = std::env::var_os("SQUALL_REALDATA").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../shared/realdata"
            ))
        },
        PathBuf::from,
    );
    let path = folder.join("natural-earth/ne_110m_land.shp");
    let Ok(bytes) = std::fs::read(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let converted = Coastline::from_shapefile(&bytes).unwrap();
    assert_eq!(converted.encode(), Coastline::natural_earth().encode());
    for cut in [50, 101, 200, bytes.len() / 2, bytes.len() - 1] {
        assert!(
            Coastline::from_shapefile(&bytes[..cut]).is_err(),
            "cut at {cut}"
        );
    }
}
