//! `squall label --method`: several heuristics side by side, and how far they agree with each other and with other
//! masks.

use super::against::Against;
use super::climate;
use super::masks::{Masks, release};
use super::rules::Rules;
use super::{Label, fingerprint, say_missing};
use crate::failure::Advice;
use crate::missing::Missing;
use crate::own_folder::{self, Holds};
use crate::plan::counted;
use crate::progress::Progress;
use crate::saving::Saving;
use crate::skipped::{self, Skipped};
use crate::{interrupt, output};
use serde::Serialize;
use squall_climate::ClimateError;
use squall_climate::detect::percentile::MoistureRecord;
use squall_climate::detect::{
    Agreement, AgreementRow, Conclusions, DetectFields, FirstPass, Method, MethodLabels,
    MethodsFolder, SecondPass, TransportSource,
};
use squall_climate::label::{Pass, SeriesSummary};
use squall_data::{Archive, Class, DataError};
use squall_jobs::lock::FolderLock;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
    if !command.formats.is_empty() {
        return Err(Advice::usage(
            "boxes come with `--method deepcam` alone",
            "leave out --boxes-hdf5, --boxes-coco and --boxes-geojson, or --method and --against",
        ));
    }
    let archive = command.open_fields()?;
    let rules = Rules::of(command, &archive)?;
    let against = Against::open(command, &archive)?;
    let folders = folders(&rules.methods, &command.out);
    folders
        .iter()
        .try_for_each(|(_, folder)| own_folder::check(folder, Holds::Labels))?;
    let transport = rules.transport_source(&archive, command.skip_bad)?;
    let moisture = rules.moisture(&archive)?;
    let masks = open_masks(&rules, &folders, transport, &archive)?;
    let fingerprint = fingerprint_of(&rules, &against, &archive)?;
    let _lock = FolderLock::take(&command.out)?;
    masks
        .iter()
        .try_for_each(|masks| masks.check_folder(&fingerprint))?;
    rules.announce(&archive);
    let new = (
        FirstPass::new(&rules.detectors),
        SecondPass::new(&rules.detectors),
        Agreement::new(against.sources(&rules.methods)),
    );
    // What either pass left out with --skip-bad is an error without.
    let may_lack = |left_out: &BTreeSet<usize>| command.skip_bad || left_out.is_empty();
    let usable = |first: &FirstPass| may_lack(first.left_out());
    let whole = |second: &SecondPass| {
        let (done, left_out) = (second.done(), second.left_out());
        let mut masks = masks.iter();
        may_lack(left_out) && masks.all(|masks| masks.are_of(&fingerprint, done, left_out))
    };
    let checks = (usable, whole);
    let (folder, first, mut second, agreement) =
        MethodsFolder::open(&command.out, &fingerprint, &folders, new, checks)?;
    masks
        .iter()
        .try_for_each(|masks| masks.claim(&fingerprint))?;
    let reader = Reader {
        archive: &archive,
        rules: &rules,
        transport,
        moisture,
        missing: Missing::default(),
        skipped: Skipped::new(command.skip_bad, "is left out"),
    };
    let mut labelling = Labelling {
        rules: &rules,
        reader: &reader,
        against: &against,
        folder,
        masks,
        agreement,
        saving: Saving::every(command.save_every),
        progress: begin(&rules, &archive, [first.seen(), second.done()]),
    };
    // From here on a signal is heard.
    interrupt::flag();
    let labelled = labelling.label(first, &mut second);
    let Labelling {
        folder,
        masks,
        agreement,
        progress,
        ..
    } = labelling;
    progress.finish();
    let found = labelled?;
    say_missing(&reader.missing, &rules.methods);
    let skipped_times = second.left_out().len();
    skipped::say(skipped_times, archive.times().len(), &command.input)?;
    conclude(&command.out, masks, &agreement, folder)?;
    folders.iter().for_each(|(_, folder)| release(folder));
    let each = folders.into_iter().zip(found);
    let each = each.map(|((method, out), found)| MethodSummary::of(method, out, &found));
    let summary = MethodsSummary {
        methods: each.collect(),
        agreement: agreement.rows().to_vec(),
        skipped_files: archive.skipped_files(),
        skipped_times,
    };
    if command.json {
        output::json(&summary)
    } else {
        summary.say(&agreement)
    }
}

/// Where each method writes: one alone into the folder itself.
fn folders(methods: &[Method], out: &Path) -> Vec<(Method, PathBuf)> {
    match methods {
        [only] => vec![(*only, out.to_path_buf())],
        _ => methods.iter().map(|m| (*m, out.join(m.name()))).collect(),
    }
}

