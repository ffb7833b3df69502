//! Prepares inputs for commands: opens them, reports how they were interpreted, and rejects incomplete ones.

use crate::failure::Advice;
use anyhow::Context;
use serde::Serialize;
use squall_data::archive::BadFiles;
use squall_data::facts::FileFacts;
use squall_data::mask_file::{About, MaskArchive};
use squall_data::{Archive, Calendar, DataError, LatLonGrid, Time, Variable};
use squall_jobs::comm::Communicator;
use squall_jobs::infer::{TRAINING_TIMES, open_archive};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Opens fields for a command that uses some channels, and warns about everything of theirs that was skipped, guessed or
/// replaced.
pub fn open_for(input: &str, skip_bad: bool, used: &[Variable]) -> anyhow::Result<Archive> {
    open_needing(input, skip_bad, used, Archive::most_together)
}

/// [`open_for`] for a command that cannot do without some channels: times that have none of these are not times of its
/// input.
pub fn open_needing(
    input: &str,
    skip_bad: bool,
    used: &[Variable],
    needed: impl FnOnce(&Archive) -> Vec<Variable>,
) -> anyhow::Result<Archive> {
    let mut archive = Archive::open_with(input, bad_files(skip_bad))?;
    let needed = needed(&archive);
    if let Some(told) = archive.leave_out_times_without(&needed) {
        tracing::warn!("{told}");
    }
    warn_of(&archive, used);
    Ok(archive)
}

fn warn_of(archive: &Archive, used: &[Variable]) {
    for problem in archive.problems_of(used) {
        tracing::warn!("{problem}");
    }
}

/// [`open_for`] on all ranks of a job, each of which opens some of the files; the first one warns.
pub fn open_together(
    comm: &mut dyn Communicator,
    input: &str,
    skip_bad: bool,
    used: &[Variable],
) -> anyhow::Result<Archive> {
    if comm.size() == 1 {
        return open_for(input, skip_bad, used);
    }
    let mut archive = open_archive(comm, input, bad_files(skip_bad))?;
    let needed = archive.most_together();
    let told = archive.leave_out_times_without(&needed);
    if comm.rank() == 0 {
        if let Some(told) = told {
            tracing::warn!("{told}");
        }
        warn_of(&archive, used);
    }
    Ok(archive)
}

/// The last part of a path.
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A folder's absolute path, however it was given; `None` if it does not exist.
pub fn absolute_folder(path: &Path) -> Option<PathBuf> {
    // The parent of a file in the working directory.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    path.canonicalize().ok()
}

/// Rejects output among the input fields: the next run would read it along with them.
pub fn keep_apart(archive: &Archive, out: &Path) -> anyhow::Result<()> {
    let folders: BTreeSet<&Path> = archive.paths().filter_map(Path::parent).collect();
    let Some(out_folder) = absolute_folder(out) else {
        return Ok(());
    };
    if folders
        .into_iter()
        .any(|path| absolute_folder(path).as_ref() == Some(&out_folder))
    {
        return Err(Advice::usage(
            format!("--out {} holds the fields that are read", out.display()),
            "choose another folder: what is written there would be read with them the next time",
        ));
    }
    Ok(())
}

/// Rejects an output that is one of the inputs.
pub fn keep_inputs(inputs: &[&Path], out: &Path) -> anyhow::Result<()> {
    let Ok(whole) = out.canonicalize() else {
        return Ok(()); // not there yet
    };
    let is_out = |path: &&&Path| path.canonicalize().is_ok_and(|path| path == whole);
    match inputs.iter().find(is_out) {
        Some(path) => Err(Advice::usage(
            format!("`{}` is read, and would be replaced", path.display()),
            "choose another name for what is written",
        )),
        None => Ok(()),
    }
}

/// Whether the times of two axes are in one calendar, or all of them since the two Gregorian ones coincide.
pub fn are_of_one_calendar(times: &[Time], others: &[Time]) -> bool {
    let are_known_to = |times: &[Time], others: &[Time]| match others.first() {
        Some(other) => (times.iter()).all(|time| time.instant_in(other.calendar()).is_some()),
        None => true,
    };
    are_known_to(times, others) && are_known_to(others, times)
}

/// Rejects a calendar whose dates are not the same days as in the expected one.
pub fn same_dates(input: &str, found: Calendar, expected: Calendar) -> Result<(), DataError> {
    if found.has_dates_of(expected) {
        return Ok(());
    }
    Err(DataError::mismatch("calendar", input, expected, found))
}

