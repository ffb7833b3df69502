//! `squall report`: masks, events, tracks and scores on one page.

mod boxes;
mod command;
mod fields;
mod inputs;
mod masks;
mod movies;
mod places;
mod rules;
mod scores;

use crate::arguments::{MIN_CONFIDENCE, check_confidence, number};
use crate::commands::label::{caution_of_grid, caution_of_steps};
use crate::failure::Advice;
use crate::plan::{bytes, counted};
use crate::progress::Progress;
use crate::tags::Tags;
use crate::{input, interrupt, made_by};
use clap::Args;
use inputs::Inputs;
use masks::Masks;
use movies::Movies;
use places::movie_place;
use squall_climate::report::{
    self, Frame, MovieOptions, Provenance, ReportBuilder, ReportInput, ReportOptions,
};
use squall_data::{Archive, Class, DataError, Snapshot, Time, Variable};
use squall_jobs::metrics::{Metric, read_metrics};
use squall_jobs::{Recipe, RunDir};
use std::path::{Path, PathBuf};

/// Default heading.
const TITLE: &str = "Extreme weather";

fn times(text: &str) -> Result<usize, String> {
    number(text, |times: &usize| *times > 0, "1 time or more")
}

/// Parses the width of pictures, within the painter's limits.
fn movie_width(text: &str) -> Result<usize, String> {
    number(
        text,
        |width: &usize| (64..=8192).contains(width),
        "64 to 8192 pixels",
    )
}

/// Write one self-contained HTML page: maps with a time slider, the life of every event, statistics, scores, changes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall report labels:labels-events masks:events --fields run --out report.html\n  squall report truth=expert masks:events changes --fields run --training model"
)]
pub struct Report {
    /// Mask folders of one run from different sources (`squall label`, `squall infer`, the truth of `squall simulate`);
    /// the tables show the first. Append `:DIR` if the tables of `squall events` are in another folder. Prepend
    /// `heuristic=`, `network=`, `truth=` or `other=` if the source is not recorded (`truth=labels` for an expert's).
    /// Also folders of `squall compare` (one section each) and boxes: a folder of `squall infer` with a detector, or a
    /// file (.csv, .json, .h5), with `:DIR` appended for their tables of `squall events`.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<String>,
    #[command(flatten)]
    pub tags: Tags,
    /// Fields at the same times, shown under the masks.
    #[arg(long, value_name = "IN")]
    pub fields: Option<String>,
    /// Output page, .html or .htm.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
    /// Heading of the page.
    #[arg(long, value_name = "TEXT", default_value = TITLE)]
    pub title: String,
    /// Description of the run, in a sentence or two.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub about: String,
    /// Also write the maps as a movie, with masks, boxes and trails: an animated PNG if the name ends in .png or .apng,
    /// else a folder of numbered pictures; repeatable.
    #[arg(long, value_name = "FILE", value_parser = movie_place)]
    pub movie: Vec<PathBuf>,
    /// Width of movies, in pixels.
    #[arg(long, value_name = "PIXELS", value_parser = movie_width, default_value_t = MovieOptions::default().width)]
    pub movie_width: usize,
    /// Maximum number of times on the map, and of movie frames; the page says which times it has.
    #[arg(long, value_name = "N", value_parser = times, default_value_t = ReportOptions::default().max_frames)]
    pub frames: usize,
    /// Run of `squall train` to plot, loss and validation of all runs in one chart: a folder or NAME=FOLDER;
    /// repeatable.
    #[arg(long = "training", value_name = "RUN")]
    pub training: Vec<String>,
    /// Boxes: minimum confidence to be shown, joined to events and counted; boxes without a confidence count as
    /// certain.
    #[arg(long, value_name = "SHARE", default_value_t = MIN_CONFIDENCE)]
    pub min_confidence: f32,
    /// Recipe to show on the page: a file, or the name of a built-in recipe.
    #[arg(long, value_name = "RECIPE")]
    pub recipe: Option<PathBuf>,
}

impl Report {
    /// Writes the page.
    pub fn run(self) -> anyhow::Result<()> {
        let size = self.write()?;
        tracing::info!("{} ({})", self.out.display(), bytes(size));
        Ok(())
    }

