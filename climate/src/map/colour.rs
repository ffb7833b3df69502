//! Colour maps: a few anchors with perceptually uniform interpolation.
//!
//! # Source
//! Interpolation in OKLab: B. Ottosson 2020, "A perceptual color space for image processing". Anchors of viridis and
//! cividis: matplotlib 3.8; of cividis also Nuñez, Anderton and Renslow 2018, doi:10.1371/journal.pone.0199239.

/// Red, green and blue of sRGB.
pub type Rgb = [u8; 3];

/// A named sequence of colours for values from low to high.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMap {
    /// Dark slate to near white: leaves every hue free for overlays.
    Slate,
    /// Blue, green, yellow.
    Viridis,
    /// Blue to yellow, designed to look the same with and without red-green colour blindness.
    Cividis,
    /// Dark slate, magenta, pale pink: frequency of cyclones.
    Cyclone,
    /// Dark slate, brown, amber, pale yellow: frequency of rivers.
    River,
}

/// The colour of tropical cyclones in rasters. It differs from [`RIVER_COLOUR`] in lightness as well as in hue, so that
/// both can be distinguished with any kind of colour blindness.
pub const CYCLONE_COLOUR: Rgb = [0xf2, 0x3d, 0x93];
/// The colour of atmospheric rivers in rasters.
pub const RIVER_COLOUR: Rgb = [0xff, 0xb8, 0x1c];

const SLATE: [u32; 5] = [0x122130, 0x2a4156, 0x536f85, 0x93abba, 0xeaf0f1];
const VIRIDIS: [u32; 10] = [
    0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b,
    0xfde725,
];
const CIVIDIS: [u32; 10] = [
    0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173, 0x8a8678, 0xa59c74, 0xc3b369, 0xe1cc55,
    0xfee838,
];
const CYCLONE: [u32; 5] = [0x101c28, 0x5a1f52, 0xb02678, 0xf0609f, 0xffe3ef];
const RIVER: [u32; 5] = [0x101c28, 0x5c3d17, 0xa8690c, 0xf0a818, 0xfff3cf];

impl ColourMap {
    fn anchors(self) -> &'static [u32] {
        match self {
            Self::Slate => &SLATE,
            Self::Viridis => &VIRIDIS,
            Self::Cividis => &CIVIDIS,
            Self::Cyclone => &CYCLONE,
            Self::River => &RIVER,
        }
    }

    /// The colour at `fraction`, from 0 (low) to 1 (high). Values outside are clamped; NaN takes the low colour.
    pub fn at(self, fraction: f64) -> Rgb {
        let anchors = self.anchors();
        let place = if fraction.is_nan() {
            0.0
        } else {
            fraction.clamp(0.0, 1.0)
        } * (anchors.len() - 1) as f64;
        between(anchors, place)
    }

    /// 256 colours from low to high.
    pub fn table(self) -> Vec<Rgb> {
        (0..256).map(|i| self.at(f64::from(i) / 255.0)).collect()
    }
}

/// From bright blue over dark slate to bright orange, for changes from -1 to 1 on dark maps. Zero is the background
/// colour; both ends can be distinguished with any kind of colour blindness.
pub fn change_colour(change: f64) -> Rgb {
    const FALL: [u32; 3] = [0x1b2a38, 0x2f7fb8, 0x9adcff];
    const RISE: [u32; 3] = [0x1b2a38, 0xc0631f, 0xffd08a];
    let anchors = if change < 0.0 { FALL } else { RISE };
    between(&anchors, change.abs().min(1.0) * 2.0)
}

/// The interpolated colour at a position along the anchors: 0 is the first, 1 the second, and so on.
fn between(anchors: &[u32], place: f64) -> Rgb {
    let low = (place.floor() as usize).min(anchors.len() - 2);
    let t = place - low as f64;
    let (a, b) = (to_oklab(rgb(anchors[low])), to_oklab(rgb(anchors[low + 1])));
    from_oklab(std::array::from_fn(|k| a[k] + t * (b[k] - a[k])))
}