/// Rejects a grid other than the expected one; `what` describes its origin.
pub fn same_grid(
    what: &'static str,
    input: &str,
    found: &LatLonGrid,
    expected: &LatLonGrid,
) -> Result<(), DataError> {
    if found.same_as(expected) {
        return Ok(());
    }
    let [expected, found] = expected.describe_beside(found);
    Err(DataError::mismatch(what, input, expected, found))
}

/// Rejects masks without any time of the fields; both come with their names for messages.
pub fn some_times(
    (input, masks): (&str, &MaskArchive),
    (fields_input, fields): (&str, &Archive),
) -> Result<(), DataError> {
    let mut times = fields.times().iter();
    if times.any(|time| masks.find(*time).is_some()) {
        return Ok(());
    }
    let count = masks.times().len();
    let reason = format!("none of its {count} masks is at a time of `{fields_input}`");
    Err(DataError::no_input(input, reason))
}

/// Attribute of mask files: their source file or a description.
pub const ORIGIN: &str = "squall_input";

/// The recorded source of a mask file.
fn origin_of(path: &Path) -> Option<String> {
    About::read(path).ok()?.attributes.remove(ORIGIN)
}

/// How many times of masks their network was trained on, such as `1160 of 1460`, as far as their files say; `index` is
/// that of one of them.
pub fn training_times(masks: &MaskArchive, index: usize) -> Option<String> {
    let about = About::read(masks.source_of(index)).ok();
    about.and_then(|mut about| about.attributes.remove(TRAINING_TIMES))
}

/// Warns if masks are at times that their network was trained on; `index` is that of one of them.
pub fn warn_of_training_times(input: &str, masks: &MaskArchive, index: usize) {
    if let Some(times) = training_times(masks, index) {
        tracing::warn!(
            "{times} times of `{input}` were its network's training: scores there say little about other weather (`squall infer STORE --split test` leaves them out)"
        );
    }
}

/// Warns if the recorded source files of masks are not among the fields: two runs may have the same times.
pub fn compare_origin(masks: &MaskArchive, fields: &Archive) {
    let paths: Vec<&Path> = masks.paths().collect();
    // The fields may cover only some of the times.
    let looked_at = [0, paths.len() / 2, paths.len().saturating_sub(1)];
    let told = looked_at.iter().filter_map(|at| {
        let path = *paths.get(*at)?;
        Some((path, origin_of(path)?))
    });
    let told: Vec<(&Path, String)> = told.collect();
    let names: Vec<_> = fields.paths().filter_map(Path::file_name).collect();
    if let (Some((path, origin)), false) = (
        told.first(),
        told.iter().any(|(_, one)| is_among(one, &names)),
    ) {
        tracing::warn!(
            "`{}` was made of `{origin}`, and the fields are other files, such as `{}`: are they of the same run?",
            path.display(),
            names
                .first()
                .map(|name| name.to_string_lossy())
                .unwrap_or_default()
        );
    }
}

/// Warns if masks of the same times have different recorded sources: they may belong to two runs.
pub fn compare_origins(predicted: &MaskArchive, truth: &MaskArchive, shared: &[(usize, usize)]) {
    let told = |masks: &MaskArchive, index: usize| {
        origin_of(masks.source_of(index)).filter(|origin| origin.contains(".nc"))
    };
    let looked_at = [0, shared.len() / 2, shared.len().saturating_sub(1)];
    let pairs = looked_at.iter().filter_map(|at| shared.get(*at));
    let origins: Vec<(String, String)> = pairs
        .filter_map(|&(p, t)| told(predicted, p).zip(told(truth, t)))
        .collect();
    let share_a_file = |(a, b): &(String, String)| {
        let names = |text: &str| -> Vec<String> {
            let words = text.split([' ', ',', ';', '\n', '`']);
            words
                .filter(|word| word.ends_with(".nc"))
                .map(str::to_string)
                .collect()
        };
        let (a, b) = (names(a), names(b));
        a.is_empty() || b.is_empty() || a.iter().any(|name| b.contains(name))
    };
    if let (Some((a, b)), false) = (origins.first(), origins.iter().any(share_a_file)) {
        tracing::warn!(
            "the masks that are scored were made of `{a}`, those that judge of `{b}`: are they of the same run?"
        );
    }
}

/// Whether a mask's recorded source is one of these files, or not a file at all.
fn is_among(told: &str, names: &[&OsStr]) -> bool {
    !told.contains(".nc") || (names.iter()).any(|name| told.contains(&*name.to_string_lossy()))
}

/// The handling of bad files that `--skip-bad` selects.
pub fn bad_files(skip_bad: bool) -> BadFiles {
    if skip_bad {
        BadFiles::Skip
    } else {
        BadFiles::Fail
    }
}