    /// Writes the page and returns its size.
    pub fn write(&self) -> anyhow::Result<u64> {
        check_confidence(self.min_confidence)?;
        self.check_place()?;
        let recipe = self.recipe.as_deref().map(Recipe::text_of).transpose()?;
        let fields = self
            .fields
            .as_deref()
            .map(|fields| input::open_for(fields, false, &fields::SHOWN))
            .transpose()?;
        let inputs = Inputs::open(
            &self.folders,
            self.tags,
            fields.as_ref(),
            self.min_confidence,
        )?;
        self.keep_inputs(&inputs, fields.as_ref())?;
        let mut page = self.page(&inputs, fields.as_ref())?;
        page.recipe = recipe;
        let options = ReportOptions {
            max_frames: self.frames,
            ..ReportOptions::default()
        };
        let times = &inputs.times;
        let movie = MovieOptions {
            width: self.movie_width,
            ..MovieOptions::default()
        };
        let mut movies = Movies::begin(&self.movie, &page, movie, times.len(), self.frames)?;
        let mut builder = ReportBuilder::with_options(page, options)?;
        let mut progress = Progress::new("report", times.len());
        for (done, &time) in times.iter().enumerate() {
            interrupt::check_whole()?;
            let movies = movies.as_mut();
            add_frame((done, time), &inputs, fields.as_ref(), &mut builder, movies)?;
            progress.set(done + 1, String::new());
        }
        progress.finish();
        if let Some(movies) = movies {
            let pictures = movies.finish()?;
            for path in &self.movie {
                tracing::info!("{}: {pictures} pictures", path.display());
            }
        }
        Ok(builder.write(&self.out)?)
    }

    /// The contents of the page besides frames and a recipe: sources, scores, rules and notes.
    fn page(&self, inputs: &Inputs, fields: Option<&Archive>) -> anyhow::Result<ReportInput> {
        let masks = &inputs.masks;
        let mut page = ReportInput::new(&self.title, inputs.grid.clone());
        page.description = self.about.clone();
        // The first of the cautions: what follows may look better than it is.
        page.warnings
            .extend(masks.iter().filter_map(Masks::learnt_times));
        for one in masks {
            let told = one.archive.classes();
            let untold = Class::EVENTS.into_iter().filter(|c| !told.contains(c));
            page.not_looked_for
                .extend(untold.map(|class| (one.kind, class)));
            match one.source(inputs.calendar)? {
                Some(source) => page.sources.push(source.labelled(&one.label)),
                None => page.warnings.push(format!(
                    "No table of events of {} was given, so none are counted: `squall events` makes one of the masks in {}.",
                    one.in_sentence(),
                    one.folder
                )),
            }
            page.labels.push((one.kind, one.label.clone()));
            page.made_by.push((one.kind, one.made_by()));
            page.warnings.extend(one.other_times(&masks[0]));
        }
        if masks.iter().any(Masks::tells_cyclones) {
            let caution = caution_of_steps(&inputs.times);
            page.warnings.extend(caution.map(|caution| caution + "."));
        }
        if masks.iter().any(Masks::is_of_deepcam) {
            let caution = caution_of_grid(&inputs.grid);
            page.warnings.extend(caution.map(|caution| caution + "."));
        }
        if masks.iter().any(Masks::is_of_bard) {
            let caution = made_by::caution_of_percentiles(&inputs.grid);
            page.warnings.extend(caution.map(|caution| caution + "."));
        }
        // Boxes without tables may have the kind of another source.
        for one in inputs.boxes.iter().filter(|one| one.events.is_some()) {
            let untold = one.not_looked_for.iter();
            page.not_looked_for
                .extend(untold.map(|class| (one.shown.kind, *class)));
        }
        page.sources
            .extend(inputs.boxes.iter().filter_map(|one| one.events.clone()));
        let (of_masks, notes) = scores::scores(masks)?;
        page.scores = of_masks;
        page.remarks.extend(notes);
        let (of_boxes, notes) = boxes::scores(&inputs.boxes, self.min_confidence)?;
        page.scores.extend(of_boxes);
        page.warnings.extend(notes);
        page.boxes = inputs.boxes.iter().map(|one| one.shown.clone()).collect();
        page.comparisons = inputs.comparisons.clone();
        page.training = self
            .training
            .iter()
            .map(|run| curve(run))
            .collect::<anyhow::Result<_>>()?;
        page.generator = format!("squall {}", env!("CARGO_PKG_VERSION"));
        self.say_origins(inputs, fields, &mut page);
        page.commands = vec![self.command()];
        Ok(page)
    }