/// The masks of each method, none of them written yet.
fn open_masks<'a>(
    rules: &Rules,
    folders: &[(Method, PathBuf)],
    transport: Option<TransportSource>,
    archive: &'a Archive,
) -> anyhow::Result<Vec<Masks<'a>>> {
    let open = |(method, folder): &(Method, PathBuf)| -> anyhow::Result<Masks<'a>> {
        let mut masks = Masks::new(folder.clone(), archive, *method, rules.numbers(*method)?);
        if *method == Method::Percentile {
            masks = climate::said_of(masks, rules.climate.as_ref());
        }
        Ok(match transport {
            Some(source) if *method != Method::Deepcam => {
                masks.saying("moisture_transport", source.describe())
            }
            _ => masks,
        })
    };
    folders.iter().map(open).collect()
}

/// A name for whatever would change the masks or their comparison.
fn fingerprint_of(rules: &Rules, against: &Against, archive: &Archive) -> anyhow::Result<String> {
    let (thresholds, channels) = (&rules.thresholds, &rules.channels);
    let climate = rules.climate.as_ref();
    let climate = climate.map(|given| given.climatology.describe());
    let against = against.fingerprint();
    let what = (&rules.methods, thresholds, channels, against, climate);
    fingerprint(archive, &format!("{what:?}"))
}

/// Says from where the work goes on, and begins to show how far it is; `done` are the times that each pass has behind
/// it.
fn begin(rules: &Rules, archive: &Archive, done: [usize; 2]) -> Progress {
    let start: usize = done.iter().sum();
    if start > 0 {
        let [seen, labelled] = done;
        tracing::info!(
            "{} looked at and {labelled} labelled before: going on from there",
            counted(seen, "time")
        );
    }
    let total = rules.passes().len() * archive.times().len();
    let mut progress = Progress::new("label", total);
    progress.start(total, start);
    progress
}

/// Reads fields for the methods, and keeps what was met on the way.
struct Reader<'a> {
    archive: &'a Archive,
    rules: &'a Rules,
    transport: Option<TransportSource>,
    moisture: Option<MoistureRecord>,
    missing: Missing,
    skipped: Skipped,
}

impl Reader<'_> {
    /// The fields of a time; none if they cannot be read and may be left out.
    fn read(&self, index: usize, pass: Pass) -> Result<Option<DetectFields>, ClimateError> {
        interrupt::check()?;
        let wanted = self.rules.wanted(pass);
        // A time that is left out is so in both passes.
        let fields = (self.rules.check_has(self.archive, index))
            .and_then(|()| self.check_transport(index))
            .and_then(|()| DetectFields::read(self.archive, index, &wanted));
        let time = self.archive.times()[index];
        let Some(fields) = self.skipped.or_none(time, fields)? else {
            return Ok(None);
        };
        self.missing.note(&fields.snapshot);
        if let (Some(expected), true) = (self.transport, wanted.transport) {
            fields.check_transport(expected)?;
        }
        Ok(Some(fields))
    }

    /// Refuses a time without the transport that the files of others have, or with one that they lack.
    fn check_transport(&self, index: usize) -> Result<(), DataError> {
        let reason = match (self.transport, self.archive.has_transport(index)) {
            (Some(TransportSource::File), false) => {
                "it has no vapour transport, by which rivers are found"
            }
            (Some(TransportSource::Levels | TransportSource::Proxy), true) => {
                "it has vapour transport, which most times lack: rivers are found without it"
            }
            _ => return Ok(()),
        };
        let path = self.archive.source_of(index).0;
        Err(DataError::unreadable(path, reason))
    }

    /// How many times there are.
    fn times(&self) -> usize {
        self.archive.times().len()
    }
}

/// A labelling under way: what it reads, and what it writes as it goes.
struct Labelling<'a> {
    rules: &'a Rules,
    reader: &'a Reader<'a>,
    against: &'a Against,
    folder: MethodsFolder,
    masks: Vec<Masks<'a>>,
    agreement: Agreement,
    saving: Saving,
    progress: Progress,
}

