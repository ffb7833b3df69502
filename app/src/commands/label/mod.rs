//! `squall label`: heuristics on fields to masks, objects and tracks.

mod against;
mod applied;
mod climate;
mod deepcam;
pub(super) mod differences;
pub(super) mod masks;
mod methods;
mod needed;
mod ownership;
mod rules;
mod warm_core;

use crate::box_files::BoxFormats;
use crate::failure::Advice;
use crate::input::{self, files_below};
use crate::missing::Missing;
use crate::output;
use crate::own_folder::{self, Holds};
use crate::plan::counted;
use crate::saving::SAVE_EVERY_SECONDS;
use crate::tags::Tags;
use clap::Args;
use serde::Serialize;
use squall_climate::detect::Method;
use squall_climate::label::{ArThresholds, TcThresholds, Thresholds};
use squall_data::gaps::{Gaps, usual_step_hours};
use squall_data::{Archive, Class, DataError, LatLonGrid, Time, Variable};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use masks::is_unfinished;
pub use rules::lacks;

/// Find tropical cyclones and atmospheric rivers by published rules (by default DeepCAM's), and boxes around them,
/// extratropical cyclones and tropical depressions.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall label run --out labels\n  squall label '/data/era5/2005*.nc' --method tempest --out labels\n  squall label run --method deepcam,tempest,bard --out labels\n  squall label '/data/psl/*.nc' --method lows --out lows"
)]
pub struct Label {
    /// Fields: a file, a folder, a quoted glob, or a text file that lists paths.
    pub input: String,
    /// Output folder for masks, objects.csv and boxes.csv.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Rules, comma-separated: deepcam, tempest (TempestExtremes), percentile (Guan and Waliser), bard (TECA-BARD),
    /// lows (extratropical cyclones by TempestExtremes' rules, as boxes; needs sea-level pressure only). Several
    /// methods each write to their own folder in DIR; DIR/agreement.csv shows how far their masks agree. The boxes of
    /// deepcam or of lows, as the only method, can also be written in the three formats below.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "deepcam"
    )]
    pub method: Vec<Method>,
    /// Masks to compare the methods with in agreement.csv, such as those of `squall infer`.
    #[arg(long, value_name = "MASKS")]
    pub against: Option<String>,
    #[command(flatten)]
    pub tags: Tags,
    /// Members of the bard ensemble: a CSV with hwhm_latitude, min_water_vapor, min_component_area, like TECA's table.
    #[arg(long, value_name = "FILE")]
    pub bard_members: Option<PathBuf>,
    /// Use the percentile thresholds of another run on the same grid, so that both are judged alike: the folder of that
    /// run's percentile labels, or its climatology/percentile_thresholds.nc. The input may then be of any length.
    #[arg(long, value_name = "PATH")]
    pub climatology: Option<PathBuf>,
    /// Strictness of deepcam for cyclones: default, medium, relaxed or super_relaxed.
    #[arg(long, default_value = PRESET, value_name = "PRESET")]
    pub cyclones: String,
    /// Strictness of deepcam for rivers: default (24 kg m-2 of damped column water) or relaxed (21).
    #[arg(long, default_value = PRESET, value_name = "PRESET", value_parser = [PRESET, "relaxed"])]
    pub rivers: String,
    /// TOML file with all thresholds; overrides both presets. Unless the only method is deepcam, it has one table per
    /// method, such as `[percentile]` with `moisture = "column_water"`.
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<PathBuf>,
    /// Use the published 0.25-degree thresholds on any grid. In a thresholds file, set `adapt_to_grid = false` instead.
    #[arg(long, conflicts_with = "thresholds")]
    pub no_grid_scaling: bool,
    #[command(flatten)]
    pub formats: BoxFormats,
    /// Seconds between saved states, from which a killed run continues; each is saved at the end of a mask file.
    #[arg(long, value_name = "SECONDS", default_value_t = SAVE_EVERY_SECONDS)]
    pub save_every: f64,
    /// Skip files and times that cannot be read or lack a channel; they are listed and counted, and get no masks.
    #[arg(long)]
    pub skip_bad: bool,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The results of labelling.
