//! Writes a synthetic run: history files and the truth.

use super::catalogue::State;
use super::history::HistoryWriter;
use super::{SyntheticConfig, SyntheticRun, truth};
use crate::archive::nc::{self, on_library_thread};
use crate::atomic::TextFile;
use crate::boxes::{BoxClass, table};
use crate::error::{DataError, Result};
use crate::mask_file::{MaskFileOptions, MaskWriter};
use crate::{Snapshot, Time, atomic};
use netcdf::File;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Default number of times per file.
pub const STEPS_PER_FILE: usize = 8;

/// What was written.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Times of the run.
    pub times: usize,
    /// History files of the run.
    pub files: usize,
    /// Existing complete files that were kept.
    pub kept: usize,
    /// Bytes of the history files.
    pub bytes: u64,
    /// Tropical cyclones alive during the run.
    pub tropical_cyclones: usize,
    /// Rivers, each of an extratropical cyclone alive during the run.
    pub rivers: usize,
    /// Elapsed seconds.
    pub seconds: f64,
}

/// Writes a run to `out`, with this many times per file, and its truth to `out/truth`. Existing complete files are
/// kept, so that an interrupted run can be resumed; leftovers of a killed one are removed. `progress` receives the
/// number of finished times and may stop the run by returning an error.
///
/// # Errors
/// [`DataError::Io`] naming the file that could not be written or read; [`DataError::Mismatch`] if `out` holds another
/// run.
pub fn write_run(
    config: &SyntheticConfig,
    out: &Path,
    steps_per_file: usize,
    mut progress: impl FnMut(usize) -> Result<()>,
) -> Result<RunSummary> {
    let started = Instant::now();
    let run = SyntheticRun::new(config.clone())?;
    claim(config, steps_per_file, out)?;
    sweep(config, out)?;
    let steps: Vec<usize> = (0..run.len()).collect();
    let tracks = Tracks::of(&run);
    let mut summary = RunSummary {
        times: run.len(),
        files: 0,
        kept: 0,
        bytes: 0,
        tropical_cyclones: tracks.tropical_cyclones,
        rivers: tracks.rivers,
        seconds: 0.0,
    };
    let mut done = 0;
    for chunk in steps.chunks(steps_per_file.max(1)) {
        let first = run.time(chunk[0]);
        let paths = ChunkPaths::new(config, out, first);
        if paths.are_whole(chunk.len()) {
            summary.kept += 1;
        } else {
            write_chunk(&run, chunk, &paths, done, &mut progress)?;
        }
        done += chunk.len();
        progress(done)?;
        summary.files += 1;
        summary.bytes += std::fs::metadata(&paths.fields)
            .map_err(DataError::io("read", &paths.fields))?
            .len();
    }
    // Part by part: those of a century take hundreds of megabytes.
    let mut objects = TextFile::create(out.join("truth/objects.csv"))?;
    let mut boxes = TextFile::create(out.join("truth/boxes.csv"))?;
    objects.write(truth::HEADER)?;
    boxes.write(&table::header())?;
    for chunk in steps.chunks(steps_per_file.max(1)) {
        let paths = ChunkPaths::new(config, out, run.time(chunk[0]));
        for (table, part) in [(&mut objects, paths.objects), (&mut boxes, paths.boxes)] {
            table.write(&std::fs::read_to_string(&part).map_err(DataError::io("read", &part))?)?;
        }
    }
    objects.finish()?;
    boxes.finish()?;
    atomic::write(out.join("truth/tracks.csv"), tracks.table.as_bytes())?;
    summary.seconds = started.elapsed().as_secs_f64();
    Ok(summary)
}

/// Number of times of a run whose files exist in `out`; [`write_run`] keeps these files if they are complete.
pub fn times_there(run: &SyntheticRun, out: &Path, steps_per_file: usize) -> usize {
    let each = steps_per_file.max(1);
    (0..run.len())
        .step_by(each)
        .filter(|&first| ChunkPaths::new(run.config(), out, run.time(first)).are_there())
        .map(|first| each.min(run.len() - first))
        .sum()
}

