//! `squall`: finds extreme weather in climate-model output. One subcommand per arrow of the main path.
#![forbid(unsafe_code)]

mod arguments;
mod box_files;
mod cli;
mod code;
mod command_line;
mod commands;
mod device;
mod events_folder;
mod failure;
mod input;
mod interrupt;
mod logging;
mod made_by;
mod missing;
mod output;
mod own_folder;
mod plan;
mod progress;
mod ranks;
mod saving;
mod skipped;
mod tags;
mod threads;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = cli::Arguments::try_parse();
    let options = parsed.as_ref().map(cli::Arguments::threads);
    let prepared = threads::prepare(&options.unwrap_or_default());
    if let Err(error) = prepared.and_then(|()| device::check_environment()) {
        return ExitCode::from(failure::report(&error));
    }
    interrupt::outlive_file_size_limit();
    squall_model::memory::keep_large_buffers();
    device::prepare();
    let arguments = parsed.unwrap_or_else(|error| failure::leave(&error));
    let wanted = (arguments.verbose, arguments.quiet);
    logging::start(ranks::number(), wanted, arguments.repeats_itself());
    if let Some(job) = ranks::batch_job() {
        squall_jobs::lock::name_job(job);
    }
    let code = match arguments.command.run() {
        Ok(()) => 0,
        Err(error) => {
            let rank = ranks::number();
            std::thread::sleep(ranks::patience(rank, &error));
            match ranks::leaves_report_to_first(rank, &error) {
                true => failure::INTERRUPTED,
                false => failure::report(&error),
            }
        }
    };
    if squall_data::netcdf_file::has_failed() {
        // HDF5's exit handler crashes after a failed write, so this ends the process without exit handlers. Standard
        // output is flushed here, as Rust does on normal exit.
        let _ = std::io::stdout().flush();
        signal_hook::low_level::exit(code.into());
    }
    ExitCode::from(code)
}
