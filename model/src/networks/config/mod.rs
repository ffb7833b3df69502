//! The configuration of a network: its name and all its options.

mod check;

use super::NetworkName;
use super::keys::Keys;
use serde::{Deserialize, Serialize};

/// A network's configuration. The defaults of each network ([`NetworkConfig::of`]) are as published, plus batch
/// normalisation and periodic longitude where they keep published weights usable. [`NetworkConfig::published`] is
/// exactly as published.
///
/// A key that the chosen network does not read is an error ([`NetworkName::own_keys`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Keys", into = "Keys")]
pub struct NetworkConfig {
    /// The network.
    pub name: NetworkName,
    /// Channels of the input.
    pub channels_in: usize,
    /// Output classes: of pixels or, for detectors, of boxes.
    pub classes: usize,
    /// Multiplies the channels of the encoder (of every layer if the network has no `decoder_width`), rounded to
    /// multiples of 8.
    pub width: f64,
    /// Multiplies the channels of the pyramid and the decoder; defaults to `width`.
    pub decoder_width: Option<f64>,
    /// The depth. DeepLabV3+: bottleneck units per block (`[3, 4, 6, 3]` is ResNet-50, `[3, 4, 23, 3]` ResNet-101).
    /// DeepCAM: `[16]`, blocks between entry and exit. Tiramisu: layers per dense block, the last at the bottom. CGNet:
    /// blocks of stages 2 and 3. Cell detectors: `[6]`, downsampling layers of the encoder; cells have 2 to that power
    /// pixels.
    pub blocks: Vec<usize>,
    /// Input pixels per pixel of the encoder's output: 8 or 16.
    pub output_stride: usize,
    /// Dilations: of the pyramid's 3x3 kernels; for CGNet, of the context kernels of stages 2 and 3.
    pub atrous_rates: Vec<usize>,
    /// Channels that a layer of a dense block adds.
    pub growth: usize,
    /// Kernel size of dense layers and of a detector's encoder; odd.
    pub kernel: usize,
    /// Batch normalisation; if off, DeepLabV3+ uses the published multiplication by one half instead.
    pub batch_norm: bool,
    /// Without batch normalisation: whether a ReLU follows the halved input of every unit of the residual encoder, as
    /// in ResNet v2. The SC18 runs had no ReLU there: their replacement for the normalisation dropped its activation.
    pub preactivation_relu: bool,
    /// The decay of the running statistics: the share that they keep at each step.
    pub batch_norm_decay: f32,
    /// Whether longitude wraps in every padding.
    pub periodic_longitude: bool,
    /// Whether paddings match ClimateNet's exactly, for weights trained with them: rows wrap from pole to pole too, and
    /// the final upsampling does not wrap. Wrong on a sphere.
    pub periodic_latitude: bool,
    /// Whether two input channels for latitude are added: the row's position from -1 (first row) to 1 (last), and its
    /// square. A convolution cannot see latitude, but which pixels count as moist depends on it.
    pub latitude_input: bool,
    /// Dropout rate in training: of the pyramid's output; for Tiramisu, of every layer's.
    pub dropout: f32,
    /// Frames per clip, for the network over time.
    pub time_steps: usize,
    /// Whether a ReLU keeps a detector's boxes at least as large as a cell and their centres at or after its start, as
    /// published. Off by default: storms on coarse grids are smaller, and a ReLU that starts below zero never learns.
    pub box_relu: bool,
    /// Classes of the masks that a detector outputs from the same encoder; 0 for no masks.
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
            preactivation_relu: true,
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
            NetworkName::Tiramisu => Self {
                batch_norm: false,
                periodic_longitude: false,
                ..base
            },
            NetworkName::DeepLabV3Plus
            | NetworkName::DeepLabV3PlusDeconv
            | NetworkName::DeepLabV3PlusBilinear => Self {
                batch_norm: false,
                preactivation_relu: false,
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
        match self.name.is_over_time() {
            true => self.time_steps,
            false => 1,
        }
    }

    /// How many frames share one answer, which is the first one's: two in a network over time, else each has its own.
    pub fn frames_per_answer(&self) -> usize {
        match self.name.is_over_time() {
            true => 2,
            false => 1,
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
}

fn scaled(channels: usize, factor: f64) -> usize {
    if factor == 1.0 {
        return channels;
    }
    let eights = (channels as f64 * factor / 8.0).round() as usize;
    8 * eights.max(1)
}
