//! What can be chosen about a network.

use super::NetworkName;
use super::keys::{self, Keys};
use crate::error::{ModelError, Result};
use serde::{Deserialize, Serialize};

/// A network's configuration. The defaults of each network ([`NetworkConfig::of`]) are the published one, with what ten
/// years taught switched on where that leaves its weights usable: batch normalisation and periodic longitude.
/// [`NetworkConfig::published`] is exactly as published.
///
/// A key that says nothing about the chosen network is an error ([`NetworkName::own_keys`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Keys", into = "Keys")]
pub struct NetworkConfig {
    /// Which network.
    pub name: NetworkName,
    /// Channels of the input.
    pub channels_in: usize,
    /// Classes of the output: of pixels or, for detectors, of boxes.
    pub classes: usize,
    /// Multiplies the channels of the encoder (of every layer where there is no `decoder_width`), rounded to multiples
    /// of 8.
    pub width: f64,
    /// Multiplies the channels of the pyramid and the decoder; as `width` if not given.
    pub decoder_width: Option<f64>,
    /// How deep. DeepLabV3+: bottleneck units per block (`[3, 4, 6, 3]` is ResNet-50, `[3, 4, 23, 3]` ResNet-101).
    /// DeepCAM: `[16]`, blocks between entry and exit. Tiramisu: layers per dense block, the last at the bottom. CGNet:
    /// blocks of stages 2 and 3. Detectors of cells: `[6]`, halvings of the encoder; cells have 2 to that power pixels.
    pub blocks: Vec<usize>,
    /// Input pixels per pixel of the encoder's output: 8 or 16.
    pub output_stride: usize,
    /// Dilations: of the pyramid's 3x3 kernels; for CGNet, of the surrounding context of stages 2 and 3.
    pub atrous_rates: Vec<usize>,
    /// Channels that a layer of a dense block adds.
    pub growth: usize,
    /// Extent of the dense layers' kernels, of the kernels of a detector's encoder; odd.
    pub kernel: usize,
    /// Batch normalisation; if off, DeepLabV3+ has the published multiplication by one half in its place.
    pub batch_norm: bool,
    /// What running statistics keep at each step.
    pub batch_norm_decay: f32,
    /// Longitude wraps in every padding.
    pub periodic_longitude: bool,
    /// Paddings exactly as ClimateNet's, for weights that were trained with them: rows wrap from pole to pole too, and
    /// the last enlargement wraps nowhere. Wrong on a sphere.
    pub periodic_latitude: bool,
    /// Two more input channels that say where on the globe a row lies: its position from -1 (first row) to 1 (last),
    /// and the square of it. Kernels alone see no latitude, which decides what a moist pixel is.
    pub latitude_input: bool,
    /// Share of values that dropout clears in training: of the pyramid's output; for Tiramisu, of every layer's.
    pub dropout: f32,
    /// Frames of a clip, for the network over time.
    pub time_steps: usize,
    /// A detector's boxes are no smaller than a cell and their centres not before it, by a ReLU as published. Off by
    /// default: storms on coarse grids are smaller, and a ReLU that starts below zero never learns.
    pub box_relu: bool,
    /// Classes of masks that a detector gives too, from the same encoder; 0 for none.
    pub mask_classes: usize,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            name: NetworkName::DeepLabV3Plus,
            channels_in: 16,
            classes: 3,
            width: 1.0,
            decoder_width: None,
            blocks: vec![3, 4, 6, 3],
            output_stride: 8,
            atrous_rates: vec![12, 24, 36],
            growth: 32,
            kernel: 5,
            batch_norm: true,
            batch_norm_decay: 0.97,
            periodic_longitude: true,
            periodic_latitude: false,
            latitude_input: false,
            dropout: 0.0,
            time_steps: 8,
            box_relu: false,
            mask_classes: 0,
        }
    }
}

impl NetworkConfig {
    /// The defaults of a network.
    pub fn of(name: NetworkName) -> Self {
        let base = Self {
            name,
            ..Self::default()
        };
        match name {
            NetworkName::DeepLabV3Plus
            | NetworkName::DeepLabV3PlusDeconv
            | NetworkName::DeepLabV3PlusBilinear => base,
            // Zero padding, so that weights from elsewhere see what they were trained on.
            NetworkName::DeepCam => Self {
                blocks: vec![16],
                output_stride: 16,
                atrous_rates: vec![6, 12, 18],
                batch_norm_decay: 0.9,
                periodic_longitude: false,
                ..base
            },
            NetworkName::Tiramisu => Self {
                blocks: vec![2, 2, 2, 4, 5],
                ..base
            },
            NetworkName::CgNet => Self {
                channels_in: 4,
                blocks: vec![3, 21],
                atrous_rates: vec![2, 4],
                batch_norm_decay: 0.9,
                ..base
            },
            NetworkName::DetectorDense => Self { classes: 4, ..base },
            NetworkName::Detector2d
            | NetworkName::Detector2dHalf
            | NetworkName::Detector3d
            | NetworkName::Detector15pf => Self {
                classes: 4,
                blocks: vec![6],
                batch_norm_decay: 0.9,
                ..base
            },
        }
    }

