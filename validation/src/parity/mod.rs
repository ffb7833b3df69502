//! How far the fast backend is from plain loops: every operation, every convolution of the networks, and the networks.
//!
//! Inputs have eight significant bits, which f32, bf16 and f16 hold exactly; so one result of the judge in f32 judges
//! all three, and what differs is how the fast backend sums and what it rounds.
//!
//! A library chooses its algorithm by the extents, and plain loops take hours at those of real fields. There the fast
//! backend of the CPU, which they judge, judges a GPU's convolutions.

mod convolutions;
mod networks;
mod operations;

use crate::error::{Result, ValidationError};
use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use rand::Rng;
use rayon::prelude::*;
use serde::Serialize;
use squall_data::random::stream;
use squall_model::Backend;
use squall_model::error::Result as ModelResult;
use squall_model::networks::NetworkName;
use std::fmt;

/// The types in which activations are stored, as columns of the report.
pub const DTYPES: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// The largest distance of some cases from the plain loops, in one type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Worst {
    /// ‖ours − plain‖ / ‖plain‖.
    pub distance: f64,
    /// What it must not exceed; none where nothing is promised.
    pub bound: Option<f64>,
}

/// One line of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// A network, or `operations`.
    pub subject: String,
    /// What was computed.
    pub what: String,
    /// Different geometries that were judged.
    pub cases: usize,
    /// The worst case of each type, in the order of [`DTYPES`].
    pub worst: [Worst; 3],
    /// The case farthest off in f32.
    pub place: String,
}

impl Row {
    /// A line without cases; `bounds` in the order of [`DTYPES`].
    fn new(subject: &str, what: &str, bounds: [Option<f64>; 3]) -> Self {
        Self {
            subject: subject.to_string(),
            what: what.to_string(),
            cases: 0,
            worst: bounds.map(|bound| Worst {
                distance: 0.0,
                bound,
            }),
            place: String::new(),
        }
    }

    /// Adds a case: the judge's result, and ours by type; gives how far ours are off.
    fn add(
        &mut self,
        place: impl Fn() -> String,
        plain: &[f32],
        mut ours: impl FnMut(DType) -> Values,
    ) -> Result<[f64; 3]> {
        let mut all = [0.0; 3];
        for ((dtype, worst), all) in DTYPES.into_iter().zip(&mut self.worst).zip(&mut all) {
            let off = distance(&ours(dtype)?, plain)?;
            *all = off;
            let first = self.cases == 0;
            // NaN is worse than anything.
            if first || off.is_nan() || off > worst.distance {
                worst.distance = off;
                if dtype == DType::F32 {
                    self.place = place();
                }
            }
        }
        self.cases += 1;
        Ok(all)
    }

    /// Whether every bound holds.
    pub fn holds(&self) -> bool {
        let within = |worst: &Worst| match worst.bound {
            Some(bound) => worst.distance <= bound,
            None => worst.distance.is_finite(),
        };
        self.worst.iter().all(within)
    }
}

/// How far the fast backend is from the judge, case by case.
#[derive(Debug, Clone, Serialize)]
pub struct Parity {
    /// The fast backend, as [`Backend::describe`] names it.
    pub backend: String,
    /// What it is compared with: plain loops, or the fast backend of the CPU as [`Backend::describe`] names it.
    pub judge: String,
    /// Extents of the networks' input fields.
    pub size: (usize, usize),
    /// Its lines.
    pub rows: Vec<Row>,
}

impl Parity {
    /// The report of these networks at published width, and of the operations; `progress` is called with the name of
    /// each part before it is measured.
    ///
    /// # Errors
    /// [`ValidationError::Model`] if a field is too small for a network.
    pub fn measure(
        networks: &[NetworkName],
        size: (usize, usize),
        mut progress: impl FnMut(&str),
    ) -> Result<Self> {
        progress("operations");
        let mut rows = operations::rows()?;
        rows.extend(convolutions::of_every_kind()?);
        for &name in networks {
            progress(name.as_str());
            rows.extend(convolutions::rows(name, size, Backend::Reference, |_| ())?);
            rows.extend(networks::rows(name, size)?);
        }
        Ok(Self::of(Backend::Reference, size, rows))
    }

    /// The report of convolutions of every kind alone, small enough for plain loops to take seconds.
    ///
    /// # Errors
    /// [`ValidationError::Model`] of what a backend refuses.
    pub fn shapes() -> Result<Self> {
        let rows = convolutions::of_every_kind()?;
        Ok(Self::of(Backend::Reference, (25, 37), rows))
    }

    /// The report of the convolutions of these networks alone, judged by the fast backend of the CPU, in f32;
    /// `progress` is called with the name of each network before it is measured, and with a line for each convolution
    /// after it.
    ///
    /// # Errors
    /// [`ValidationError::Model`] if a field is too small for a network.
    pub fn convolutions(
        networks: &[NetworkName],
        size: (usize, usize),
        mut progress: impl FnMut(&str),
    ) -> Result<Self> {
        let (judge, mut rows) = (Backend::best_of_cpu(), Vec::new());
        for &name in networks {
            progress(name.as_str());
            rows.extend(convolutions::rows(name, size, judge, &mut progress)?);
        }
        Ok(Self::of(judge, size, rows))
    }

