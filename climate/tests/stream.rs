//! The tables of a run do not depend on how times are split into files or sessions, on kills, or on where longitude
//! starts. Memory grows only with the open tracks.

use ndarray::Array2;
use proptest::prelude::*;
use squall_climate::events::{EventFields, ExtractOptions, extract, from_boxes};
use squall_climate::statistics::Statistics;
use squall_climate::stream::{Decided, EventStream, Moment, RunFolder, hours_of, is_result};
use squall_climate::table::{self, read_events, read_tracks};
use squall_climate::track::formats::{Format, Setting, export, write_object_ids};
use squall_climate::track::{Fate, Origin, Track, Tracker, TrackerOptions};
use squall_climate::{Event, table::TableWriter};
use squall_data::archive::BadFiles;
use squall_data::grid::distance_km;
use squall_data::mask_file::{MaskArchive, MaskFileOptions, MaskWriter};
use squall_data::{BoxClass, Calendar, Class, ClassMask, GeoBox, LatLonGrid, Time};
use std::collections::HashSet;
use std::fs;
use std::path::Path;

const COLUMNS: usize = 72;

fn grid() -> LatLonGrid {
    LatLonGrid::global(37, COLUMNS).unwrap()
}

fn at(hours: i64) -> Time {
    Time::new(Calendar::NoLeap, 1999, 12, 20, 0, 0, 0)
        .unwrap()
        .add_seconds(3600 * hours)
}

/// A drifting disc: class, latitude, longitude, radius in km, degrees east per day, first step, last step.
type Storm = (u8, f64, f64, f64, f64, usize, usize);

fn some_storms() -> impl Strategy<Value = Vec<Storm>> {
    let storm = (
        1u8..3,
        -75.0..75.0f64,
        0.0..360.0f64,
        500.0..1500.0f64,
        -12.0..12.0f64,
        0usize..30,
        1usize..30,
    );
    proptest::collection::vec(storm, 0..14).prop_map(|mut storms| {
        storms.iter_mut().for_each(|s| s.6 += s.5);
        storms
    })
}

fn masks(storms: &[Storm], steps: usize) -> Vec<ClassMask> {
    let grid = grid();
    (0..steps)
        .map(|step| {
            // A gap of four days after step 20.
            let hours = 6 * step as i64 + if step > 20 { 96 } else { 0 };
            let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
                let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
                let inside = |s: &&Storm| {
                    let east = s.2 + s.4 * hours as f64 / 24.0;
                    (s.5..=s.6).contains(&step) && distance_km(s.1, east, lat, lon) < s.3
                };
                storms.iter().find(inside).map_or(0, |s| s.0)
            });
            ClassMask::new(at(hours), codes).unwrap()
        })
        .collect()
}

fn add(stream: &mut EventStream, masks: &[ClassMask], index: usize) -> Decided {
    let times: Vec<Time> = masks.iter().map(|mask| mask.time).collect();
    let (mask, fields) = (&masks[index], EventFields::default());
    let found = extract(mask, &grid(), &fields, &ExtractOptions::default()).unwrap();
    let hours = hours_of(&times, index);
    let moment = Moment {
        time: mask.time,
        mask: Some(mask),
        hours,
        fields_hours: hours,
        fields: &fields,
    };
    stream.add(&moment, found).unwrap()
}

fn new() -> EventStream {
    EventStream::new(&grid(), TrackerOptions::default()).unwrap()
}

/// Continues the run in the folder up to `stop`, with a checkpoint after every `every` times; `None` runs to the end.
/// Returns the step at which it started.
fn run(out: &Path, masks: &[ClassMask], every: usize, stop: Option<usize>) -> usize {
    let (mut folder, mut stream, start) = RunFolder::open(out, "test", new(), |_, _| true).unwrap();
    for index in start..masks.len() {
        if stop.is_some_and(|stop| index >= stop) {
            return start; // like a kill: output since the last checkpoint may or may not be on disk
        }
        let decided = add(&mut stream, masks, index);
        folder.write(&decided).unwrap();
        if (index + 1).is_multiple_of(every) {
            folder.save(&stream, index + 1).unwrap();
        }
    }
    folder.finish(stream).unwrap();
    start
}

