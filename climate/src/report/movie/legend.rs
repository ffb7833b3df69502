//! The legend on a movie's pictures, in lines at their right edge.

use super::font;
use super::paint::{Painter, Stroke};
use super::palette::{Solid, field_index, solid_index};
use crate::report::FieldInfo;
use ndarray::Array2;

/// Minimum width of a picture with room for a legend next to the time and the title.
const MIN_COLUMNS: usize = 480;
/// Length in dots of a line's mark, and of the field's colours.
const LINE: usize = 14;
const COLOURS: usize = 64;
/// Dots between a mark and its label, and between entries.
const GAP: usize = 4;

/// The mark before a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// A square of a colour.
    Square(Solid),
    /// A line of a colour.
    Line(Solid, Stroke),
    /// All colours of the field, from the lowest to the highest value.
    Field,
    Nothing,
}

impl Mark {
    fn width(self) -> usize {
        match self {
            Self::Square(_) => font::HEIGHT + GAP,
            Self::Line(..) => LINE + GAP,
            Self::Field => COLOURS + GAP,
            Self::Nothing => 0,
        }
    }

    /// The colour at a dot; `None` is transparent.
    fn at(self, (row, column): (usize, usize)) -> Option<u8> {
        match self {
            Self::Square(colour) => (column < font::HEIGHT).then(|| solid_index(colour)),
            Self::Line(colour, stroke) => {
                let drawn = row == font::HEIGHT / 2 && column < LINE && stroke.draws(column);
                drawn.then(|| solid_index(colour))
            }
            Self::Field => {
                let share = column as f64 / (COLOURS - 1) as f64;
                (column < COLOURS).then(|| field_index(share, None, false))
            }
            Self::Nothing => None,
        }
    }
}

/// One line of marks and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Mark, String)>);

impl Line {
    /// The colour scale of the field.
    pub(super) fn colour_scale(field: &FieldInfo) -> Self {
        let (low, high) = field.range;
        Self(vec![
            (Mark::Nothing, format!("{} {low}", field.name)),
            (Mark::Field, format!("{high} {}", field.unit)),
        ])
    }

    pub(super) fn add(&mut self, mark: Mark, word: impl Into<String>) {
        self.0.push((mark, word.into()));
    }

    /// Its width in dots.
    fn width(&self) -> usize {
        let widths = (self.0.iter()).map(|(mark, word)| mark.width() + font::width(word));
        widths.sum::<usize>() + (2 * GAP) * self.0.len().saturating_sub(1)
    }

    /// Paints the line on a dark background; every dot is `size` pixels wide, and the right edge is `from_right` pixels
    /// from that of the picture. Leaves pictures without enough room unchanged.
    pub(super) fn paint(
        &self,
        painter: &Painter,
        picture: &mut Array2<u8>,
        top: usize,
        from_right: usize,
        size: usize,
    ) {
        let columns = picture.ncols();
        let pad = 2 * size;
        let width = self.width() * size + 2 * pad + from_right;
        // The left half is reserved for the time and the title.
        if self.0.is_empty() || columns < MIN_COLUMNS || 4 * width > 3 * columns {
            return;
        }
        let mut left = columns - width;
        let bottom = top + font::HEIGHT * size + 2 * pad;
        painter.fill(
            picture,
            (top..bottom, left..columns - from_right),
            Solid::Dark,
        );
        left += pad;
        for (mark, word) in &self.0 {
            for row in 0..font::HEIGHT {
                for column in 0..mark.width() {
                    let Some(colour) = mark.at((row, column)) else {
                        continue;
                    };
                    let (r, c) = (top + pad + row * size, left + column * size);
                    painter.dot(picture, (r, c), size, colour);
                }
            }
            left += mark.width() * size;
            painter.letters(picture, word, (top + pad, left), size);
            left += (font::width(word) + 2 * GAP) * size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::LatLonGrid;

    #[test]
    fn a_line_ends_at_the_right_edge_or_is_left_out() {
        let painter = Painter::new(&LatLonGrid::global(30, 60).unwrap(), 600, 180.0);
        let (sea, dark) = (field_index(0.0, None, false), solid_index(Solid::Dark));
        let empty = painter.ground(None, None).mapv(|_| sea);
        let mut line = Line::default();
        line.add(Mark::Square(Solid::Kind(1)), "tropical cyclone");
        line.add(Mark::Line(Solid::White, Stroke::Dashed), "network");
        let mut picture = empty.clone();
        line.paint(&painter, &mut picture, 4, 10, 1);
        let count = |index: u8| picture.iter().filter(|found| **found == index).count();
        assert_eq!(
            count(solid_index(Solid::Kind(1))),
            font::HEIGHT * font::HEIGHT
        );
        let painted = picture
            .indexed_iter()
            .filter(|(_, index)| **index != sea)
            .map(|((r, c), _)| (r, c));
        let columns: Vec<usize> = painted.map(|(_, c)| c).collect();
        assert_eq!(columns.iter().max(), Some(&589));
        assert_eq!(columns.iter().min(), Some(&(590 - line.width() - 4)));
        assert!(count(dark) > count(solid_index(Solid::White)));

        line.add(Mark::Nothing, "x".repeat(80));
        let mut picture = empty.clone();
        line.paint(&painter, &mut picture, 4, 10, 1);
        assert_eq!(picture, empty, "no room for so long a line");
        let narrow = Painter::new(&LatLonGrid::global(30, 60).unwrap(), 300, 180.0);
        let mut picture = Array2::from_elem(narrow.dim(), sea);
        Line::colour_scale(&FieldInfo::precipitable_water()).paint(&narrow, &mut picture, 4, 10, 1);
        assert!(picture.iter().all(|index| *index == sea));
    }

    #[test]
    fn the_fields_colours_run_from_its_lowest_to_its_highest() {
        assert_eq!(Mark::Field.at((0, 0)), Some(field_index(0.0, None, false)));
        assert_eq!(
            Mark::Field.at((6, COLOURS - 1)),
            Some(field_index(1.0, None, false))
        );
        let line = Line::colour_scale(&FieldInfo::precipitable_water());
        assert_eq!(line.0[0].1, "TMQ 0");
        assert_eq!(line.0[1].1, "70 kg m⁻²");
        assert_eq!(font::dots("m⁻²"), font::dots("m-2"));
    }
}