#[derive(Debug, Serialize)]
pub struct LabelSummary {
    /// Times labelled.
    pub times: usize,
    /// Cyclones over all times.
    pub cyclones: usize,
    /// Rivers over all times.
    pub rivers: usize,
    /// Cyclone tracks.
    pub tracks: usize,
    /// Whether the series is too short for the duration criterion.
    pub untracked: bool,
    /// Boxes over all times, by class.
    pub boxes: BTreeMap<&'static str, usize>,
    /// Number of boxes that did not fit into the ExtremeWeather file.
    pub boxes_left_out: usize,
    /// Number of unusable input files (`--skip-bad`).
    pub skipped_files: usize,
    /// Number of other times with unreadable data, which have no masks (`--skip-bad`).
    pub skipped_times: usize,
}

/// Default strictness of deepcam.
const PRESET: &str = "default";
/// Incremented whenever the same fields and thresholds give other labels, or masks record their provenance differently:
/// a run of another version is restarted rather than resumed.
const METHOD: u32 = 6;

/// Hours between times from which on cyclones are not followed as they should be.
const LONG_STEP_HOURS: f64 = 24.0;

/// Row spacing, in degrees, above which the rules of deepcam find few cyclones (docs/events.md has how many).
const COARSE_GRID_DEG: f64 = 1.25;

/// Consequence of missing values.
const NOT_LABELLED: &str =
    "rules find nothing where one of their fields is missing, and less around it";

/// Logs which fields have missing or completed values, once they have been read.
fn say_missing(missing: &Missing, archive: &Archive) {
    missing.say(NOT_LABELLED);
    if let Some(completed) = archive.completed() {
        tracing::warn!("{completed}");
    }
}

impl Label {
    /// Labels and reports what was found.
    pub fn run(self) -> anyhow::Result<()> {
        self.check_methods()?;
        if self.method != [Method::Deepcam] || self.against.is_some() {
            return methods::run(&self);
        }
        let summary = self.label()?;
        if self.json {
            return output::json(&summary);
        }
        tracing::info!(
            "{}: {} on {}, {}; {} with those of extratropical cyclones and tropical depressions; masks, objects.csv and boxes.csv in {}",
            counted(summary.times, "time"),
            counted(summary.cyclones, "cyclone"),
            counted(summary.tracks, "track"),
            counted(summary.rivers, "river"),
            counted(summary.boxes.values().sum::<usize>(), "box"),
            self.out.display()
        );
        Ok(())
    }

    /// Rejects options of methods that were not requested.
    fn check_methods(&self) -> anyhow::Result<()> {
        let is_strict = self.cyclones != PRESET || self.rivers != PRESET;
        if is_strict && !self.method.contains(&Method::Deepcam) {
            return Err(Advice::usage(
                "--cyclones and --rivers are thresholds of `--method deepcam`",
                "those of other methods are set by --thresholds FILE, one table per method",
            ));
        }
        if self.bard_members.is_some() && !self.method.contains(&Method::Bard) {
            return Err(Advice::usage(
                "--bard-members are those of `--method bard`",
                "add bard to --method, or leave --bard-members out",
            ));
        }
        if self.climatology.is_some() && !self.method.contains(&Method::Percentile) {
            return Err(Advice::usage(
                "--climatology has the thresholds of `--method percentile`",
                "add percentile to --method, or leave --climatology out",
            ));
        }
        Ok(())
    }

    /// Opens the fields; logs the decisions about them, and gaps in time.
    fn open_fields(&self) -> anyhow::Result<Archive> {
        let methods = self.method.iter();
        let mut used: Vec<Variable> = methods
            .flat_map(|method| [method.channels(), method.useful_channels()].concat())
            .collect();
        if self.method.iter().any(|method| method.uses_transport()) {
            // Vapour transport that is summed over levels ends at the ground.
            used.push(Variable::Ps);
        }
        let needed = self.method.iter().flat_map(|method| method.channels());
        let needed: Vec<Variable> = needed.copied().collect();
        let archive = input::open_needing(&self.input, self.skip_bad, &used, |_| needed)?;
        input::keep_apart(&archive, &self.out)?;
        own_folder::check(&self.out, Holds::Labels)?;
        if let Some(gaps) = Gaps::of(archive.times()) {
            tracing::warn!("{gaps}");
        }
        // Who sets thresholds may have fitted them to the grid.
        let by_presets = self.method.contains(&Method::Deepcam) && self.thresholds.is_none();
        if let Some(caution) = caution_of_grid(archive.grid()).filter(|_| by_presets) {
            tracing::warn!("{caution}");
        }
        if self.method.iter().any(|method| method.draws_masks()) {
            input::say_axes(&archive);
        }
        Ok(archive)
    }