fn bytes(out: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The reference: keeps everything in memory and blanks the identities of unlisted tracks at the end.
fn in_memory(masks: &[ClassMask]) -> (Vec<Event>, Vec<Track>) {
    let grid = grid();
    let mut tracker = Tracker::new(&grid, TrackerOptions::default()).unwrap();
    let (mut events, mut tracks, mut discarded) = (Vec::new(), Vec::new(), HashSet::new());
    let times: Vec<Time> = masks.iter().map(|mask| mask.time).collect();
    for (index, mask) in masks.iter().enumerate() {
        let fields = EventFields::default();
        let mut found = extract(mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        for one in &mut found {
            one.event.details.hours = Some(hours_of(&times, index));
        }
        let step = tracker.push(mask.time, &mut found).unwrap();
        events.extend(found.into_iter().map(|one| one.event));
        tracks.extend(step.finished);
        discarded.extend(step.discarded);
    }
    let step = tracker.finish();
    tracks.extend(step.finished);
    discarded.extend(step.discarded);
    for event in &mut events {
        event.track_id = event.track_id.filter(|id| !discarded.contains(id));
    }
    tracks.sort_by_key(|track| track.track_id);
    (events, tracks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn streamed_tables_are_those_of_memory_whatever_interrupts(
        storms in some_storms(),
        every in 1usize..12,
        stops in proptest::collection::vec(0usize..48, 0..4),
    ) {
        let masks = masks(&storms, 48);
        let folder = tempfile::tempdir().unwrap();
        let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
        run(&whole, &masks, 1000, None);
        let (events, tracks) = in_memory(&masks);
        let judge = folder.path().join("judge");
        let mut table = TableWriter::<Event>::create(judge.join("events.csv")).unwrap();
        events.iter().for_each(|event| table.write(event).unwrap());
        table.finish().unwrap();
        table::write_tracks(judge.join("tracks.csv"), &tracks).unwrap();
        let mut statistics = Statistics::new(&grid());
        let times: Vec<Time> = masks.iter().map(|mask| mask.time).collect();
        for (index, mask) in masks.iter().enumerate() {
            let at = events.iter().filter(|event| event.time == mask.time);
            statistics.add_time(mask.time, Some(mask), hours_of(&times, index), at).unwrap();
        }
        tracks.iter().for_each(|track| statistics.add_track(track));
        statistics.write_csv(&judge).unwrap();
        for name in ["events.csv", "tracks.csv", "monthly.csv", "yearly.csv", "histograms.csv"] {
            prop_assert_eq!(fs::read(judge.join(name)).unwrap(), fs::read(whole.join(name)).unwrap());
        }
        for stop in &stops {
            run(&killed, &masks, every, Some(*stop));
            prop_assert!(!killed.join("events.csv").exists());
        }
        let start = run(&killed, &masks, every, None);
        let furthest = stops.iter().max().map_or(0, |stop| stop / every * every);
        prop_assert!(start >= furthest, "went on from {} instead of {}", start, furthest);
        prop_assert_eq!(bytes(&whole), bytes(&killed));
    }

    #[test]
    fn any_layout_in_files_gives_the_same_times(storms in some_storms(), cuts in proptest::collection::vec(1usize..30, 0..4)) {
        let masks = masks(&storms, 30);
        let folder = tempfile::tempdir().unwrap();
        let mut cuts = cuts;
        cuts.extend([0, 30]);
        cuts.sort_unstable();
        cuts.dedup();
        for (number, pair) in cuts.windows(2).enumerate() {
            // Names in reverse order of time: the time axis decides, not the names.
            let path = folder.path().join(format!("{}.nc", 99 - number));
            let part = &masks[pair[0]..pair[1]];
            let mut writer =
                MaskWriter::create(&path, &grid(), part[0].time, &MaskFileOptions::default()).unwrap();
            part.iter().for_each(|mask| writer.write(mask, None).unwrap());
            writer.finish().unwrap();
        }
        let archive = MaskArchive::open(folder.path().to_str().unwrap()).unwrap();
        let read: Vec<ClassMask> = (0..archive.times().len()).map(|k| archive.read(k).unwrap()).collect();
        prop_assert_eq!(&read, &masks);
        let (from_files, from_memory) = (folder.path().join("a"), folder.path().join("b"));
        run(&from_files, &read, 7, None);
        run(&from_memory, &masks, 1000, None);
        prop_assert_eq!(bytes(&from_files), bytes(&from_memory));
    }

    #[test]
    fn where_longitude_begins_changes_identities_only(storms in some_storms(), shift in 0usize..COLUMNS) {
        let plain = masks(&storms, 40);
        let rolled: Vec<ClassMask> = plain
            .iter()
            .map(|mask| {
                let codes = Array2::from_shape_fn(mask.codes.dim(), |(j, i)| mask.codes[[j, (i + COLUMNS - shift) % COLUMNS]]);
                ClassMask::new(mask.time, codes).unwrap()
            })
            .collect();
        let turn = 360.0 * shift as f64 / COLUMNS as f64;
        // Identities are assigned from west to east, so tracks are compared without them.
        let summaries = |tracks: &[Track], turn: f64| {
            let mut summaries: Vec<_> = tracks
                .iter()
                .map(|t| {
                    let tenth = |v: f64| (v * 10.0).round() as i64;
                    let east = tenth((t.genesis_lon_deg + turn).rem_euclid(360.0)) % 3600;
                    let times = (t.start.to_string(), t.end.to_string(), t.points);
                    let kinds = (t.class, t.origin as u8, t.fate as u8);
                    let family = (t.details.split_tracks.len(), t.details.merged_tracks.len());
                    (times, tenth(t.genesis_lat_deg), east, kinds, family, tenth(t.distance_km / 100.0))
                })
                .collect();
            summaries.sort();
            summaries
        };
        prop_assert_eq!(summaries(&in_memory(&plain).1, turn), summaries(&in_memory(&rolled).1, 0.0));
    }
}

#[test]
fn cells_carry_the_identity_of_their_track() {
    let storms = [
        (1, 15.0, 100.0, 800.0, -5.0, 0, 11),
        (2, -40.0, 200.0, 900.0, 5.0, 4, 5), // too short to be listed
    ];
    let masks = masks(&storms, 12);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.nc");
    let mut writer =
        MaskWriter::create(&path, &grid(), at(0), &MaskFileOptions::default()).unwrap();
    masks
        .iter()
        .for_each(|mask| writer.write(mask, None).unwrap());
    writer.finish().unwrap();
    let out = folder.path().join("out");
    run(&out, &masks, 100, None);
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    let options = ExtractOptions::default();
    let written = write_object_ids(&out, &archive, &options).unwrap();
    let file = netcdf::open(&written).unwrap();
    let ids = file
        .variable("object_id")
        .unwrap()
        .get::<i32, _>(..)
        .unwrap();
    for (step, mask) in masks.iter().enumerate() {
        for ((j, i), &code) in mask.codes.indexed_iter() {
            assert_eq!(ids[[step, j, i]], i32::from(code == 1), "{step} {j} {i}");
        }
    }
    drop(file);
    // Other tools can read the file as masks.
    assert_eq!(
        MaskArchive::open(written.to_str().unwrap())
            .unwrap()
            .times(),
        archive.times()
    );
    let other = ExtractOptions {
        min_tropical_cyclone_km2: 1e9,
        ..options
    };
    let message = write_object_ids(&out, &archive, &other)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("events.csv") && message.contains("atmospheric_river at"),
        "{message}"
    );

    // Identities do not encode classes. A reader of the file as masks either names the class or gets a note about the
    // assumed one.
    let name = written.to_str().unwrap();
    let cells = |masks: &MaskArchive, class: Class| {
        let of_time = |k| {
            masks
                .read(k)
                .unwrap()
                .codes
                .iter()
                .filter(|c| **c == class.code())
                .count()
        };
        (0..masks.times().len()).map(of_time).sum::<usize>()
    };
    let taken = MaskArchive::open(name).unwrap();
    assert!(taken.notes()[0].contains("`object_id`") && taken.notes()[0].contains("rivers"));
    let said = MaskArchive::open_with(name, Some(Class::TropicalCyclone), BadFiles::Fail).unwrap();
    assert!(said.notes().is_empty());
    assert!(said.has_unnamed() && !archive.has_unnamed());
    let all = cells(&taken, Class::AtmosphericRiver);
    assert!(all > 0 && cells(&taken, Class::TropicalCyclone) == 0);
    assert_eq!(cells(&said, Class::TropicalCyclone), all);
    assert_eq!(cells(&said, Class::AtmosphericRiver), 0);
    assert!(
        archive.notes().is_empty(),
        "our own masks name their classes"
    );
}

#[test]
fn a_run_of_other_inputs_begins_anew_and_damaged_states_are_left_alone() {
    let storms = [(1, 15.0, 100.0, 800.0, -5.0, 0, 40)];
    let masks = masks(&storms, 12);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &masks, 3, Some(10)), 0);
    let opened = |fingerprint: &str| {
        RunFolder::open(folder.path(), fingerprint, new(), |_, _| true)
            .unwrap()
            .2
    };
    assert_eq!(RunFolder::times_saved(folder.path()), Some(9));
    assert_eq!(opened("test"), 9);
    fs::write(folder.path().join(".events.partial/state.cbor"), "{").unwrap();
    assert_eq!(RunFolder::times_saved(folder.path()), None);
    assert_eq!(opened("test"), 0);
    assert_eq!(run(folder.path(), &masks, 3, Some(10)), 0);
    assert_eq!(opened("another"), 0);
    // As when the checkpoint left out times that the new run must not leave out.
    assert_eq!(run(folder.path(), &masks, 3, Some(10)), 0);
    let usable = |_: &EventStream, next: usize| next != 9;
    let (_, _, start) = RunFolder::open(folder.path(), "test", new(), usable).unwrap();
    assert_eq!(start, 0);
}

