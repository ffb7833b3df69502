//! The detector of boxes around centres: DeepLabV3+'s encoder and pyramid, features at a quarter of the input, and for
//! each of their pixels class scores and the distances to the four sides of a box; optionally masks from the same
//! features.
//!
//! # Source
//! Encoder, pyramid and the join with low-level features as in 1810.01993 and Chen et al. 2018 (arXiv:1802.02611);
//! scores as in CenterNet (arXiv:1904.07850), whose bias starts at −2.19 so that untrained scores are 0.1; distances as
//! in FCOS (arXiv:1904.01355). The loss is in `detection`.

use super::{Detector, to_f32};
use crate::detection::{CellLayout, DetectorGradient, DetectorOutput, Scheme};
use crate::error::{ModelError, Result};
use crate::gradients::Gradients;
use crate::layers::conv::Conv;
use crate::layers::unit::Unit;
use crate::layers::{Layer, Style, split};
use crate::networks::NetworkConfig;
use crate::networks::NetworkName;
use crate::networks::architecture::Architecture;
use crate::networks::decoder::Decoder;
use crate::networks::deeplab_v3_plus::Backbone;
use crate::networks::join::Join;
use crate::ops::ConvSpec;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// The logit of a score of 0.1.
const RARE: f32 = -2.19;
/// Input pixels per feature pixel.
const CELL_PX: usize = 4;
/// The number of distances from a centre to the sides of its box.
const SIDES: usize = 4;

/// A 3x3 unit followed by a 1x1 convolution to the output values of every pixel.
#[derive(Debug)]
struct Head {
    unit: Unit,
    project: Conv,
}

impl Head {
    fn new(
        parameters: &mut Parameters,
        name: &str,
        (channels, values): (usize, usize),
        style: Style,
    ) -> Result<Self> {
        let (unit, project) = (format!("{name}.conv"), format!("{name}.values"));
        let ends = (channels, channels);
        let point = ConvSpec::same(1);
        Ok(Self {
            unit: Unit::new(parameters, &unit, ConvSpec::same(3), ends, style)?,
            project: Conv::new(parameters, &project, point, (channels, values), true)?,
        })
    }
}

impl Layer for Head {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let y = self.unit.forward(p, pass, x)?;
        self.project.forward(p, pass, &y)
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let dy = self.project.backward(p, pass, dy, gradients)?;
        self.unit.backward(p, pass, dy, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let y = self.unit.trace(x, trace)?;
        self.project.trace(y, trace)
    }
}

/// Backbone, features, heads, and a mask decoder.
#[derive(Debug)]
pub(in crate::networks) struct CentreDetector {
    backbone: Backbone,
    join: Join,
    scores: Head,
    sides: Head,
    masks: Option<Decoder>,
    /// Its field extents are placeholders until a forward pass.
    layout: CellLayout,
}

/// The DeepLabV3+ decoder that outputs masks.
fn masks(parameters: &mut Parameters, config: &NetworkConfig, low_level: usize) -> Result<Decoder> {
    let config = NetworkConfig {
        name: NetworkName::DeepLabV3Plus,
        classes: config.mask_classes,
        ..config.clone()
    };
    Decoder::new(parameters, &config, low_level)
}

impl CentreDetector {
    pub(in crate::networks) fn new(
        parameters: &mut Parameters,
        config: &NetworkConfig,
    ) -> Result<Self> {
        let style = Style::of(config);
        let backbone = Backbone::new(parameters, config)?;
        let (low_level, channels) = (backbone.low_level_channels(), config.decoder_channels(256));
        let join = Join::new(parameters, "heads", config, (low_level, 0))?;
        let ends = (channels, config.classes);
        let scores = Head::new(parameters, "heads.scores", ends, style)?;
        scores.project.start_bias(parameters, RARE);
        let sides = Head::new(parameters, "heads.sides", (channels, SIDES), style)?;
        let masks = (config.mask_classes > 0)
            .then(|| masks(parameters, config, low_level))
            .transpose()?;
        Ok(Self {
            backbone,
            join,
            scores,
            sides,
            masks,
            layout: CellLayout {
                scheme: Scheme::Centres,
                classes: config.classes,
                cell_px: CELL_PX,
                field: (0, 0),
                periodic: config.periodic_longitude,
                box_relu: false,
            },
        })
    }
}