/// Maximum number of a time's files named in a message.
const MOST_FILES: usize = 3;

/// Rejects input that lacks channels, naming all of them and the first time without them.
///
/// If incomplete times may be skipped (`--skip-bad`), only channels that exist at no time are missing.
pub fn require(
    archive: &Archive,
    needed: &[Variable],
    purpose: &str,
    skip_bad: bool,
) -> anyhow::Result<()> {
    let all = archive.times().len();
    let enough = if skip_bad { 1 } else { all };
    let with = |v: &Variable| archive.times_with(*v);
    let missing: Vec<Variable> = (needed.iter().copied())
        .filter(|v| with(v) < enough)
        .collect();
    let Some(index) = archive.first_without(&missing) else {
        return Ok(());
    };
    let files = archive.files_at(index).map(|path| path.display());
    let mut files: Vec<String> = files.map(|path| format!("`{path}`")).collect();
    // CMIP has one file per variable.
    if let Some(more) = files.len().checked_sub(MOST_FILES).filter(|more| *more > 1) {
        files.truncate(MOST_FILES);
        files.push(format!("{more} more files"));
    }
    let (never, sometimes): (Vec<Variable>, Vec<Variable>) =
        missing.iter().copied().partition(|v| with(v) == 0);
    let lacking = match never.is_empty() || sometimes.is_empty() {
        true => names(&missing),
        false => format!(
            "{}, which no time has, and {}, which some times lack",
            names(&never),
            names(&sometimes)
        ),
    };
    // The first time may be one of files that have no field on levels at all.
    let on_other_levels = (0..all).find_map(|index| archive.levels_instead(index, &never));
    let has_all = |index: usize| needed.iter().all(|v| archive.offers(index, *v));
    let never_together = needed.iter().all(|v| with(v) > 0) && !(0..all).any(has_all);
    Err(Advice::input(
        format!(
            "{purpose} needs {lacking}; the first time without is {}, in {} (found at every time: {})",
            archive.times()[index],
            files.join(" and "),
            names(archive.available())
        ),
        if never_together {
            "no time has all of them, because files of some have other times than those of others: means stand at the middle of their intervals where other fields stand at full hours (CMIP's 3-hourly `pr`); `cdo shifttime` moves times".to_string()
        } else if never.is_empty() {
            "`squall inspect` lists what each make of file has; --skip-bad leaves out times that are incomplete".to_string()
        } else if let Some(levels) = on_other_levels {
            format!(
                "the files have {levels}; nothing is interpolated between levels: bring fields on model levels to those of pressure that the names of channels tell first (`cdo ml2pl`). docs/input.md has what each method needs"
            )
        } else {
            "`squall inspect` lists every variable and what it serves as".to_string()
        },
    ))
}