/// Every file that a run writes is recognised by its name, and the next run, over other masks, removes all of them.
#[test]
fn a_new_run_leaves_no_results_of_another_beside_its_own() {
    let storms = [
        (1, 15.0, 100.0, 800.0, -5.0, 0, 40),
        (2, 40.0, 20.0, 1500.0, 5.0, 0, 40),
    ];
    let masks = masks(&storms, 12);
    let folder = tempfile::tempdir().unwrap();
    let (out, path) = (folder.path().join("out"), folder.path().join("masks.nc"));
    let options = MaskFileOptions::default();
    let mut writer = MaskWriter::create(&path, &grid(), masks[0].time, &options).unwrap();
    masks
        .iter()
        .for_each(|mask| writer.write(mask, None).unwrap());
    writer.finish().unwrap();
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    let names = || -> Vec<String> {
        let files = bytes(&out).into_iter();
        files.map(|(name, _)| name).collect()
    };
    run(&out, &masks, 100, None);
    let tables = names();
    Statistics::new(&grid())
        .write_netcdf(out.join("statistics.nc"), &grid(), Calendar::NoLeap)
        .unwrap();
    let setting = Setting {
        grid: &grid(),
        times: archive.times(),
        calendar: Calendar::NoLeap,
        source: "a test",
    };
    let written = export(&out, &Format::ALL, &setting).unwrap();
    assert_eq!(written.len(), 12);
    write_object_ids(&out, &archive, &ExtractOptions::default()).unwrap();
    assert_eq!(names().len(), tables.len() + written.len() + 2);
    let unknown: Vec<String> = names()
        .into_iter()
        .filter(|name| !is_result(name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?} would stay");
    fs::write(out.join("notes.txt"), "of somebody").unwrap();
    run(&out, &masks[..8], 100, None);
    let mut expected = [&tables[..], &["notes.txt".to_string()]].concat();
    expected.sort();
    assert_eq!(names(), expected);
    // A resumed run has nothing to remove.
    assert_eq!(run(&out, &masks, 3, Some(10)), 0);
    assert_eq!(run(&out, &masks, 3, None), 9);
    assert_eq!(names(), expected);
}

/// As if killed while writing `object_id.nc`, when the table of events is back among the partial files.
#[test]
fn a_new_run_leaves_no_results_of_one_that_was_killed_while_it_ended() {
    let storms = [(1, 15.0, 100.0, 800.0, -5.0, 0, 40)];
    let masks = masks(&storms, 12);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let open = |fingerprint: &str| RunFolder::open(out, fingerprint, new(), |_, _| true).unwrap();
    let (mut killed, mut stream, _) = open("test");
    for index in 0..masks.len() {
        killed.write(&add(&mut stream, &masks, index)).unwrap();
    }
    killed.save(&stream, masks.len()).unwrap();
    killed.conclude(stream).unwrap();
    drop(killed);
    let results = [
        "tracks.csv",
        "monthly.csv",
        "tracks.geojson",
        "object_id.nc",
    ];
    for name in ["tracks.geojson", "object_id.nc", "notes.txt"] {
        fs::write(out.join(name), "text").unwrap();
    }
    let are_there = || results.map(|name| out.join(name).is_file());
    assert_eq!(are_there(), [true; 4]);
    // Resuming the run keeps its results; another run removes them.
    assert_eq!(open("test").2, masks.len());
    assert_eq!(are_there(), [true; 4]);
    assert_eq!(open("another").2, 0);
    assert_eq!(are_there(), [false; 4]);
    assert!(out.join("notes.txt").is_file());
}

/// A box has no length: NaN must survive a checkpoint.
#[test]
fn a_run_over_boxes_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, stop: usize| {
        let out = folder.path().join(name);
        let (mut run, mut stream, start) =
            RunFolder::open(&out, "boxes", new(), |_, _| true).unwrap();
        for step in start..stop {
            let time = at(6 * step as i64);
            let centre = (15.0, 100.0 + 0.5 * step as f64);
            let low = GeoBox::around(BoxClass::TropicalCyclone, centre, (4.0, 4.0));
            let fields = EventFields::default();
            let found = from_boxes(time, &[low.into()], &grid(), &fields).unwrap();
            let moment = Moment {
                time,
                mask: None,
                hours: 6.0,
                fields_hours: 6.0,
                fields: &fields,
            };
            run.write(&stream.add(&moment, found).unwrap()).unwrap();
            run.save(&stream, step + 1).unwrap();
        }
        if stop == 20 {
            run.finish(stream).unwrap();
        }
        start
    };
    assert_eq!(run("whole", 20), 0);
    // For the first two days rows wait for the decision on their track.
    assert_eq!([5, 12, 20].map(|stop| run("killed", stop)), [0, 5, 12]);
    let of = |name: &str| bytes(&folder.path().join(name));
    assert_eq!(of("whole"), of("killed"));
}

