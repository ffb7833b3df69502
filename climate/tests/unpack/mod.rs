//! Decodes the events of a page like its script, with code independent of the encoder.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;

/// The JSON of an element.
pub fn element(html: &str, id: &str) -> Value {
    let mark = format!("id=\"{id}\">");
    let start = html.find(&mark).expect("the element") + mark.len();
    let end = start + html[start..].find("</script>").expect("its end");
    serde_json::from_str(&html[start..end]).expect("valid JSON")
}

/// The decoded columns of rows, by name, and of points.
pub struct Unpacked {
    pub head: Value,
    pub rows: BTreeMap<String, Vec<u64>>,
    pub points: Vec<Vec<u64>>,
}

pub fn unpack(html: &str) -> Unpacked {
    let head = element(html, "event-data");
    let packed = from_base64(head["bytes"].as_str().expect("text"));
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice())
        .read_to_end(&mut bytes)
        .expect("deflated bytes");
    let mut at = bytes.iter().copied();
    let mut number = || {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = at.next().expect("one more byte");
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    };
    let size = |name: &str| head[name].as_u64().expect("a number") as usize;
    let mut columns = |count: usize, length: usize| -> Vec<Vec<u64>> {
        (0..count)
            .map(|_| {
                number();
                (0..length).map(|_| number()).collect()
            })
            .collect()
    };
    let names = |of: &str| -> Vec<String> {
        let names = head[of].as_array().expect("names").iter();
        let text = |name: &Value| name.as_str().expect("a name").to_string();
        names.map(text).collect()
    };
    let of_rows = names("rowColumns");
    let rows = columns(of_rows.len(), size("rows"));
    let of_points = names("pointColumns");
    assert_eq!(of_points, ["t", "lat", "lon", "a", "b", "area", "w", "h"]);
    let points = columns(of_points.len(), size("points"));
    assert_eq!(at.next(), None, "bytes are left over");
    let rows = of_rows.into_iter().zip(rows).collect();
    Unpacked { head, rows, points }
}

/// Inverse of the zigzag encoding.
pub fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A value in units of `step`; `None` if unknown.
pub fn known(value: u64, step: f64) -> Option<f64> {
    (value > 0).then(|| (value - 1) as f64 * step)
}

impl Unpacked {
    pub fn len(&self) -> usize {
        self.rows["finder"].len()
    }

    /// A column of cumulative sums.
    pub fn summed(&self, column: &str) -> Vec<i64> {
        let steps = self.rows[column].iter().map(|v| unfold(*v));
        steps
            .scan(0, |sum, step| {
                *sum += step;
                Some(*sum)
            })
            .collect()
    }

    /// The points of a row: time in units, latitude and longitude in tenths of degrees, and the other columns as
    /// stored.
    pub fn points_of(&self, row: usize) -> Vec<[i64; 8]> {
        let counts = &self.rows["count"];
        let first: u64 = counts[..row].iter().sum();
        let mut sums = [self.summed("start")[row], 0, 0, 0, 0, 0, 0, 0];
        (first..first + counts[row])
            .map(|point| {
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum += unfold(self.points[column][point as usize]);
                }
                sums
            })
            .collect()
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let letters: Vec<u8> = four.iter().copied().filter(|l| *l != b'=').collect();
        let word = letters
            .iter()
            .fold(0u32, |w, l| w << 6 | u32::from(digit(*l)));
        let word = word << (6 * (4 - letters.len()));
        bytes.extend((0..letters.len() - 1).map(|k| (word >> (16 - 8 * k)) as u8));
    }
    bytes
}