/// Records what the folder holds, or checks that it holds this run.
fn claim(config: &SyntheticConfig, steps_per_file: usize, out: &Path) -> Result<()> {
    let description = format!(
        "synthetic run, scenario {}, seed {}, grid {} x {}, start {}, every {} h, {} times, {steps_per_file} a file\n",
        config.scenario.name,
        config.seed,
        config.rows,
        config.columns,
        config.start,
        config.step_hours,
        config.steps,
    );
    let path = out.join("truth/run.txt");
    match std::fs::read_to_string(&path) {
        Ok(found) if found == description => Ok(()),
        Ok(found) => {
            let (expected, found) = (description.trim(), found.trim());
            Err(DataError::mismatch("run", path, expected, found))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            atomic::write(&path, description.as_bytes())
        }
        Err(error) => Err(DataError::io("read", path)(error)),
    }
}

/// Removes unfinished files of killed writers of this run, identified by name: other programs may use the folder.
fn sweep(config: &SyntheticConfig, out: &Path) -> Result<()> {
    let begin = history_name(config, "");
    atomic::sweep(out, |name| name.starts_with(&begin))?;
    atomic::sweep(out.join("truth"), |name| {
        ["run.txt", "objects.csv", "boxes.csv", "tracks.csv"].contains(&name)
            || ["truth.", ".objects.", ".boxes."]
                .iter()
                .any(|begin| name.starts_with(begin))
    })?;
    Ok(())
}

/// The name of a history file without its extension.
fn history_name(config: &SyntheticConfig, stamp: &str) -> String {
    let (scenario, seed) = (config.scenario.name, config.seed);
    format!("squall_{scenario}_seed{seed}.cam.h2.{stamp}")
}

/// The files of one part of the run: fields and truth.
struct ChunkPaths {
    fields: PathBuf,
    masks: PathBuf,
    objects: PathBuf,
    boxes: PathBuf,
}

impl ChunkPaths {
    fn new(config: &SyntheticConfig, out: &Path, first: Time) -> Self {
        let stamp = first.stamp();
        let name = history_name(config, &stamp);
        let truth = out.join("truth");
        Self {
            fields: out.join(format!("{name}.nc")),
            masks: truth.join(format!("truth.{stamp}.nc")),
            objects: truth.join(format!(".objects.{stamp}.csv")),
            boxes: truth.join(format!(".boxes.{stamp}.csv")),
        }
    }

    /// Whether all of them exist.
    fn are_there(&self) -> bool {
        [&self.fields, &self.masks, &self.objects, &self.boxes]
            .iter()
            .all(|path| path.exists())
    }

    /// Whether all of them exist and have this many times: a copy may have been truncated.
    fn are_whole(&self, steps: usize) -> bool {
        let has_times = |path: &PathBuf| {
            let times = |file: File| file.dimension_len("time");
            nc::open(path).ok().and_then(times) == Some(steps)
        };
        let are_whole = || [&self.fields, &self.masks].into_iter().all(has_times);
        self.are_there() && self.tables_are_whole(steps) && on_library_thread(are_whole)
    }

    /// Whether the tables end with complete lines, the box table covers this many times, and both tables have the same
    /// rivers. The last check is needed because an empty object table may be valid, or what a full disk left of a copy.
    fn tables_are_whole(&self, steps: usize) -> bool {
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let (objects, boxes) = (read(&self.objects), read(&self.boxes));
        let times = boxes.lines().filter_map(|row| row.split(',').nth(1));
        let river = BoxClass::AtmosphericRiver.name();
        let rivers = |table: &str| table.lines().filter(|row| row.starts_with(river)).count();
        (objects.is_empty() || objects.ends_with('\n'))
            && boxes.ends_with('\n')
            && times.collect::<BTreeSet<_>>().len() == steps
            && rivers(&objects) == rivers(&boxes)
    }
}

