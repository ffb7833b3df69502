//! Labels with the rules of deepcam alone: all reading is one stream, and boxes are produced, too.

use super::applied;
use super::masks::Masks;
use super::needed::instead_of_deepcam;
use super::ownership::Ownership;
use super::{Label, LabelSummary, fingerprint, say_missing, warn_of_steps};
use crate::failure::Advice;
use crate::made_by::THRESHOLDS_APPLIED;
use crate::missing::Missing;
use crate::plan::{Plan, counted};
use crate::progress::Progress;
use crate::saving::Saving;
use crate::skipped::{self, Skipped};
use crate::{input, interrupt};
use squall_climate::ClimateError;
use squall_climate::detect::Method;
use squall_climate::label::{
    LabelFolder, LabelStream, Labeller, Pass, REQUIRED_CHANNELS, SeriesSummary,
};
use squall_data::{Archive, BoxClass, Snapshot};

/// The tables in a file of thresholds for deepcam alone.
pub const TABLES: &str = "they are in [cyclone], [river], [extratropical] and [depression], and adapt_to_grid before them";

/// Labels, writes everything and returns what was found.
pub fn label(command: &Label) -> anyhow::Result<LabelSummary> {
    // Before files are opened, which may take minutes: the signal of a batch system would look like a crash.
    interrupt::flag();
    let archive = open(command)?;
    let thresholds = command.deepcam_thresholds()?;
    let labeller = Labeller::new(&thresholds, archive.grid().clone())?.of_times(archive.times());
    warn_of_steps(
        archive.times(),
        &labeller.untrackable(archive.times()),
        true,
    );
    let numbers = serde_json::to_string(&thresholds)?;
    let fingerprint = fingerprint(&archive, &numbers)?;
    command
        .formats
        .check(&archive.paths().collect::<Vec<_>>())?;
    let used = labeller.thresholds();
    let in_use = applied::on_grid(&thresholds, &used, used.adapt_to_grid, archive.grid())?;
    let masks = Masks::new(command.out.clone(), &archive, Method::Deepcam, numbers)
        .saying(THRESHOLDS_APPLIED, &in_use);
    let all = std::slice::from_ref(&masks);
    let (owned, (folder, stream)) = Ownership::take(&command.out, &fingerprint, all, || {
        announce(&archive);
        applied::say(&masks, &in_use);
        let opened = open_state(command, &labeller, &masks, &fingerprint)?;
        let continues = opened.1.done() > 0;
        Ok((opened, continues))
    })?;
    let mut labelling = Labelling {
        command,
        archive: &archive,
        labeller,
        masks,
        folder,
    };
    let found = labelling.label(stream)?;
    let Labelling {
        masks, mut folder, ..
    } = labelling;
    masks.finish()?;
    let boxes_left_out = write_boxes(command, &archive, &mut folder)?;
    folder.finish()?;
    owned.release();
    if found.untracked {
        tracing::warn!(
            "the series is shorter than the two days a cyclone must last: candidates stand untracked"
        );
    }
    Ok(summary(&found, &archive, boxes_left_out))
}

/// The fields, which must have what deepcam needs.
fn open(command: &Label) -> anyhow::Result<Archive> {
    let archive = command.open_fields()?;
    match input::require(&archive, &REQUIRED_CHANNELS, "labelling", command.skip_bad) {
        Ok(()) => Ok(archive),
        Err(error) => Err(with_other_methods(error, archive)),
    }
}

/// The folder of the state, and the series: from a saved state if it is usable, otherwise at its start.
fn open_state(
    command: &Label,
    labeller: &Labeller,
    masks: &Masks<'_>,
    fingerprint: &str,
) -> anyhow::Result<(LabelFolder, LabelStream)> {
    let opened = LabelFolder::open(&command.out, fingerprint, labeller.stream(), |stream| {
        // A state with times skipped by --skip-bad is only usable with that option: otherwise these times are errors.
        (command.skip_bad || stream.left_out().is_empty())
            && masks.are_of(fingerprint, stream.done(), stream.left_out())
    })?;
    Ok(opened)
}

/// A labelling in progress: its input and output.
struct Labelling<'a> {
    command: &'a Label,
    archive: &'a Archive,
    labeller: Labeller,
    masks: Masks<'a>,
    folder: LabelFolder,
}