impl Labelling<'_> {
    /// Goes on with both passes to their end; what each method came to.
    fn label(
        &mut self,
        first: FirstPass,
        second: &mut SecondPass,
    ) -> Result<Vec<SeriesSummary>, ClimateError> {
        let before = if first.is_needed() {
            self.reader.times()
        } else {
            0
        };
        let conclusions = self.first_pass(first, second.done() == 0)?;
        self.second_pass(second, &conclusions, before)?;
        Ok(second.summaries(&conclusions))
    }

    /// Looks at all times; `is_news` says that no state is there yet which needs the end of this pass.
    fn first_pass(
        &mut self,
        mut first: FirstPass,
        is_news: bool,
    ) -> Result<Conclusions, ClimateError> {
        let (rules, reader) = (self.rules, self.reader);
        let read = |index: usize, pass: Pass| reader.read(index, pass);
        first.run(&rules.detectors, reader.times(), &read, |pass| {
            self.progress.set(pass.seen(), String::new());
            if self.saving.is_due() {
                self.saving.save(|| self.folder.save_first(pass))
            } else {
                Ok(())
            }
        })?;
        if is_news && first.is_needed() {
            self.saving.save(|| self.folder.save_first(&first))?;
        }
        let conclusions = first.conclude(&rules.detectors)?;
        self.keep_climate(&conclusions)?;
        Ok(conclusions)
    }

    /// Saves the thresholds of percentile beside its masks, which say of which climate they are.
    fn keep_climate(&mut self, conclusions: &Conclusions) -> Result<(), ClimateError> {
        let Some(usual) = conclusions.percentiles() else {
            return Ok(());
        };
        let Reader {
            archive,
            transport,
            moisture,
            ..
        } = self.reader;
        let made_of = (*transport, moisture.as_ref());
        let climatology = climate::in_force(self.rules, archive, made_of, usual)?;
        let mut masks = self.masks.iter_mut();
        let own = masks.find(|masks| masks.method() == Method::Percentile);
        own.map_or(Ok(()), |masks| climate::keep(&climatology, masks))
    }

    /// Draws the masks of all times; `before` are the steps of the pass before.
    fn second_pass(
        &mut self,
        second: &mut SecondPass,
        conclusions: &Conclusions,
        before: usize,
    ) -> Result<(), ClimateError> {
        let (rules, reader) = (self.rules, self.reader);
        let read = |index: usize, pass: Pass| reader.read(index, pass);
        let (detectors, times) = (&rules.detectors, reader.times());
        second.run(
            detectors,
            conclusions,
            times,
            &read,
            |pass, index, labels| {
                self.write(index, labels.as_deref())?;
                self.progress.set(before + index + 1, String::new());
                // A file of masks that is not whole is begun again.
                if self.saving.is_due() && self.masks.iter().all(|masks| masks.ends_at(index)) {
                    self.masks.iter_mut().try_for_each(Masks::close)?;
                    let (folder, agreement) = (&mut self.folder, &self.agreement);
                    self.saving.save(|| folder.save_second(pass, agreement))?;
                }
                Ok(())
            },
        )
    }

    /// Compares and writes the labels of the next time; none of one that is left out.
    fn write(&mut self, index: usize, labels: Option<&[MethodLabels]>) -> Result<(), ClimateError> {
        if let Some(labels) = labels {
            let other = self.against.read(self.reader.archive, index)?;
            let drawn = labels.iter().map(|label| Some(&label.labelled.mask));
            let mut compared: Vec<_> = drawn.collect();
            if self.against.is_given() {
                compared.push(other.as_ref());
            }
            self.agreement.add(&compared, self.reader.archive.grid())?;
            self.folder.write(labels)?;
        }
        for (method, masks) in self.masks.iter_mut().enumerate() {
            let of_method = labels.map(|labels| &labels[method].labelled);
            masks.write(index, of_method)?;
        }
        Ok(())
    }
}

/// Gives everything its last name: masks, the table of agreement if there is something to compare, tables of objects.
fn conclude(
    out: &Path,
    masks: Vec<Masks<'_>>,
    agreement: &Agreement,
    folder: MethodsFolder,
) -> anyhow::Result<()> {
    masks.into_iter().try_for_each(Masks::finish)?;
    if is_compared(agreement) {
        agreement.write_csv(out.join("agreement.csv"))?;
    }
    // The state goes last: until all is there the run can go on.
    Ok(folder.finish()?)
}

fn is_compared(agreement: &Agreement) -> bool {
    !agreement.rows().is_empty()
}

impl MethodsSummary {
    /// Says what each method found, and prints how far they agree.
    fn say(&self, agreement: &Agreement) -> anyhow::Result<()> {
        self.methods.iter().for_each(MethodSummary::say);
        if is_compared(agreement) {
            output::text(agreement)
        } else {
            Ok(())
        }
    }
}

impl MethodSummary {
    fn of(method: Method, out: PathBuf, found: &SeriesSummary) -> Self {
        Self {
            method,
            out,
            times: found.times,
            cyclones: found.cyclones,
            rivers: found.rivers,
            tracks: found.tracks,
            untracked: found.untracked,
        }
    }

    fn say(&self) {
        let cyclones = if self.method.classes().contains(&Class::TropicalCyclone) {
            let [cyclones, tracks] = [(self.cyclones, "cyclone"), (self.tracks, "track")]
                .map(|(count, word)| counted(count, word));
            format!("{cyclones} on {tracks}, ")
        } else {
            String::new()
        };
        tracing::info!(
            "{}: {}: {cyclones}{}; masks and objects.csv in {}",
            self.method,
            counted(self.times, "time"),
            counted(self.rivers, "river"),
            self.out.display()
        );
        if self.method == Method::Tempest && self.rivers > 0 {
            tracing::info!(
                "{}: cells of one of these rivers touch at edges; `squall events`, and agreement.csv where there is one, also join \
                 them at corners, and may count fewer",
                self.method
            );
        }
        if self.untracked {
            tracing::warn!(
                "{}: the series is shorter than a cyclone must last: candidates stand untracked",
                self.method
            );
        }
    }
}