fn write_chunk(
    run: &SyntheticRun,
    chunk: &[usize],
    paths: &ChunkPaths,
    done: usize,
    progress: &mut impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let source = format!(
        "squall {} synthetic {}",
        env!("CARGO_PKG_VERSION"),
        run.config().scenario.name
    );
    let first = run.time(chunk[0]);
    let mut history = HistoryWriter::create(
        &paths.fields,
        run.grid(),
        first,
        run.config().start,
        &source,
    )?;
    let options = MaskFileOptions {
        title: "truth of a synthetic run".into(),
        source,
        ..MaskFileOptions::default()
    };
    let mut mask_file = MaskWriter::create(&paths.masks, run.grid(), first, &options)?;
    let (mut rows, mut boxes) = (String::new(), String::new());
    let mut written = 0;
    // Computes the next time while this one is written.
    let compute = |index: usize| run.snapshot(index);
    let mut next: Option<(Snapshot, super::Truth)> = Some(compute(chunk[0]));
    for position in 0..chunk.len() {
        let (snapshot, truth) = next.take().expect("computed in the step before");
        let following = chunk.get(position + 1).copied();
        let (computed, stored) = rayon::join(
            || following.map(compute),
            || {
                history
                    .write(&snapshot, f64::from(run.config().step_hours))
                    .and_then(|()| mask_file.write(&truth.mask, None))
            },
        );
        stored?;
        truth
            .objects
            .iter()
            .for_each(|object| object.row(snapshot.time, &mut rows));
        table::append_rows(snapshot.time, &truth.tracked_boxes(), &mut boxes);
        next = computed;
        written += 1;
        progress(done + written)?;
    }
    history.finish()?;
    mask_file.finish()?;
    atomic::write(&paths.objects, rows.as_bytes())?;
    atomic::write(&paths.boxes, boxes.as_bytes())
}

/// The storms alive during a run.
struct Tracks {
    /// One row per storm; for a river, with times and positions of its cyclone.
    table: String,
    tropical_cyclones: usize,
    rivers: usize,
}

impl Tracks {
    fn of(run: &SyntheticRun) -> Self {
        let mut tracks = Self {
            table: "track_id,class,start_time,end_time,duration_hours,genesis_lon_deg,genesis_lat_deg,end_lon_deg,end_lat_deg,basin\n"
                .into(),
            tropical_cyclones: 0,
            rivers: 0,
        };
        let end_hours = (run.len() - 1) as f64 * f64::from(run.config().step_hours);
        // The first and the last hour of a storm's life within the run.
        let lived = |birth_hours: f64, life_hours: f64| {
            let death_hours = birth_hours + life_hours;
            let (from, to) = (birth_hours.max(0.0), death_hours.min(end_hours));
            (from <= to).then_some((from, to))
        };
        for storm in run.tropical_cyclones() {
            if let Some((from, to)) = lived(storm.birth_hours, storm.life_hours())
                && let (Some(first), Some(last)) = (storm.at(from), storm.at(to))
            {
                let ends = [(from, first), (to, last)];
                tracks.add(run, storm.id, "tropical_cyclone", ends, storm.basin);
                tracks.tropical_cyclones += 1;
            }
        }
        for storm in run.extratropical_cyclones() {
            if storm.river.is_some()
                && let Some((from, to)) = lived(storm.birth_hours, storm.life_hours)
                && let (Some(first), Some(last)) = (storm.at(from), storm.at(to))
            {
                let ends = [(from, first), (to, last)];
                tracks.add(run, storm.id, "atmospheric_river", ends, "");
                tracks.rivers += 1;
            }
        }
        tracks
    }

    /// Adds a storm with its first and last hour in the run, and its states then.
    fn add(
        &mut self,
        run: &SyntheticRun,
        id: u64,
        class: &str,
        [(from, first), (to, last)]: [(f64, State); 2],
        basin: &str,
    ) {
        let start = run.config().start;
        let time = |hours: f64| start.add_seconds((hours * 3600.0).round() as i64);
        self.table.push_str(&format!(
            "{id},{class},{},{},{:.1},{:.3},{:.3},{:.3},{:.3},{basin}\n",
            time(from),
            time(to),
            to - from,
            first.lon,
            first.lat,
            last.lon,
            last.lat,
        ));
    }
}
