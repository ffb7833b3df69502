//! `squall`: finds extreme weather in climate-model output. One subcommand per arrow of the main path.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod device;
mod failure;
mod input;
mod interrupt;
mod logging;
mod output;
mod plan;
mod progress;
mod ranks;
mod threads;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = cli::Arguments::try_parse();
    let options = parsed.as_ref().map(cli::Arguments::threads);
    if let Err(error) = threads::prepare(&options.unwrap_or_default()) {
        return failure::report(&error);
    }
    squall_model::memory::keep_large_buffers();
    device::prepare();
    let arguments = parsed.unwrap_or_else(|error| error.exit());
    // Of several ranks the first tells what all do.
    logging::start(arguments.verbose, arguments.quiet || ranks::number() > 0);
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
