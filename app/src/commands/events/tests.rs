//! Tables of many ranks are those of one, whatever happens on the way; what cannot be used is left out or told.

use super::objects::listed_cyclones;
use super::{Events, EventsSummary};
use crate::arguments;
use squall_climate::compare::Coverage;
use squall_climate::events::{Event, ExtractOptions};
use squall_climate::stream::EventCounts;
use squall_climate::table::{read_events, read_tracks};
use squall_data::synthetic::{STEPS_PER_FILE, Scenario, SyntheticConfig, write_run};
use squall_data::{Calendar, Class, Time};
use squall_jobs::comm::threads::{self, Fault, Ranks};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The masks of a folder's truth and fields: a call that saves after every round.
fn call(folder: &Path, fields: &Path, out: &Path) -> Events {
    let masks = folder.join("truth").join("*.nc");
    let words: [&OsStr; 7] = [
        masks.as_os_str(),
        "--fields".as_ref(),
        fields.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
        "--save-every".as_ref(),
        "0".as_ref(),
    ];
    arguments::parsed(words).unwrap()
}

/// Fifteen days.
fn simulate(folder: &Path, step_hours: u32, steps: usize) {
    let config = SyntheticConfig {
        rows: 24,
        columns: 36,
        start: Time::new(Calendar::NoLeap, 2000, 8, 25, 0, 0, 0).unwrap(),
        step_hours,
        steps,
        scenario: Scenario::PRESENT,
        seed: 7,
    };
    write_run(&config, folder, STEPS_PER_FILE, |_| Ok(())).unwrap();
}

/// Name and bytes of all tables; netCDF files hold when they were made.
fn tables(out: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let csv = entries.filter(|path| path.extension().is_some_and(|end| end == "csv"));
    let mut all: Vec<_> = csv
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                std::fs::read(&path).unwrap(),
            )
        })
        .collect();
    all.sort();
    all
}

fn same(expected: &[(String, Vec<u8>)], out: &Path, what: &str) {
    let found = tables(out);
    assert_eq!(found.len(), expected.len(), "{what}");
    for ((name, bytes), (known, others)) in found.iter().zip(expected) {
        assert!(name == known && bytes == others, "{what}: {name} differs");
    }
}

#[test]
fn any_number_of_ranks_writes_the_same_tables_also_after_one_died() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 6, 61);
    ranks_agree(&at("run"), &at("run"), &at("every"));
}

#[test]
fn ranks_agree_where_only_every_second_time_has_fields() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 6, 61);
    simulate(&at("sparse"), 12, 31);
    ranks_agree(&at("run"), &at("sparse"), &at("second"));
}

fn ranks_agree(run: &Path, fields: &Path, out: &Path) {
    let at = |name: &str| out.join(name);
    let call = |out: &Path| call(run, fields, out);
    let alone = call(&at("alone")).extract().unwrap();
    assert_eq!(alone.counts.times, 61);
    let tracks = read_tracks(at("alone").join("tracks.csv"), Calendar::NoLeap).unwrap();
    assert!(tracks.len() > 10, "{} tracks", tracks.len());
    let ranked = tracks
        .iter()
        .filter(|track| track.details.river_scale.is_some());
    assert!(ranked.count() > 0, "transport reaches the tracks");
    let expected = tables(&at("alone"));
    assert!(expected.len() >= 4, "events, tracks and statistics");
    for ranks in [2, 3, 5] {
        let out = at(&format!("ranks{ranks}"));
        let summaries = threads::run(threads::ranks(ranks), |mut comm| {
            call(&out).extract_on(&mut comm).unwrap()
        });
        let first = summaries[0].as_ref().unwrap();
        assert_eq!(first.counts, alone.counts);
        assert!(summaries[1..].iter().all(Option::is_none));
        same(&expected, &out, &format!("{ranks} ranks"));
    }
    // The third of three ranks dies on the way; what its peers had done stays, and another number of ranks goes on.
    let out = at("died");
    let with_fault = Ranks::nodes(&[3]).fault(2, 19, Fault::Dies).start();
    let results = threads::run(with_fault, |mut comm| {
        call(&out).extract_on(&mut comm).is_ok()
    });
    assert!(!results[0] && !results[2], "{results:?}");
    let summaries = threads::run(threads::ranks(2), |mut comm| {
        call(&out).extract_on(&mut comm).unwrap()
    });
    let resumed = summaries[0].as_ref().unwrap().resumed_after;
    assert!((1..61).contains(&resumed), "went on after {resumed} times");
    same(&expected, &out, "after a death");
}