    /// Reads a file of thresholds with these tables; `None` without one.
    fn read_thresholds<T: serde::de::DeserializeOwned>(
        &self,
        tables: &str,
    ) -> anyhow::Result<Option<T>> {
        let Some(path) = &self.thresholds else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
        let read = toml::from_str(&text).map_err(|error| {
            let hint = format!(
                "every key is in docs/events.md, \"Thresholds of the label rules\"; here {tables}; what is left out has its default"
            );
            Advice::usage(format!("`{}`: {error}", path.display()), hint)
        })?;
        Ok(Some(read))
    }

    /// The numbers of the DeepCAM rules: from a file with these tables, or else the presets.
    fn deepcam_thresholds(&self) -> anyhow::Result<Thresholds> {
        if let Some(thresholds) = self.read_thresholds(deepcam::TABLES)? {
            return Ok(thresholds);
        }
        let river = if self.rivers == "relaxed" {
            ArThresholds::labels_1()
        } else {
            ArThresholds::labels_0()
        };
        let cyclone = TcThresholds::preset(&self.cyclones)?;
        Ok(Thresholds {
            cyclone,
            river,
            adapt_to_grid: !self.no_grid_scaling,
            ..Thresholds::default()
        })
    }

    /// Labels with deepcam, writes everything and returns what was found.
    pub fn label(&self) -> anyhow::Result<LabelSummary> {
        deepcam::label(self)
    }
}

/// Warns of classes without labels, because the times are too far apart for tracking, or else that tracks of cyclones
/// suffer.
fn warn_of_steps(times: &[Time], untrackable: &[Class], follows_cyclones: bool) {
    let names: Vec<&str> = untrackable.iter().map(|class| class.name()).collect();
    if let (Some(hours), false) = (usual_step_hours(times), names.is_empty()) {
        tracing::warn!(
            "times are mostly {hours} h apart, too far for tracks: no {} will be found, which does not mean that there is none",
            names.join(", no ")
        );
    } else if let Some(caution) = caution_of_steps(times).filter(|_| follows_cyclones) {
        tracing::warn!("{caution}");
    }
}

/// A caution about cyclones by the rules of deepcam on a coarse grid; `None` if it is fine enough.
pub fn caution_of_grid(grid: &LatLonGrid) -> Option<String> {
    let spacing_deg = grid.lat_spacing_deg();
    (spacing_deg > COARSE_GRID_DEG + 1e-6).then(|| {
        format!(
            "deepcam: rows are {spacing_deg:.2} degrees apart: on grids coarser than {COARSE_GRID_DEG} degrees its rules miss half of the cyclones or more, and `--method tempest` finds more of them (docs/events.md, \"Grids coarser than a quarter of a degree\")"
        )
    })
}

/// A caution about cyclones that were looked for at times so far apart; `None` if they are close enough.
pub fn caution_of_steps(times: &[Time]) -> Option<String> {
    let hours = usual_step_hours(times).filter(|hours| *hours >= LONG_STEP_HOURS)?;
    Some(format!(
        "times are mostly {hours} h apart: rules and tracks of cyclones are made for instants every 3 or 6 hours. Longer steps give other tracks; means over a day also hide strong winds and centres that move"
    ))
}

/// A fingerprint of everything that affects the labels, independent of the location of the fields: decisions about
/// fields follow from their files.
fn fingerprint(archive: &Archive, thresholds: &str) -> anyhow::Result<String> {
    let files = files_below(archive.paths());
    let times = archive.times();
    let ends = [times.first(), times.last()].map(|time| time.map(Time::to_string));
    let version = (env!("CARGO_PKG_VERSION"), METHOD);
    let fields = (archive.grid().hash(), archive.available());
    input::fingerprint(&(version, fields, files, times.len(), ends, thresholds))
}
