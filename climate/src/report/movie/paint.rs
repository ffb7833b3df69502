//! Paints one picture of a movie: field, masks, coastlines, boxes, trails, and text.

use super::font;
use super::palette::{Solid, field_index, solid_index};
use crate::map::{Coastline, Projection};
use ndarray::{Array2, ArrayView2};
use squall_data::grid::eastern_longitude;
use squall_data::{Class, LatLonGrid};
use std::ops::Range;

/// Two adjacent indices along an axis of the grid, and the weight of the second.
type AxisWeights = (usize, usize, f64);

/// The dash pattern of an outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    Full,
    Dashed,
    DashedAndDotted,
    LongDashed,
    DashedAndTwiceDotted,
    ShortDashed,
    LongAndShort,
    Dotted,
}

impl Stroke {
    /// Whether the `k`-th pixel along a line is drawn.
    pub(super) fn draws(self, k: usize) -> bool {
        match self {
            Self::Full => true,
            Self::Dashed => k % 9 < 6,
            Self::DashedAndDotted => matches!(k % 14, 0..7 | 10..12),
            Self::LongDashed => k % 15 < 12,
            Self::DashedAndTwiceDotted => matches!(k % 19, 0..7 | 10..12 | 15..17),
            Self::ShortDashed => k % 6 < 3,
            Self::LongAndShort => matches!(k % 22, 0..12 | 15..19),
            Self::Dotted => k % 5 < 2,
        }
    }
}

/// Maps the pixels of a picture to a grid, and paints on pictures.
#[derive(Debug)]
pub(super) struct Painter {
    map: Projection,
    rows: Vec<AxisWeights>,
    columns: Vec<AxisWeights>,
    coast: Vec<(usize, usize)>,
}

impl Painter {
    /// A painter of pictures of this width in pixels; global maps are centred on `centre_deg`.
    pub(super) fn new(grid: &LatLonGrid, width: usize, centre_deg: f64) -> Self {
        let map = Projection::showing(grid, centre_deg);
        let height = map.height_for(width).max(8);
        let middle = |k: usize, of: usize| (k as f64 + 0.5) / of as f64;
        let rows = (0..height).map(|r| row_weights(grid, map.lat_deg(middle(r, height))));
        let columns = (0..width).map(|c| column_weights(grid, map.lon_deg(middle(c, width))));
        let mut painter = Self {
            map,
            rows: rows.collect(),
            columns: columns.collect(),
            coast: Vec::new(),
        };
        let mut coast = Vec::new();
        for line in Coastline::natural_earth().shores() {
            let places: Vec<(f64, f64)> = line.iter().map(|p| (p[0], p[1])).collect();
            painter
                .map
                .along(painter.dim(), &places, |_, at| coast.push(at));
        }
        painter.coast = coast;
        painter
    }

    /// Number of rows and columns of a picture.
    pub(super) fn dim(&self) -> (usize, usize) {
        (self.rows.len(), self.columns.len())
    }

    /// The value of a plane at a pixel, bilinear between the four cells around it.
    fn value(&self, (r, c): (usize, usize), plane: impl Fn(usize, usize) -> f64) -> f64 {
        let ((j0, j1, f), (i0, i1, g)) = (self.rows[r], self.columns[c]);
        let upper = (1.0 - g) * plane(j0, i0) + g * plane(j0, i1);
        let lower = (1.0 - g) * plane(j1, i0) + g * plane(j1, i1);
        (1.0 - f) * upper + f * lower
    }

