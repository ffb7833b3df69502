//! Masks of other sources to compare with those of the methods.

use super::Label;
use crate::input::{self, files_below};
use crate::skipped::Skipped;
use crate::tags::{self, Tags};
use squall_climate::ClimateError;
use squall_climate::detect::Method;
use squall_climate::detect::agreement::AgreementSource;
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, ClassMask};

/// Masks of other sources, if any.
pub struct Against {
    masks: Option<MaskArchive>,
    tags: Tags,
    unread: Skipped,
}

impl Against {
    /// Opens the masks that `--against` names, if any.
    ///
    /// # Errors
    /// As [`Tags::open_with`]; [`squall_data::DataError::Mismatch`] if their grid or the dates of their calendar differ
    /// from the fields'; [`squall_data::DataError::NoInput`] if none is at a time of the fields.
    pub fn open(command: &Label, archive: &Archive) -> anyhow::Result<Self> {
        let tags = command.tags;
        let unread = Skipped::new(command.skip_bad, "is compared without a mask");
        let Some(path) = command.against.as_deref() else {
            let masks = None;
            return Ok(Self {
                masks,
                tags,
                unread,
            });
        };
        let masks = tags.open_with(path, input::bad_files(command.skip_bad))?;
        tags::say(&masks);
        tags.say_unused(&masks);
        input::same_grid("grid", path, masks.grid(), archive.grid())?;
        input::same_dates(path, masks.calendar(), archive.calendar())?;
        input::compare_origin(&masks, archive);
        input::some_times((path, &masks), (&command.input, archive))?;
        Ok(Self {
            masks: Some(masks),
            tags,
            unread,
        })
    }

    /// Everything that is compared: the methods, then these.
    pub fn sources(&self, methods: &[Method]) -> Vec<AgreementSource> {
        let mut sources: Vec<AgreementSource> = methods
            .iter()
            .map(|method| AgreementSource {
                name: method.name().into(),
                classes: method.classes().to_vec(),
            })
            .collect();
        if let Some(masks) = &self.masks {
            sources.push(AgreementSource {
                name: "against".into(),
                classes: masks.classes(),
            });
        }
        sources
    }

    /// A fingerprint of these masks.
    pub fn fingerprint(&self) -> String {
        self.masks.as_ref().map_or(String::new(), |masks| {
            let files = files_below(masks.paths());
            format!("{files:?} as {:?}", self.tags)
        })
    }

    /// Whether there are any.
    pub fn is_given(&self) -> bool {
        self.masks.is_some()
    }

    /// The mask of a time, if there is one.
    pub fn read(&self, archive: &Archive, index: usize) -> Result<Option<ClassMask>, ClimateError> {
        let Some(masks) = &self.masks else {
            return Ok(None);
        };
        let time = archive.times()[index];
        let Some(at) = masks.find(time) else {
            return Ok(None);
        };
        let mask = self.unread.or_none(time, masks.read(at))?;
        Ok(mask.map(|mask| ClassMask { time, ..mask }))
    }
}
