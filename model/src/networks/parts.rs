//! What the parts that several networks share ask of the network that they are in.

use super::NetworkName;

/// A new network does not compile before each question is answered for it.
impl NetworkName {
    /// Whether the decoder of DeepLabV3+ in it upsamples by twos; otherwise logits are resized, or it has another
    /// decoder.
    pub(crate) fn doubles(self) -> bool {
        match self {
            Self::DeepLabV3Plus | Self::DeepLabV3PlusDeconv | Self::DetectorDense => true,
            Self::DeepLabV3PlusBilinear
            | Self::DeepCam
            | Self::Tiramisu
            | Self::CgNet
            | Self::Detector2d
            | Self::Detector2dHalf
            | Self::Detector3d
            | Self::Detector15pf => false,
        }
    }

    /// Whether that decoder has a part at the resolution of the input.
    pub(crate) fn has_full_resolution(self) -> bool {
        match self {
            Self::DeepLabV3Plus => true,
            Self::DeepLabV3PlusDeconv
            | Self::DeepLabV3PlusBilinear
            | Self::DeepCam
            | Self::Tiramisu
            | Self::CgNet
            | Self::Detector2d
            | Self::Detector2dHalf
            | Self::Detector3d
            | Self::Detector15pf
            | Self::DetectorDense => false,
        }
    }

    /// Whether kernels of it extend over time.
    pub(crate) fn is_over_time(self) -> bool {
        match self {
            Self::Detector3d => true,
            Self::DeepLabV3Plus
            | Self::DeepLabV3PlusDeconv
            | Self::DeepLabV3PlusBilinear
            | Self::DeepCam
            | Self::Tiramisu
            | Self::CgNet
            | Self::Detector2d
            | Self::Detector2dHalf
            | Self::Detector15pf
            | Self::DetectorDense => false,
        }
    }

    /// Whether the encoder of a detector of cells has half the channels.
    pub(crate) fn is_halved(self) -> bool {
        match self {
            Self::Detector2dHalf | Self::Detector3d => true,
            Self::DeepLabV3Plus
            | Self::DeepLabV3PlusDeconv
            | Self::DeepLabV3PlusBilinear
            | Self::DeepCam
            | Self::Tiramisu
            | Self::CgNet
            | Self::Detector2d
            | Self::Detector15pf
            | Self::DetectorDense => false,
        }
    }

    /// Whether a detector of cells reconstructs by layers of its own, not by the encoder's kernels; it then does not
    /// normalise, nor halve in its last layer.
    pub(crate) fn has_own_decoder(self) -> bool {
        match self {
            Self::Detector15pf => true,
            Self::DeepLabV3Plus
            | Self::DeepLabV3PlusDeconv
            | Self::DeepLabV3PlusBilinear
            | Self::DeepCam
            | Self::Tiramisu
            | Self::CgNet
            | Self::Detector2d
            | Self::Detector2dHalf
            | Self::Detector3d
            | Self::DetectorDense => false,
        }
    }
}