#[test]
fn a_run_without_events_has_tables_of_headers() {
    let masks = masks(&[], 5);
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &masks, 2, None);
    let events = fs::read_to_string(folder.path().join("events.csv")).unwrap();
    assert_eq!(events.trim_end(), table::EVENT_COLUMNS.join(","));
    let tracks = fs::read_to_string(folder.path().join("tracks.csv")).unwrap();
    assert_eq!(tracks.trim_end(), table::TRACK_COLUMNS.join(","));
    assert!(
        read_events(folder.path().join("events.csv"), Calendar::NoLeap)
            .unwrap()
            .is_empty()
    );
    assert!(
        read_tracks(folder.path().join("tracks.csv"), Calendar::NoLeap)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn rows_wait_no_longer_than_the_shortest_duration_and_a_gap() {
    // A new one-day storm every day: only the first is listed, all rows are written, few of them wait.
    let storms: Vec<Storm> = (0..60)
        .map(|k| {
            (
                1,
                15.0,
                50.0 * f64::from(k),
                800.0,
                0.0,
                4 * k as usize,
                4 * k as usize + 2,
            )
        })
        .collect();
    let grid = grid();
    let mut stream = new();
    let (mut rows, mut most) = (0, 0);
    for step in 0..240usize {
        let time = at(6 * step as i64);
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let inside = |s: &&Storm| {
                (s.5..=s.6).contains(&step)
                    && distance_km(s.1, s.2, grid.lat_deg()[j], grid.lon_deg()[i]) < s.3
            };
            storms.iter().find(inside).map_or(0, |s| s.0)
        });
        let mask = ClassMask::new(time, codes).unwrap();
        let fields = EventFields::default();
        let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        let moment = Moment {
            time: mask.time,
            mask: Some(&mask),
            hours: 6.0,
            fields_hours: 6.0,
            fields: &fields,
        };
        rows += stream.add(&moment, found).unwrap().events.len();
        most = most.max(stream.waiting_rows());
    }
    // Three days of four steps with at most one row each.
    assert!(most <= 12, "{most} rows waited");
    let (last, _, counts) = stream.finish();
    assert_eq!(rows + last.events.len(), counts.cyclones);
    assert_eq!(counts.cyclones, 180);
    assert_eq!(counts.cyclone_tracks, 1, "the first began before the data");
}