    /// The background: a field with colours from `low` to `high` (or none), tinted where a mask has a class, with
    /// coastlines.
    pub(super) fn ground(
        &self,
        field: Option<(ArrayView2<'_, f32>, (f32, f32))>,
        tint: Option<ArrayView2<'_, u8>>,
    ) -> Array2<u8> {
        let classes = tint.map(|mask| self.classes(mask));
        let mut coast = Array2::from_elem(self.dim(), false);
        self.coast.iter().for_each(|&at| coast[at] = true);
        Array2::from_shape_fn(self.dim(), |at| {
            let value = field.map_or(0.0, |(plane, (low, high))| {
                let value = self.value(at, |j, i| f64::from(plane[[j, i]]));
                (value - f64::from(low)) / f64::from(high - low)
            });
            let class = classes.as_ref().and_then(|c| Class::from_code(c[at]));
            field_index(value, class, coast[at])
        })
    }

    /// The class of every pixel: the one with an interpolated share of more than half.
    fn classes(&self, mask: ArrayView2<'_, u8>) -> Array2<u8> {
        Array2::from_shape_fn(self.dim(), |at| {
            let share = |code: u8| self.value(at, |j, i| f64::from(u8::from(mask[[j, i]] == code)));
            let inside = |class: &Class| share(class.code()) > 0.5;
            let found = Class::EVENTS.into_iter().find(inside);
            found.map_or(0, Class::code)
        })
    }

    /// Paints the outlines of a mask.
    pub(super) fn outlines(
        &self,
        picture: &mut Array2<u8>,
        mask: ArrayView2<'_, u8>,
        stroke: Stroke,
    ) {
        let classes = self.classes(mask);
        let (rows, columns) = self.dim();
        let turns = self.map.is_global();
        for ((r, c), &code) in classes.indexed_iter().filter(|(_, code)| **code > 0) {
            let beside = |step: usize| match (turns, c + columns + step - 1) {
                (true, column) => column % columns,
                (false, column) => column.clamp(columns, 2 * columns - 1) - columns,
            };
            let around = [
                (r.saturating_sub(1), c),
                ((r + 1).min(rows - 1), c),
                (r, beside(0)),
                (r, beside(2)),
            ];
            let edge = around.into_iter().any(|at| classes[at] != code);
            if edge && stroke.draws(r + c) {
                let kind = if code == Class::AtmosphericRiver.code() {
                    3
                } else {
                    1
                };
                picture[[r, c]] = solid_index(Solid::Kind(kind));
            }
        }
    }

    /// Paints a box in the colour of its class, given its western and southern edges, width and northern edge.
    pub(super) fn rectangle(
        &self,
        picture: &mut Array2<u8>,
        (west, south, width, north): (f64, f64, f64, f64),
        kind: u8,
        stroke: Stroke,
    ) {
        // Intermediate points keep every step shorter than half the circle.
        let edge = |lat: f64| (0..=8).map(move |k| (west + width * f64::from(k) / 8.0, lat));
        let mut around: Vec<(f64, f64)> = edge(south).collect();
        around.extend(edge(north).collect::<Vec<_>>().into_iter().rev());
        around.push((west, south));
        self.line(picture, &around, Solid::Kind(kind), stroke);
    }

    /// Paints a line of (longitude, latitude), two pixels thick with a dark rim.
    pub(super) fn line(
        &self,
        picture: &mut Array2<u8>,
        places: &[(f64, f64)],
        colour: Solid,
        stroke: Stroke,
    ) {
        let mut pixels = Vec::new();
        self.map.along(self.dim(), places, |k, at| {
            if stroke.draws(k) {
                pixels.push(at);
            }
        });
        self.stamp(picture, &pixels, 1, Solid::Dark);
        self.stamp(picture, &pixels, 0, colour);
    }

    /// Colours pixels and those within `reach` of them (one more to the right and below).
    fn stamp(
        &self,
        picture: &mut Array2<u8>,
        pixels: &[(usize, usize)],
        reach: usize,
        colour: Solid,
    ) {
        let (rows, columns) = self.dim();
        for &(r, c) in pixels {
            for row in r.saturating_sub(reach)..(r + 2 + reach).min(rows) {
                for column in c.saturating_sub(reach)..(c + 2 + reach).min(columns) {
                    picture[[row, column]] = solid_index(colour);
                }
            }
        }
    }

    /// Paints text on a dark background; `at` is the upper left corner, and every dot is `size` pixels wide.
    pub(super) fn text(
        &self,
        picture: &mut Array2<u8>,
        text: &str,
        at: (usize, usize),
        size: usize,
    ) {
        let pad = 2 * size;
        let bottom = at.0 + font::HEIGHT * size + 2 * pad;
        let right = at.1 + font::width(text) * size + 2 * pad;
        self.fill(picture, (at.0..bottom, at.1..right), Solid::Dark);
        self.letters(picture, text, (at.0 + pad, at.1 + pad), size);
    }

    /// Paints text without a background; `at` is its upper left corner.
    pub(super) fn letters(
        &self,
        picture: &mut Array2<u8>,
        text: &str,
        at: (usize, usize),
        size: usize,
    ) {
        for (row, column) in font::dots(text) {
            let place = (at.0 + row * size, at.1 + column * size);
            self.dot(picture, place, size, solid_index(Solid::White));
        }
    }

    /// Paints a dot of `size` pixels; `at` is its upper left corner.
    pub(super) fn dot(
        &self,
        picture: &mut Array2<u8>,
        at: (usize, usize),
        size: usize,
        colour: u8,
    ) {
        let (rows, columns) = self.dim();
        for r in at.0..(at.0 + size).min(rows) {
            for c in at.1..(at.1 + size).min(columns) {
                picture[[r, c]] = colour;
            }
        }
    }

    /// Paints a filled rectangle.
    pub(super) fn fill(
        &self,
        picture: &mut Array2<u8>,
        (rows, columns): (Range<usize>, Range<usize>),
        colour: Solid,
    ) {
        let dim = self.dim();
        for r in rows.start..rows.end.min(dim.0) {
            for c in columns.start..columns.end.min(dim.1) {
                picture[[r, c]] = solid_index(colour);
            }
        }
    }
}

/// The rows of cells around a latitude, with their weight.
fn row_weights(grid: &LatLonGrid, lat_deg: f64) -> AxisWeights {
    let lat = grid.lat_deg();
    let above = lat.partition_point(|&centre| centre <= lat_deg);
    if above == 0 || above == lat.len() {
        let only = above.min(lat.len() - 1);
        return (only, only, 0.0);
    }
    let share = (lat_deg - lat[above - 1]) / (lat[above] - lat[above - 1]);
    (above - 1, above, share)
}

/// The columns of cells around a longitude, with their weight.
fn column_weights(grid: &LatLonGrid, lon_deg: f64) -> AxisWeights {
    let columns = grid.lon_deg().len();
    let east = eastern_longitude(lon_deg - grid.lon_deg()[0]) / grid.lon_spacing_deg();
    let (whole, share) = (east.floor() as usize, east.fract());
    if grid.is_periodic() {
        return (whole % columns, (whole + 1) % columns, share);
    }
    // A longitude just west of the first centre wraps to nearly 360 degrees.
    if whole + 1 >= columns {
        let only = if is_nearer_to_west(grid, lon_deg) {
            0
        } else {
            columns - 1
        };
        return (only, only, 0.0);
    }
    (whole, whole + 1, share)
}

/// Whether a longitude outside of a regional grid's centres is nearer to the western edge.
fn is_nearer_to_west(grid: &LatLonGrid, lon_deg: f64) -> bool {
    let lon = grid.lon_deg();
    let apart = |centre: f64| squall_data::grid::lon_difference_deg(lon_deg, centre).abs();
    apart(lon[0]) < apart(lon[lon.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_lie_between_the_cells_around_them() {
        let globe = LatLonGrid::global(8, 16).unwrap();
        let step = globe.lon_spacing_deg();
        let (first, last) = (globe.lon_deg()[0], globe.lon_deg()[15]);
        // Halfway from the last column across the seam to the first.
        let (a, b, share) = column_weights(&globe, last + step / 2.0);
        assert_eq!((a, b), (15, 0));
        assert!((share - 0.5).abs() < 1e-9);
        assert_eq!(column_weights(&globe, first), (0, 1, 0.0));
        // The first and last centres of this grid are the poles.
        assert_eq!(row_weights(&globe, -90.0), (0, 1, 0.0));
        assert_eq!(row_weights(&globe, 90.0), (7, 7, 0.0));
        let middle = (globe.lat_deg()[3] + globe.lat_deg()[4]) / 2.0;
        let (below, above, half) = row_weights(&globe, middle);
        assert_eq!((below, above), (3, 4));
        assert!((half - 0.5).abs() < 1e-9, "{half}");

        let lon: Vec<f64> = (0..21).map(|i| (350.0 + f64::from(i)) % 360.0).collect();
        let (region, _) = LatLonGrid::from_axes((0..11).map(f64::from).collect(), lon).unwrap();
        assert_eq!(
            column_weights(&region, 349.6).0,
            0,
            "half a cell west of the first"
        );
        assert_eq!(
            column_weights(&region, 10.4).0,
            20,
            "half a cell east of the last"
        );
        let (west, east, half) = column_weights(&region, 0.5);
        assert_eq!((west, east), (10, 11));
        assert!((half - 0.5).abs() < 1e-9, "{half}");
    }

    #[test]
    fn a_mask_is_tinted_and_outlined_in_a_region() {
        let lon: Vec<f64> = (0..40).map(|i| (340.0 + f64::from(i)) % 360.0).collect();
        let (grid, _) = LatLonGrid::from_axes((20..50).map(f64::from).collect(), lon).unwrap();
        let painter = Painter::new(&grid, 160, 180.0);
        // 30 to 39°N, 350 to 359°E: rows 10..20 from the south, columns 10..20.
        let inside = |at: usize| (10..20).contains(&at);
        let mask = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            u8::from(inside(j) && inside(i)) * Class::AtmosphericRiver.code()
        });
        let mut picture = painter.ground(None, Some(mask.view()));
        let tinted = field_index(0.0, Some(Class::AtmosphericRiver), false);
        assert_eq!(picture[[60, 60]], tinted);
        assert_eq!(picture[[60, 20]], field_index(0.0, None, false));
        let area = picture.iter().filter(|index| **index == tinted).count() as f64;
        // Ten by ten degrees, sixteen pixels each, some of them under coastlines.
        assert!((1200.0..1700.0).contains(&area), "{area}");
        painter.outlines(&mut picture, mask.view(), Stroke::Full);
        let outline = solid_index(Solid::Kind(3));
        let edge = picture.iter().filter(|index| **index == outline).count() as f64;
        // Four sides of forty pixels with slightly rounded corners.
        assert!((120.0..170.0).contains(&edge), "{edge}");
        assert_eq!(picture[[60, 60]], tinted, "the middle is no edge");
    }
}
