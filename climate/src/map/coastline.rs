//! Coastlines: rings of longitude and latitude, embedded at 1:110 million.
//!
//! # Source
//! Natural Earth `ne_110m_land` (public domain), converted once by `examples/convert_coastlines.rs`;
//! `assets/README.md` names the file.

use crate::error::{ClimateError, Result};
use std::fmt::Write as _;
use std::sync::OnceLock;

const ASSET: &[u8] = include_bytes!("../../assets/ne_110m_land.bin");
const MAGIC: &[u8; 4] = b"SQC1";
/// Stored steps per degree: 32,767 / 180, so that ±180° fits 16 bits (0.6 km at the equator).
const STEPS_PER_DEGREE: f64 = 32_767.0 / 180.0;
/// SVG path units per degree: paths are integers in tenths of a degree.
const PATH_UNITS_PER_DEGREE: f64 = 10.0;

/// Land outlines. Each ring is closed (its last point is its first) and a ring inside a ring is a lake.
#[derive(Debug, Clone, PartialEq)]
pub struct Coastline {
    rings: Vec<Vec<[f64; 2]>>,
}

impl Coastline {
    /// The embedded 1:110m land outlines of Natural Earth.
    pub fn natural_earth() -> &'static Self {
        static DECODED: OnceLock<Coastline> = OnceLock::new();
        DECODED.get_or_init(|| Self::decode(ASSET).expect("the embedded coastline is whole"))
    }

    /// The rings, as (longitude in [-180, 180], latitude) in degrees.
    pub fn rings(&self) -> &[Vec<[f64; 2]>] {
        &self.rings
    }

    /// Decodes the compact format: magic, u16 ring count, then per ring a u16 point count and i16 pairs, little-endian.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the bytes are not in that format.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |why: &str| ClimateError::Invalid(format!("coastline data: {why}"));
        let body = bytes
            .strip_prefix(MAGIC.as_slice())
            .ok_or_else(|| bad("it does not start with SQC1"))?;
        let mut words = body
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let mut next = || words.next().ok_or_else(|| bad("it ends early"));
        let rings = (0..next()?)
            .map(|_| {
                (0..next()?)
                    .map(|_| Ok([degrees(next()?), degrees(next()?)]))
                    .collect::<Result<Vec<_>>>()
            })
            .collect::<Result<Vec<_>>>()?;
        if words.next().is_some() {
            return Err(bad("bytes are left over"));
        }
        Self::checked(rings)
    }

    /// Encodes to the compact format that [`Self::decode`] reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.rings.len() as u16).to_le_bytes());
        for ring in &self.rings {
            bytes.extend((ring.len() as u16).to_le_bytes());
            for value in ring.iter().flatten() {
                bytes.extend(((value * STEPS_PER_DEGREE).round() as i16).to_le_bytes());
            }
        }
        bytes
    }

    /// Reads the polygons of an ESRI shapefile (`.shp`, shape type 5).
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the file is truncated or has shapes of another type.
    pub fn from_shapefile(bytes: &[u8]) -> Result<Self> {
        let bad = |why: String| ClimateError::Invalid(format!("shapefile: {why}"));
        let take = |at: usize, count: usize| {
            bytes
                .get(at..at.saturating_add(count))
                .ok_or_else(|| bad(format!("truncated at byte {at}")))
        };
        let int = |at: usize| -> Result<usize> {
            let raw = i32::from_le_bytes(take(at, 4)?.try_into().expect("four bytes"));
            usize::try_from(raw).map_err(|_| bad(format!("negative count at byte {at}")))
        };
        let float = |at: usize| -> Result<f64> {
            Ok(f64::from_le_bytes(
                take(at, 8)?.try_into().expect("eight bytes"),
            ))
        };
        if take(0, 4)? != 9994i32.to_be_bytes() {
            return Err(bad("wrong magic number".into()));
        }
        let mut rings = Vec::new();
        let mut at = 100;
        while at < bytes.len() {
            let words = i32::from_be_bytes(take(at + 4, 4)?.try_into().expect("four bytes"));
            let record = at + 8;
            at = record + 2 * usize::try_from(words).map_err(|_| bad("negative record".into()))?;
            match int(record)? {
                0 => continue,
                5 => {}
                other => {
                    return Err(bad(format!(
                        "expected polygons (type 5), found type {other}"
                    )));
                }
            }
            let (parts, points) = (int(record + 36)?, int(record + 40)?);
            let first_point = record + 44 + 4 * parts;
            for part in 0..parts {
                let start = int(record + 44 + 4 * part)?;
                let end = if part + 1 < parts {
                    int(record + 48 + 4 * part)?
                } else {
                    points
                };
                let ring = (start..end)
                    .map(|p| {
                        Ok([
                            float(first_point + 16 * p)?,
                            float(first_point + 16 * p + 8)?,
                        ])
                    })
                    .collect::<Result<Vec<_>>>()?;
                rings.push(ring);
            }
        }
        Self::checked(rings)
    }

    fn checked(rings: Vec<Vec<[f64; 2]>>) -> Result<Self> {
        let bad = |why: String| Err(ClimateError::Invalid(format!("coastline: {why}")));
        for (index, ring) in rings.iter().enumerate() {
            if ring.len() < 4 || ring.first() != ring.last() || ring.len() > usize::from(u16::MAX) {
                return bad(format!(
                    "ring {index} of {} points is not closed",
                    ring.len()
                ));
            }
            let outside = ring
                .iter()
                .find(|[lon, lat]| !(lon.abs() <= 180.01 && lat.abs() <= 90.01));
            if let Some([lon, lat]) = outside {
                return bad(format!(
                    "ring {index} has a point at longitude {lon}, latitude {lat}"
                ));
            }
        }
        if rings.is_empty() || rings.len() > usize::from(u16::MAX) {
            return bad(format!("{} rings", rings.len()));
        }
        Ok(Self { rings })
    }

    /// An SVG path of the land areas: x = 10·longitude (−1800..1800), y = 10·(90 − latitude).
    pub fn svg_area(&self) -> String {
        let mut path = String::new();
        for ring in &self.rings {
            push_line(&mut path, ring);
            path.push('z');
        }
        path
    }

    /// An SVG path of the shores without the cuts along ±180° and the south pole. Units as in [`Self::svg_area`].
    pub fn svg_shores(&self) -> String {
        let mut path = String::new();
        for piece in self.shores() {
            push_line(&mut path, &piece);
        }
        path
    }

    /// The shores as open or closed lines, without the cuts that only close a polygon at the map's edge.
    pub fn shores(&self) -> Vec<Vec<[f64; 2]>> {
        let on_edge = |p: &[f64; 2]| p[0].abs() > 179.98 || p[1] < -89.5;
        let mut pieces = Vec::new();
        for ring in &self.rings {
            let mut piece: Vec<[f64; 2]> = Vec::new();
            for edge in ring.windows(2) {
                if on_edge(&edge[0]) && on_edge(&edge[1]) {
                    if piece.len() > 1 {
                        pieces.push(std::mem::take(&mut piece));
                    }
                    piece.clear();
                } else {
                    if piece.is_empty() {
                        piece.push(edge[0]);
                    }
                    piece.push(edge[1]);
                }
            }
            if piece.len() > 1 {
                pieces.push(piece);
            }
        }
        pieces
    }
}

