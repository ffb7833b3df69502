//! Encodes small pictures as PNG, and PNG as base64 for a page.

use crate::error::{ClimateError, Result};
use ndarray::Array2;

fn failed(error: impl std::fmt::Display) -> ClimateError {
    ClimateError::Invalid(format!("PNG: {error}"))
}

fn encode(
    (rows, columns): (usize, usize),
    colour: png::ColorType,
    depth: png::BitDepth,
    bytes: &[u8],
    palette: Option<&[[u8; 4]]>,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let (width, height) = (
        u32::try_from(columns).map_err(failed)?,
        u32::try_from(rows).map_err(failed)?,
    );
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.set_compression(png::Compression::High);
    if let Some(palette) = palette {
        encoder.set_palette(
            palette
                .iter()
                .flat_map(|c| [c[0], c[1], c[2]])
                .collect::<Vec<u8>>(),
        );
        encoder.set_trns(palette.iter().map(|c| c[3]).collect::<Vec<u8>>());
    }
    // Filters help smooth pictures and harm pictures of a few flat colours.
    if depth == png::BitDepth::Eight && palette.is_none() {
        encoder.set_filter(png::Filter::Adaptive);
    } else {
        encoder.set_filter(png::Filter::NoFilter);
    }
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(bytes).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}

/// An 8-bit grey PNG; row 0 is the top.
///
/// # Errors
/// [`ClimateError::Invalid`] for an empty picture.
pub fn grey_png(levels: &Array2<u8>) -> Result<Vec<u8>> {
    let bytes: Vec<u8> = levels.iter().copied().collect();
    let (grey, eight) = (png::ColorType::Grayscale, png::BitDepth::Eight);
    encode(levels.dim(), grey, eight, &bytes, None)
}

/// A 2-bit grey PNG of codes 0..=3 (decoders show them as 0, 85, 170, 255); row 0 is the top.
///
/// # Errors
/// [`ClimateError::Invalid`] for an empty picture or a code above 3.
pub fn codes_png(codes: &Array2<u8>) -> Result<Vec<u8>> {
    if let Some(code) = codes.iter().find(|&&code| code > 3) {
        return Err(failed(format!("code {code} does not fit 2 bits")));
    }
    let mut bytes = Vec::new();
    for row in codes.rows() {
        let row: Vec<u8> = row.iter().copied().collect();
        bytes.extend(row.chunks(4).map(|four| {
            four.iter()
                .enumerate()
                .fold(0, |byte, (k, code)| byte | code << (6 - 2 * k))
        }));
    }
    let (grey, two) = (png::ColorType::Grayscale, png::BitDepth::Two);
    encode(codes.dim(), grey, two, &bytes, None)
}

/// An indexed PNG with red, green, blue and opacity for every index; row 0 is the top.
///
/// # Errors
/// [`ClimateError::Invalid`] for an empty picture or an index beyond the palette.
pub fn indexed_png(indices: &Array2<u8>, palette: &[[u8; 4]]) -> Result<Vec<u8>> {
    if let Some(index) = indices.iter().find(|&&i| usize::from(i) >= palette.len()) {
        let colours = palette.len();
        return Err(failed(format!("index {index} in a palette of {colours}")));
    }
    let bytes: Vec<u8> = indices.iter().copied().collect();
    let (indexed, eight) = (png::ColorType::Indexed, png::BitDepth::Eight);
    encode(indices.dim(), indexed, eight, &bytes, Some(palette))
}

/// Base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .enumerate()
            .fold(0u32, |w, (k, &b)| w | u32::from(b) << (16 - 8 * k));
        for k in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * k)) as usize & 63];
            text.push(if k <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

/// A `data:` URL of a PNG.
pub fn data_url(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64(png))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn decode(bytes: &[u8], expand: bool) -> (Vec<u8>, u32, u32) {
        let mut decoder = png::Decoder::new(Cursor::new(bytes));
        if expand {
            decoder.set_transformations(png::Transformations::EXPAND);
        }
        let mut reader = decoder.read_info().unwrap();
        let mut buffer = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut buffer).unwrap();
        buffer.truncate(info.buffer_size());
        (buffer, info.width, info.height)
    }

    #[test]
    fn grey_round_trips() {
        let levels = Array2::from_shape_fn((7, 13), |(j, i)| (j * 31 + i * 7) as u8);
        let (bytes, width, height) = decode(&grey_png(&levels).unwrap(), false);
        assert_eq!((width, height), (13, 7));
        assert_eq!(bytes, levels.iter().copied().collect::<Vec<_>>());
    }

    #[test]
    fn codes_of_any_width_round_trip() {
        for columns in 1..10 {
            let codes = Array2::from_shape_fn((3, columns), |(j, i)| ((j + i) % 4) as u8);
            let (bytes, ..) = decode(&codes_png(&codes).unwrap(), true);
            let expected: Vec<u8> = codes.iter().map(|c| c * 85).collect();
            assert_eq!(bytes, expected, "{columns} columns");
        }
        assert!(codes_png(&Array2::from_elem((2, 2), 4)).is_err());
        assert!(codes_png(&Array2::zeros((0, 2))).is_err());
    }

    #[test]
    fn palettes_carry_opacity() {
        let indices = Array2::from_shape_fn((2, 2), |(j, i)| (2 * j + i) as u8 % 3);
        let palette = [[1, 2, 3, 0], [4, 5, 6, 128], [7, 8, 9, 255]];
        let (bytes, ..) = decode(&indexed_png(&indices, &palette).unwrap(), true);
        assert_eq!(bytes[4..8], [4, 5, 6, 128]);
        assert_eq!(bytes[8..12], [7, 8, 9, 255]);
        assert!(indexed_png(&indices, &palette[..2]).is_err());
    }

    #[test]
    fn base64_test_vectors_of_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
