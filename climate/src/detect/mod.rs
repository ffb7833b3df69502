//! Published detection methods, run side by side on the same fields. Each returns masks and events.
//!
//! | method | cyclones | rivers | passes over the series |
//! |---|---|---|---|
//! | [`Method::Deepcam`] | GFDL/TECA candidates and tracks | damped precipitable water | tracks, masks |
//! | [`Method::Tempest`] | closed contours, warm core, tracks with gaps | Laplacian of vapour transport | tracks, masks |
//! | [`Method::Percentile`] | - | percentile of transport by month and place, geometry | climatology (or one that is given), masks |
//! | [`Method::Bard`] | - | ensemble of thresholds, probability | masks |
//! | [`Method::Lows`] | extratropical ones: closed contours, tracks with gaps; boxes, no masks | - | tracks, boxes |
//!
//! [`FirstPass`] and [`SecondPass`] run any of them together, reading each time once per pass. [`Agreement`] measures
//! their agreement with each other and with a network.
//!
//! A new method is a variant of [`Method`] (its name, classes and channels) and of [`Detector`] (its work in each
//! pass), with its thresholds in [`DetectorThresholds`].

pub mod agreement;
pub mod bard;
mod detector;
mod folder;
pub mod lows;
pub mod percentile;
mod series;
pub mod tempest;
mod transport;
mod warm_core;

pub use agreement::{Agreement, AgreementRow};
pub use detector::{Detector, DetectorThresholds, MethodLabels};
pub use folder::{MethodsFolder, MethodsState, UsableStates};
pub use series::{Conclusions, FirstPass, SecondPass};
pub use transport::{DetectFields, FieldRequest, TransportSource, VapourTransport};
pub use warm_core::WarmCore;

use crate::error::{ClimateError, Result};
use crate::label::{Pass, REQUIRED_CHANNELS};
use serde::{Deserialize, Serialize};
use squall_data::{Class, Variable};
use std::fmt;
use std::str::FromStr;

