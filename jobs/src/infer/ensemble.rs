//! Ensembles of models or views: their mean probability and its spread.

use super::input::{Fields, Pixels};
use super::model::Boxes;
use super::output::{Found, FoundMask, NotFinite};
use super::views::{EnsembleMean, in_view, most_probable};
use super::{Gives, Model};
use crate::clips::ClipShape;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use crate::upload;
use candle_core::{Device, Tensor};
use squall_data::loader::Augmentation;
use squall_data::store::View;
use squall_data::{ClassMask, DataError, LatLonGrid, Normalisation, Variable};
use squall_model::gpu::allow_tf32;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The members whose probabilities are averaged: every model with every view of the field.
///
/// A network with an output stride of s is invariant to rolls by s columns, but not by fewer. So rolls by fewer
/// columns, the mirrored field (hemispheres and the sign of meridional winds swapped) and other models are distinct
/// members; their spread measures the certainty of the mean.
#[derive(Debug)]
pub struct Ensemble<'m> {
    models: Vec<&'m Model>,
    views: Vec<View>,
    normalisations: Vec<Normalisation>,
    /// Index of each model's normalisation.
    normalisation_of: Vec<usize>,
}

impl<'m> Ensemble<'m> {
    /// A single model that sees each field unchanged.
    pub fn of(model: &'m Model) -> Self {
        allow_tf32(model.tf32());
        Self {
            models: vec![model],
            views: vec![View::default()],
            normalisations: vec![model.contract().normalisation.clone()],
            normalisation_of: vec![0],
        }
    }

    /// An ensemble of these models. Each sees the field unchanged, rolled by each of these numbers of columns and, if
    /// requested, all of that mirrored, too.
    ///
    /// # Errors
    /// [`JobError::Ensemble`] if the models' classes differ; [`JobError::Data`] without a model.
    pub fn new(models: Vec<&'m Model>, rolls: &[usize], mirror: bool) -> Result<Self> {
        let Some(first) = models.first() else {
            let reason = "an ensemble needs a model".to_string();
            return Err(JobError::Data(DataError::Invalid(reason)));
        };
        let classes = &first.contract().classes;
        if let Some(other) = models.iter().find(|m| m.contract().classes != *classes) {
            let answers = |model: &Model| {
                let classes = model.contract().classes.join(", ");
                format!("{} of {classes}", model.gives().in_words())
            };
            return Err(JobError::Ensemble {
                models: vec![first.path().to_path_buf(), other.path().to_path_buf()],
                reason: format!(
                    "the first gives {}, the second {}, which have no mean",
                    answers(first),
                    answers(other)
                ),
            });
        }
        // TF32 is used only if every model allows it.
        allow_tf32(models.iter().all(|model| model.tf32()));
        let mut views = vec![View::default()];
        for &roll in rolls {
            let view = View {
                roll,
                mirror: false,
            };
            if !views.contains(&view) {
                views.push(view);
            }
        }
        if mirror {
            let mirrored = |view: &View| View {
                mirror: true,
                ..*view
            };
            views.extend(views.clone().iter().map(mirrored));
        }
        let (mut normalisations, mut normalisation_of) = (Vec::<Normalisation>::new(), Vec::new());
        for model in &models {
            let normalisation = &model.contract().normalisation;
            let known = normalisations
                .iter()
                .position(|known| known == normalisation);
            normalisation_of.push(known.unwrap_or_else(|| {
                normalisations.push(normalisation.clone());
                normalisations.len() - 1
            }));
        }
        Ok(Self {
            models,
            views,
            normalisations,
            normalisation_of,
        })
    }

    /// The models.
    pub fn models(&self) -> &[&'m Model] {
        &self.models
    }

    /// The views of a field that each model sees.
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// Number of predictions averaged per time: models times views.
    pub fn members(&self) -> usize {
        self.models.len() * self.views.len()
    }

    /// What the models output for a time.
    pub fn gives(&self) -> Gives {
        self.first().gives()
    }

