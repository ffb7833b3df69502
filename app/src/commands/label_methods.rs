//! `squall label --method`: several heuristics side by side, and how far they agree with each other and with other
//! masks.

use super::label::{Label, Masks, NOT_LABELLED, fingerprint, release};
use super::tags::{self, Tags};
use crate::input::{self, file_facts};
use crate::missing::Missing;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::saving::Saving;
use crate::skipped::{self, Skipped};
use crate::{interrupt, output};
use serde::Serialize;
use squall_climate::ClimateError;
use squall_climate::detect::agreement::AgreementSource;
use squall_climate::detect::bard::read_members;
use squall_climate::detect::percentile::Moisture;
use squall_climate::detect::{
    Agreement, AgreementRow, DetectFields, Detector, DetectorThresholds, FirstPass, Method,
    MethodsFolder, SecondPass, TransportSource, Wanted,
};
use squall_climate::label::{Pass, SeriesSummary};
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, Class, DataError, Variable};
use squall_jobs::lock::FolderLock;
use std::path::PathBuf;

/// Where a file of thresholds for other methods than deepcam alone has its keys.
const TABLES: &str =
    "they are under the method, as [deepcam.cyclone], [tempest.node], [percentile] and [bard]";

/// What each method found, and their agreement.
#[derive(Debug, Serialize)]
struct MethodsSummary {
    methods: Vec<MethodSummary>,
    agreement: Vec<AgreementRow>,
    /// Input files that could not be used (`--skip-bad`).
    skipped_files: usize,
    /// Times of the others whose data could not be read, which have no masks (`--skip-bad`).
    skipped_times: usize,
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
    let archive = command.open_fields()?;
    let thresholds = thresholds(command)?;
    let channels = channels(&methods, &thresholds, &archive)?;
    let detectors = methods
        .iter()
        .map(|method| Detector::new(*method, &thresholds, archive.grid()))
        .collect::<Result<Vec<Detector>, ClimateError>>()?;
    let against = Against::open(command, &archive)?;
    let folders: Vec<PathBuf> = match methods.len() {
        1 => vec![command.out.clone()],
        _ => methods.iter().map(|m| command.out.join(m.name())).collect(),
    };
    let moved = moved(&methods, &thresholds, &archive)?;
    let times = archive.times().len();
    let mut masks = Vec::with_capacity(methods.len());
    for (method, folder) in methods.iter().zip(&folders) {
        let numbers = numbers(*method, &thresholds)?;
        let of_method = Masks::new(folder.clone(), &archive, *method, numbers);
        masks.push(match moved {
            Some(source) if *method != Method::Deepcam => {
                of_method.saying("moisture_transport", source.describe())
            }
            _ => of_method,
        });
    }
    let named: Vec<(Method, PathBuf)> = methods.iter().copied().zip(folders.clone()).collect();
    let what = (&named, &thresholds, &channels, against.fingerprint());
    let fingerprint = fingerprint(&archive, &format!("{what:?}"))?;
    let new = (
        FirstPass::new(&detectors),
        SecondPass::new(&detectors),
        Agreement::new(against.sources(&methods)),
    );
    let _lock = FolderLock::take(&command.out)?;
    masks
        .iter()
        .try_for_each(|masks| masks.check_folder(&fingerprint))?;
    announce(&methods, &archive, &channels);
    let (mut folder, mut first, mut second, mut agreement) =
        MethodsFolder::open(&command.out, &fingerprint, &named, new, |second| {
            let mut masks = masks.iter();
            masks.all(|masks| masks.are_of(&fingerprint, second.done(), second.left_out()))
        })?;
    masks
        .iter()
        .try_for_each(|masks| masks.claim(&fingerprint))?;
    let start = first.seen() + second.done();
    if start > 0 {
        tracing::info!(
            "{} times were looked at and {} labelled before: going on from there",
            first.seen(),
            second.done()
        );
    }
    let mut progress = Progress::new("label", passes(&methods) * times);
    progress.start(passes(&methods) * times, start);
    // From here on a signal is heard.
    interrupt::flag();
    let missing = Missing::default();
    let skipped = Skipped::new(command.skip_bad, "is left out");
    let read = |index: usize, pass: Pass| -> Result<Option<DetectFields>, ClimateError> {
        interrupt::check_data()?;
        let wanted = Wanted::by(&methods, pass, &channels);
        let fields = DetectFields::read(&archive, index, &wanted);
        let Some(fields) = skipped.or_none(archive.times()[index], fields)? else {
            return Ok(None);
        };
        missing.note(&fields.snapshot);
        if let (Some(expected), true) = (moved, wanted.transport) {
            fields.check_transport(expected)?;
        }
        Ok(Some(fields))
    };
    let before = if first.is_needed() { times } else { 0 };
    let mut saving = Saving::every(command.save_every);
    let mut done = first.run(&detectors, times, &read, |pass| {
        progress.set(pass.seen(), String::new());
        match saving.is_due() {
            true => saving.save(|| folder.save_first(pass)),
            false => Ok(()),
        }
    });
    if done.is_ok() && second.done() == 0 && first.is_needed() {
        done = saving.save(|| folder.save_first(&first));
    }
    let conclusions = match done {
        Ok(()) => first.conclude(&detectors),
        Err(error) => Err(error),
    };
    let drawn = conclusions.and_then(|conclusions| {
        second.run(
            &detectors,
            &conclusions,
            times,
            &read,
            |pass, index, labels| {
                if let Some(labels) = &labels {
                    let other = against.read(&archive, index)?;
                    let drawn = labels.iter().map(|label| Some(&label.labelled.mask));
                    let mut compared: Vec<_> = drawn.collect();
                    if against.masks.is_some() {
                        compared.push(other.as_ref());
                    }
                    agreement.add(&compared, archive.grid())?;
                    folder.write(labels)?;
                }
                for (method, masks) in masks.iter_mut().enumerate() {
                    let of_method = labels.as_ref().map(|labels| &labels[method].labelled);
                    masks.write(index, of_method)?;
                }
                progress.set(before + index + 1, String::new());
                // A file of masks that is not whole is begun again.
                if saving.is_due() && masks.iter().all(|masks| masks.ends_at(index)) {
                    masks.iter_mut().try_for_each(Masks::close)?;
                    saving.save(|| folder.save_second(pass, &agreement))?;
                }
                Ok(())
            },
        )?;
        Ok(second.summaries(&conclusions))
    });
    progress.finish();
    let summaries = drawn?;
    missing.say(NOT_LABELLED);
    let skipped_times = second.left_out().len();
    skipped::say(skipped_times, times, &command.input)?;
    masks.into_iter().try_for_each(Masks::finish)?;
    let compared = !agreement.rows().is_empty();
    if compared {
        agreement.write_csv(command.out.join("agreement.csv"))?;
    }
    // The state goes last: until all is there the run can go on.
    folder.finish()?;
    folders.iter().for_each(|folder| release(folder));
    let pairs = methods.iter().zip(folders).zip(summaries);
    let methods: Vec<MethodSummary> = pairs.map(|((m, out), s)| summary(*m, out, s)).collect();
    if command.json {
        return output::json(&MethodsSummary {
            methods,
            agreement: agreement.rows().to_vec(),
            skipped_files: archive.skipped_files(),
            skipped_times,
        });
    }
    for found in &methods {
        let cyclones = match found.method.classes().contains(&Class::TropicalCyclone) {
            true => format!("{} cyclones on {} tracks, ", found.cyclones, found.tracks),
            false => String::new(),
        };
        tracing::info!(
            "{}: {} times: {cyclones}{} rivers; masks and objects.csv in {}",
            found.method,
            found.times,
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

/// By which moisture that moves rivers are found, if by any; says so.
fn moved(
    methods: &[Method],
    thresholds: &DetectorThresholds,
    archive: &Archive,
) -> anyhow::Result<Option<TransportSource>> {
    let by_water = thresholds.percentile.moisture == Moisture::ColumnWater;
    let moves = |method: &Method| match method {
        Method::Deepcam => false,
        Method::Percentile => !by_water,
        Method::Tempest | Method::Bard => true,
    };
    if !methods.iter().any(moves) {
        return Ok(None);
    }
    let source = TransportSource::of(archive, 0)?;
    tracing::info!("rivers are found by {}", source.describe());
    Ok(Some(source))
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
    let mut thresholds = match command.read_thresholds::<DetectorThresholds>(TABLES)? {
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
    let passes: &[Pass] = match passes(methods) {
        1 => &[Pass::Second],
        _ => &[Pass::First, Pass::Second],
    };
    let planes = passes
        .iter()
        .map(|pass| Wanted::by(methods, *pass, channels).channels.len() as u64);
    Plan {
        work: format!(
            "label {times} times of {} by {}",
            archive.grid().describe(),
            names.join(", ")
        ),
        read: planes.sum::<u64>() * plane * times as u64,
        write: plane / 40 * (times * methods.len()) as u64,
        memory: 80_000_000
            + climatology
            + 6 * rayon::current_num_threads() as u64 * plane * (channels.len() as u64 + 4),
        seconds: None,
    }
    .announce();
}

/// Masks of others, if any.
struct Against {
    masks: Option<MaskArchive>,
    tags: Tags,
    unread: Skipped,
}

impl Against {
    fn open(command: &Label, archive: &Archive) -> anyhow::Result<Self> {
        let tags = command.tags;
        let unread = Skipped::new(command.skip_bad, "is compared without a mask");
        let Some(path) = command.against.as_deref() else {
            let masks = None;
            return Ok(Self {
                masks,
                tags,
                unread,
            });
        };
        let masks = tags.open_with(path, input::bad_files(command.skip_bad))?;
        tags::say(&masks);
        if !masks.grid().same_as(archive.grid()) {
            let (expected, found) = (archive.grid().describe(), masks.grid().describe());
            return Err(DataError::Mismatch {
                what: "grid",
                path: path.into(),
                expected,
                found,
            }
            .into());
        }
        Ok(Self {
            masks: Some(masks),
            tags,
            unread,
        })
    }

    fn sources(&self, methods: &[Method]) -> Vec<AgreementSource> {
        let mut sources: Vec<AgreementSource> = methods
            .iter()
            .map(|method| AgreementSource {
                name: method.name().into(),
                classes: method.classes().to_vec(),
            })
            .collect();
        if let Some(masks) = &self.masks {
            sources.push(AgreementSource {
                name: "against".into(),
                classes: masks.classes(),
            });
        }
        sources
    }

    /// What tells these masks from others.
    fn fingerprint(&self) -> String {
        self.masks.as_ref().map_or(String::new(), |masks| {
            let files: Vec<_> = masks.paths().map(file_facts).collect();
            format!("{files:?} as {:?}", self.tags)
        })
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
        let mask = self.unread.or_none(time, masks.read(at))?;
        Ok(mask.map(|mask| squall_data::ClassMask { time, ..mask }))
    }
}
