//! A field with masks, coastlines and tracks as one picture, without a browser.

use crate::error::{ClimateError, Result};
use crate::map::colour::{CYCLONE_COLOUR, RIVER_COLOUR};
use crate::map::{Coastline, ColourMap, Projection, Rgb, image};
use ndarray::{Array2, ArrayView2};
use squall_data::{Class, LatLonGrid};

/// What to draw, from the bottom to the top.
#[derive(Debug, Clone, Copy, Default)]
pub struct MapLayers<'a> {
    /// The field, `(lat, lon)`; missing values take the lowest colour.
    pub field: Option<ArrayView2<'a, f32>>,
    /// Class codes, `(lat, lon)`: tinted areas with a full outline.
    pub mask: Option<ArrayView2<'a, u8>>,
    /// Polylines of (longitude, latitude) in degrees; steps of more than 180° go the short way round.
    pub tracks: &'a [Vec<(f64, f64)>],
}

/// How a map is drawn.
#[derive(Debug, Clone)]
pub struct MapStyle {
    /// Width of the picture in pixels.
    pub width: usize,
    /// Longitude in the middle of a global map.
    pub centre_deg: f64,
    /// Colours of the field.
    pub colours: ColourMap,
    /// Field values of the first and the last colour; found from the field if `None`.
    pub range: Option<(f32, f32)>,
    /// Opacity of the mask tint, 0 to 1.
    pub tint: f64,
}

impl Default for MapStyle {
    fn default() -> Self {
        Self {
            width: 1080,
            centre_deg: 180.0,
            colours: ColourMap::Slate,
            range: None,
            tint: 0.35,
        }
    }
}

const COAST_COLOUR: Rgb = [0xff, 0xff, 0xff];
const TRACK_COLOUR: Rgb = [0x7d, 0xd3, 0xfc];

/// The colour that stands for a class in rasters; what masks do not have, and background, has none.
pub fn class_colour(class: Class) -> Option<Rgb> {
    match class {
        Class::Background | Class::ExtratropicalCyclone | Class::TropicalDepression => None,
        Class::TropicalCyclone => Some(CYCLONE_COLOUR),
        Class::AtmosphericRiver => Some(RIVER_COLOUR),
    }
}

/// Draws the layers of a grid as PNG bytes.
///
/// # Errors
/// [`ClimateError::Mismatch`] if a layer does not have the grid's shape.
pub fn render(grid: &LatLonGrid, layers: MapLayers<'_>, style: &MapStyle) -> Result<Vec<u8>> {
    for (what, shape) in [
        ("field of a map", layers.field.map(|f| f.dim())),
        ("mask of a map", layers.mask.map(|m| m.dim())),
    ] {
        if let Some(found) = shape.filter(|&s| s != grid.shape()) {
            return Err(ClimateError::Mismatch {
                what: what.into(),
                expected: format!("{:?}", grid.shape()),
                found: format!("{found:?}"),
            });
        }
    }
    let map = Projection::showing(grid, style.centre_deg);
    let width = style.width.clamp(16, 8192);
    let height = map.height_for(width).max(8);
    let mut canvas = Canvas {
        pixels: Array2::from_elem((height, width), style.colours.at(0.0)),
        map,
    };
    canvas.draw_field(grid, &layers, style);
    for line in Coastline::natural_earth().shores() {
        let places: Vec<_> = line.iter().map(|p| (p[0], p[1])).collect();
        canvas.draw_line(&places, COAST_COLOUR, 0.55);
    }
    for track in layers.tracks {
        canvas.draw_line(track, TRACK_COLOUR, 0.95);
    }
    image::rgb_png(&canvas.pixels)
}

/// The smallest and largest finite value; (0, 1) if there is none.
pub fn finite_range<'a>(values: impl Iterator<Item = &'a f32>) -> (f32, f32) {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &v| {
            (low.min(v), high.max(v))
        });
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

struct Canvas {
    pixels: Array2<Rgb>,
    map: Projection,
}

impl Canvas {
    fn place(&self, row: usize, column: usize) -> (f64, f64) {
        let (height, width) = self.pixels.dim();
        (
            self.map.lat_deg((row as f64 + 0.5) / height as f64),
            self.map.lon_deg((column as f64 + 0.5) / width as f64),
        )
    }

