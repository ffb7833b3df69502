//! `squall infer`: a model over files to CF masks.

use crate::plan::{Plan, duration};
use crate::progress::Progress;
use crate::{input, interrupt, output};
use clap::Args;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as WordError;
use squall_jobs::Outcome;
use squall_jobs::infer::{BadInput, InferEvent, InferOptions, InferReport, Model, Strips, infer};
use squall_model::Precision;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The precision that a recipe would call so.
fn precision(word: &str) -> Result<Precision, WordError> {
    Precision::deserialize(word.into_deserializer())
}

/// A number of strips, or auto.
fn strips(word: &str) -> Result<Strips, String> {
    match word {
        "auto" => Ok(Strips::Auto(None)),
        number => (number.parse().map(Strips::Count))
            .map_err(|_| format!("expected a number from 1 on or auto, found {number}")),
    }
}

/// Bytes of as many gigabytes.
fn gigabytes(word: &str) -> Result<u64, String> {
    match word.parse::<f64>() {
        Ok(size) if size > 0.0 && size.is_finite() => Ok((size * 1e9) as u64),
        _ => Err(format!("expected gigabytes, above 0, found {word}")),
    }
}

/// Run a model over files; the same command continues a run that was stopped.
#[derive(Debug, Args)]
pub struct Infer {
    /// Fields: a file, a folder, a glob in quotes, or a text file that lists paths.
    pub input: String,
    /// A model file: best.safetensors of a run.
    #[arg(long, value_name = "M")]
    pub model: PathBuf,
    /// Folder for the masks.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// What to compute in, instead of the precision of training: f32, bf16, f16, or auto (bf16 where that is faster).
    #[arg(long, value_name = "PRECISION", value_parser = precision)]
    pub precision: Option<Precision>,
    /// Also keep the probability of every class.
    #[arg(long)]
    pub probabilities: bool,
    /// Go on without files and times that cannot be used; they are named and counted.
    #[arg(long)]
    pub skip_bad: bool,
    /// Strips of latitude in which DeepLabV3+ and DeepCAM compute their last part: more need less memory, masks are the
    /// same. A number, or auto: as few as fit.
    #[arg(long, value_name = "N", default_value = "auto", value_parser = strips)]
    pub strips: Strips,
    /// Memory that auto may use, in GB, instead of what is free.
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    pub memory: Option<u64>,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

fn in_words(strips: NonZeroUsize) -> String {
    match strips.get() {
        1 => "as a whole".to_string(),
        strips => format!("in {strips} strips"),
    }
}

impl Infer {
    /// Infers and says how it went.
    pub fn run(self) -> anyhow::Result<()> {
        let report = self.infer()?;
        if self.json {
            return output::json(&report);
        }
        let rate = report.new_masks as f64 / report.seconds.max(1e-3);
        tracing::info!(
            "{} masks ({} of them new, {rate:.1} a second) in {}: {}",
            report.masks,
            report.new_masks,
            duration(report.seconds),
            self.out.display()
        );
        Ok(())
    }

    /// Infers and says how it went; an error if a signal stopped it.
    pub fn infer(&self) -> anyhow::Result<InferReport> {
        let archive = input::open(&self.input, self.skip_bad)?;
        let model = Model::load(&self.model, self.precision)?;
        let bad_input = if self.skip_bad {
            BadInput::Skip
        } else {
            BadInput::Fail
        };
        let strips = match (self.strips, self.memory) {
            (Strips::Count(_), Some(_)) => {
                anyhow::bail!(
                    "--memory is for --strips auto: a number of strips needs what it needs"
                )
            }
            (Strips::Auto(_), memory) => Strips::Auto(memory),
            (count, None) => count,
        };
        let options = InferOptions {
            strips,
            probabilities: self.probabilities,
            bad_input,
            ..InferOptions::default()
        };
        let stop = interrupt::flag();
        let mut progress = Progress::new("infer", archive.times().len());
        let mut tell = |event: &InferEvent<'_>| match event {
            InferEvent::Started(plan) => {
                plan.notes.iter().for_each(|note| tracing::warn!("{note}"));
                Plan {
                    work: format!(
                        "infer {} masks ({} are there; {}, {}, {})",
                        plan.times,
                        plan.done_times,
                        plan.dtype,
                        plan.backend,
                        in_words(plan.strips)
                    ),
                    read: plan.read_bytes,
                    write: plan.write_bytes,
                    memory: plan.memory_bytes,
                    seconds: None,
                }
                .announce();
                progress.start(plan.times, plan.done_times);
            }
            InferEvent::Mask { done, .. } => progress.set(*done, String::new()),
            InferEvent::Skipped(skipped) => progress.note(&format!("{skipped:?}")),
            _ => {}
        };
        let report = infer(&archive, &model, &self.out, &options, &mut tell, &stop)?;
        progress.finish();
        if report.missing_values > 0 {
            tracing::warn!(
                "{} missing values were replaced by the channel's mean",
                report.missing_values
            );
        }
        match report.outcome {
            Outcome::Finished => Ok(report),
            Outcome::Interrupted => Err(interrupt::stopped()),
        }
    }
}
