//! Masks or boxes and fields, time after time, and the events in them.

use super::fields::Known;
use super::{Events, Fields, Objects};
use crate::missing::Missing;
use crate::skipped::Skipped;
use ndarray::Array2;
use rayon::prelude::*;
use squall_climate::events::{
    DetectedEvent, EventFields, ExtractOptions, extract_counting, from_boxes,
};
use squall_climate::map::LandMask;
use squall_climate::stream::{Moment, hours_of};
use squall_data::boxes::BoxFrame;
use squall_data::mask_file::MaskArchive;
use squall_data::{Class, ClassMask, DataError, LatLonGrid, Time, TrackedBox};
use std::ops::Range;

/// Where events come from.
pub struct Source<'a> {
    objects: &'a Objects,
    /// The frames of boxes that were not read yet.
    frames: Option<Box<dyn Iterator<Item = Result<BoxFrame, DataError>> + 'a>>,
    fields: Option<Fields>,
    land: &'a LandMask,
    options: ExtractOptions,
    unread_masks: Skipped,
}

/// Probabilities of classes, cell by cell.
type Probabilities = Vec<(Class, Array2<f32>)>;

/// One time as read, and its events.
pub struct Read {
    /// Place of the time among all.
    index: usize,
    /// The time itself.
    time: Time,
    /// The events that were found.
    pub found: Vec<DetectedEvent>,
    /// Areas of cyclones that are too small to be events.
    pub small_cyclones: usize,
    shown: Shown,
    fields: Option<Known>,
    /// Whether there are fields that cannot be read.
    unread: bool,
    /// Time that the fields stand for; that of the time itself where there are none.
    fields_hours: f64,
    probabilities: Probabilities,
}

/// What a time holds before its events are found.
enum Shown {
    Mask(ClassMask),
    Boxes(Vec<TrackedBox>),
}

impl Read {
    /// The mask of the time, if it has one.
    fn mask(&self) -> Option<&ClassMask> {
        match &self.shown {
            Shown::Mask(mask) => Some(mask),
            Shown::Boxes(_) => None,
        }
    }

    /// What the run is told of the time; `known` is [`Self::known`], `times` are all times.
    pub fn moment<'r>(&'r self, times: &[Time], known: &'r EventFields<'r>) -> Moment<'r> {
        Moment {
            time: self.time,
            mask: self.mask(),
            hours: hours_of(times, self.index),
            fields_hours: self.fields_hours,
            fields: known,
        }
    }

    /// What is known of the time besides its mask or boxes: fields, probabilities, land.
    pub fn known<'a>(&'a self, land: &'a LandMask) -> EventFields<'a> {
        let probabilities = self.probabilities.iter();
        EventFields {
            snapshot: self.fields.as_ref().map(|known| &known.snapshot),
            unread: self.unread,
            transport: (self.fields.as_ref())
                .and_then(|known| Some(known.transport.as_ref()?.view())),
            probabilities: probabilities.map(|(c, p)| (*c, p.view())).collect(),
            land: Some(land),
        }
    }

    /// The events of the time, and how many cyclones are too small to be some.
    fn find(
        &self,
        grid: &LatLonGrid,
        land: &LandMask,
        options: &ExtractOptions,
    ) -> anyhow::Result<(Vec<DetectedEvent>, usize)> {
        let known = self.known(land);
        Ok(match &self.shown {
            Shown::Mask(mask) => extract_counting(mask, grid, &known, options)?,
            Shown::Boxes(boxes) => (from_boxes(self.time, boxes, grid, &known)?, 0),
        })
    }
}

impl<'a> Source<'a> {
    /// A reader of masks or boxes and fields from the time at `start` on.
    pub fn new(
        arguments: &Events,
        objects: &'a Objects,
        fields: Option<Fields>,
        land: &'a LandMask,
        start: usize,
    ) -> anyhow::Result<Self> {
        let frames = match objects {
            Objects::Masks(_) => None,
            Objects::Boxes { series, .. } => Some(series.frames(start)?),
        };
        Ok(Self {
            objects,
            frames,
            fields,
            land,
            options: arguments.options(objects),
            unread_masks: Skipped::new(arguments.skip_bad, "is left out"),
        })
    }

    /// How much was missing in the fields that were read; none without fields.
    pub fn missing(&self) -> Option<&Missing> {
        self.fields.as_ref().map(Fields::missing)
    }

    /// Some times one after the other, because netCDF has one lock; then their events in parallel. Blocks must follow
    /// each other. With `--skip-bad` times are missing whose mask cannot be read.
    pub fn read(&mut self, block: Range<usize>) -> anyhow::Result<Vec<Read>> {
        let mut read = block
            .filter_map(|index| self.read_one(index).transpose())
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (grid, land, options) = (self.objects.grid(), self.land, &self.options);
        read.par_iter_mut().try_for_each(|read| {
            (read.found, read.small_cyclones) = read.find(grid, land, options)?;
            Ok::<_, anyhow::Error>(())
        })?;
        Ok(read)
    }

    fn read_one(&mut self, index: usize) -> anyhow::Result<Option<Read>> {
        let mut probabilities = Vec::new();
        let (time, shown) = match self.objects {
            Objects::Masks(masks) => {
                let read = mask_at(masks, index);
                let read = self.unread_masks.or_none(masks.times()[index], read)?;
                let Some((mask, known)) = read else {
                    return Ok(None);
                };
                probabilities = known;
                (mask.time, Shown::Mask(mask))
            }
            Objects::Boxes {
                series,
                min_confidence,
                ..
            } => {
                let next = self.frames.as_mut().and_then(Iterator::next);
                let BoxFrame { time, mut boxes } = next.ok_or_else(|| {
                    DataError::unreadable(
                        series.path(),
                        format!("expected {} times, found {index}", series.times().len()),
                    )
                })??;
                boxes.retain(|found| found.geo.is_sure(*min_confidence));
                (time, Shown::Boxes(boxes))
            }
        };
        let fields = self.fields.as_ref();
        let known = fields.map(|fields| fields.at(time)).transpose()?;
        let fields_hours = fields.and_then(|fields| fields.hours(time));
        let fields_hours = fields_hours.unwrap_or_else(|| hours_of(self.objects.times(), index));
        Ok(Some(Read {
            index,
            time,
            found: Vec::new(),
            small_cyclones: 0,
            shown,
            unread: fields.is_some_and(|fields| fields.has(time)) && matches!(known, Some(None)),
            fields: known.flatten(),
            fields_hours,
            probabilities,
        }))
    }
}

/// The mask of a time and the probabilities that its file keeps.
fn mask_at(masks: &MaskArchive, index: usize) -> Result<(ClassMask, Probabilities), DataError> {
    let mask = masks.read(index)?;
    let mut probabilities = Vec::new();
    for class in Class::EVENTS {
        let known = masks.probability(index, class)?;
        probabilities.extend(known.map(|plane| (class, plane)));
    }
    Ok((mask, probabilities))
}
