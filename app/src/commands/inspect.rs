//! `squall inspect`: says what a file or folder is.

use crate::failure::{Advice, INPUT};
use crate::output;
use clap::Args;

/// Say what a file or folder is: dialect, variables, units, grid, calendar, time span, problems.
#[derive(Debug, Args)]
pub struct Inspect {
    /// A file, a folder, a glob in quotes, or a text file that lists paths.
    path: String,
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    /// Prints the inspection; an error if nothing of it can be used.
    pub fn run(self) -> anyhow::Result<()> {
        let inspection = squall_data::inspect::inspect(&self.path)?;
        if self.json {
            output::json(&inspection)?;
        } else {
            output::text(&inspection)?;
        }
        if inspection.usable {
            return Ok(());
        }
        Err(Advice {
            message: format!(
                "`{}` has no fields, masks or boxes that can be used",
                self.path
            ),
            hint: "its notes (`problems` of --json) say what is in the way".into(),
            code: INPUT,
        }
        .into())
    }
}