fn degrees(word: u16) -> f64 {
    f64::from(word as i16) / STEPS_PER_DEGREE
}

/// Appends an absolute `M` and relative `l` commands in tenths of a degree; points that do not move are dropped.
fn push_line(path: &mut String, points: &[[f64; 2]]) {
    let integers = points.iter().map(|[lon, lat]| {
        let x = (lon * PATH_UNITS_PER_DEGREE).round() as i64;
        (x, ((90.0 - lat) * PATH_UNITS_PER_DEGREE).round() as i64)
    });
    let mut last: Option<(i64, i64)> = None;
    for (x, y) in integers {
        match last {
            None => {
                let _ = write!(path, "M{x} {y}l");
            }
            Some((a, b)) if (a, b) != (x, y) => {
                let gap = if path.ends_with('l') || x < a {
                    ""
                } else {
                    " "
                };
                let second = if y < b { "" } else { " " };
                let _ = write!(path, "{gap}{}{second}{}", x - a, y - b);
            }
            Some(_) => continue,
        }
        last = Some((x, y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_rings_are_closed() {
        let coast = Coastline::natural_earth();
        assert!(coast.rings().len() > 100, "{} rings", coast.rings().len());
        assert!(coast.rings().iter().all(|ring| ring.first() == ring.last()));
    }

    #[test]
    fn the_compact_form_round_trips_and_damage_is_refused() {
        let coast = Coastline::natural_earth();
        assert_eq!(coast.encode(), ASSET);
        for cut in [0, 3, 5, ASSET.len() - 1, ASSET.len() / 2] {
            assert!(Coastline::decode(&ASSET[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Coastline::from_shapefile(ASSET).is_err());
    }

    #[test]
    fn shores_leave_out_the_cuts_at_the_map_edge() {
        let coast = Coastline::natural_earth();
        let shores = coast.shores();
        let along_edge = shores
            .iter()
            .flat_map(|line| line.windows(2))
            .filter(|e| e[0][1] < -89.9 || (e[0][0].abs() > 179.98 && e[1][0].abs() > 179.98))
            .count();
        assert_eq!(along_edge, 0);
        let path = coast.svg_shores();
        assert!(
            path.starts_with('M') && path.len() < 60_000,
            "{}",
            path.len()
        );
    }

    #[test]
    fn relative_moves_add_up_to_the_points() {
        let mut path = String::new();
        push_line(
            &mut path,
            &[[0.0, 90.0], [1.0, 89.0], [1.01, 89.0], [-2.0, 89.5]],
        );
        assert_eq!(path, "M0 0l10 10-30-5");
    }
}