    fn draw_field(&mut self, grid: &LatLonGrid, layers: &MapLayers<'_>, style: &MapStyle) {
        let table = style.colours.table();
        let (low, high) = style
            .range
            .or_else(|| layers.field.map(|f| finite_range(f.iter())))
            .unwrap_or((0.0, 1.0));
        let scale = 255.0 / f64::from(high - low).max(1e-30);
        let (height, width) = self.pixels.dim();
        let columns: Vec<usize> = (0..width)
            .map(|c| grid.nearest(0.0, self.place(0, c).1).1)
            .collect();
        let rows: Vec<usize> = (0..height)
            .map(|r| grid.nearest(self.place(r, 0).0, grid.lon_deg()[0]).0)
            .collect();
        let code = |r: usize, c: usize| layers.mask.map_or(0, |m| m[[rows[r], columns[c]]]);
        for r in 0..height {
            for c in 0..width {
                let mut colour = layers.field.map_or(table[0], |field| {
                    let value = f64::from(field[[rows[r], columns[c]]]);
                    table[((value - f64::from(low)) * scale).clamp(0.0, 255.0) as usize]
                });
                if let Some(tint) = Class::from_code(code(r, c)).and_then(class_colour) {
                    let edge = code(r, (c + 1) % width) != code(r, c)
                        || code(r, (c + width - 1) % width) != code(r, c)
                        || code((r + 1).min(height - 1), c) != code(r, c)
                        || code(r.saturating_sub(1), c) != code(r, c);
                    colour = mix(colour, tint, if edge { 1.0 } else { style.tint });
                }
                self.pixels[[r, c]] = colour;
            }
        }
    }

    /// Draws a line of (longitude, latitude); points outside the window are not drawn.
    fn draw_line(&mut self, places: &[(f64, f64)], colour: Rgb, opacity: f64) {
        let pixels = &mut self.pixels;
        self.map.along(pixels.dim(), places, |_, at| {
            pixels[at] = mix(pixels[at], colour, opacity);
        });
    }
}

fn mix(below: Rgb, above: Rgb, opacity: f64) -> Rgb {
    std::array::from_fn(|k| {
        (f64::from(below[k]) * (1.0 - opacity) + f64::from(above[k]) * opacity).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(bytes: &[u8]) -> (Vec<u8>, usize) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut buffer = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut buffer).unwrap();
        (buffer, info.width as usize)
    }

    #[test]
    fn a_mask_at_180_degrees_is_in_the_middle_of_the_picture() {
        let grid = LatLonGrid::global(48, 96).unwrap();
        let (j, i) = grid.nearest(20.0, 180.0);
        let mut mask = Array2::zeros((48, 96));
        mask[[j, i]] = 1;
        let style = MapStyle {
            width: 96,
            ..MapStyle::default()
        };
        let layers = MapLayers {
            mask: Some(mask.view()),
            ..MapLayers::default()
        };
        let (bytes, width) = pixels(&render(&grid, layers, &style).unwrap());
        let found: Vec<usize> = bytes
            .chunks(3)
            .enumerate()
            .filter(|(_, c)| *c == CYCLONE_COLOUR)
            .map(|(k, _)| k)
            .collect();
        assert_eq!(found.len(), 1);
        let (row, column) = (found[0] / width, found[0] % width);
        assert!((column as i64 - 48).abs() <= 1, "column {column}");
        assert!((18..=19).contains(&row), "row {row}");
    }

    #[test]
    fn wrong_shapes_are_refused_and_missing_values_drawn() {
        let grid = LatLonGrid::global(8, 16).unwrap();
        let field = Array2::from_elem((8, 15), 1.0);
        let layers = MapLayers {
            field: Some(field.view()),
            ..MapLayers::default()
        };
        assert!(render(&grid, layers, &MapStyle::default()).is_err());
        let field = Array2::from_elem((8, 16), f32::NAN);
        let layers = MapLayers {
            field: Some(field.view()),
            tracks: &[vec![(350.0, 10.0), (10.0, 12.0)]],
            ..MapLayers::default()
        };
        assert!(render(&grid, layers, &MapStyle::default()).is_ok());
        assert_eq!(finite_range([f32::NAN].iter()), (0.0, 1.0));
    }
}
