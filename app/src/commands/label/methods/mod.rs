//! `squall label --method`: runs several heuristics and reports how far they agree with each other and with other
//! masks.

mod labelling;
mod reader;
mod summary;

use super::against::Against;
use super::applied;
use super::climate;
use super::masks::Masks;
use super::ownership::Ownership;
use super::rules::Rules;
use super::warm_core::WARM_CORE;
use super::{Label, fingerprint, say_missing};
use crate::failure::Advice;
use crate::missing::Missing;
use crate::own_folder::{self, Holds};
use crate::plan::counted;
use crate::progress::Progress;
use crate::saving::Saving;
use crate::skipped::{self, Skipped};
use crate::{interrupt, output};
use labelling::Labelling;
use reader::Reader;
use squall_climate::detect::{
    Agreement, Detector, FirstPass, Method, MethodsFolder, MethodsState, SecondPass,
    TransportSource, UsableStates,
};
use squall_data::Archive;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use summary::{MethodsSummary, is_compared};

/// What lows say of warm cores where no fields tell them.
const NO_WARM_CORE: &str = "not told, for want of fields at all times (heights at 300 or 250 and 500 hPa, or T200, T500, Z200 \
                            and Z1000): tropical cyclones poleward of the tropics may be among the lows";

/// Runs the methods and says what they found.
pub fn run(command: &Label) -> anyhow::Result<()> {
    // Before files are opened, which may take minutes: the signal of a batch system would look like a crash.
    interrupt::flag();
    if !command.formats.is_empty() && command.method != [Method::Lows] {
        return Err(Advice::usage(
            "--boxes-hdf5, --boxes-coco and --boxes-geojson come with `--method deepcam` or `--method lows` alone",
            "leave them out, or the other methods, and with deepcam --against",
        ));
    }
    let archive = command.open_fields()?;
    command
        .formats
        .check(&archive.paths().collect::<Vec<_>>())?;
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
    let (owned, (folder, state)) = Ownership::take(&command.out, &fingerprint, &masks, || {
        rules.announce(&archive);
        let opened = open_state(command, &rules, &against, &masks, &fingerprint)?;
        let state = &opened.1;
        let continues = state.first.seen() + state.second.done() > 0;
        Ok((opened, continues))
    })?;
    let MethodsState {
        first,
        mut second,
        agreement,
    } = state;
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
        progress: begin(&archive, [first.seen(), second.done()]),
    };
    let labelled = labelling.label(first, &mut second);
    let Labelling {
        mut folder,
        masks,
        agreement,
        progress,
        ..
    } = labelling;
    progress.finish();
    let found = labelled?;
    say_missing(&reader.missing, &archive);
    let skipped_times = second.left_out().len();
    skipped::say(skipped_times, archive.times().len(), &command.input)?;
    write_boxes(command, &archive, &mut folder)?;
    conclude(&command.out, masks, &agreement, folder)?;
    owned.release();
    let left_out = (archive.skipped_files(), skipped_times);
    let summary = MethodsSummary::new(folders, &found, &agreement, left_out);
    if command.json {
        output::json(&summary)
    } else {
        summary.say(&agreement)
    }
}

/// The output folder of each method; a single method uses the folder itself.
fn folders(methods: &[Method], out: &Path) -> Vec<(Method, PathBuf)> {
    match methods {
        [only] => vec![(*only, out.to_path_buf())],
        _ => methods.iter().map(|m| (*m, out.join(m.name()))).collect(),
    }
}

