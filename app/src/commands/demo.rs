//! `squall demo`: the whole path on a small synthetic run, from files to a report.

use crate::commands::box_files::BoxFormats;
use crate::commands::events::{Events, MIN_CONFIDENCE};
use crate::commands::infer::Infer;
use crate::commands::label::Label;
use crate::commands::report::Report;
use crate::commands::score::{Score, Scores};
use crate::commands::simulate::Simulate;
use crate::commands::stage::Stage;
use crate::commands::tags::Tags;
use crate::commands::train::Train;
use crate::failure::Advice;
use crate::plan::{duration, peak_memory};
use crate::{device, output};
use clap::Args;
use serde::Serialize;
use squall_climate::report::MovieOptions;
use squall_data::Class;
use squall_data::synthetic::Scenario;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Run the whole path on small synthetic runs, in minutes; ends with scores and a report.
#[derive(Debug, Args)]
pub struct Demo {
    /// Folder for everything; a demo that was stopped goes on there.
    #[arg(long, default_value = "squall-demo", value_name = "DIR")]
    out: PathBuf,
    /// Days of the run to learn from; the unseen run has half as many.
    #[arg(long, default_value_t = 90.0)]
    days: f64,
    /// A recipe file, or the name of one that comes with Squall.
    #[arg(long, default_value = "small")]
    recipe: PathBuf,
    /// Change a key of the recipe, such as training.steps=300; may be given again.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    #[command(flatten)]
    device: device::Options,
    /// End with one line of JSON.
    #[arg(long)]
    json: bool,
}

/// What the demo came to: the last line of `--json`.
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

impl Demo {
    /// Runs every step and prints the scores and the report's path.
    pub fn run(self) -> anyhow::Result<()> {
        let started = Instant::now();
        self.device.open()?;
        let at = |name: &str| self.out.join(name);
        let text = |name: &str| at(name).to_string_lossy().into_owned();
        let train = Train {
            recipe: self.recipe.clone(),
            data: at("store"),
            out: at("run"),
            overrides: self.overrides.clone(),
            device: self.device,
            json: false,
        };
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
        tracing::info!(
            "demo in {}: simulate, label, stage, train, infer, events, report",
            self.out.display()
        );
        for (name, days, start, seed) in [
            ("learn", self.days, "2000-08-01", 1),
            ("unseen", self.days / 2.0, "2001-08-15", 2),
        ] {
            Simulate {
                out: at(name),
                grid: (192, 288),
                years: 0.0,
                days: Some(days),
                start: start.into(),
                hours: 6,
                scenario: Scenario::PRESENT,
                seed,
                json: false,
            }
            .write()?;
            Label {
                input: text(name),
                out: at(&format!("{name}-labels")),
                method: vec![squall_climate::detect::Method::Deepcam],
                against: None,
                tags: Tags::default(),
                bard_members: None,
                cyclones: "default".into(),
                rivers: "default".into(),
                thresholds: None,
                no_grid_scaling: false,
                formats: BoxFormats::default(),
                save_every: 30.0,
                skip_bad: false,
                json: false,
            }
            .label()?;
        }
        Stage {
            input: text("learn"),
            labels: Some(text("learn-labels")),
            tags: Tags::default(),
            boxes: None,
            out: Some(at("store")),
            local: None,
            per_node: None,
            channels: Vec::new(),
            train_share: 0.8,
            block_days: 3.0,
            seed: 12345,
            keep_unlabelled: false,
            skip_bad: false,
            json: false,
        }
        .stage()?;
        let trained = train.train()?;
        Infer::new(text("unseen"), trained.model, at("unseen-masks")).infer()?;
        for (masks, out) in [
            ("unseen-labels", "heuristic-events"),
            ("unseen-masks", "network-events"),
        ] {
            Events {
                masks: text(masks),
                tags: Tags::default(),
                fields: Some(text("unseen")),
                out: at(out),
                min_cyclone_km2: None,
                min_river_km2: None,
                min_wind: None,
                tracking: None,
                min_confidence: None,
                calendar: None,
                columns: Vec::new(),
                format: Vec::new(),
                object_id: false,
                save_every: 30.0,
                skip_bad: false,
                json: false,
            }
            .extract()?;
        }
        let report = at("report.html");
        Report {
            tags: Tags::default(),
            folders: vec![
                format!("{}:{}", text("unseen-labels"), text("heuristic-events")),
                format!("{}:{}", text("unseen-masks"), text("network-events")),
                text("unseen/truth"),
            ],
            fields: Some(text("unseen")),
            out: report.clone(),
            title: "Tropical cyclones and atmospheric rivers of a synthetic run".into(),
            about: format!(
                "A network learnt from {} days of one synthetic run, labelled by the DeepCAM rules, and was shown another \
                 run of {} days that it had never seen. The truth is known because the run is synthetic.",
                self.days,
                self.days / 2.0
            ),
            movie: Vec::new(),
            movie_width: MovieOptions::default().width,
            frames: 120,
            training: vec![format!("DeepLabV3+={}", text("run"))],
            min_confidence: MIN_CONFIDENCE,
            recipe: Some(at("run").join("recipe.toml")),
        }
        .write()?;
        let network = score(
            &at("unseen-masks"),
            &at("network-events"),
            &at("unseen-labels"),
        )?;
        let heuristic_truth = score(
            &at("unseen-labels"),
            &at("heuristic-events"),
            &at("unseen/truth"),
        )?;
        let network_truth = score(
            &at("unseen-masks"),
            &at("network-events"),
            &at("unseen/truth"),
        )?;
        let iou = |class: Class| {
            let mut classes = network.pixels.classes.iter();
            let score = classes.find(|score| score.class == class);
            score.and_then(|score| score.iou).unwrap_or(f64::NAN)
        };
        let (cyclone, river) = (Class::TropicalCyclone, Class::AtmosphericRiver);
        let event = |scores: &Scores, class: Class| {
            let mut classes = scores.events.classes.iter();
            let score = classes.find(|score| score.class == class);
            let value = |value: Option<f64>| value.unwrap_or(f64::NAN);
            score.map_or((f64::NAN, f64::NAN), |score| {
                (value(score.pod), value(score.far))
            })
        };
        let (heuristic_tc, heuristic_ar) = (
            event(&heuristic_truth, cyclone),
            event(&heuristic_truth, river),
        );
        let (network_tc, network_ar) =
            (event(&network_truth, cyclone), event(&network_truth, river));
        let summary = DemoSummary {
            mean_iou: network.pixels.mean_iou,
            iou_tc: iou(cyclone),
            iou_ar: iou(river),
            sample_mean_iou: network.pixels.sample_mean_iou,
            heuristic_tc_pod: heuristic_tc.0,
            heuristic_tc_far: heuristic_tc.1,
            heuristic_ar_pod: heuristic_ar.0,
            heuristic_ar_far: heuristic_ar.1,
            network_tc_pod: network_tc.0,
            network_tc_far: network_tc.1,
            network_ar_pod: network_ar.0,
            network_ar_far: network_ar.1,
            seconds: started.elapsed().as_secs_f64(),
            peak_rss_mb: peak_memory() as f64 / 1e6,
            report,
        };
        if self.json {
            return output::json_line(&summary);
        }
        output::text(&summary.words())
    }
}

impl DemoSummary {
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

fn score(masks: &Path, events: &Path, truth: &Path) -> anyhow::Result<Scores> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let events = Some(text(&events.join("events.csv")));
    Score::of_masks(text(masks), text(truth), events).score()
}
