//! `squall label --method`: several heuristics side by side, and how far they agree with each other and with other masks.

use super::label::{Label, Masks, rayon_threads};
use super::tags::Tags;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::{input, interrupt, output};
use serde::Serialize;
use squall_climate::detect::agreement::AgreementSource;
use squall_climate::detect::bard::read_members;
use squall_climate::detect::percentile::Moisture;
use squall_climate::detect::{
    Agreement, AgreementRow, DetectFields, Detector, DetectorThresholds, Method, detect_series,
};
use squall_climate::label::SeriesSummary;
use squall_climate::table::TableWriter;
use squall_climate::{ClimateError, Event};
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, Class, DataError, Variable};
use std::cell::RefCell;
use std::path::PathBuf;

/// What each method found, and their agreement.
#[derive(Debug, Serialize)]
struct MethodsSummary {
    methods: Vec<MethodSummary>,
    agreement: Vec<AgreementRow>,
}

/// What one method came to.
#[derive(Debug, Serialize)]
struct MethodSummary {
    method: Method,
    out: PathBuf,
    times: usize,
    cyclones: usize,
    rivers: usize,
    tracks: usize,
    untracked: bool,
}

/// Runs the methods and says what they found.
pub fn run(command: &Label) -> anyhow::Result<()> {
    let mut methods = command.method.clone();
    methods.sort_unstable();
    methods.dedup();
    if !command.formats.is_empty() {
        let advice = crate::failure::Advice::usage(
            "boxes come with `--method deepcam` alone",
            "leave out --boxes-hdf5, --boxes-coco and --boxes-geojson, or --method and --against"
                .to_string(),
        );
        return Err(advice);
    }
    let archive = input::open(&command.input, command.skip_bad)?;
    let thresholds = thresholds(command)?;
    let channels = channels(&methods, &thresholds, &archive)?;
    let detectors = methods
        .iter()
        .map(|method| Detector::new(*method, &thresholds, archive.grid()))
        .collect::<Result<Vec<Detector>, ClimateError>>()?;
    let against = Against::open(command.against.as_deref(), command.tags, &archive)?;
    let folders: Vec<PathBuf> = match methods.len() {
        1 => vec![command.out.clone()],
        _ => methods.iter().map(|m| command.out.join(m.name())).collect(),
    };
    announce(&methods, &archive, &channels);
    let times = archive.times().len();
    let passes = passes(&methods);
    let progress = RefCell::new(Progress::new("label", passes * times));
    let mut masks = Vec::with_capacity(methods.len());
    for (method, folder) in methods.iter().zip(&folders) {
        let numbers = numbers(*method, &thresholds)?;
        masks.push(Masks::new(folder.clone(), &archive, *method, numbers));
    }
    let table = |folder: &PathBuf| TableWriter::<Event>::create(folder.join("objects.csv"));
    let mut objects: Vec<_> = folders.iter().map(table).collect::<Result<_, _>>()?;
    let mut agreement = Agreement::new(against.sources(&methods));
    let stop = interrupt::flag();
    let read = |index: usize| -> Result<DetectFields, ClimateError> {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(ClimateError::Invalid("interrupted".into()));
        }
        Ok(DetectFields::read(&archive, index, &channels)?)
    };
    let show = |done: usize| progress.borrow_mut().set(done, String::new());
    let summaries = detect_series(&detectors, times, read, show, |index, labels| {
        let other = against.read(&archive, index)?;
        let drawn = labels.iter().map(|label| Some(&label.labelled.mask));
        let mut compared: Vec<_> = drawn.collect();
        if against.masks.is_some() {
            compared.push(other.as_ref());
        }
        agreement.add(&compared, archive.grid())?;
        for ((label, masks), objects) in labels.into_iter().zip(&mut masks).zip(&mut objects) {
            masks.write(index, &label.labelled)?;
            let mut rows = label.labelled.objects.iter();
            rows.try_for_each(|object| objects.write(object))?;
        }
        show((passes - 1) * times + index + 1);
        Ok(())
    });
    progress.into_inner().finish();
    interrupt::check()?;
    let summaries = summaries?;
    masks.into_iter().try_for_each(Masks::finish)?;
    objects.into_iter().try_for_each(TableWriter::finish)?;
    let compared = !agreement.rows().is_empty();
    if compared {
        agreement.write_csv(command.out.join("agreement.csv"))?;
    }
    let pairs = methods.iter().zip(folders).zip(summaries);
    let methods: Vec<MethodSummary> = pairs.map(|((m, out), s)| summary(*m, out, s)).collect();
    if command.json {
        return output::json(&MethodsSummary {
            methods,
            agreement: agreement.rows().to_vec(),
        });
    }
    for found in &methods {
        tracing::info!(
            "{}: {} times: {} cyclones on {} tracks, {} rivers; masks and objects.csv in {}",
            found.method,
            found.times,
            found.cyclones,
            found.tracks,
            found.rivers,
            found.out.display()
        );
        if found.untracked {
            tracing::warn!(
                "{}: the series is shorter than a cyclone must last: candidates stand untracked",
                found.method
            );
        }
    }
    if compared {
        output::text(&agreement)?;
    }
    Ok(())
}

