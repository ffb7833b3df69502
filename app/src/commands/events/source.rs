//! Reads masks or boxes and fields, time by time, and finds their events.

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
use squall_data::mask_file::{KnownMask, MaskArchive};
use squall_data::{Class, DataError, LatLonGrid, Time, TrackedBox};
use std::ops::Range;

/// Where events come from.
pub struct Source<'a> {
    objects: &'a Objects,
    /// The frames of boxes that have not been read yet.
    frames: Option<Box<dyn Iterator<Item = Result<BoxFrame, DataError>> + 'a>>,
    fields: Option<Fields>,
    land: &'a LandMask,
    options: ExtractOptions,
    unread_masks: Skipped,
    skip_bad: bool,
    /// The times whose masks have only missing values, since [`Self::take_without_mask`].
    without_mask: Vec<Time>,
}

/// Probabilities of classes, cell by cell.
type Probabilities = Vec<(Class, Array2<f32>)>;

/// One time as read, with its events.
pub struct Read {
    /// Index of the time.
    index: usize,
    /// The time itself.
    time: Time,
    /// The events that were found.
    pub found: Vec<DetectedEvent>,
    /// Number of cyclone areas that are too small to be events.
    pub small_cyclones: usize,
    shown: Shown,
    fields: Option<Known>,
    /// Whether its fields are unreadable.
    unread: bool,
    /// Hours represented by the fields, or by the time itself without fields.
    fields_hours: f64,
    probabilities: Probabilities,
}

/// The content of a time before its events are found.
enum Shown {
    Mask(KnownMask),
    Boxes(Vec<TrackedBox>),
}

impl Read {
    /// The mask of the time, if it has one.
    fn mask(&self) -> Option<&KnownMask> {
        match &self.shown {
            Shown::Mask(known) => Some(known),
            Shown::Boxes(_) => None,
        }
    }

    /// The input of the event stream for this time; `known` is [`Self::known`], `times` are all times.
    pub fn moment<'r>(&'r self, times: &[Time], known: &'r EventFields<'r>) -> Moment<'r> {
        Moment {
            time: self.time,
            mask: self.mask().map(|known| &known.mask),
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
            missing: (self.mask()).and_then(|known| Some(known.missing.as_ref()?.view())),
        }
    }

    /// Finds the events of the time, and counts the cyclones that are too small.
    fn find(
        &self,
        grid: &LatLonGrid,
        land: &LandMask,
        options: &ExtractOptions,
    ) -> anyhow::Result<(Vec<DetectedEvent>, usize)> {
        let known = self.known(land);
        Ok(match &self.shown {
            Shown::Mask(shown) => extract_counting(&shown.mask, grid, &known, options)?,
            Shown::Boxes(boxes) => (from_boxes(self.time, boxes, grid, &known)?, 0),
        })
    }
}

impl<'a> Source<'a> {
    /// A reader of masks or boxes and fields, starting at the time `start`.
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
            skip_bad: arguments.skip_bad,
            without_mask: Vec::new(),
        })
    }

    /// Missing values in the fields that were read; `None` without fields.
    pub fn missing(&self) -> Option<&Missing> {
        self.fields.as_ref().map(Fields::missing)
    }

    /// The times, since the last call, that were left out because their masks have only missing values.
    pub fn take_without_mask(&mut self) -> Vec<Time> {
        std::mem::take(&mut self.without_mask)
    }

    /// Reads some times one after the other, because netCDF has one lock; then finds their events in parallel. Blocks
    /// must be consecutive. With `--skip-bad`, times with unreadable masks are left out.
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
                let Some(read) = read else {
                    return Ok(None);
                };
                let Some((known, of_classes)) = read else {
                    if !self.skip_bad {
                        return Err(masks.only_missing(index).into());
                    }
                    self.without_mask.push(masks.times()[index]);
                    return Ok(None);
                };
                probabilities = of_classes;
                (known.mask.time, Shown::Mask(known))
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

/// The mask of a time and the probabilities that its file keeps; `None` if the mask is missing everywhere.
fn mask_at(
    masks: &MaskArchive,
    index: usize,
) -> Result<Option<(KnownMask, Probabilities)>, DataError> {
    let Some(mask) = masks.read_known(index)? else {
        return Ok(None);
    };
    let mut probabilities = Vec::new();
    for class in Class::EVENTS {
        let known = masks.probability(index, class)?;
        probabilities.extend(known.map(|plane| (class, plane)));
    }
    Ok(Some((mask, probabilities)))
}
