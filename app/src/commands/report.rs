//! `squall report`: masks, events, tracks and scores on one page.

use crate::commands::score::{Score, Scores, table_of};
use crate::failure::Advice;
use crate::plan::bytes;
use crate::progress::Progress;
use crate::{input, interrupt};
use clap::Args;
use squall_climate::report::{
    self, Frame, ReportBuilder, ReportInput, ReportOptions, Source, SourceKind,
};
use squall_climate::{table, track};
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, Class, DataError, Variable};
use squall_jobs::RunDir;
use squall_jobs::metrics::{Metric, read_metrics};
use squall_validation::event_scores::EventScore;
use std::path::{Path, PathBuf};

/// Write one self-contained HTML page: maps with a time slider, tracks, statistics, scores.
#[derive(Debug, Args)]
pub struct Report {
    /// Folders of masks of one run by different sources (`squall label`, `squall infer`, the truth of `squall simulate`),
    /// each followed by `:DIR` with the tables of `squall events` if they lie elsewhere. The first is shown in tables.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<String>,
    /// Fields at the same times, shown under the masks.
    #[arg(long, value_name = "IN")]
    pub fields: Option<String>,
    /// The page.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
    /// Heading of the page.
    #[arg(long, default_value = "Extreme weather")]
    pub title: String,
    /// What was run, in a sentence or two.
    #[arg(long, default_value = "")]
    pub about: String,
    /// Most times kept on the map; the page says which.
    #[arg(long, default_value_t = ReportOptions::default().max_frames)]
    pub frames: usize,
    /// Runs of `squall train` whose loss and validation are drawn on one chart, each a folder or NAME=FOLDER; may be given again.
    #[arg(long = "training", value_name = "RUN")]
    pub training: Vec<String>,
    /// A recipe to show on the page.
    #[arg(long, value_name = "FILE")]
    pub recipe: Option<PathBuf>,
}

/// One source of masks.
struct Masks {
    kind: SourceKind,
    folder: String,
    tables: String,
    archive: MaskArchive,
}

impl Masks {
    fn open(argument: &str) -> anyhow::Result<Self> {
        let (folder, tables) = match argument.split_once(':') {
            Some((folder, tables)) => (folder.to_string(), tables.to_string()),
            None => (argument.to_string(), argument.to_string()),
        };
        let archive = MaskArchive::open(&folder)?;
        let kind = match archive.source() {
            source if source.contains("synthetic") => SourceKind::Truth,
            source if source.contains("training steps") => SourceKind::Network,
            _ => SourceKind::Heuristic,
        };
        Ok(Self {
            kind,
            folder,
            tables,
            archive,
        })
    }

    fn source(&self) -> anyhow::Result<Source> {
        let events = table_of(&self.tables, &self.archive)?.unwrap_or_default();
        let tracks = Path::new(&self.tables).join("tracks.csv");
        let tracks = match self.kind {
            // The truth's table of tracks has its own columns, but its objects know their tracks.
            SourceKind::Truth => track::from_events(&events),
            _ if tracks.is_file() => table::read_tracks(&tracks, self.archive.calendar())?,
            _ => Vec::new(),
        };
        Ok(Source::new(self.kind, events, tracks))
    }

    fn score_against(&self, truth: &Self) -> anyhow::Result<Scores> {
        let listed = ["events.csv", "objects.csv"].map(|name| Path::new(&self.tables).join(name));
        let events = listed
            .into_iter()
            .find(|path| path.is_file())
            .map(|path| path.to_string_lossy().into_owned());
        Score::of_masks(self.folder.clone(), truth.folder.clone(), events).score()
    }
}

impl Report {
    /// Writes the page.
    pub fn run(self) -> anyhow::Result<()> {
        let size = self.write()?;
        tracing::info!("{} ({})", self.out.display(), bytes(size));
        Ok(())
    }

    /// Writes the page and gives its size.
    pub fn write(&self) -> anyhow::Result<u64> {
        let masks = self
            .folders
            .iter()
            .map(|folder| Masks::open(folder))
            .collect::<anyhow::Result<Vec<_>>>()?;
        for (index, one) in masks.iter().enumerate() {
            if masks[..index].iter().any(|other| other.kind == one.kind) {
                let message = format!(
                    "`{}` is a second source of the kind `{}`",
                    one.folder,
                    one.kind.name()
                );
                return Err(Advice::usage(
                    message,
                    "a page shows one heuristic, one network and one truth",
                ));
            }
            if one.archive.grid().hash() != masks[0].archive.grid().hash() {
                let (expected, found) = (
                    masks[0].archive.grid().describe(),
                    one.archive.grid().describe(),
                );
                return Err(DataError::Mismatch {
                    what: "grid",
                    path: one.folder.clone().into(),
                    expected,
                    found,
                }
                .into());
            }
        }
        let fields = self
            .fields
            .as_deref()
            .map(|fields| input::open(fields, false))
            .transpose()?;
        let page = self.page(&masks, fields.as_ref())?;
        let options = ReportOptions {
            max_frames: self.frames,
            ..ReportOptions::default()
        };
        let mut builder = ReportBuilder::with_options(page, options)?;
        let times = masks[0].archive.times();
        let mut progress = Progress::new("report", times.len());
        for (done, &time) in times.iter().enumerate() {
            interrupt::check()?;
            let read = |one: &Masks| match one.archive.find(time) {
                Some(index) => Ok::<_, DataError>(Some((one.kind, one.archive.read(index)?))),
                None => Ok(None),
            };
            let codes: Vec<_> = masks
                .iter()
                .filter_map(|one| read(one).transpose())
                .collect::<Result<_, _>>()?;
            let snapshot = match (&fields, builder.keeps_next_frame()) {
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
                masks: codes
                    .iter()
                    .map(|(kind, mask)| (*kind, mask.codes.view()))
                    .collect(),
            };
            builder.add_frame(&frame)?;
            progress.set(done + 1, String::new());
        }
        progress.finish();
        Ok(builder.write(&self.out)?)
    }