fn summary(method: Method, out: PathBuf, found: SeriesSummary) -> MethodSummary {
    MethodSummary {
        method,
        out,
        times: found.times,
        cyclones: found.cyclones,
        rivers: found.rivers,
        tracks: found.tracks,
        untracked: found.untracked,
    }
}

/// The channels to read: what the methods cannot do without, and what else serves them.
fn channels(
    methods: &[Method],
    thresholds: &DetectorThresholds,
    archive: &Archive,
) -> anyhow::Result<Vec<Variable>> {
    let by_water = thresholds.percentile.moisture == Moisture::ColumnWater;
    let has_transport = archive.has_transport(0);
    let has_heights = archive.read_level(0, "Z", 300.0)?.is_some()
        && archive.read_level(0, "Z", 500.0)?.is_some();
    let mut wanted: Vec<Variable> = Vec::new();
    for method in methods {
        use Variable::{T200, T500, Tmq, U850, V850, Z200, Z1000};
        let replaced = |v: &Variable| {
            *method != Method::Deepcam
                && !(by_water && *method == Method::Percentile && *v == Tmq)
                && (has_transport && [Tmq, U850, V850].contains(v)
                    || has_heights && [T200, T500, Z200, Z1000].contains(v))
        };
        let needed: Vec<Variable> = method
            .channels()
            .iter()
            .copied()
            .filter(|v| !replaced(v))
            .collect();
        input::require(archive, &needed, &format!("labelling by {method}"))?;
        let all = method.channels().iter().chain(method.useful_channels());
        wanted.extend(all.filter(|v| archive.available().contains(v)));
    }
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

fn thresholds(command: &Label) -> anyhow::Result<DetectorThresholds> {
    let mut thresholds = match command.read_thresholds::<DetectorThresholds>()? {
        Some(thresholds) => thresholds,
        None => {
            let mut thresholds = DetectorThresholds {
                deepcam: command.deepcam_thresholds()?,
                ..DetectorThresholds::default()
            };
            thresholds.tempest.adapt_to_grid = !command.no_grid_scaling;
            thresholds
        }
    };
    if let Some(path) = &command.bard_members {
        thresholds.bard.members = read_members(path)?;
    }
    Ok(thresholds)
}

/// The numbers of one method, for the attributes of its files.
fn numbers(method: Method, thresholds: &DetectorThresholds) -> anyhow::Result<String> {
    Ok(match method {
        Method::Deepcam => serde_json::to_string(&thresholds.deepcam)?,
        Method::Tempest => serde_json::to_string(&thresholds.tempest)?,
        Method::Percentile => serde_json::to_string(&thresholds.percentile)?,
        Method::Bard => serde_json::to_string(&thresholds.bard)?,
    })
}

/// How often each time is read.
fn passes(methods: &[Method]) -> usize {
    if methods == [Method::Bard] { 1 } else { 2 }
}

fn announce(methods: &[Method], archive: &Archive, channels: &[Variable]) {
    let times = archive.times().len();
    let (rows, columns) = archive.grid().shape();
    let plane = (rows * columns * 4) as u64;
    let names: Vec<&str> = methods.iter().map(|m| m.name()).collect();
    let climatology = if methods.contains(&Method::Percentile) {
        230_000_000
    } else {
        0
    };
    Plan {
        work: format!(
            "label {times} times of {} by {}",
            archive.grid().describe(),
            names.join(", ")
        ),
        read: passes(methods) as u64 * plane * channels.len() as u64 * times as u64,
        write: plane / 40 * (times * methods.len()) as u64,
        memory: 80_000_000
            + climatology
            + 6 * rayon_threads() * plane * (channels.len() as u64 + 4),
        seconds: None,
    }
    .announce();
}

/// Masks of others, if any.
struct Against {
    masks: Option<MaskArchive>,
}

impl Against {
    fn open(path: Option<&str>, tags: Tags, archive: &Archive) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { masks: None });
        };
        let masks = tags.open(path)?;
        if masks.grid().hash() != archive.grid().hash() {
            let (expected, found) = (archive.grid().describe(), masks.grid().describe());
            return Err(DataError::Mismatch {
                what: "grid",
                path: path.into(),
                expected,
                found,
            }
            .into());
        }
        Ok(Self { masks: Some(masks) })
    }

    fn sources(&self, methods: &[Method]) -> Vec<AgreementSource> {
        let mut sources: Vec<AgreementSource> = methods
            .iter()
            .map(|method| AgreementSource {
                name: method.name().into(),
                classes: method.classes().to_vec(),
            })
            .collect();
        if self.masks.is_some() {
            sources.push(AgreementSource {
                name: "against".into(),
                classes: Class::EVENTS.to_vec(),
            });
        }
        sources
    }

    /// The mask of a time, if there is one.
    fn read(
        &self,
        archive: &Archive,
        index: usize,
    ) -> Result<Option<squall_data::ClassMask>, ClimateError> {
        let Some(masks) = &self.masks else {
            return Ok(None);
        };
        let time = archive.times()[index];
        let Some(at) = masks.find(time) else {
            return Ok(None);
        };
        let codes = masks.read(at)?.codes;
        Ok(Some(squall_data::ClassMask { time, codes }))
    }
}
