//! `squall demo`: the complete workflow on a small synthetic run, from files to a report.

use crate::arguments::parsed;
use crate::commands::events::Events;
use crate::commands::infer::Infer;
use crate::commands::label::Label;
use crate::commands::report::Report;
use crate::commands::score::{Score, Scores};
use crate::commands::simulate::Simulate;
use crate::commands::stage::Stage;
use crate::commands::train::Train;
use crate::failure::Advice;
use crate::plan::{duration, peak_memory};
use crate::{device, output};
use clap::Args;
use serde::Serialize;
use squall_data::Class;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Run the whole workflow on small synthetic runs, in minutes, and end with scores and a report.
#[derive(Debug, Args)]
#[command(after_help = "Example: squall demo --out squall-demo")]
pub struct Demo {
    /// Output folder; an interrupted demo continues there.
    #[arg(long, default_value = "squall-demo", value_name = "DIR")]
    out: PathBuf,
    /// Length in days of the run to train on; the unseen run is half as long.
    #[arg(long, default_value_t = 90.0)]
    days: f64,
    /// Recipe file, or the name of a built-in recipe.
    #[arg(long, value_name = "RECIPE", default_value = "small")]
    recipe: PathBuf,
    /// Set a recipe key, such as training.steps=300; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    #[command(flatten)]
    device: device::Options,
    /// Print the scores as JSON in the last line.
    #[arg(long)]
    json: bool,
}

/// Results of the demo: the last line of `--json`.
#[derive(Debug, Serialize)]
struct DemoSummary {
    mean_iou: f64,
    iou_tc: f64,
    iou_ar: f64,
    sample_mean_iou: f64,
    heuristic_tc_pod: f64,
    heuristic_tc_far: f64,
    heuristic_ar_pod: f64,
    heuristic_ar_far: f64,
    network_tc_pod: f64,
    network_tc_far: f64,
    network_ar_pod: f64,
    network_ar_far: f64,
    seconds: f64,
    peak_rss_mb: f64,
    report: PathBuf,
}

/// A run of the demo: its name and simulation.
struct Run {
    name: &'static str,
    days: f64,
    start: &'static str,
    seed: u64,
}

/// Masks of the unseen run, and the folders of their events.
const SOURCES: [(&str, &str); 2] = [
    ("unseen-labels", "heuristic-events"),
    ("unseen-masks", "network-events"),
];

impl Demo {
    /// Runs every step and prints the scores and the report's path.
    pub fn run(self) -> anyhow::Result<()> {
        let started = Instant::now();
        self.device.open()?;
        let train = self.training();
        refuse_boxes(&train)?;
        tracing::info!(
            "demo in {}: simulate, label, stage, train, infer, events, report",
            self.out.display()
        );
        self.make_runs()?;
        self.stage()?;
        let trained = train.train()?;
        self.infer(&trained.model)?;
        for (masks, out) in SOURCES {
            self.events_of(masks, out)?;
        }
        let report = self.page()?;
        let [(labels, heuristic), (masks, network)] = SOURCES;
        let found = Found {
            network: self.score(masks, network, labels)?,
            heuristic_truth: self.score(labels, heuristic, "unseen/truth")?,
            network_truth: self.score(masks, network, "unseen/truth")?,
        };
        let summary = DemoSummary::of(&found, started.elapsed().as_secs_f64(), report);
        if self.json {
            output::json_line(&summary)
        } else {
            output::text(&summary.words())
        }
    }