/// The masks of each method, without any written yet.
fn open_masks<'a>(
    rules: &Rules,
    folders: &[(Method, PathBuf)],
    transport: Option<TransportSource>,
    archive: &'a Archive,
) -> anyhow::Result<Vec<Masks<'a>>> {
    let open = |(of, detector): (&(Method, PathBuf), &Detector)| -> anyhow::Result<Masks<'a>> {
        let (method, folder) = (of.0, of.1.clone());
        let masks = Masks::new(folder, archive, method, rules.numbers(method)?);
        let mut masks = applied::with_applied(masks, detector, rules, archive.grid())?;
        if method == Method::Percentile {
            masks = climate::with_climate(masks, rules.climate.as_ref());
        }
        match (method, rules.warm_core) {
            (Method::Tempest, Some(core)) => {
                tracing::info!("{method}: warm cores are told by {}", core.describe());
                masks = masks.saying(WARM_CORE, core.describe());
            }
            (Method::Lows, Some(core)) => {
                let left_out = format!("left out, told by {}", core.describe());
                tracing::info!("{method}: warm cores are {left_out}");
                masks = masks.saying(WARM_CORE, &left_out);
            }
            (Method::Lows, None) => {
                tracing::warn!("{method}: warm cores are {NO_WARM_CORE}");
                masks = masks.saying(WARM_CORE, NO_WARM_CORE);
            }
            (Method::Tempest, None) | (Method::Deepcam | Method::Percentile | Method::Bard, _) => {}
        }
        Ok(match transport {
            Some(source) if method.uses_transport() => {
                masks.saying("moisture_transport", source.describe())
            }
            _ => masks,
        })
    };
    // Folders and detectors are both in the order of the methods.
    folders.iter().zip(&rules.detectors).map(open).collect()
}

/// The folder of the state, both passes and the agreement: from a saved state if it is usable, otherwise at their
/// start.
fn open_state(
    command: &Label,
    rules: &Rules,
    against: &Against,
    masks: &[Masks<'_>],
    fingerprint: &str,
) -> anyhow::Result<(MethodsFolder, MethodsState)> {
    let new = MethodsState {
        first: FirstPass::new(&rules.detectors),
        second: SecondPass::new(&rules.detectors),
        agreement: Agreement::new(against.sources(&rules.methods)),
    };
    // A state with times skipped by --skip-bad is only usable with that option: otherwise these times are errors.
    let may_lack = |left_out: &BTreeSet<usize>| command.skip_bad || left_out.is_empty();
    let first = |first: &FirstPass| may_lack(first.left_out());
    let second = |second: &SecondPass| {
        let (done, left_out) = (second.done(), second.left_out());
        let mut masks = masks.iter();
        may_lack(left_out) && masks.all(|masks| masks.are_of(fingerprint, done, left_out))
    };
    let folders = folders(&rules.methods, &command.out);
    let usable = UsableStates { first, second };
    let opened = MethodsFolder::open(&command.out, fingerprint, &folders, new, usable)?;
    Ok(opened)
}

/// A text that differs whenever the masks or their comparison would: a saved state with another text is not resumed.
fn fingerprint_of(rules: &Rules, against: &Against, archive: &Archive) -> anyhow::Result<String> {
    let (thresholds, channels) = (&rules.thresholds, &rules.channels);
    let climate = rules.climate.as_ref();
    let climate = climate.map(|given| given.climatology.describe());
    let against = against.fingerprint();
    let core = rules.warm_core;
    let what = (&rules.methods, thresholds, channels, against, climate, core);
    fingerprint(archive, &format!("{what:?}"))
}

/// Makes the progress bar, which each pass starts, after logging where the work resumes; `seen` and `labelled` are the
/// times completed in each pass.
fn begin(archive: &Archive, [seen, labelled]: [usize; 2]) -> Progress {
    if seen + labelled > 0 {
        tracing::info!(
            "{} looked at and {labelled} labelled before: going on from there",
            counted(seen, "time")
        );
    }
    Progress::new("label", archive.times().len())
}

/// Writes the requested box files.
fn write_boxes(
    command: &Label,
    archive: &Archive,
    folder: &mut MethodsFolder,
) -> anyhow::Result<()> {
    if command.formats.is_empty() {
        return Ok(());
    }
    if let Some(table) = folder.boxes()? {
        let (grid, calendar) = (archive.grid(), archive.calendar());
        command.formats.write(&table, grid, calendar, |_| true)?;
    }
    Ok(())
}

/// Renames all outputs into place: masks, the table of agreement if there is something to compare, tables of objects.
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
    // The saved state is removed last: until all outputs exist, the same command can resume from it.
    Ok(folder.finish()?)
}
