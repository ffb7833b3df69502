//! Training speed of one device: measured, given, or assumed as a share of its peak.

use super::workload::Workload;
use crate::error::{JobError, Result};
use crate::machine::{DeviceKind, Machine};

/// Samples per second of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    flops: f64,
    /// Its origin, for readers of a prediction.
    pub source: String,
    /// Whether it is an assumption rather than a measurement.
    pub assumed: bool,
}

/// Pixels of the fields in measured rates.
const MEASURED_PIXELS: usize = 768 * 1152;

/// Maximum relative difference in operations between a network and the measured one that represents it.
const SAME: f64 = 0.03;

/// Share of a CPU's matrix-product peak that training reaches, unless the machine file states one: `small` and `detect`
/// reached 70 and 62 % at 192 x 288 on two cores with AVX-512, wider networks more (docs/speed.md).
const SHARE_OF_CPUS: f64 = 0.6;

impl Rate {
    /// A rate measured by the user, for instance with `squall bench step`.
    #[must_use]
    pub fn given(samples_s: f64, workload: &Workload) -> Self {
        Self {
            flops: samples_s * workload.training_flops,
            source: format!("{samples_s} samples a second as given"),
            assumed: false,
        }
    }

    /// The machine's nearest measured rate, if the network does about as much work per pixel as the measured one.
    /// Otherwise the share of the device's peak that the machine file assumes, or the usual share for a CPU. The half
    /// precisions may stand in for each other.
    ///
    /// # Errors
    /// [`JobError::Machine`] if it has no figure for this precision.
    pub fn of(machine: &Machine, workload: &Workload, batch: usize, name: &str) -> Result<Self> {
        match Self::measured(machine, workload, batch) {
            Some(rate) => Ok(rate),
            None => Self::assumed(machine, workload, name),
        }
    }

    fn measured(machine: &Machine, workload: &Workload, batch: usize) -> Option<Self> {
        // Operations grow with the number of pixels, and so does the time.
        let share = workload.pixels as f64 / MEASURED_PIXELS as f64;
        let wanted = &workload.precision;
        let fits = machine.device.measured.iter().filter(|m| {
            let half = m.precision != "f32" && wanted != "f32";
            let work = workload.training_flops / (1e12 * m.sample_tflop * share);
            m.network == workload.network
                && (m.precision == *wanted || half)
                && (work - 1.0).abs() < SAME
        });
        let found = fits.min_by_key(|m| (m.precision != *wanted, m.batch.abs_diff(batch)))?;
        let mut source = format!(
            "{} samples a second in {} at batch {}",
            found.samples_s, found.precision, found.batch
        );
        if workload.pixels != MEASURED_PIXELS {
            source += &format!(", scaled from 768 x 1152 to {} cells", workload.pixels);
        }
        Some(Self {
            flops: found.samples_s / share * workload.training_flops,
            source: format!("{source} ({})", found.source),
            assumed: false,
        })
    }

    fn assumed(machine: &Machine, workload: &Workload, name: &str) -> Result<Self> {
        let (device, precision) = (&machine.device, &workload.precision);
        // The usual share is for f32. It has not been measured in half precision, where the peak of matrix units is far
        // beyond memory bandwidth.
        let has_usual = device.kind == DeviceKind::Cpu && precision == "f32";
        let usual = has_usual.then_some(SHARE_OF_CPUS);
        let stated = device.utilisation.get(precision).copied();
        let (Some(peak), Some(share)) = (device.peak_tflops.get(precision), stated.or(usual))
        else {
            return Err(JobError::Machine {
                name: name.to_string(),
                reason: format!(
                    "no rate of {} in {precision} is known on {}: expected `device.measured` for it, or \
                     `device.peak_tflops.{precision}`{}",
                    workload.network,
                    device.name,
                    match has_usual {
                        false => format!(" and `device.utilisation.{precision}`"),
                        true => String::new(),
                    }
                ),
            });
        };
        Ok(Self {
            flops: peak * 1e12 * share,
            source: format!(
                "assumed: {:.0} % of {peak} TF/s of {} in {precision}{}",
                100.0 * share,
                device.name,
                if stated.is_none() {
                    ", as training reaches on CPUs"
                } else {
                    ""
                }
            ),
            assumed: true,
        })
    }