    fn page(&self, masks: &[Masks], fields: Option<&Archive>) -> anyhow::Result<ReportInput> {
        let mut page = ReportInput::new(&self.title, masks[0].archive.grid().clone());
        page.description = self.about.clone();
        page.sources = masks
            .iter()
            .map(Masks::source)
            .collect::<anyhow::Result<_>>()?;
        page.scores = scores(masks)?;
        page.training = self
            .training
            .iter()
            .map(|run| curve(run))
            .collect::<anyhow::Result<_>>()?;
        page.generator = format!("squall {}", env!("CARGO_PKG_VERSION"));
        page.recipe = self
            .recipe
            .as_ref()
            .map(std::fs::read_to_string)
            .transpose()
            .map_err(|source| DataError::Io {
                action: "read",
                path: self.recipe.clone().unwrap_or_default(),
                source,
            })?;
        let archive = &masks[0].archive;
        page.provenance = vec![
            ("grid".into(), archive.grid().describe()),
            ("calendar".into(), archive.calendar().cf_name().into()),
            ("times".into(), archive.times().len().to_string()),
        ];
        for one in masks {
            page.provenance.push((
                format!("masks: {}", one.kind.name()),
                format!("{} ({})", one.folder, one.archive.source()),
            ));
        }
        if let Some(fields) = fields {
            let (first, _) = fields.source_of(0);
            page.provenance.push((
                "fields".into(),
                format!("{} files, first {}", fields.file_count(), first.display()),
            ));
            page.warnings.extend(fields.problems().iter().cloned());
        }
        let fields = self
            .fields
            .as_ref()
            .map(|fields| format!(" --fields {fields}"))
            .unwrap_or_default();
        let training: String = (self.training.iter())
            .map(|run| format!(" --training '{run}'"))
            .collect();
        page.commands = vec![format!(
            "squall report {}{fields}{training} --out {}",
            self.folders.join(" "),
            self.out.display()
        )];
        Ok(page)
    }
}

fn shown(
    archive: &Archive,
    time: squall_data::Time,
) -> anyhow::Result<Option<squall_data::Snapshot>> {
    let Some(index) = archive.times().iter().position(|&known| known == time) else {
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
        // A folder may have the sign in its name.
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
                curve.score.push((step as f64, scores.score()))
            }
            Metric::Step { .. } | Metric::Update { .. } | Metric::Staleness { .. } => {}
        }
    }
    Ok(curve)
}

/// Every pair of sources, the truth or the heuristic judging.
fn scores(masks: &[Masks]) -> anyhow::Result<Vec<report::Score>> {
    let of = |kind: SourceKind| masks.iter().find(|one| one.kind == kind);
    let pairs = [
        (SourceKind::Network, SourceKind::Heuristic),
        (SourceKind::Heuristic, SourceKind::Truth),
        (SourceKind::Network, SourceKind::Truth),
    ];
    let mut all = Vec::new();
    for (judged, judge) in pairs {
        let (Some(judged), Some(judge)) = (of(judged), of(judge)) else {
            continue;
        };
        let group = format!("{} against {}", judged.kind.name(), judge.kind.name());
        all.extend(lines(&group, &judged.score_against(judge)?));
    }
    Ok(all)
}

fn lines(group: &str, scores: &Scores) -> Vec<report::Score> {
    let share = |name: String, value: Option<f64>, meaning: &str| {
        report::Score::fraction(group, name, value.unwrap_or(f64::NAN), meaning)
    };
    let pixels = &scores.pixels;
    let mut lines = vec![
        share(
            "mean IoU".into(),
            Some(pixels.mean_iou),
            "overlap divided by union, over all pixels, mean over the classes",
        ),
        share(
            "mean IoU by area".into(),
            Some(pixels.area_weighted_mean_iou),
            "the same with pixels weighted by their area",
        ),
        share(
            "mean IoU per time".into(),
            Some(pixels.sample_mean_iou),
            "MLPerf HPC's rule: each time alone, an absent class counting 1; the benchmark's target is 0.82",
        ),
    ];
    for class in pixels
        .classes
        .iter()
        .filter(|score| score.class != Class::Background)
    {
        lines.push(share(
            format!("IoU, {}", words(class.class)),
            class.iou,
            "over the pixels of this class",
        ));
    }
    for event in &scores.events.classes {
        let name = words(event.class);
        let (pod, far) = (with_interval(event, true), with_interval(event, false));
        lines.push(share(
            format!("POD, {name}"),
            event.pod,
            &format!("share of the judge's objects that were found{pod}"),
        ));
        lines.push(share(
            format!("FAR, {name}"),
            event.far,
            &format!("share of the objects that the judge does not have{far}"),
        ));
        if let Some(km) = event.mean_distance_km {
            lines.push(report::Score::number(
                group,
                format!("distance, {name}"),
                km,
                "km",
                "mean, between centres of the same object",
            ));
        }
    }
    lines
}

fn with_interval(score: &EventScore, pod: bool) -> String {
    let interval = if pod {
        &score.pod_interval
    } else {
        &score.far_interval
    };
    interval.as_ref().map_or(String::new(), |i| {
        format!(" (95 % interval {:.2} to {:.2})", i.low, i.high)
    })
}

fn words(class: Class) -> &'static str {
    match class {
        Class::Background => "background",
        Class::TropicalCyclone => "tropical cyclones",
        Class::AtmosphericRiver => "atmospheric rivers",
    }
}
