//! The report of an import, and the reasons why a weight could not be imported.

use serde::Serialize;
use std::fmt;

/// The reason why a weight cannot be imported.
#[derive(Debug, Clone, PartialEq)]
pub enum WeightProblem {
    /// The file lacks a tensor for one of our weights.
    Missing {
        /// Our weight.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
        /// The missing tensor; `None` if the file's network has no equivalent.
        wanted: Option<String>,
    },
    /// A tensor has a different shape from our weight.
    Shape {
        /// Our weight.
        name: String,
        /// The file's tensor.
        tensor: String,
        /// Our shape.
        expected: Vec<usize>,
        /// The file's shape.
        found: Vec<usize>,
    },
    /// A tensor of the file has no counterpart in the network.
    Unknown {
        /// The file's tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
    },
    /// The values for one of our weights are NaN or infinite, or too large for f32.
    NotFinite {
        /// Our weight.
        name: String,
        /// The file's tensor that contains them; `None` if several contribute.
        tensor: Option<String>,
        /// The number of affected values.
        count: usize,
    },
}

impl fmt::Display for WeightProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing {
                name,
                expected,
                wanted: Some(tensor),
            } if tensor != name => {
                write!(f, "missing `{tensor}`, for `{name}` of shape {expected:?}")
            }
            Self::Missing { name, expected, .. } => {
                write!(f, "missing `{name}` of shape {expected:?}")
            }
            Self::Shape {
                name,
                tensor,
                expected,
                found,
            } => write!(
                f,
                "`{tensor}` has shape {found:?}, `{name}` needs {expected:?}"
            ),
            Self::Unknown { tensor, found } => {
                write!(
                    f,
                    "`{tensor}` of shape {found:?} has no place in the network"
                )
            }
            Self::NotFinite {
                name,
                tensor,
                count,
            } => {
                let from = match tensor {
                    Some(tensor) if tensor != name => format!(", from `{tensor}`"),
                    _ => String::new(),
                };
                write!(
                    f,
                    "{count} values of `{name}` are NaN or infinite in f32{from}"
                )
            }
        }
    }
}

/// The result of an import.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportReport {
    /// The layout of the file.
    pub layout: String,
    /// The number of our weights whose values came from the file.
    pub taken: usize,
    /// The number of values that came from the file.
    pub values: usize,
    /// Weights that the file's network lacks, set to neutral values.
    pub constant: Vec<String>,
    /// Weights that kept their values.
    pub kept: Vec<String>,
    /// Tensors of the file that were not needed, with the reasons.
    pub unused: Vec<(String, String)>,
    /// Differences between the original network and ours, and other notes.
    pub notes: Vec<String>,
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} weights ({} values) taken by the layout {}",
            self.taken, self.values, self.layout
        )?;
        if !self.constant.is_empty() {
            let count = self.constant.len();
            let first = &self.constant[0];
            writeln!(
                f,
                "{count} weights that it has not act as absent ({first}, ...)"
            )?;
        }
        if !self.kept.is_empty() {
            let (count, first) = (self.kept.len(), &self.kept[0]);
            writeln!(f, "{count} weights stay as they were ({first}, ...)")?;
        }
        for (name, why) in &self.unused {
            if !name.ends_with(".num_batches_tracked") {
                writeln!(f, "not used: {name}, {why}")?;
            }
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
