//! Imports a foreign file's tensors into a network's parameters, by a layout.

use super::layout::ENCODER;
use super::values::value_of;
use super::{ImportReport, Layout, WeightProblem, WeightSource, Weights};
use crate::error::{ModelError, Result};
use crate::networks::Network;
use crate::parameters::{NamedTensors, fits};
use std::collections::BTreeSet;

/// Which weights of the network may keep their values.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Whether only weights of the encoder are replaced.
    pub encoder_only: bool,
    /// Our weights that the file may lack; `*` matches any text.
    pub allow_missing: Vec<String>,
}

/// Replaces the network's weights by those of a file: all of them or, on error, none.
///
/// # Errors
/// [`ModelError::Import`] with every weight that is missing, has a different shape, has no counterpart or is not
/// finite; [`ModelError::Config`] if the network is incompatible with the layout, or has no encoder to import on its
/// own.
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
    let differences = (layout.differences)(network.config());
    report
        .notes
        .extend(differences.iter().map(|text| text.to_string()));
    Ok(report)
}

/// Returns an error if the layout has normalisations that the network lacks.
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

/// Returns an error if the network has no encoder weights: importing only the encoder would then change nothing.
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

/// An import in progress: what has been replaced, and the problems found.
struct Import<'a> {
    weights: &'a Weights,
    layout: &'a Layout,
    options: &'a ImportOptions,
    report: ImportReport,
    problems: Vec<WeightProblem>,
    /// Names of the file's tensors that the layout has read for any of our weights.
    read: BTreeSet<String>,
}

impl Import<'_> {
    /// Replaces the `values` of our weight `ours` by the file's, or records why they are kept.
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
                    WeightSource::Constant(_) => self.report.constant.push(ours.to_string()),
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

    /// Reports every tensor of the file that was not read: as unused if there is a reason, otherwise as a problem.
    fn account_for_unread(&mut self) {
        for (tensor, (shape, _)) in &self.weights.tensors {
            match (self.layout.unused)(tensor) {
                _ if self.read.contains(tensor) => {}
                Some(why) => {
                    let unused = (tensor.clone(), why.to_string());
                    self.report.unused.push(unused);
                }
                // With `encoder_only`, a different decoder in the file is expected.
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

    /// Checks that weights that keep their values are finite, because they become part of the written model.
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

    /// Returns the report, or all problems as one error.
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

/// The number of NaN or infinite values.
fn count_not_finite(values: &[f32]) -> usize {
    values.iter().filter(|value| !value.is_finite()).count()
}

/// The problem of non-finite values for our weight `ours`: a network with such weights produces masks that look
/// plausible.
fn not_finite(
    source: &WeightSource,
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
