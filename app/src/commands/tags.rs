//! Masks of tools that name no class.

use clap::Args;
use squall_data::mask_file::MaskArchive;
use squall_data::{Class, DataError};

/// What such masks mark.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Tags {
    /// What masks mark whose variable names no class (`binary_tag`, `object_id`): tropical_cyclone or
    /// atmospheric_river. Without it rivers, with a warning.
    #[arg(long, value_name = "CLASS", value_parser = event)]
    pub tag_class: Option<Class>,
}

impl Tags {
    /// The masks of an input.
    ///
    /// # Errors
    /// As [`MaskArchive::open`].
    pub fn open(self, input: &str) -> Result<MaskArchive, DataError> {
        let masks = MaskArchive::open_as(input, self.tag_class)?;
        masks
            .notes()
            .iter()
            .for_each(|note| tracing::warn!("{note}: --tag-class says otherwise"));
        Ok(masks)
    }
}

/// A class of masks that is an event.
fn event(name: &str) -> Result<Class, String> {
    let found = Class::EVENTS.into_iter().find(|class| class.name() == name);
    found.ok_or_else(|| {
        let known = Class::EVENTS.map(Class::name).join(" or ");
        format!("expected {known}")
    })
}