    /// A file or folder of the demo.
    fn at(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// A file or folder of the demo as an argument.
    fn text(&self, name: &str) -> String {
        self.at(name).to_string_lossy().into_owned()
    }

    /// The training of the demo's network.
    fn training(&self) -> Train {
        Train {
            recipe: self.recipe.clone(),
            data: self.at("store"),
            out: self.at("run"),
            overrides: self.overrides.clone(),
            mllog: None,
            device: self.device,
            json: false,
        }
    }

    /// Simulates the training run and the unseen one, and labels both.
    fn make_runs(&self) -> anyhow::Result<()> {
        let learn = Run {
            name: "learn",
            days: self.days,
            start: "2000-08-01",
            seed: 1,
        };
        let unseen = Run {
            name: "unseen",
            days: self.days / 2.0,
            start: "2001-08-15",
            seed: 2,
        };
        for run in [learn, unseen] {
            Simulate {
                days: Some(run.days),
                start: run.start.into(),
                hours: 6,
                seed: run.seed,
                ..parsed(["--out", &self.text(run.name)])?
            }
            .write()?;
            let labels = self.text(&format!("{}-labels", run.name));
            let label: Label = parsed(["--out", &labels, &self.text(run.name)])?;
            label.label()?;
        }
        Ok(())
    }

    /// Writes the sample store.
    fn stage(&self) -> anyhow::Result<()> {
        Stage {
            labels: Some(self.text("learn-labels")),
            block_days: 3.0,
            ..parsed(["--out", &self.text("store"), &self.text("learn")])?
        }
        .stage()?;
        Ok(())
    }

    /// Runs the network over the unseen run.
    fn infer(&self, model: &Path) -> anyhow::Result<()> {
        let (model, out) = (model.to_string_lossy(), self.text("unseen-masks"));
        let infer: Infer = parsed(["--model", &*model, "--out", &out, &self.text("unseen")])?;
        infer.infer()?;
        Ok(())
    }

    /// Finds the events of masks of the unseen run.
    fn events_of(&self, masks: &str, out: &str) -> anyhow::Result<()> {
        Events {
            fields: Some(self.text("unseen")),
            ..parsed(["--out", &self.text(out), &self.text(masks)])?
        }
        .extract()?;
        Ok(())
    }

    /// Writes the page and returns its path.
    fn page(&self) -> anyhow::Result<PathBuf> {
        let page = self.at("report.html");
        let of_source =
            |(masks, events): (&str, &str)| format!("{}:{}", self.text(masks), self.text(events));
        let mut folders = Vec::from(SOURCES.map(of_source));
        folders.push(self.text("unseen/truth"));
        Report {
            out: page.clone(),
            fields: Some(self.text("unseen")),
            title: "Tropical cyclones and atmospheric rivers of a synthetic run".into(),
            about: format!(
                "A network learnt from {} days of one synthetic run, labelled by the DeepCAM rules, and was shown another \
                 run of {} days that it had never seen. The truth is known because the run is synthetic.",
                self.days,
                self.days / 2.0
            ),
            frames: 120,
            training: vec![self.curve()?],
            recipe: Some(self.at("run").join("recipe.toml")),
            ..parsed(&folders)?
        }
        .write()?;
        Ok(page)
    }

    /// The training curve of the page, named after its network.
    fn curve(&self) -> anyhow::Result<String> {
        let network = self.training().read_recipe()?.network.name;
        Ok(format!("{}={}", network.as_str(), self.text("run")))
    }

    /// Scores masks and their events against others.
    fn score(&self, masks: &str, events: &str, truth: &str) -> anyhow::Result<Scores> {
        let events = self.at(events).join("events.csv");
        let events = Some(events.to_string_lossy().into_owned());
        Score::of_masks(self.text(masks), self.text(truth), events).score()
    }
}

/// Rejects a recipe without masks.
fn refuse_boxes(train: &Train) -> anyhow::Result<()> {
    let network = train.read_recipe()?.network;
    if network.name.is_detector() && network.mask_classes == 0 {
        return Err(Advice::usage(
            format!(
                "the demo is of masks, and {} gives boxes alone",
                network.name.as_str()
            ),
            "give another recipe, such as masks-and-boxes; docs/detection.md has the path with boxes",
        ));
    }
    Ok(())
}

/// The scores of the unseen run.
struct Found {
    /// Scores of the network against labels like those it was trained on.
    network: Scores,
    /// Scores of the labels against the truth.
    heuristic_truth: Scores,
    /// Scores of the network against the truth.
    network_truth: Scores,
}

impl DemoSummary {
    fn of(found: &Found, seconds: f64, report: PathBuf) -> Self {
        let (cyclone, river) = (Class::TropicalCyclone, Class::AtmosphericRiver);
        let pixels = &found.network.pixels;
        let iou = |class: Class| {
            let mut classes = pixels.classes.iter();
            let score = classes.find(|score| score.class == class);
            score.and_then(|score| score.iou).unwrap_or(f64::NAN)
        };
        let event = |scores: &Scores, class: Class| {
            let mut classes = scores.events.classes.iter();
            let score = classes.find(|score| score.class == class);
            let value = |value: Option<f64>| value.unwrap_or(f64::NAN);
            score.map_or((f64::NAN, f64::NAN), |score| {
                (value(score.pod), value(score.far))
            })
        };
        let (heuristic_tc_pod, heuristic_tc_far) = event(&found.heuristic_truth, cyclone);
        let (heuristic_ar_pod, heuristic_ar_far) = event(&found.heuristic_truth, river);
        let (network_tc_pod, network_tc_far) = event(&found.network_truth, cyclone);
        let (network_ar_pod, network_ar_far) = event(&found.network_truth, river);
        Self {
            mean_iou: pixels.mean_iou,
            iou_tc: iou(cyclone),
            iou_ar: iou(river),
            sample_mean_iou: pixels.sample_mean_iou,
            heuristic_tc_pod,
            heuristic_tc_far,
            heuristic_ar_pod,
            heuristic_ar_far,
            network_tc_pod,
            network_tc_far,
            network_ar_pod,
            network_ar_far,
            seconds,
            peak_rss_mb: peak_memory() as f64 / 1e6,
            report,
        }
    }

    fn words(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        format!(
            "on the unseen run, network against the labels it learnt from:\n\
             \x20 mean IoU {:.3}, tropical cyclones {:.3}, atmospheric rivers {:.3}\n\
             against the truth (share of true objects found, share of found objects that are false):\n\
             \x20 tropical cyclones   heuristic {} / {}, network {} / {}\n\
             \x20 atmospheric rivers  heuristic {} / {}, network {} / {}\n\
             {} and {:.0} MB at most\n\
             report: {}",
            self.mean_iou,
            self.iou_tc,
            self.iou_ar,
            percent(self.heuristic_tc_pod),
            percent(self.heuristic_tc_far),
            percent(self.network_tc_pod),
            percent(self.network_tc_far),
            percent(self.heuristic_ar_pod),
            percent(self.heuristic_ar_far),
            percent(self.network_ar_pod),
            percent(self.network_ar_far),
            duration(self.seconds),
            self.peak_rss_mb,
            self.report.display(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The curve of every recipe was called DeepLabV3+.
    #[test]
    fn the_page_names_the_network_that_was_trained() {
        for (recipe, expected) in [
            ("small", "deeplabv3plus=a/run"),
            ("tiramisu", "tiramisu=a/run"),
        ] {
            let demo: Demo = parsed(["--out", "a", "--recipe", recipe]).unwrap();
            assert_eq!(demo.curve().unwrap(), expected);
        }
    }
}