#[test]
fn what_would_change_the_tables_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 6, 61);
    let base = |out: &Path| call(&at("run"), &at("run"), out);
    // A change of the call, or of the masks in a folder.
    type Change = fn(&mut Events, &Path);
    let changes: [(&str, Change); 4] = [
        ("area", |events, _| events.min_river_km2 = Some(1.2e6)),
        ("wind", |events, _| events.min_wind = Some(20.0)),
        ("class", |events, _| {
            events.tags.tag_class = Some(Class::TropicalCyclone)
        }),
        ("file", |_, masks| {
            let first = std::fs::read_dir(masks).unwrap().next().unwrap();
            let file = std::fs::File::options()
                .append(true)
                .open(first.unwrap().path());
            let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
            file.unwrap().set_modified(later).unwrap();
        }),
    ];
    let masks = at("run").join("truth");
    for (name, change) in changes {
        let out = at(name);
        let with_fault = Ranks::nodes(&[3]).fault(2, 19, Fault::Dies).start();
        threads::run(with_fault, |mut comm| {
            base(&out).extract_on(&mut comm).is_ok()
        });
        // From here the same call would go on (see above).
        assert!(out.join(".events.partial/state.cbor").is_file());
        let mut changed = base(&out);
        change(&mut changed, &masks);
        assert_eq!(changed.extract().unwrap().resumed_after, 0, "{name}");
        let mut fresh = base(&at("fresh"));
        change(&mut fresh, &masks);
        fresh.extract().unwrap();
        same(&tables(&at("fresh")), &out, name);
        std::fs::remove_dir_all(at("fresh")).unwrap();
    }
}

#[test]
fn statistics_say_by_which_rules_they_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 12, 8);
    let mut events = call(&at("run"), &at("run"), &at("out"));
    (events.min_wind, events.min_cyclone_km2) = (Some(17.0), Some(30_000.0));
    events.extract().unwrap();
    let said = Coverage::read(&at("out"), None).unwrap();
    let wind = "lowest model level, or 10 m where the files have that";
    assert_eq!(said.wind.as_deref(), Some(wind));
    for (name, value) in [
        ("min_cyclone_km2", "30000"),
        ("min_river_km2", "300000"),
        // 1.5 cells of ten degrees.
        ("cyclone_wind_deg", "15"),
        ("tropical_cyclone.min_peak_wind_m_s", "17"),
        ("atmospheric_river.join_by_overlap", "true"),
        ("atmospheric_river.landfalls_of_pieces", "true"),
    ] {
        let found = said.rules.get(name).map(String::as_str);
        assert_eq!(found, Some(value), "{name}");
    }
}

/// Gives a file humidity and wind on four levels, the same everywhere: a five hundredth of the air is vapour and moves at
/// 20 m/s from 300 hPa to the ground. That is 300 kg/(m s) where the ground is at 1035 hPa, which no place exceeds.
fn add_levels(path: &Path) {
    let add = || -> Result<(), netcdf::Error> {
        let mut file = netcdf::append(path)?;
        let length = |name: &str| file.dimension_len(name).unwrap();
        let cells: usize = ["time", "lat", "lon"].map(length).iter().product();
        file.add_dimension("plev", 4)?;
        let mut levels = file.add_variable::<f64>("plev", &["plev"])?;
        levels.put_attribute("units", "Pa")?;
        levels.put_values(&[30_000.0, 40_000.0, 60_000.0, 70_000.0], ..)?;
        for (name, units, value) in [
            ("hus", "kg kg-1", 0.002f32),
            ("ua", "m s-1", 12.0),
            ("va", "m s-1", 16.0),
        ] {
            let mut field = file.add_variable::<f32>(name, &["time", "plev", "lat", "lon"])?;
            field.put_attribute("units", units)?;
            field.put_values(&vec![value; 4 * cells], ..)?;
        }
        file.close()
    };
    squall_data::archive::on_library_thread(add).unwrap();
}