#[test]
fn merges_and_splits_know_their_relatives_on_both_sides() {
    let (left, right) = ((2u8, 40.0, 190.0, 1500.0), (2u8, 40.0, 225.0, 1000.0));
    let bridge = (2u8, 40.0, 210.0, 1000.0);
    let grid = grid();
    let history = [
        vec![left, right],
        vec![left, right],
        vec![left, right, bridge],
        vec![left, right, bridge],
        vec![left, right],
        vec![left, right],
    ];
    let mut tracker = Tracker::new(&grid, TrackerOptions::default().keep_all()).unwrap();
    let mut tracks = Vec::new();
    for (step, discs) in history.iter().enumerate() {
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            let inside = discs.iter().any(|d| distance_km(d.1, d.2, lat, lon) < d.3);
            u8::from(inside) * 2
        });
        let mask = ClassMask::new(at(6 * step as i64), codes).unwrap();
        let fields = EventFields::default();
        let mut found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        tracks.extend(tracker.push(mask.time, &mut found).unwrap().finished);
    }
    tracks.extend(tracker.finish().finished);
    tracks.sort_by_key(|track| track.track_id);
    // The centre of the merged river is 1,040 km from that of the larger one, too far for 6 hours: neither track
    // continues.
    assert_eq!(tracks.len(), 5, "{tracks:?}");
    let of = |k: usize| &tracks[k].details;
    for track in &tracks[..2] {
        let details = &track.details;
        assert_eq!((track.fate, details.merged_into), (Fate::Merge, Some(3)));
        assert_eq!(details.parent_track, None);
    }
    assert_eq!(
        (tracks[2].origin, of(2).parent_track, of(2).merged_into),
        (Origin::Split, Some(1), Some(4))
    );
    assert_eq!(
        (of(2).merged_tracks.clone(), of(2).split_tracks.clone()),
        (vec![1, 2], vec![4, 5])
    );
    for track in &tracks[3..] {
        let details = &track.details;
        assert_eq!(
            (track.origin, details.parent_track),
            (Origin::Split, Some(3))
        );
        assert_eq!(details.merged_into, None);
    }
}