    /// Adds the origins of everything on the page, and related notes.
    fn say_origins(&self, inputs: &Inputs, fields: Option<&Archive>, page: &mut ReportInput) {
        page.provenance = vec![
            Provenance::new("grid", inputs.grid.describe()),
            Provenance::new("calendar", inputs.calendar.cf_name()),
            Provenance::new("times", inputs.times.len().to_string()),
        ];
        for one in &inputs.masks {
            page.provenance.push(Provenance::new(
                format!("masks: {}", one.label),
                format!("{} ({})", one.folder, one.archive.source()),
            ));
            page.provenance.extend(rules::provenance_of(one));
        }
        for one in &inputs.boxes {
            let (shown, all) = (one.shown.frames.boxes(), one.all.boxes());
            let number = if shown == all {
                counted(all, "box")
            } else {
                format!(
                    "{shown} of {}, those of a confidence of {} or more",
                    counted(all, "box"),
                    self.min_confidence
                )
            };
            page.provenance.push(Provenance::new(
                format!("boxes: {}", one.shown.label),
                format!("{} ({number})", one.file.display()),
            ));
            page.warnings.extend(one.all.notes.iter().cloned());
        }
        let compared = inputs.comparison_folders.iter();
        let compared = compared.map(|folder| Provenance::new("comparison", folder));
        page.provenance.extend(compared);
        if let Some(fields) = fields {
            fields::say(fields, &inputs.masks, page);
        }
    }
}

/// Adds the masks of a time to the page and the movies, with fields if they are shown.
fn add_frame(
    (index, time): (usize, Time),
    inputs: &Inputs,
    fields: Option<&Archive>,
    builder: &mut ReportBuilder,
    movies: Option<&mut Movies>,
) -> anyhow::Result<()> {
    let read = |one: &Masks| match one.archive.find(time) {
        Some(index) => {
            // One that is missing everywhere is none.
            let known = one.archive.read_known(index)?;
            Ok::<_, DataError>(known.map(|known| (one.kind, known)))
        }
        None => Ok(None),
    };
    let known: Vec<_> = (inputs.masks.iter())
        .filter_map(|one| read(one).transpose())
        .collect::<Result<_, _>>()?;
    let pictured = movies.as_ref().is_some_and(|movies| movies.want(index));
    let snapshot = match (fields, pictured || builder.keeps_next_frame()) {
        (Some(archive), true) => shown(archive, time)?,
        _ => None,
    };
    let plane = |variable| {
        snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.field(variable))
    };
    let frame = Frame {
        time,
        field: plane(Variable::Tmq),
        sea_level_pressure_pa: plane(Variable::Psl),
        wind_m_s: plane(Variable::U850).zip(plane(Variable::V850)),
        masks: (known.iter())
            .map(|(kind, known)| (*kind, known.mask.codes.view()))
            .collect(),
        missing: (known.iter())
            .filter_map(|(kind, known)| Some((*kind, known.missing.as_ref()?.view())))
            .collect(),
    };
    builder.add_frame(&frame)?;
    match movies {
        Some(movies) => movies.add(index, &frame),
        None => Ok(()),
    }
}

/// The fields shown on maps at a time, if any.
fn shown(archive: &Archive, time: Time) -> anyhow::Result<Option<Snapshot>> {
    let Some(index) = archive.find(time) else {
        return Ok(None);
    };
    let wanted = [Variable::Tmq, Variable::Psl, Variable::U850, Variable::V850];
    let wanted: Vec<Variable> = wanted
        .into_iter()
        .filter(|v| archive.available().contains(v))
        .collect();
    Ok(Some(archive.read(index, &wanted)?))
}

/// The metrics of a run, given as a folder or NAME=FOLDER.
fn curve(argument: &str) -> anyhow::Result<report::TrainingCurve> {
    let (name, folder) = match argument.split_once('=') {
        // A folder name may contain an equals sign.
        Some((name, folder)) if !Path::new(argument).is_dir() => {
            (name.to_string(), Path::new(folder))
        }
        _ => (argument.to_string(), Path::new(argument)),
    };
    let path = RunDir::metrics_of(folder);
    let metrics = read_metrics(&path)?;
    if metrics.is_empty() {
        let message = format!("`{}` has no step of a training", path.display());
        return Err(Advice::usage(
            message,
            "give the folder that `squall train --out` wrote",
        ));
    }
    let mut curve = report::TrainingCurve::new(name);
    for metric in metrics {
        match metric {
            Metric::Step {
                step,
                loss: Some(loss),
                ..
            } => curve.loss.push((step as f64, loss)),
            Metric::Validation { step, scores, .. } => {
                curve.score_name = scores.score_name().into();
                curve.score.push((step as f64, scores.score()))
            }
            Metric::Step { .. } | Metric::Update { .. } | Metric::Staleness { .. } => {}
        }
    }
    Ok(curve)
}

#[cfg(test)]
mod tests {
    use super::movie_width;

    #[test]
    fn widths_that_would_be_changed_are_refused() {
        assert_eq!(movie_width("64"), Ok(64));
        for text in ["0", "63", "8193", "-1", "wide"] {
            assert!(movie_width(text).is_err(), "{text}");
        }
    }
}
