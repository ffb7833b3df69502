//! Loss scaling: the loss is multiplied before the backward pass so that small gradients do not underflow in half
//! precision.
//!
//! A step whose gradients overflow is skipped. This is normal under loss scaling; other non-finite numbers are errors.
//! The factors should be powers of two: in f32 they then leave every result bit-identical, as a test verifies for every
//! optimiser and a whole network.

use crate::error::{ModelError, Result};
use candle_core::DType;
use serde::{Deserialize, Serialize};

/// How the loss is scaled.
///
/// # Source
/// Micikevicius et al. 2018 (arXiv:1710.03740) section 3.2; the dynamic rule is that of NVIDIA's Apex.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "snake_case",
    deny_unknown_fields
)]
pub enum LossScaleConfig {
    /// One factor for the whole run; 1 is no scaling.
    Static {
        /// The factor.
        scale: f32,
    },
    /// Dynamic: the factor doubles after `growth_interval` good steps in a row, up to 2²⁴, and is halved by every
    /// overflow, down to 1. An overflow restarts the count of good steps. An initial factor above 2²⁴ falls to it with
    /// the first overflow, and never rises.
    Dynamic {
        /// The first factor, at least 1.
        initial: f32,
        /// Good steps in a row after which it doubles.
        growth_interval: u32,
    },
}

impl Default for LossScaleConfig {
    fn default() -> Self {
        Self::Static { scale: 1.0 }
    }
}

/// The largest factor that doubling reaches: a power of two, so its reciprocal is exact.
const LARGEST: f32 = 16_777_216.0;

/// The current factor and the number of good steps since it changed. Serialised, it resumes a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    config: LossScaleConfig,
    scale: f32,
    good_in_a_row: u32,
}

impl LossScaleConfig {
    /// The default for a precision. f16 loses gradients below 6e-8, so its loss is scaled dynamically from 2¹⁶. The
    /// other types have the range of f32 and need no scaling.
    pub fn of(dtype: DType) -> Self {
        match dtype {
            DType::F16 => Self::Dynamic {
                initial: 65_536.0,
                growth_interval: 2000,
            },
            _ => Self::default(),
        }
    }

    /// Whether overflows are expected, as part of the search for the factor.
    pub fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dynamic { .. })
    }
}

impl LossScale {
    /// The scale at the start of a run.
    ///
    /// # Errors
    /// [`ModelError::Config`] if a factor is not positive and finite, a dynamic one is below 1, or the interval is 0.
    pub fn new(config: LossScaleConfig) -> Result<Self> {
        let scale = match config {
            LossScaleConfig::Static { scale } => scale,
            LossScaleConfig::Dynamic { initial, .. } => initial,
        };
        if !(scale > 0.0 && scale.is_finite()) {
            let reason = format!("expected a factor above 0, found {scale}");
            return Err(ModelError::Config {
                key: "loss_scale",
                reason,
            });
        }
        // An overflow would raise it to the minimum of 1.
        if config.is_dynamic() && scale < 1.0 {
            let reason = format!("expected 1 or more, found {scale}");
            return Err(ModelError::Config {
                key: "loss_scale.initial",
                reason,
            });
        }
        if matches!(config, LossScaleConfig::Dynamic { growth_interval, .. } if growth_interval == 0)
        {
            let reason = "expected 1 or more, found 0".to_string();
            return Err(ModelError::Config {
                key: "growth_interval",
                reason,
            });
        }
        Ok(Self {
            config,
            scale,
            good_in_a_row: 0,
        })
    }

    /// The factor by which to multiply the loss.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// The configuration.
    pub fn config(&self) -> LossScaleConfig {
        self.config
    }

    /// Whether the factor can still be lowered, so that an overflow need not be an error.
    pub fn can_fall(&self) -> bool {
        self.config.is_dynamic() && self.scale > 1.0
    }