/// `#rrggbb`.
pub fn hex(colour: Rgb) -> String {
    format!("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2])
}

/// WCAG 2 contrast ratio of two colours, 1 to 21.
#[cfg(test)]
pub(crate) fn contrast(a: Rgb, b: Rgb) -> f64 {
    let luminance = |c: Rgb| {
        let [r, g, b] = c.map(to_linear);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (x, y) = (luminance(a), luminance(b));
    (x.max(y) + 0.05) / (x.min(y) + 0.05)
}

fn rgb(code: u32) -> Rgb {
    [(code >> 16) as u8, (code >> 8) as u8, code as u8]
}

fn to_linear(channel: u8) -> f64 {
    let c = f64::from(channel) / 255.0;
    if c <= 0.04045 {
        c / 12.92
    } else {
        ((c + 0.055) / 1.055).powf(2.4)
    }
}

fn to_srgb(linear: f64) -> u8 {
    let c = if linear <= 0.003_130_8 {
        12.92 * linear
    } else {
        1.055 * linear.powf(1.0 / 2.4) - 0.055
    };
    (c.clamp(0.0, 1.0) * 255.0).round() as u8
}

/// Lightness, green-red, blue-yellow of an sRGB colour.
fn to_oklab(colour: Rgb) -> [f64; 3] {
    let [r, g, b] = colour.map(to_linear);
    let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
    let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
    let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
    [
        0.210_454_255_3 * l + 0.793_617_785 * m - 0.004_072_046_8 * s,
        1.977_998_495_1 * l - 2.428_592_205 * m + 0.450_593_709_9 * s,
        0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766 * s,
    ]
}

fn from_oklab([lightness, a, b]: [f64; 3]) -> Rgb {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ]
    .map(to_srgb)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ColourMap; 5] = [
        ColourMap::Slate,
        ColourMap::Viridis,
        ColourMap::Cividis,
        ColourMap::Cyclone,
        ColourMap::River,
    ];

    #[test]
    fn ends_are_the_anchors_and_outside_values_take_them() {
        for map in ALL {
            let anchors = map.anchors();
            assert_eq!(map.at(0.0), rgb(anchors[0]), "{map:?}");
            assert_eq!(map.at(1.0), rgb(anchors[anchors.len() - 1]), "{map:?}");
            assert_eq!(map.at(-3.0), map.at(0.0));
            assert_eq!(map.at(7.0), map.at(1.0));
            assert_eq!(map.at(f64::NAN), map.at(0.0));
        }
    }

    #[test]
    fn lightness_rises_evenly() {
        for map in ALL {
            let light: Vec<f64> = map.table().iter().map(|&c| to_oklab(c)[0]).collect();
            let span = light[255] - light[0];
            assert!(span > 0.5, "{map:?} spans only {span}");
            // Sixteen equal steps of the value: none may be flat, or more than 2.2 times the mean.
            for step in light.chunks(16).map(|c| c[15] - c[0]) {
                let relative = step / (span / 17.0);
                assert!((0.2..2.2).contains(&relative), "{map:?}: {relative}");
            }
        }
    }

    #[test]
    fn oklab_round_trips() {
        for code in [0x000000, 0xffffff, 0x12ab9f, 0xf23d93, 0x010203] {
            assert_eq!(from_oklab(to_oklab(rgb(code))), rgb(code));
        }
    }

    #[test]
    fn the_two_classes_differ_in_lightness_too() {
        let difference = to_oklab(RIVER_COLOUR)[0] - to_oklab(CYCLONE_COLOUR)[0];
        assert!(difference > 0.15, "{difference}");
        assert!(contrast(CYCLONE_COLOUR, rgb(SLATE[0])) > 4.5);
        assert_eq!(contrast([0; 3], [255; 3]).round(), 21.0);
    }
}