/// They were ranked by column water times one wind, also where the fields have what `label` integrates.
#[test]
fn rivers_are_ranked_by_the_transport_over_levels_where_all_times_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 6, 16);
    let run = |name: &str| call(&at("run"), &at("run"), &at(name)).extract().unwrap();
    let rivers = |name: &str| -> Vec<Event> {
        let events = read_events(at(name).join("events.csv"), Calendar::NoLeap).unwrap();
        let rivers = (events.into_iter()).filter(|event| event.class == Class::AtmosphericRiver);
        rivers.collect()
    };
    let highest = |rivers: &[Event]| rivers.iter().filter_map(|e| e.details.river_scale).max();
    let said = |name: &str| Coverage::read(&at(name), None).unwrap().transport.unwrap();

    let summary = run("proxy");
    assert_eq!(summary.transport, Some("proxy"));
    assert!(summary.by_proxy().contains("by a proxy"));
    let by_proxy = rivers("proxy");
    assert!(highest(&by_proxy) >= Some(4));
    assert!((by_proxy.iter()).all(|event| event.details.max_ivt_kg_m_s.is_none()));
    assert!(said("proxy").starts_with("proxy: precipitable water times the wind"));

    // Of the two files one has levels: rivers are not ranked by both.
    let files = masks_in(&at("run"));
    assert_eq!(files.len(), 2);
    add_levels(&files[0]);
    assert_eq!(run("mixed").transport, Some("proxy"));
    same(&tables(&at("proxy")), &at("mixed"), "levels at some times");

    add_levels(&files[1]);
    let summary = run("levels");
    assert_eq!(
        (summary.transport, summary.by_proxy()),
        (Some("levels"), "")
    );
    let by_levels = rivers("levels");
    assert_eq!(by_levels.len(), by_proxy.len());
    for event in &by_levels {
        let found = event.details.max_ivt_kg_m_s.unwrap();
        assert!((100.0..300.0).contains(&found), "{event:?}");
        assert!(event.details.max_ivt_proxy_kg_m_s.is_some());
    }
    // The lowest step, and one more for two days.
    let most = highest(&by_levels);
    assert!(most.is_some() && most <= Some(2), "{most:?}");
    assert!(said("levels").starts_with("levels: vapour transport integrated"));
    threads::run(threads::ranks(2), |mut comm| {
        call(&at("run"), &at("run"), &at("ranks"))
            .extract_on(&mut comm)
            .unwrap()
    });
    same(&tables(&at("levels")), &at("ranks"), "2 ranks by levels");
}

/// A call as on the command line.
fn parsed(words: &[&str]) -> Events {
    arguments::parsed(words).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The mask files of a folder, in the order of time.
fn masks_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "nc"))
        .collect();
    files.sort();
    files
}

#[test]
fn bad_masks_are_skipped_and_counted_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 6, 61);
    let files = masks_in(&at("run/truth"));
    // One is cut short; of another the compressed planes (zlib's header, then zeros and ones) are garbled.
    let bytes = std::fs::read(&files[2]).unwrap();
    std::fs::write(&files[2], &bytes[..bytes.len() / 2]).unwrap();
    let mut bytes = std::fs::read(&files[4]).unwrap();
    let planes: Vec<usize> = (0..bytes.len() - 10)
        .filter(|k| bytes[*k..k + 2] == [0x78, 0x01])
        .collect();
    planes.iter().for_each(|k| bytes[k + 2..k + 10].fill(0xff));
    std::fs::write(&files[4], bytes).unwrap();
    let call = |out: &Path, skips: bool| {
        let mut call = call(&at("run"), &at("run"), out);
        call.skip_bad = skips;
        call
    };
    let error = call(&at("strict"), false).extract().unwrap_err();
    let named = files[2].file_name().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(named), "{error}");
    let alone = call(&at("alone"), true).extract().unwrap();
    assert_eq!((alone.skipped_files, alone.unread_times), (1, 8));
    assert_eq!(alone.counts.times, 61 - 16);
    for ranks in [2, 3] {
        let out = at(&format!("ranks{ranks}"));
        let summaries = threads::run(threads::ranks(ranks), |mut comm| {
            call(&out, true).extract_on(&mut comm).unwrap()
        });
        let first = summaries[0].as_ref().unwrap();
        assert_eq!((first.skipped_files, first.unread_times), (1, 8));
        same(&tables(&at("alone")), &out, &format!("{ranks} ranks"));
    }
    // Nothing is left.
    for file in &files {
        std::fs::write(file, "no mask").unwrap();
    }
    let error = call(&at("none"), true).extract().unwrap_err();
    assert!(error.to_string().contains("can be used"), "{error}");
}

