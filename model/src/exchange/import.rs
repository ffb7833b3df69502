//! From a foreign file's tensors to a network's parameters, by a layout.

use super::layout::ENCODER;
use super::values::value_of;
use super::{ImportReport, Layout, Source, WeightProblem, Weights};
use crate::error::{ModelError, Result};
use crate::networks::Network;
use crate::parameters::{NamedTensors, fits};
use std::collections::BTreeSet;

/// Which weights of the network may stay as they are.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Only weights of the encoder are replaced.
    pub encoder_only: bool,
    /// Weights of ours that the file may lack; `*` stands for anything.
    pub allow_missing: Vec<String>,
}

/// Replaces the network's weights by those of a file; all of them or, after an error, none.
///
/// # Errors
/// [`ModelError::Import`] with every weight that is missing, has a different shape, has no place or is not finite;
/// [`ModelError::Config`] if the network cannot take the layout at all, or has no encoder that could be taken alone.
pub fn import(
    network: &mut Network,
    weights: &Weights,
    layout: &Layout,
    options: &ImportOptions,
) -> Result<ImportReport> {
    check_batch_norm(network, layout)?;
    let mut named = network.parameters().to_named()?;
    if options.encoder_only {
        check_encoder(network, &named)?;
    }
    let mut import = Import {
        weights,
        layout,
        options,
        report: ImportReport {
            layout: layout.name.to_string(),
            notes: weights.notes.clone(),
            ..ImportReport::default()
        },
        problems: Vec::new(),
        read: BTreeSet::new(),
    };
    for (ours, (shape, values)) in &mut named {
        import.replace(ours, shape, values);
    }
    import.account_for_unread();
    import.check_kept(&named);
    let mut report = import.finish()?;
    network.parameters_mut().load(&weights.path, &named)?;
    report
        .notes
        .extend(layout.differences.iter().map(|text| text.to_string()));
    Ok(report)
}

/// An error if the layout's normalisations have no counterpart in the network.
fn check_batch_norm(network: &Network, layout: &Layout) -> Result<()> {
    if !layout.needs_batch_norm || network.config().batch_norm {
        return Ok(());
    }
    Err(ModelError::Config {
        key: "batch_norm",
        reason: format!(
            "the layout {} has batch normalisations, which this network multiplies by one half instead",
            layout.name
        ),
    })
}

/// An error if no weight is the encoder's: importing the encoder alone would then change nothing.
fn check_encoder(network: &Network, named: &NamedTensors) -> Result<()> {
    if named.keys().any(|ours| ours.starts_with(ENCODER)) {
        return Ok(());
    }
    Err(ModelError::Config {
        key: "encoder_only",
        reason: format!(
            "the network `{}` has no part called encoder: all of its weights would stay",
            network.config().name.as_str()
        ),
    })
}

/// An import under way: what it did so far, and what it found wrong.
struct Import<'a> {
    weights: &'a Weights,
    layout: &'a Layout,
    options: &'a ImportOptions,
    report: ImportReport,
    problems: Vec<WeightProblem>,
    /// Names of the file's tensors that the layout reads for any of our weights.
    read: BTreeSet<String>,
}

impl Import<'_> {
    /// Replaces `values` of our weight `ours` by the file's, or notes why they stay.
    fn replace(&mut self, ours: &str, shape: &[usize], values: &mut Vec<f32>) {
        let source = (self.layout.source)(ours);
        self.read.extend(source.reads());
        if self.options.encoder_only && !ours.starts_with(ENCODER) {
            self.report.kept.push(ours.to_string());
            return;
        }
        let theirs = &self.weights.tensors;
        match value_of(&source, ours, shape, theirs) {
            Ok(found) => {
                self.problems
                    .extend(not_finite(&source, ours, &found, theirs));
                *values = found;
                match source {
                    Source::Constant(_) => self.report.constant.push(ours.to_string()),
                    _ => {
                        self.report.taken += 1;
                        self.report.values += values.len();
                    }
                }
            }
            Err(WeightProblem::Missing { .. }) if self.may_be_missing(ours) => {
                self.report.kept.push(ours.to_string());
            }
            Err(problem) => self.problems.push(problem),
        }
    }

    fn may_be_missing(&self, ours: &str) -> bool {
        let mut patterns = self.options.allow_missing.iter();
        patterns.any(|pattern| fits(pattern, ours))
    }

    /// Reports every tensor of the file that no weight of ours read: as unused if there is a reason, else as a problem.
    fn account_for_unread(&mut self) {
        for (tensor, (shape, _)) in &self.weights.tensors {
            match (self.layout.unused)(tensor) {
                _ if self.read.contains(tensor) => {}
                Some(why) => {
                    let unused = (tensor.clone(), why.to_string());
                    self.report.unused.push(unused);
                }
                // Another network's decoder is what the encoder alone is taken for.
                None if self.options.encoder_only && !(self.layout.encoder)(tensor) => {
                    let why = "no part of the encoder".to_string();
                    self.report.unused.push((tensor.clone(), why));
                }
                None => self.problems.push(WeightProblem::Unknown {
                    tensor: tensor.clone(),
                    found: shape.clone(),
                }),
            }
        }
    }

    /// Finds weights that stay as they are and are not finite: they become part of the model that is written.
    fn check_kept(&mut self, named: &NamedTensors) {
        for ours in &self.report.kept {
            let count = named
                .get(ours)
                .map_or(0, |(_, values)| count_not_finite(values));
            if count > 0 {
                let (name, tensor) = (ours.clone(), None);
                self.problems.push(WeightProblem::NotFinite {
                    name,
                    tensor,
                    count,
                });
            }
        }
    }

    /// The report, or all problems as one error.
    fn finish(self) -> Result<ImportReport> {
        if self.problems.is_empty() {
            return Ok(self.report);
        }
        Err(ModelError::Import {
            path: self.weights.path.clone(),
            layout: self.layout.name,
            problems: self.problems,
        })
    }
}

/// How many values are NaN or infinite.
fn count_not_finite(values: &[f32]) -> usize {
    values.iter().filter(|value| !value.is_finite()).count()
}

/// The problem of values for our weight `ours` that are no finite numbers: a network of them gives masks that look like
/// others.
fn not_finite(
    source: &Source,
    ours: &str,
    values: &[f32],
    theirs: &NamedTensors,
) -> Option<WeightProblem> {
    let count = count_not_finite(values);
    let has_some = |name: &String| {
        theirs
            .get(name)
            .is_some_and(|(_, found)| count_not_finite(found) > 0)
    };
    (count > 0).then(|| WeightProblem::NotFinite {
        name: ours.to_string(),
        tensor: source.reads().into_iter().find(has_some),
        count,
    })
}
