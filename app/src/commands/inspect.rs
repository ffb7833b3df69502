//! `squall inspect`: says what a file or folder is.

use crate::commands::score::kind::{Kind, offers};
use crate::failure::Advice;
use crate::output;
use clap::Args;
use std::path::Path;

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
        let mut inspection = squall_data::inspect::inspect(&self.path)?;
        inspection.usable = inspection.usable || self.has_tables();
        output::result(&inspection, self.json)?;
        if inspection.usable {
            return Ok(());
        }
        Err(Advice::input(
            format!(
                "`{}` has no fields, masks, boxes or tracks that can be used",
                self.path
            ),
            "its notes (`problems` of --json) say what is in the way",
        ))
    }

    /// Whether there are tracks, or a table of tracks or boxes in a folder; not where they cannot be read.
    fn has_tables(&self) -> bool {
        let is_folder = Path::new(&self.path).is_dir();
        let is_table = |kind: Kind| kind == Kind::Tracks || kind == Kind::Boxes && is_folder;
        offers(&self.path).is_ok_and(|found| found.iter().any(|one| is_table(one.kind)))
    }
}