#[test]
fn summaries_give_no_zero_for_classes_not_looked_for() {
    let mut summary = EventsSummary {
        looked_for: vec![Class::TropicalCyclone],
        ..EventsSummary::default()
    };
    assert_eq!(summary.found(), "0 cyclones on 0 tracks");
    summary.looked_for.clear();
    assert_eq!(summary.found(), "nothing found");
    (summary.counts.rivers, summary.counts.river_tracks) = (3, 1);
    assert_eq!(summary.found(), "3 rivers on 1 track");
    (summary.counts.others, summary.counts.other_tracks) = (5, 2);
    let others = "5 depressions and extratropical cyclones on 2 tracks";
    assert_eq!(summary.found(), format!("3 rivers on 1 track, {others}"));
}

#[test]
fn tables_are_no_masks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 6, 16);
    let events = at("events");
    let masks = at("run/truth");
    parsed(&[
        text(&masks),
        "--out",
        text(&events),
        "--format",
        "ibtracs",
        "--object-id",
    ])
    .extract()
    .unwrap();
    std::fs::create_dir(at("tables")).unwrap();
    for name in ["events.csv", "tracks.csv"] {
        std::fs::copy(events.join(name), at("tables").join(name)).unwrap();
    }
    for (input, what) in [
        (events.join("events.csv"), "is a table of events"),
        (at("run/truth/objects.csv"), "is a table of events"),
        (events.join("tracks.csv"), "is a table"),
        (events.join("monthly.csv"), "is a table"),
        (events.clone(), "holds what `squall events` writes"),
        (at("tables"), "holds what `squall events` writes"),
    ] {
        let call = parsed(&[text(&input), "--out", text(&at("out"))]);
        let error = call.extract().unwrap_err();
        let said = error.to_string();
        assert!(said.contains(what) && said.len() < 300, "{said}");
        let (code, hint) = crate::failure::classify(&error);
        assert_eq!(code, crate::failure::INPUT);
        assert!(hint.is_some_and(|hint| hint.contains("IBTrACS")), "{said}");
    }
    // A list of paths is none, nor are masks that a tool put among its tables.
    let list = at("list.txt");
    std::fs::write(&list, format!("{}\n", masks_in(&masks)[0].display())).unwrap();
    let summary = parsed(&[text(&list), "--out", text(&at("listed"))])
        .extract()
        .unwrap();
    assert_eq!(summary.counts.times, 8);
    assert_eq!(summary.looked_for, Class::EVENTS);
    let ids = events.join("object_id.nc");
    let summary = parsed(&[text(&ids), "--out", text(&at("ids"))])
        .extract()
        .unwrap();
    assert_eq!(summary.counts.times, 16);
    assert_eq!(summary.looked_for, [Class::AtmosphericRiver]);
    // What is read from where it would be replaced.
    let before = std::fs::read(&ids).unwrap();
    let error = parsed(&[text(&ids), "--out", text(&events)])
        .extract()
        .unwrap_err();
    assert!(error.to_string().contains("would be replaced"), "{error}");
    assert!(std::fs::read(&ids).unwrap() == before);
}

#[test]
fn tracks_of_a_layout_that_is_not_read_say_what_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("storms.csv");
    let header = "name,year,month,day,hour,lat,long,status,category,wind,pressure";
    std::fs::write(
        &table,
        format!("{header}\nAmy,1975,6,27,0,27.5,-79,,,25,1013\n"),
    )
    .unwrap();
    let mut inputs = vec![(table, "lacks `track_id` of CSV of points")];
    let timeless = folder.path().join("storms.nc");
    let write = || -> Result<(), netcdf::Error> {
        let mut file = netcdf::create(&timeless)?;
        file.add_dimension("record", 2)?;
        for name in ["TRACK_ID", "lat", "lon"] {
            file.add_variable::<f32>(name, &["record"])?;
        }
        Ok(())
    };
    squall_data::archive::on_library_thread(write).unwrap();
    inputs.push((timeless, "lacks `time` of trajectories as netCDF"));
    for (input, lacks) in inputs {
        let call = parsed(&[text(&input), "--out", text(&folder.path().join("out"))]);
        let error = call.extract().unwrap_err();
        let said = error.to_string();
        assert!(said.contains(lacks) && !said.contains("masks"), "{said}");
        let hint = crate::failure::classify(&error).1.unwrap();
        assert!(hint.contains("docs/input.md"), "{hint}");
        let offers = crate::commands::score::kind::offers(text(&input)).unwrap();
        let refused = offers[0].refusal().unwrap().to_string();
        assert!(refused.contains(lacks), "{refused}");
    }
}