/// Lists names of channels for a sentence.
fn names(channels: &[Variable]) -> String {
    let names: Vec<&str> = channels.iter().map(|v| v.name()).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// The channels in a list of names, or those available in an archive.
///
/// Without names, those that every time has; if incomplete times may be skipped, those that most times have. Warns
/// about dropped channels that some times have.
///
/// # Errors
/// Names of no channel; without names, an archive of which no channel is kept.
pub fn channels(
    asked: &[String],
    archive: &Archive,
    skip_bad: bool,
) -> anyhow::Result<Vec<Variable>> {
    let known = |name: &String| {
        Variable::from_name(&name.to_ascii_uppercase()).ok_or_else(|| {
            Advice::usage(
                format!("`{name}` is no channel"),
                format!("the channels are {}", names(&Variable::CHANNELS)),
            )
        })
    };
    if !asked.is_empty() {
        return asked.iter().map(known).collect();
    }
    let all = archive.times().len();
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for variable in Variable::CHANNELS {
        match archive.times_with(variable) {
            0 => {}
            some if some == all || skip_bad && 2 * some > all => kept.push(variable),
            _ => left_out.push(variable),
        }
    }
    if kept.is_empty() {
        return Err(without_channels(&left_out, all));
    }
    // The archive's problems already say how many times lack it, and which is the first.
    if !left_out.is_empty() {
        let why = if skip_bad {
            "at half of the times or more missing"
        } else {
            "missing at some times; --skip-bad leaves out such times instead"
        };
        tracing::warn!("without {}: {why}", names(&left_out));
    }
    Ok(kept)
}

/// The error for an archive of which no channel can be kept, because its times are not of one kind.
fn without_channels(at_some: &[Variable], times: usize) -> anyhow::Error {
    if at_some.is_empty() {
        return Advice::input(
            format!("none of the sixteen channels is there, at any of {times} times"),
            "`squall inspect` lists every variable and what it serves as",
        );
    }
    Advice::input(
        format!(
            "no channel is at all of the {times} times: {} are at some of them",
            names(at_some)
        ),
        "files of some have other times than those of others: a mean over an interval stands at its middle (CMIP's `pr`), other fields stand at full hours. Leave such files out, or move their times (`cdo shifttime`)",
    )
}

/// Says that masks of these fields have their axes in our order, if that of the fields is another one: tools that go by
/// the index of cells, or by equal longitudes, would put them elsewhere.
pub fn say_axes(archive: &Archive) {
    let theirs = match archive.axes_differ() {
        [true, true] => "from north to south and with other longitudes",
        [true, false] => "from north to south",
        [false, true] => "with other longitudes",
        [false, false] => return,
    };
    tracing::info!(
        "masks are from south to north and on longitudes from 0 to 360, the fields {theirs}: put them together by their \
         coordinates (docs/events.md, \"Masks are CF netCDF\")"
    );
}

/// A file's absolute path, and the facts (such as length and modification time) that distinguish it from an earlier
/// file of that name.
pub fn file_facts(path: &Path) -> (String, FileFacts) {
    // A missing file keeps its given name.
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    (whole.display().to_string(), FileFacts::of(path))
}

/// The files of an input, with names relative to their common folder. Each has its facts and [`a_sample`] of its
/// contents, because two runs may have the same names and dates.
pub fn files_below<'p>(
    paths: impl Iterator<Item = &'p Path>,
) -> Vec<(String, FileFacts, Option<u64>)> {
    let whole = paths.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
    let whole: Vec<PathBuf> = whole.collect();
    let folders = whole.iter().filter_map(|path| path.parent());
    let shared = |a: PathBuf, b: &Path| -> PathBuf {
        let pairs = a.components().zip(b.components());
        pairs
            .take_while(|(a, b)| a == b)
            .map(|(part, _)| part)
            .collect()
    };
    let first = whole.first().and_then(|path| path.parent());
    let folder = folders.fold(first.unwrap_or(Path::new("")).to_path_buf(), shared);
    let facts = |path: &PathBuf| {
        let name = path.strip_prefix(&folder).unwrap_or(path).display();
        (name.to_string(), FileFacts::of(path), a_sample(path).ok())
    };
    whole.iter().map(facts).collect()
}

/// A hash of the middle of a file, where netCDF stores values of fields.
fn a_sample(path: &Path) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(file.metadata()?.len() / 2))?;
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes)?;
    Ok(xxh3_64(&bytes))
}

/// A hash of everything that would change a result: 32 digits, to be stored in every saved state.
///
/// # Errors
/// If it cannot be serialised, which is a bug.
pub fn fingerprint(facts: &impl Serialize) -> anyhow::Result<String> {
    let facts = serde_json::to_vec(facts).context("naming the run")?;
    Ok(format!("{:032x}", xxh3_128(&facts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_however_its_path_is_spelled() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("masks")).unwrap();
        for name in ["a.nc", "b.nc"] {
            std::fs::write(at(name), name).unwrap();
        }
        assert_eq!(file_facts(&at("a.nc")), file_facts(&at("masks/../a.nc")));
        assert_ne!(file_facts(&at("a.nc")).0, file_facts(&at("b.nc")).0);
        assert_eq!(file_facts(&at("absent.nc")).1.length, None);
    }

    #[test]
    fn files_are_named_from_the_folder_that_holds_all() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["run/a/x.nc", "run/b/x.nc", "run/b/y.nc"] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), name).unwrap();
        }
        let names = |of: &[&str]| -> Vec<String> {
            let paths: Vec<PathBuf> = of.iter().map(|name| at(name)).collect();
            let files = files_below(paths.iter().map(PathBuf::as_path));
            files.into_iter().map(|(name, ..)| name).collect()
        };
        assert_eq!(names(&["run/b/x.nc"]), ["x.nc"]);
        assert_eq!(names(&["run/b/x.nc", "run/b/y.nc"]), ["x.nc", "y.nc"]);
        assert_eq!(names(&["run/a/x.nc", "run/b/x.nc"]), ["a/x.nc", "b/x.nc"]);
        assert!(names(&[]).is_empty());
    }

    #[test]
    fn files_of_one_name_length_and_date_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.nc");
        let facts = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
            files_below([path.as_path()].into_iter())
        };
        let first = facts("one member");
        assert_eq!(first, facts("one member"));
        assert_ne!(first, facts("one mumber"));
    }
}