    /// A network exactly as published: the SC18 runs without batch normalisation and with zero padding, DeepCAM as it
    /// is in MLPerf HPC, CGNet with ClimateNet's paddings.
    ///
    /// # Source
    /// 1810.01993, section V-B, and ClimDeepLearn `deeplab_model.py`, `tiramisu_model.py`; mlcommons/hpc
    /// `deeplab_xception.py`; ClimateNet `models.py`, `modules.py`; detectors: Racah et al. 2017 (arXiv:1612.02095) and
    /// hur-detect `build_network.py`, Kurth et al. 2017 (arXiv:1708.05256).
    pub fn published(name: NetworkName) -> Self {
        let base = Self::of(name);
        match name {
            // The last of these is our own.
            NetworkName::DeepCam | NetworkName::DetectorDense => base,
            NetworkName::Detector2d
            | NetworkName::Detector2dHalf
            | NetworkName::Detector3d
            | NetworkName::Detector15pf => Self {
                periodic_longitude: false,
                box_relu: true,
                ..base
            },
            NetworkName::CgNet => Self {
                periodic_latitude: true,
                ..base
            },
            _ => Self {
                batch_norm: false,
                periodic_longitude: false,
                ..base
            },
        }
    }

    /// A network that two CPU cores train in minutes: 0.36 M parameters, 8 GF per training sample at 192 x 288.
    ///
    /// A quarter of the published encoder's channels in three blocks of one unit, an eleventh of the decoder's, rates
    /// for a 1-degree grid.
    pub fn small() -> Self {
        Self {
            width: 0.25,
            decoder_width: Some(0.09),
            blocks: vec![1, 1, 1],
            atrous_rates: vec![3, 6, 12],
            batch_norm_decay: 0.9,
            ..Self::default()
        }
    }

    /// Channels that the first layers see.
    pub(crate) fn inputs(&self) -> usize {
        self.channels_in + if self.latitude_input { 2 } else { 0 }
    }

    /// Frames of a sample: of a network over time the clip's, else 1.
    pub fn frames(&self) -> usize {
        match self.name {
            NetworkName::Detector3d => self.time_steps,
            _ => 1,
        }
    }

    /// Of how many frames a network has one answer, the first of them: over time every second frame, else each.
    pub fn frames_per_answer(&self) -> usize {
        match self.name {
            NetworkName::Detector3d => 2,
            _ => 1,
        }
    }

    /// Channels of an encoder layer that the paper gives `channels`.
    pub(crate) fn encoder_channels(&self, channels: usize) -> usize {
        scaled(channels, self.width)
    }

