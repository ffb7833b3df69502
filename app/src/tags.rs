//! Masks of tools that do not name a class.

use crate::commands::label;
use clap::Args;
use squall_data::archive::BadFiles;
use squall_data::mask_file::MaskArchive;
use squall_data::{Class, DataError};
use squall_jobs::infer::is_unfinished;
use std::collections::BTreeSet;
use std::path::Path;

/// What such masks mark.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Tags {
    /// Class of masks whose variable names none (`binary_tag`, `object_id`): tropical_cyclone or atmospheric_river
    /// [default: atmospheric_river, with a warning].
    #[arg(long, value_name = "CLASS", value_parser = event)]
    pub tag_class: Option<Class>,
}

impl Tags {
    /// Opens the masks of an input and logs the assumptions made.
    ///
    /// # Errors
    /// As [`MaskArchive::open`].
    pub fn open(self, input: &str) -> Result<MaskArchive, DataError> {
        let masks = self.open_with(input, BadFiles::Fail)?;
        say(&masks);
        Ok(masks)
    }

    /// Opens the masks of an input, with a choice about bad files; logs nothing.
    ///
    /// # Errors
    /// As [`MaskArchive::open_with`].
    pub fn open_with(self, input: &str, bad_files: BadFiles) -> Result<MaskArchive, DataError> {
        MaskArchive::open_with(input, self.tag_class, bad_files)
    }

    /// Warns if a class was given although all masks name theirs.
    pub fn say_unused(self, masks: &MaskArchive) {
        if self.tag_class.is_some() && !masks.has_unnamed() {
            tracing::warn!(
                "--tag-class has no effect: all masks are of variables that name their classes"
            );
        }
    }
}

/// Logs assumptions and skipped files, and warns if files belong to different or incomplete runs.
pub fn say(masks: &MaskArchive) {
    let folders: BTreeSet<&Path> = masks.paths().filter_map(Path::parent).collect();
    for folder in folders {
        let shown = folder.display();
        if is_unfinished(folder) {
            tracing::warn!(
                "`{shown}` is of an inference that was stopped: `squall infer`, given again, makes the masks that are missing"
            );
        }
        if label::is_unfinished(folder) {
            tracing::warn!(
                "`{shown}` is of a labelling that was stopped or still goes on: `squall label`, given again, makes the masks that are missing"
            );
        }
    }
    masks
        .notes()
        .iter()
        .for_each(|note| tracing::warn!("{note}: --tag-class says otherwise"));
    masks
        .skipped()
        .iter()
        .for_each(|why| tracing::warn!("skipped: {why}"));
    if let Some(mixed) = masks.mixed() {
        tracing::warn!("{mixed}: all masks count as those of one run");
    }
}

/// Parses a mask class that is an event.
fn event(name: &str) -> Result<Class, String> {
    let found = Class::EVENTS.into_iter().find(|class| class.name() == name);
    found.ok_or_else(|| {
        let known = Class::EVENTS.map(Class::name).join(" or ");
        format!("expected {known}")
    })
}