/// A published method of finding events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The labels of the DeepCAM data set: [`crate::label`].
    Deepcam,
    /// TempestExtremes: [`tempest`].
    Tempest,
    /// Guan and Waliser 2015: [`percentile`].
    Percentile,
    /// TECA-BARD: [`bard`].
    Bard,
    /// Extratropical cyclones from sea-level pressure, as in TempestExtremes: [`lows`].
    Lows,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 5] = [
        Self::Deepcam,
        Self::Tempest,
        Self::Percentile,
        Self::Bard,
        Self::Lows,
    ];

    /// The name in commands, folders and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deepcam => "deepcam",
            Self::Tempest => "tempest",
            Self::Percentile => "percentile",
            Self::Bard => "bard",
            Self::Lows => "lows",
        }
    }

    /// A description, for file titles.
    pub fn title(self) -> &'static str {
        match self {
            Self::Deepcam => "tropical cyclones and atmospheric rivers by the DeepCAM rules",
            Self::Tempest => {
                "tropical cyclones and atmospheric rivers by the TempestExtremes rules"
            }
            Self::Percentile => {
                "atmospheric rivers by percentiles of moisture and geometry (Guan and Waliser 2015)"
            }
            Self::Bard => "atmospheric rivers by an ensemble of thresholds (TECA-BARD)",
            Self::Lows => {
                "extratropical cyclones by closed contours of sea-level pressure (TempestExtremes)"
            }
        }
    }

    /// The classes it detects.
    pub fn classes(self) -> &'static [Class] {
        match self {
            Self::Deepcam | Self::Tempest => &Class::EVENTS,
            Self::Percentile | Self::Bard => &[Class::AtmosphericRiver],
            Self::Lows => &[Class::ExtratropicalCyclone],
        }
    }

    /// The class that it accepts by tracks, and therefore not at all where times are too far apart for any.
    pub fn tracked_class(self) -> Option<Class> {
        match self {
            Self::Deepcam | Self::Tempest => Some(Class::TropicalCyclone),
            Self::Lows => Some(Class::ExtratropicalCyclone),
            Self::Percentile | Self::Bard => None,
        }
    }

    /// Whether it returns masks; otherwise it returns boxes.
    pub fn draws_masks(self) -> bool {
        match self {
            Self::Deepcam | Self::Tempest | Self::Percentile | Self::Bard => true,
            Self::Lows => false,
        }
    }

    /// Whether its cyclone masks depend on the sign of the winds, so that masks of a field mirrored about the equator
    /// differ from the mirrored masks.
    pub fn depends_on_wind_sign(self) -> bool {
        match self {
            Self::Deepcam => true,
            Self::Tempest | Self::Percentile | Self::Bard | Self::Lows => false,
        }
    }

    /// Whether it follows cyclones from time to time.
    pub fn follows_cyclones(self) -> bool {
        match self {
            Self::Deepcam | Self::Tempest | Self::Lows => true,
            Self::Percentile | Self::Bard => false,
        }
    }

    /// Whether rivers may depend on the transport of moisture.
    pub fn uses_transport(self) -> bool {
        match self {
            Self::Tempest | Self::Percentile | Self::Bard => true,
            Self::Deepcam | Self::Lows => false,
        }
    }

    /// Whether it detects warm cores by heights if files have them ([`WarmCore`]).
    pub fn uses_warm_core_heights(self) -> bool {
        match self {
            Self::Tempest | Self::Lows => true,
            Self::Deepcam | Self::Percentile | Self::Bard => false,
        }
    }

    /// The channels that it uses, in model order. Tempest does not need T200, T500, Z200 and Z1000 if files have
    /// heights of 300 (or 250) and 500 hPa ([`WarmCore`]); methods that find rivers by transport do not need TMQ, U850
    /// and V850 if files have transport.
    pub fn channels(self) -> &'static [Variable] {
        use Variable::{Psl, T200, T500, Tmq, U850, Ubot, V850, Vbot, Z200, Z1000};
        match self {
            Self::Deepcam => &REQUIRED_CHANNELS,
            Self::Tempest => &[Tmq, U850, V850, Ubot, Vbot, Psl, T200, T500, Z1000, Z200],
            Self::Percentile | Self::Bard => &[Tmq, U850, V850],
            Self::Lows => &[Psl],
        }
    }

    /// Optional channels: for the height of the ground, the objects' properties, and the warm cores of
    /// [`Method::Lows`].
    pub fn useful_channels(self) -> &'static [Variable] {
        use Variable::{Prect, Ps, Psl, T200, T500, Trefht, Ubot, Vbot, Z200, Z1000};
        match self {
            Self::Deepcam => &[],
            Self::Tempest => &[Ps, Trefht, Prect],
            Self::Percentile | Self::Bard => &[Ubot, Vbot, Psl, Prect],
            Self::Lows => &[T200, T500, Z1000, Z200],
        }
    }

    /// The subset of [`Method::channels`] and [`Method::useful_channels`] that it reads in one pass over a series, in
    /// model order.
    pub fn channels_in(self, pass: Pass) -> &'static [Variable] {
        use Variable::{
            Prect, Ps, Psl, T200, T500, Tmq, Trefht, U850, Ubot, V850, Vbot, Z200, Z1000,
        };
        match (self, pass) {
            (Self::Deepcam, pass) => pass.channels(),
            (Self::Tempest, Pass::First) => &[Ubot, Vbot, Ps, Psl, T200, T500, Trefht, Z1000, Z200],
            (Self::Percentile, Pass::First) => &[Tmq, U850, V850],
            (Self::Bard, Pass::First) => &[],
            (Self::Lows, Pass::First) => &[Psl, T200, T500, Z1000, Z200],
            // So that times without pressure are left out in both passes.
            (Self::Lows, Pass::Second) => &[Psl],
            (Self::Tempest | Self::Percentile | Self::Bard, Pass::Second) => {
                &[Tmq, U850, V850, Ubot, Vbot, Psl, Prect]
            }
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = ClimateError;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|method| method.name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            ClimateError::Invalid(format!("no method `{text}`: expected one of {names}"))
        })
    }
}