impl Detector for CentreDetector {
    fn detect(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        _: bool,
    ) -> Result<DetectorOutput> {
        let (_, h, w, _) = x.dims4()?;
        let (deep, low) = self.backbone.forward(p, pass, x)?;
        let inputs = [deep.clone(), low.clone()];
        let joined = self.join.forward(p, pass, inputs)?;
        let scores = self.scores.forward(p, pass, &joined)?;
        let sides = self.sides.forward(p, pass, &joined)?;
        drop(joined);
        let segmentation = match &self.masks {
            Some(masks) => {
                let logits = masks.forward(p, pass, [deep, low], x)?;
                Some(to_f32(pass.backend, &logits)?)
            }
            None => None,
        };
        Ok(DetectorOutput {
            heads: to_f32(pass.backend, &pass.backend.concat(&[&scores, &sides])?)?,
            reconstruction: None,
            segmentation,
            layout: CellLayout {
                field: (h, w),
                ..self.layout
            },
            backend: pass.backend,
        })
    }

    fn backward_detection(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        gradient: DetectorGradient,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let of_masks = match (&self.masks, gradient.segmentation) {
            (Some(masks), Some(dlogits)) => Some(masks.backward(p, pass, dlogits, gradients)?),
            _ => None,
        };
        let counts = [self.layout.classes, SIDES];
        let [dscores, dsides] = split(pass, &gradient.heads, counts)?;
        let by_sides = self.sides.backward(p, pass, dsides, gradients)?;
        let by_scores = self.scores.backward(p, pass, dscores, gradients)?;
        let dy = pass.backend.add(&by_sides, &by_scores)?;
        drop((by_sides, by_scores));
        let (mut ddeep, mut dlow) = self.join.backward(p, pass, dy, gradients)?;
        if let Some((deep, low)) = of_masks {
            ddeep = pass.backend.add(&ddeep, &deep)?;
            dlow = pass.backend.add(&dlow, &low)?;
        }
        (self.backbone).backward(p, pass, (ddeep, dlow), gradients)
    }

    fn gives_masks(&self) -> bool {
        self.masks.is_some()
    }
}

impl Architecture for CentreDetector {
    /// The logits of the masks, if the network outputs them and the pass is not training.
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let masks = self.masks.as_ref().filter(|_| !pass.is_training());
        let Some(masks) = masks else {
            return Err(task());
        };
        let (deep, low) = self.backbone.forward(p, pass, x)?;
        masks.forward(p, pass, [deep, low], x)
    }

    fn backward(&self, _: &Parameters, _: &mut Pass, _: Tensor, _: &mut Gradients) -> Result<()> {
        Err(task())
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let (deep, low) = self.backbone.trace(x, trace)?;
        // The mask decoder reads them too.
        trace.hold(&[deep, low]);
        let joined = self.join.trace(deep, low, trace)?;
        self.scores.trace(joined, trace)?;
        self.sides.trace(joined, trace)?;
        match &self.masks {
            Some(masks) => masks.trace(deep, low, x, trace),
            None => Ok(()),
        }
    }

    fn outputs(&self) -> Vec<ParameterId> {
        let heads = [&self.scores, &self.sides].map(|head| head.project.kernel());
        let masks = self.masks.as_ref().map(Decoder::output);
        heads.into_iter().chain(masks).collect()
    }

    fn detector(&self) -> Option<&dyn Detector> {
        Some(self)
    }
}

fn task() -> ModelError {
    ModelError::Task {
        network: NetworkName::DetectorDense.as_str().to_string(),
        gives: "boxes, and masks beside them if `mask_classes` is set",
        asked: "masks to learn from alone",
    }
}