    /// Adapts the factor after a step, given whether its gradients were finite. Every rank must pass the same value.
    pub fn record(&mut self, finite: bool) {
        self.good_in_a_row = if finite { self.good_in_a_row + 1 } else { 0 };
        if let LossScaleConfig::Dynamic {
            growth_interval, ..
        } = self.config
        {
            if !finite {
                // From above what doubling reaches, halving would skip up to a hundred steps before any could be good.
                self.scale = (self.scale / 2.0).clamp(1.0, LARGEST);
            } else if self.good_in_a_row >= growth_interval {
                // An initial factor above the limit must not fall without an overflow.
                self.scale = self.scale.max((self.scale * 2.0).min(LARGEST));
                self.good_in_a_row = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_overflow_halves_the_factor_and_good_steps_double_it() {
        let config = LossScaleConfig::Dynamic {
            initial: 8.0,
            growth_interval: 2,
        };
        let mut scale = LossScale::new(config).unwrap();
        let mut after = |finite: bool| {
            scale.record(finite);
            scale.scale()
        };
        // The good step before the overflow does not count: two more are needed.
        assert_eq!(
            [true, false, true, true].map(&mut after),
            [8.0, 4.0, 4.0, 8.0]
        );
        assert_eq!([false; 4].map(&mut after), [4.0, 2.0, 1.0, 1.0]);
        assert!(!scale.can_fall());
        let kept = serde_json::to_string(&scale).unwrap();
        assert_eq!(serde_json::from_str::<LossScale>(&kept).unwrap(), scale);
    }

    /// Each doubling begins a new count.
    #[test]
    fn good_steps_in_a_row_double_it_once_for_every_interval() {
        let config = LossScaleConfig::Dynamic {
            initial: 8.0,
            growth_interval: 2,
        };
        let mut scale = LossScale::new(config).unwrap();
        assert!(scale.can_fall());
        let after = [true; 6].map(|finite| {
            scale.record(finite);
            scale.scale()
        });
        assert_eq!(after, [8.0, 16.0, 16.0, 32.0, 32.0, 64.0]);
        let never = LossScaleConfig::Dynamic {
            initial: 8.0,
            growth_interval: 0,
        };
        let error = LossScale::new(never).unwrap_err().to_string();
        assert!(error.contains("`growth_interval`"), "{error}");
    }

    #[test]
    fn f16_alone_is_scaled_unless_asked() {
        let of = |dtype| LossScale::new(LossScaleConfig::of(dtype)).unwrap();
        let half = of(DType::F16);
        assert_eq!((half.scale(), half.can_fall()), (65_536.0, true));
        for dtype in [DType::F32, DType::BF16] {
            let plain = of(dtype);
            assert_eq!((plain.scale(), plain.can_fall()), (1.0, false));
        }
    }

    #[test]
    fn a_static_factor_stays_and_nonsense_is_refused() {
        let mut scale = LossScale::new(LossScaleConfig::Static { scale: 1024.0 }).unwrap();
        scale.record(false);
        assert_eq!((scale.scale(), scale.can_fall()), (1024.0, false));
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let error = LossScale::new(LossScaleConfig::Static { scale }).unwrap_err();
            assert!(error.to_string().contains("loss_scale"), "{error}");
        }
    }

    #[test]
    fn good_steps_never_lower_a_factor_and_overflows_never_raise_it() {
        let dynamic = |initial| LossScaleConfig::Dynamic {
            initial,
            growth_interval: 1,
        };
        let large = 4.0 * LARGEST;
        let mut scale = LossScale::new(dynamic(large)).unwrap();
        let mut after = |finite: bool| {
            scale.record(finite);
            scale.scale()
        };
        assert_eq!(
            [true, false, true].map(&mut after),
            [large, LARGEST, LARGEST]
        );
        assert_eq!([false; 2].map(&mut after), [LARGEST / 2.0, LARGEST / 4.0]);
        assert_eq!([true; 3].map(&mut after), [LARGEST / 2.0, LARGEST, LARGEST]);
        let error = LossScale::new(dynamic(0.5)).unwrap_err().to_string();
        let expected = "`loss_scale.initial`: expected 1 or more, found 0.5";
        assert!(error.contains(expected), "{error}");
        assert_eq!(LossScale::new(dynamic(1.0)).unwrap().scale(), 1.0);
    }

    /// However large the first factor, 25 overflows find any that a run may have.
    #[test]
    fn the_largest_initial_factor_is_soon_in_range() {
        let mut scale = LossScale::new(LossScaleConfig::Dynamic {
            initial: f32::MAX,
            growth_interval: 1,
        })
        .unwrap();
        let overflows = (0..).take_while(|_| {
            let above = scale.scale() > 1.0;
            scale.record(false);
            above
        });
        assert_eq!(overflows.count(), 25);
    }

    proptest! {
        #[test]
        fn the_factor_stays_in_range(history in proptest::collection::vec(any::<bool>(), 0..200)) {
            let config = LossScaleConfig::Dynamic { initial: 65536.0, growth_interval: 3 };
            let mut scale = LossScale::new(config).unwrap();
            history.iter().for_each(|&finite| scale.record(finite));
            prop_assert!((1.0..=LARGEST).contains(&scale.scale()));
            prop_assert_eq!(scale.scale().log2().fract(), 0.0);
        }
    }
}
