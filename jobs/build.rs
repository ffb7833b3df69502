//! Tells the crate which sources the numbers of training and inference come from.

#![allow(clippy::print_stdout)] // cargo reads it

mod sources;

fn main() {
    sources::set_build_variables(&["data", "jobs", "model"], &[]);
}
