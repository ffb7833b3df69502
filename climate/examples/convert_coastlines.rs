//! Converts the polygons of a shapefile to the compact format in `assets/`: `convert_coastlines IN.shp OUT.bin`.

use squall_climate::map::Coastline;
use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, input, output] = arguments.as_slice() else {
        return Err("usage: convert_coastlines IN.shp OUT.bin".into());
    };
    let coast = Coastline::from_shapefile(&fs::read(input)?)?;
    squall_data::atomic::write(output, &coast.encode())?;
    Ok(())
}