    /// Channels of a decoder layer that the paper gives `channels`.
    pub(crate) fn decoder_channels(&self, channels: usize) -> usize {
        scaled(channels, self.decoder_width.unwrap_or(self.width))
    }

    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key, what was expected and found.
    pub fn check(&self) -> Result<()> {
        let default = Self::of(self.name);
        keys::refuse_foreign(
            self.name,
            &[
                ("decoder_width", self.decoder_width != default.decoder_width),
                ("blocks", self.blocks != default.blocks),
                ("output_stride", self.output_stride != default.output_stride),
                ("atrous_rates", self.atrous_rates != default.atrous_rates),
                ("growth", self.growth != default.growth),
                ("kernel", self.kernel != default.kernel),
                ("batch_norm", self.batch_norm != default.batch_norm),
                (
                    "periodic_latitude",
                    self.periodic_latitude != default.periodic_latitude,
                ),
                ("dropout", self.dropout != default.dropout),
                ("time_steps", self.time_steps != default.time_steps),
                ("box_relu", self.box_relu != default.box_relu),
                ("mask_classes", self.mask_classes != default.mask_classes),
            ],
        )?;
        let bad = |key: &'static str, reason: String| Err(ModelError::Config { key, reason });
        if self.channels_in == 0 || self.channels_in > 256 {
            return bad(
                "channels_in",
                format!("expected 1 to 256, found {}", self.channels_in),
            );
        }
        if !(2..=250).contains(&self.classes) {
            return bad(
                "classes",
                format!("expected 2 to 250, found {}", self.classes),
            );
        }
        let widths = [
            ("width", Some(self.width)),
            ("decoder_width", self.decoder_width),
        ];
        for (key, width) in widths {
            if let Some(width) = width.filter(|width| !(*width > 0.0 && *width <= 8.0)) {
                return bad(key, format!("expected above 0, at most 8, found {width}"));
            }
        }
        let lengths = match self.name {
            NetworkName::DeepCam
            | NetworkName::Detector2d
            | NetworkName::Detector2dHalf
            | NetworkName::Detector3d
            | NetworkName::Detector15pf => 1..=1,
            NetworkName::Tiramisu => 2..=6,
            NetworkName::CgNet => 2..=2,
            _ => 2..=4,
        };
        if !lengths.contains(&self.blocks.len()) || self.blocks.contains(&0) {
            let (found, least, most) = (&self.blocks, lengths.start(), lengths.end());
            return bad(
                "blocks",
                format!("expected {least} to {most} counts above 0, found {found:?}"),
            );
        }
        if self.name.is_detector() {
            self.check_detector()?;
        }
        let strides: &[usize] = match self.name {
            // These decoders double three times.
            NetworkName::DeepLabV3Plus
            | NetworkName::DeepLabV3PlusDeconv
            | NetworkName::DetectorDense => &[8],
            _ => &[8, 16],
        };
        if !strides.contains(&self.output_stride) {
            let (name, found) = (self.name.as_str(), self.output_stride);
            return bad(
                "output_stride",
                format!("expected one of {strides:?} for `{name}`, found {found}"),
            );
        }
        if self.atrous_rates.is_empty() || self.atrous_rates.contains(&0) {
            let found = &self.atrous_rates;
            return bad(
                "atrous_rates",
                format!("expected rates above 0, found {found:?}"),
            );
        }
        if self.name == NetworkName::CgNet && self.atrous_rates.len() != 2 {
            let found = &self.atrous_rates;
            return bad(
                "atrous_rates",
                format!("expected one rate for each of two stages, found {found:?}"),
            );
        }
        if self.name == NetworkName::CgNet && self.blocks.contains(&1) {
            let found = &self.blocks;
            return bad(
                "blocks",
                format!("expected 2 or more in each stage, found {found:?}"),
            );
        }
        if self.growth == 0 || self.growth > 1024 {
            return bad(
                "growth",
                format!("expected 1 to 1024, found {}", self.growth),
            );
        }
        if self.kernel.is_multiple_of(2) || self.kernel > 15 {
            return bad(
                "kernel",
                format!("expected an odd extent up to 15, found {}", self.kernel),
            );
        }
        if self.periodic_latitude && !self.periodic_longitude {
            return bad(
                "periodic_latitude",
                "expected `periodic_longitude` with it: ClimateNet wraps both".into(),
            );
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return bad(
                "dropout",
                format!("expected [0, 1), found {}", self.dropout),
            );
        }
        if !(0.0..1.0).contains(&self.batch_norm_decay) {
            let found = self.batch_norm_decay;
            return bad(
                "batch_norm_decay",
                format!("expected [0, 1), found {found}"),
            );
        }
        Ok(())
    }
}

impl NetworkConfig {
    /// What only detectors have.
    fn check_detector(&self) -> Result<()> {
        let bad = |key: &'static str, reason: String| Err(ModelError::Config { key, reason });
        let halvings = self.blocks.first().copied().unwrap_or(0);
        if self.name != NetworkName::DetectorDense && !(2..=6).contains(&halvings) {
            let reason = format!("expected 2 to 6 halvings, found {halvings}");
            return bad("blocks", reason);
        }
        if !(3..=256).contains(&self.time_steps) {
            let reason = format!("expected 3 to 256, found {}", self.time_steps);
            return bad("time_steps", reason);
        }
        if self.mask_classes == 1 || self.mask_classes > 250 {
            let found = self.mask_classes;
            let reason = format!("expected 0 for no masks, or 2 to 250, found {found}");
            return bad("mask_classes", reason);
        }
        Ok(())
    }
}

fn scaled(channels: usize, factor: f64) -> usize {
    if factor == 1.0 {
        return channels;
    }
    let eights = (channels as f64 * factor / 8.0).round() as usize;
    8 * eights.max(1)
}