    /// The first model, representing what all have in common.
    pub(super) fn first(&self) -> &'m Model {
        self.models[0]
    }

    /// The distinct channels and normalisations of the models.
    pub(super) fn normalisations(&self) -> &[Normalisation] {
        &self.normalisations
    }

    /// The union of the models' channels.
    pub fn variables(&self) -> Vec<Variable> {
        let mut all: Vec<Variable> = self
            .normalisations
            .iter()
            .flat_map(|d| d.variables())
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// Rejects an input that a model or a view does not fit; returns notes on harmless differences.
    ///
    /// # Errors
    /// [`JobError::Ensemble`] if several members output boxes; [`JobError::Contract`] with every reason.
    pub fn check(&self, grid: &LatLonGrid, available: &[Variable]) -> Result<Vec<String>> {
        let boxes = self.gives().boxes();
        if boxes && self.models.len() > 1 {
            return Err(JobError::Ensemble {
                models: self.models.iter().map(|m| m.path().to_path_buf()).collect(),
                reason: "boxes have no mean: a detector is asked alone".into(),
            });
        }
        let mut notes = Vec::new();
        for model in &self.models {
            notes.extend(model.notes().iter().cloned());
            notes.extend(model.check(grid, available)?);
        }
        let mut reasons = Vec::new();
        if boxes && self.members() > 1 {
            reasons.push(
                "boxes have no mean: a detector is asked about fields as they are".to_string(),
            );
        }
        let turned = Augmentation {
            roll: self.views.iter().any(|view| view.roll != 0),
            mirror: self.views.iter().any(|view| view.mirror),
        };
        reasons.extend(turned.check(grid).err().map(|error| error.to_string()));
        if let Some(view) = self.views.iter().find(|view| view.roll >= grid.shape().1) {
            reasons.push(format!(
                "a roll by {} columns goes once around the {} of the input, or more",
                view.roll,
                grid.shape().1
            ));
        }
        if turned.mirror {
            for model in &self.models {
                let recipe = Recipe::parse(&model.contract().recipe, &[]);
                if recipe.is_ok_and(|recipe| !recipe.data.augmentation.mirror) {
                    notes.push(format!(
                        "`{}` never saw a mirrored field in training (data.augmentation.mirror): its opinion on those may be poor",
                        model.path().display()
                    ));
                }
            }
        }
        if !reasons.is_empty() {
            let model = self.first().path().to_path_buf();
            return Err(JobError::Contract { model, reasons });
        }
        notes.dedup();
        Ok(notes)
    }

    /// The clips that its network takes; `None` if it sees single fields.
    pub fn clips(&self) -> Option<ClipShape> {
        self.first().clips()
    }

    /// Runs the network on a clip; returns the boxes of each of its outputs, and the number of cells with non-finite
    /// output.
    ///
    /// # Errors
    /// [`JobError::Model`] if the shape does not fit the network.
    pub(super) fn find_in_clip(
        &self,
        frames: &[Arc<Fields>],
        grid: &LatLonGrid,
    ) -> Result<Vec<Boxes>> {
        let frames: Vec<&Fields> = frames.iter().map(Arc::as_ref).collect();
        self.first()
            .find_boxes(&side_by_side(&frames, grid.shape())?, grid)
    }

    /// Computes the masks or boxes of a batch of fields.
    ///
    /// # Errors
    /// [`JobError::Model`] if the shape does not fit a network.
    pub(super) fn predict(
        &self,
        batch: Vec<Fields>,
        grid: &LatLonGrid,
        probabilities: bool,
        strips: NonZeroUsize,
    ) -> Result<Vec<Found>> {
        if self.gives().boxes() {
            return self.find_boxes(batch, grid, probabilities);
        }
        if self.members() > 1 {
            return self.average(batch, grid, probabilities, strips);
        }
        let times: Vec<_> = batch.iter().map(|fields| fields.time).collect();
        let x = input(batch, grid.shape())?;
        let model = self.first();
        let prediction = model.predict_tensor(&x, &times, probabilities, strips)?;
        Ok(Found::masks(prediction, model))
    }

    /// Finds boxes with the only model, a detector, and masks if it outputs them, too.
    fn find_boxes(
        &self,
        batch: Vec<Fields>,
        grid: &LatLonGrid,
        probabilities: bool,
    ) -> Result<Vec<Found>> {
        let times: Vec<_> = batch.iter().map(|fields| fields.time).collect();
        let x = input(batch, grid.shape())?;
        let model = self.first();
        let (boxes, masks) = model.find_boxes_and_masks(&x, &times, grid, probabilities)?;
        let masks = masks.map(|masks| Found::masks(masks, model));
        let mut masks = masks.into_iter().flatten();
        let each = times.into_iter().zip(boxes);
        Ok(each
            .map(|(time, (boxes, cells))| {
                let (mask, of_mask) = match masks.next() {
                    Some(found) => (found.mask, found.not_finite),
                    None => (None, None),
                };
                Found {
                    mask,
                    not_finite: of_mask.or(NotFinite::if_any(model, cells)),
                    ..Found::boxes(time, boxes)
                }
            })
            .collect())
    }

    /// The masks of the members' mean probabilities, and the spread of these.
    fn average(
        &self,
        batch: Vec<Fields>,
        grid: &LatLonGrid,
        probabilities: bool,
        strips: NonZeroUsize,
    ) -> Result<Vec<Found>> {
        let (rows, columns) = grid.shape();
        let times: Vec<_> = batch.iter().map(|fields| fields.time).collect();
        let plain = joined(batch, self.normalisations.len());
        let mut ensemble_mean = EnsembleMean::new((times.len(), rows, columns, 3));
        // A single member's NaN makes the mean NaN; the error must name that member's model.
        let mut broken: Vec<Option<NotFinite>> = times.iter().map(|_| None).collect();
        for view in &self.views {
            for (model, &at) in self.models.iter().zip(&self.normalisation_of) {
                let normalisation = &self.normalisations[at];
                let values = in_view(&plain[at], (rows, columns), *view, normalisation);
                let x = tensor(values, times.len(), (rows, columns))?;
                let prediction = model.predict_tensor(&x, &times, true, strips)?;
                for (broken, points) in broken.iter_mut().zip(prediction.not_finite) {
                    *broken = broken.take().or(NotFinite::if_any(model, points));
                }
                if let Some(probabilities) = prediction.probabilities {
                    ensemble_mean.add(&probabilities, *view);
                }
            }
        }
        let (mean, spread) = ensemble_mean.mean_and_spread()?;
        let each = times
            .into_iter()
            .zip(mean.outer_iter().zip(spread.outer_iter()))
            .zip(broken);
        each.map(|((time, (mean, spread)), not_finite)| {
            let found = FoundMask {
                mask: ClassMask::new(time, most_probable(mean))?,
                probabilities: probabilities.then(|| mean.to_owned()),
                spread: Some(spread.to_owned()),
            };
            Ok(Found {
                not_finite,
                ..Found::mask(found)
            })
        })
        .collect()
    }
}