    /// Samples per second of one device at full load.
    #[must_use]
    pub fn samples_s(&self, workload: &Workload) -> f64 {
        self.flops / workload.training_flops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;

    /// Of `network` with these changes on one of Summit's GPUs.
    fn rate(recipe: &str, changes: &[&str], shape: (usize, usize)) -> (Rate, Workload) {
        let changes: Vec<String> = changes.iter().map(|c| (*c).to_string()).collect();
        let recipe = Recipe::named(recipe.as_ref(), &changes).unwrap();
        let workload = Workload::of(&recipe, shape, 33, "f32").unwrap();
        let summit = Machine::named("summit").unwrap();
        (Rate::of(&summit, &workload, 2, "summit").unwrap(), workload)
    }

    #[test]
    fn what_was_measured_is_not_the_rate_of_another_network() {
        let whole = (768, 1152);
        let (published, of) = rate("deeplabv3plus-published", &[], whole);
        assert!(!published.assumed, "{published:?}");
        assert!((published.samples_s(&of) - 0.87).abs() < 1e-9);
        // A quarter of the cells: four times as many samples.
        let (quarter, of) = rate("deeplabv3plus-published", &[], (384, 576));
        assert!(
            (quarter.samples_s(&of) - 4.0 * 0.87).abs() < 0.1,
            "{quarter:?}"
        );
        assert!(quarter.source.contains("scaled"), "{quarter:?}");
        for (recipe, changes) in [
            ("small", "seed=1"),
            ("deeplabv3plus-published", "network.width=0.5"),
        ] {
            let (thin, _) = rate(recipe, &[changes], whole);
            assert!(thin.assumed, "{recipe}: {thin:?}");
        }
        let (half, of) = rate("deeplabv3plus-published", &["precision=f16"], whole);
        assert!((half.samples_s(&of) - 2.67).abs() < 1e-9, "{half:?}");
    }

    /// A CPU of which only the rate of matrix products is known; of a GPU, and in half precisions, training reaches too
    /// different shares of it.
    #[test]
    fn a_cpu_without_measurements_is_estimated() {
        let (_, workload) = rate("small", &[], (192, 288));
        let rate_of = |workload: &Workload, kind: &str, figures: &str| {
            let (_, text) = crate::machine::BUILT_IN[7];
            let device = format!("kind = \"{kind}\"\n{figures}");
            let text = text.replacen("kind = \"cpu\"", &device, 1);
            let machine = Machine::parse("mine.toml", &text).unwrap();
            Rate::of(&machine, workload, 2, "mine.toml")
        };
        let of = |kind: &str, figures: &str| rate_of(&workload, kind, figures);
        let peak = "peak_tflops = { f32 = 0.2 }";
        let found = of("cpu", peak).unwrap();
        assert!(found.assumed, "{found:?}");
        assert!(found.source.contains("60 % of 0.2 TF/s"), "{found:?}");
        let expected = 0.6 * 0.2e12 / workload.training_flops;
        assert!((found.samples_s(&workload) / expected - 1.0).abs() < 1e-9);
        let stated = of("cpu", &format!("{peak}\nutilisation = {{ f32 = 0.5 }}")).unwrap();
        assert!(stated.source.contains("50 % of 0.2 TF/s"), "{stated:?}");
        for (kind, figures) in [("cpu", ""), ("gpu", peak)] {
            let error = of(kind, figures).unwrap_err().to_string();
            assert!(error.contains("`device.peak_tflops.f32`"), "{error}");
            assert_eq!(error.contains("utilisation"), kind == "gpu", "{error}");
        }
        let half = Workload {
            precision: "bf16".into(),
            ..workload.clone()
        };
        let peak = "peak_tflops = { bf16 = 2.0 }";
        let error = rate_of(&half, "cpu", peak).unwrap_err().to_string();
        let wanted = "`device.peak_tflops.bf16` and `device.utilisation.bf16`";
        assert!(error.contains(wanted), "{error}");
        let stated = format!("{peak}\nutilisation = {{ bf16 = 0.25 }}");
        let found = rate_of(&half, "cpu", &stated).unwrap();
        assert!(found.source.contains("25 % of 2 TF/s"), "{found:?}");
    }
}
