//! The palette shared by all pictures of a movie.

use crate::map::{ColourMap, Rgb};
use crate::report::browser::KINDS;
use squall_data::Class;

/// Number of shades of the field.
const FIELD: u8 = 128;
/// Number of shades of the field under a tint or a coastline.
const TINTED: u8 = 30;
/// Opacity of a class's tint.
const TINT: f64 = 0.38;
/// Opacity of white coastlines.
const COAST: f64 = 0.6;

/// A colour that does not depend on the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Solid {
    /// The colour of a box class, by its code; includes the classes of masks.
    Kind(u8),
    White,
    /// Background of text, and rims of lines.
    Dark,
    /// Trails of rivers.
    Pale,
}

/// Red, green and blue of every palette index.
pub(super) fn palette() -> Vec<Rgb> {
    let field = ColourMap::Slate;
    let mut colours: Vec<Rgb> = (0..FIELD).map(|k| field.at(share(k, FIELD))).collect();
    let tints = [KINDS[1].2, KINDS[3].2].map(|colour| (colour, TINT));
    for (colour, opacity) in tints.into_iter().chain([([255; 3], COAST)]) {
        let shades = (0..TINTED).map(|k| mix(field.at(share(k, TINTED)), colour, opacity));
        colours.extend(shades);
    }
    colours.extend(KINDS.map(|(_, _, colour)| colour));
    colours.extend([[255; 3], [0x08, 0x0e, 0x14], [0xe6, 0xd2, 0xa0]]);
    colours
}

fn share(k: u8, of: u8) -> f64 {
    f64::from(k) / f64::from(of - 1)
}

fn mix(below: Rgb, above: Rgb, opacity: f64) -> Rgb {
    std::array::from_fn(|k| {
        (f64::from(below[k]) * (1.0 - opacity) + f64::from(above[k]) * opacity).round() as u8
    })
}

/// Palette index of a field value from 0 to 1, under the tint of a class or a coastline.
pub(super) fn field_index(value: f64, tint: Option<Class>, coast: bool) -> u8 {
    let shade = |count: u8| (value.clamp(0.0, 1.0) * f64::from(count - 1)).round() as u8;
    match (coast, tint) {
        (true, _) => FIELD + 2 * TINTED + shade(TINTED),
        (_, Some(Class::TropicalCyclone)) => FIELD + shade(TINTED),
        (_, Some(Class::AtmosphericRiver)) => FIELD + TINTED + shade(TINTED),
        _ => shade(FIELD),
    }
}

/// Palette index of a solid colour.
pub(super) fn solid_index(solid: Solid) -> u8 {
    let first = FIELD + 3 * TINTED;
    match solid {
        Solid::Kind(code) => first + code.min(3),
        Solid::White => first + 4,
        Solid::Dark => first + 5,
        Solid::Pale => first + 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::colour::{CYCLONE_COLOUR, RIVER_COLOUR};

    #[test]
    fn indices_are_the_colours_that_they_are_called() {
        let palette = palette();
        let at = |index: u8| palette[usize::from(index)];
        assert!(palette.len() <= 256);
        assert_eq!(at(field_index(0.0, None, false)), ColourMap::Slate.at(0.0));
        assert_eq!(
            at(field_index(f64::NAN, None, false)),
            ColourMap::Slate.at(0.0)
        );
        assert_eq!(at(field_index(2.0, None, false)), ColourMap::Slate.at(1.0));
        let river = at(field_index(0.0, Some(Class::AtmosphericRiver), false));
        assert_eq!(river, mix(ColourMap::Slate.at(0.0), RIVER_COLOUR, TINT));
        assert_eq!(at(solid_index(Solid::Kind(1))), CYCLONE_COLOUR);
        assert_eq!(at(solid_index(Solid::White)), [255; 3]);
        assert_eq!(usize::from(solid_index(Solid::Pale)) + 1, palette.len());
    }
}