/// A tensor of this many samples in host memory.
fn tensor(values: Vec<f32>, samples: usize, (rows, columns): (usize, usize)) -> Result<Tensor> {
    let channels = values.len() / (samples * rows * columns).max(1);
    let shape = (samples, rows, columns, channels);
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}

/// Input tensor of fields of the only normalisation, on the network's device or in host memory.
fn input(batch: Vec<Fields>, shape: (usize, usize)) -> Result<Tensor> {
    if batch.iter().any(|f| matches!(f.pixels, Pixels::Sent(_))) {
        return side_by_side(&batch.iter().collect::<Vec<_>>(), shape);
    }
    let samples = batch.len();
    tensor(joined(batch, 1).swap_remove(0), samples, shape)
}

/// Stacks fields of the only normalisation into a batch, on whichever device they are.
fn side_by_side(fields: &[&Fields], shape: (usize, usize)) -> Result<Tensor> {
    let (mut values, mut sent) = (Vec::new(), Vec::new());
    for fields in fields {
        match &fields.pixels {
            Pixels::Host(pixels) => values.extend_from_slice(&pixels[0]),
            Pixels::Sent(one) => sent.push((one, 0, 0)),
        }
    }
    match sent.is_empty() {
        true => tensor(values, fields.len(), shape),
        false => upload::normalised(sent, shape),
    }
}

/// The pixels of a batch, concatenated, for every normalisation.
fn joined(batch: Vec<Fields>, normalisations: usize) -> Vec<Vec<f32>> {
    let of_host = |fields: Fields| match fields.pixels {
        Pixels::Host(pixels) => pixels,
        Pixels::Sent(_) => Vec::new(),
    };
    let mut samples = batch.into_iter().map(of_host);
    // A batch of one is not copied.
    let mut all = samples
        .next()
        .unwrap_or_else(|| vec![Vec::new(); normalisations]);
    for fields in samples {
        for (all, pixels) in all.iter_mut().zip(fields) {
            all.extend(pixels);
        }
    }
    all
}