impl Labelling<'_> {
    /// Labels the times that the series has not labelled yet, and returns what was found at all of them.
    fn label(&mut self, stream: LabelStream) -> anyhow::Result<SeriesSummary> {
        let (command, archive) = (self.command, self.archive);
        let (masks, folder) = (&mut self.masks, &mut self.folder);
        let (times, start) = (archive.times().len(), stream.done());
        if start > 0 {
            tracing::info!(
                "{} labelled before: going on from there",
                counted(start, "time")
            );
        }
        let mut progress = Progress::new("label", times);
        progress.start(times, start);
        let missing = Missing::default();
        let skipped = Skipped::new(command.skip_bad, "is left out");
        let read = |index: usize, pass: Pass| -> Result<Option<Snapshot>, ClimateError> {
            interrupt::check()?;
            // A skipped time is skipped in both passes.
            let snapshot = (archive.check_has(index, &REQUIRED_CHANNELS))
                .and_then(|()| archive.read_plausible(index, pass.channels()));
            let snapshot = skipped.or_none(archive.times()[index], snapshot)?;
            snapshot.iter().for_each(|snapshot| missing.note(snapshot));
            Ok(snapshot)
        };
        let mut saving = Saving::every(command.save_every);
        let labeller = &self.labeller;
        let labelled = labeller.label_on(stream, times, read, |stream, index, labelled| {
            masks.write(index, labelled.as_ref())?;
            labelled
                .iter()
                .try_for_each(|labelled| folder.write(labelled))?;
            progress.set(index + 1, String::new());
            // Only between files: an incomplete mask file is started again.
            if saving.is_due() && masks.ends_at(index) {
                masks.close()?;
                saving.save(|| folder.save(stream))?;
            }
            Ok(())
        });
        progress.finish();
        let found = labelled?;
        say_missing(&missing, archive);
        skipped::say(times - found.times, times, &command.input)?;
        Ok(found)
    }
}

/// Begins the hint about what is missing with the methods that do without.
fn with_other_methods(error: anyhow::Error, archive: Archive) -> anyhow::Error {
    match (error.downcast::<Advice>(), instead_of_deepcam(archive)) {
        (Ok(advice), Some(works)) => Advice {
            hint: format!("{works}. For `deepcam`: {}", advice.hint),
            ..advice
        }
        .into(),
        (Ok(advice), None) => advice.into(),
        (Err(error), _) => error,
    }
}

/// Logs what will be read and written.
fn announce(archive: &Archive) {
    let times = archive.times().len();
    let (rows, columns) = archive.grid().shape();
    let plane = (rows * columns * 4) as u64;
    let planes = [Pass::First, Pass::Second].map(|pass| pass.channels().len() as u64);
    let channels = REQUIRED_CHANNELS.len() as u64;
    Plan {
        work: format!(
            "label {} of {}",
            counted(times, "time"),
            archive.grid().describe()
        ),
        read: planes.iter().sum::<u64>() * plane * times as u64,
        write: plane / 40 * times as u64,
        memory: 80_000_000 + 6 * rayon::current_num_threads() as u64 * plane * channels,
        seconds: Some(times as f64 * (rows * columns) as f64 * 2.2e-7),
    }
    .announce();
}

/// Writes the requested box files; returns how many boxes did not fit into one of them.
fn write_boxes(
    command: &Label,
    archive: &Archive,
    folder: &mut LabelFolder,
) -> anyhow::Result<usize> {
    if command.formats.is_empty() {
        return Ok(0);
    }
    let (grid, calendar) = (archive.grid(), archive.calendar());
    let formats = &command.formats;
    formats.write(&folder.boxes()?, grid, calendar, |_| true)
}

fn summary(found: &SeriesSummary, archive: &Archive, boxes_left_out: usize) -> LabelSummary {
    LabelSummary {
        times: found.times,
        cyclones: found.cyclones,
        rivers: found.rivers,
        tracks: found.tracks,
        untracked: found.untracked,
        boxes: BoxClass::ALL
            .into_iter()
            .map(|class| (class.name(), found.boxes[usize::from(class.code())]))
            .collect(),
        boxes_left_out,
        skipped_files: archive.skipped_files(),
        skipped_times: archive.times().len() - found.times,
    }
}