#[test]
fn an_import_leaves_nothing_of_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate(&at("run"), 6, 40);
    let (masks, events, out) = (at("run/truth"), at("events"), at("imported"));
    parsed(&[text(&masks), "--out", text(&events), "--format", "geojson"])
        .extract()
        .unwrap();
    let import = |file: &Path, formats: &[&str]| {
        let words = [text(file), "--out", text(&out)];
        parsed(&[&words[..], formats].concat()).extract()
    };
    let source = events.join("events.geojson");
    import(&source, &["--format", "gfdl,parquet"]).unwrap();
    std::fs::write(out.join("notes.txt"), "of somebody").unwrap();
    assert!(out.join("events.parquet").is_file());
    // Its own output is no input for the same folder.
    let error = import(&out.join("events.parquet"), &[]).unwrap_err();
    assert!(error.to_string().contains("would be replaced"), "{error}");
    import(&source, &[]).unwrap();
    let entries = std::fs::read_dir(&out).unwrap();
    let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".lock", "events.csv", "notes.txt", "tracks.csv"]);
    // Who would go on from a state among these tables would take them for its own.
    std::fs::create_dir(out.join(".events.partial")).unwrap();
    let error = import(&source, &[]).unwrap_err();
    assert!(error.to_string().contains("interrupted run"), "{error}");
}

/// Of masks: smaller objects are no events.
#[test]
fn least_areas_are_those_of_their_class() {
    let call = |more: &[&str]| -> Events {
        let words = ["masks", "--out", "events"];
        arguments::parsed(words.iter().chain(more)).unwrap()
    };
    let areas = |events: &Events| {
        let least = events.options_or(ExtractOptions::default());
        [
            least.min_tropical_cyclone_km2,
            least.min_atmospheric_river_km2,
        ]
    };
    // As the help says.
    assert_eq!(areas(&call(&[])), [20_000.0, 300_000.0]);
    let both = ["--min-cyclone-km2", "5", "--min-river-km2", "7"];
    assert_eq!(areas(&call(&both)), [5.0, 7.0]);
    assert_eq!(areas(&call(&both[..2])), [5.0, 300_000.0]);
    assert_eq!(areas(&call(&both[2..])), [20_000.0, 7.0]);
    assert_eq!(call(&[]).confidence(), 0.5);
    assert_eq!(call(&["--min-confidence", "0.8"]).confidence(), 0.8);
}

/// `label` had told 2093 cyclones and `events` 2031, without a word.
#[test]
fn fewer_areas_than_labelled_cyclones_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let table = "class,time\ntropical_cyclone,a\natmospheric_river,a\ntropical_cyclone,a\ntropical_cyclone,b\n";
    std::fs::write(folder.path().join("objects.csv"), table).unwrap();
    assert_eq!(listed_cyclones(folder.path().to_str().unwrap()), Some(3));
    assert_eq!(listed_cyclones("no/such/folder"), None);
    let said = |cyclones, small_cyclones, unread_times| {
        let counts = EventCounts {
            cyclones,
            small_cyclones,
            ..EventCounts::default()
        };
        let summary = EventsSummary {
            counts,
            unread_times,
            ..EventsSummary::default()
        };
        summary.joined(3)
    };
    let expected =
        "3 labelled cyclones are 2 connected areas of the masks: those that touch count as one";
    assert_eq!(said(1, 1, 0).as_deref(), Some(expected));
    assert_eq!(said(2, 1, 0), None);
    assert_eq!(said(1, 1, 1), None);
}