#[test]
fn events_at_the_pole_the_seam_and_the_edge_of_a_region() {
    let globe = grid();
    let region = LatLonGrid::from_axes(
        (0..21).map(|j| 10.0 + 2.0 * f64::from(j)).collect(),
        (0..31).map(|i| 200.0 + 2.0 * f64::from(i)).collect(),
    )
    .unwrap()
    .0;
    let described = |grid: &LatLonGrid, lat: f64, lon: f64| {
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            u8::from(distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]) < 900.0) * 2
        });
        let mask = ClassMask::new(at(0), codes).unwrap();
        let found = extract(
            &mask,
            grid,
            &EventFields::default(),
            &ExtractOptions::default(),
        );
        let found = found.unwrap();
        assert_eq!(found.len(), 1, "{lat} {lon}");
        found[0].event.clone()
    };
    let cap_km2 = std::f64::consts::PI * 900f64.powi(2);
    for (lat, lon) in [(90.0, 0.0), (-90.0, 77.0), (20.0, 0.0), (-50.0, 359.0)] {
        let event = described(&globe, lat, lon);
        assert_eq!(event.details.touches_edge, Some(false), "{lat} {lon}");
        assert!((event.area_km2 / cap_km2 - 1.0).abs() < 0.15, "{event:?}");
        assert!(
            distance_km(lat, lon, event.lat_deg, event.lon_deg) < 120.0,
            "{event:?}"
        );
    }
    // A region cuts off objects at its western, eastern, southern and northern edges, and marks them.
    for (lat, lon, cut) in [
        (30.0, 230.0, false),
        (30.0, 203.0, true),
        (30.0, 257.0, true),
        (12.0, 230.0, true),
        (48.0, 230.0, true),
    ] {
        let event = described(&region, lat, lon);
        assert_eq!(event.details.touches_edge, Some(cut), "{lat} {lon}");
        assert_eq!(event.area_km2 < 0.9 * cap_km2, cut, "{event:?}");
    }
    assert_eq!(Class::AtmosphericRiver.code(), 2);
}

#[test]
fn duplicate_times_and_changing_calendars_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, time: Time| {
        let mask = ClassMask::new(time, Array2::zeros(grid().shape())).unwrap();
        let path = folder.path().join(name);
        let mut writer =
            MaskWriter::create(&path, &grid(), time, &MaskFileOptions::default()).unwrap();
        writer.write(&mask, None).unwrap();
        writer.finish().unwrap();
    };
    let opened = || MaskArchive::open(folder.path().to_str().unwrap()).map(|_| ());
    write("a.nc", at(6));
    write("b.nc", at(0));
    opened().unwrap(); // files out of order are put in order
    write("c.nc", at(6));
    let message = opened().unwrap_err().to_string();
    assert!(
        message.contains("c.nc") && message.contains("1999-12-20T06:00:00 again"),
        "{message}"
    );
    let other = Time::new(Calendar::Day360, 1999, 12, 21, 0, 0, 0).unwrap();
    write("c.nc", other);
    let message = opened().unwrap_err().to_string();
    assert!(
        message.contains("c.nc") && message.contains("360_day") && message.contains("noleap"),
        "{message}"
    );
}
