//! Tells the program which sources all of its numbers come from.

#![allow(clippy::print_stdout)] // cargo reads it

#[path = "../jobs/sources.rs"]
mod sources;

fn main() {
    sources::set_build_variables(
        &["app", "climate", "data", "jobs", "model", "validation"],
        &["climate/assets", "jobs/machines", "jobs/recipes"],
    );
}