    fn of(judge: Backend, size: (usize, usize), rows: Vec<Row>) -> Self {
        Self {
            backend: Backend::best().describe(),
            judge: if judge == Backend::Reference {
                "plain loops".to_string()
            } else {
                judge.describe()
            },
            size,
            rows,
        }
    }

    /// Lines with a bound that does not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.holds())
    }
}

impl fmt::Display for Parity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (h, w) = self.size;
        writeln!(f, "{} against: {}", self.judge, self.backend)?;
        writeln!(
            f,
            "networks at published width on {h} x {w}; ‖ours − judge‖ / ‖judge‖ of the worst case; ! marks a broken bound, ~ what has none\n"
        )?;
        writeln!(
            f,
            "{:<24} {:<34} {:>5} {:>9} {:>9} {:>9}  worst in f32",
            "", "", "cases", "f32", "bf16", "f16"
        )?;
        let mut subject = "";
        for row in &self.rows {
            let shown = if row.subject == subject {
                ""
            } else {
                &row.subject
            };
            subject = &row.subject;
            write!(f, "{shown:<24} {:<34} {:>5}", row.what, row.cases)?;
            for worst in &row.worst {
                let mark = match worst.bound {
                    Some(bound) if worst.distance > bound => "!",
                    Some(_) => "",
                    None => "~",
                };
                write!(f, " {:>9}", format!("{:.1e}{mark}", worst.distance))?;
            }
            writeln!(f, "  {}", row.place)?;
        }
        Ok(())
    }
}

/// Values of a tensor.
type Values = ModelResult<Vec<f32>>;

/// Values that one thread sums, in this order whatever the threads, or copies.
const SHARE: usize = 1 << 16;

/// ‖a − b‖ / ‖b‖; of two vectors of zeros 0.
fn distance(a: &[f32], b: &[f32]) -> Result<f64> {
    if a.len() != b.len() {
        return Err(ValidationError::Mismatch {
            what: "values of two backends",
            expected: b.len().to_string(),
            found: a.len().to_string(),
        });
    }
    let shares = a.par_chunks(SHARE).zip(b.par_chunks(SHARE));
    let squares = shares.map(|(a, b)| {
        let pairs = a.iter().zip(b);
        pairs.fold((0.0, 0.0), |(off, size), (&a, &b)| {
            let (missed, b) = (f64::from(a - b), f64::from(b));
            (off + missed * missed, size + b * b)
        })
    });
    let squares: Vec<(f64, f64)> = squares.collect();
    let off: f64 = squares.iter().map(|s| s.0).sum();
    let size: f64 = squares.iter().map(|s| s.1).sum();
    Ok(if off == 0.0 { 0.0 } else { (off / size).sqrt() })
}

/// How many numbers are drawn before they are repeated: fields of a whole network's extents take longer to draw than
/// to convolve. It is a prime, so that no two rows and no two channels hold the same numbers.
const DRAWN: usize = 1_000_003;

/// Numbers of eight significant bits and eight magnitudes up to 2, of either sign.
fn draw(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = stream(seed, "parity", &[]);
    let mut one = || {
        let magnitude = f32::from(rng.random_range(128i16..256)) / 128.0;
        let sign = if rng.random() { 1.0 } else { -1.0 };
        sign * magnitude * 0.5f32.powi(rng.random_range(0..8))
    };
    let drawn: Vec<f32> = (0..count.min(DRAWN)).map(|_| one()).collect();
    let mut values = vec![0.0; count];
    // All processors copy: a field at real extents is a gigabyte.
    (values.par_chunks_mut(DRAWN)).for_each(|part| part.copy_from_slice(&drawn[..part.len()]));
    values
}

/// A tensor of [`draw`].
fn field(seed: u64, shape: &[usize]) -> ModelResult<Tensor> {
    let values = draw(seed, shape.iter().product());
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}

/// Values in row-major order, as f32. All processors convert and copy: a result at real extents is a gigabyte.
fn values(tensor: &Tensor) -> Values {
    let host = tensor.to_device(&Device::Cpu)?.contiguous()?;
    let wide = Backend::best_of_cpu().convert(&host, DType::F32)?;
    let (storage, layout) = wide.storage_and_layout();
    let (Storage::Cpu(CpuStorage::F32(all)), Some((start, end))) =
        (&*storage, layout.contiguous_offsets())
    else {
        return Ok(wide.flatten_all()?.to_vec1()?);
    };
    let mut values = vec![0.0; end - start];
    let parts = (values.par_chunks_mut(SHARE)).zip(all[start..end].par_chunks(SHARE));
    parts.for_each(|(to, from)| to.copy_from_slice(from));
    Ok(values)
}
