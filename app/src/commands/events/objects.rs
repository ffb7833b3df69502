//! The source of events: masks or boxes.

use super::{Events, refusals};
use crate::arguments::check_confidence;
use crate::commands::score::box_grid;
use crate::commands::score::kind::{Kind, offers};
use crate::failure::Advice;
use crate::input::bad_files;
use crate::made_by;
use crate::tags;
use squall_climate::events::ExtractOptions;
use squall_climate::track::TrackerOptions;
use squall_data::boxes::{self, BoxSeries};
use squall_data::gaps::Gaps;
use squall_data::mask_file::MaskArchive;
use squall_data::{Archive, Calendar, Class, LatLonGrid, Time};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many tropical cyclones the table lists that `squall label` wrote beside its masks; `None` without such a table.
pub fn listed_cyclones(masks: &str) -> Option<usize> {
    let table = File::open(Path::new(masks).join("objects.csv")).ok()?;
    let row = format!("{},", Class::TropicalCyclone.name());
    let mut count = 0;
    for line in BufReader::new(table).lines() {
        count += usize::from(line.ok()?.starts_with(&row));
    }
    Some(count)
}

/// Masks or boxes of many times.
pub enum Objects {
    /// Masks on their grid.
    Masks(MaskArchive),
    /// Boxes, and the grid on which they are compared.
    Boxes {
        /// The boxes.
        series: BoxSeries,
        /// The grid of the fields, if there are any.
        grid: Arc<LatLonGrid>,
        /// Minimum confidence of events.
        min_confidence: f32,
        /// What is said beside them of their rules, if anything is.
        said: Option<BTreeMap<String, String>>,
    },
}

impl Objects {
    /// Opens the inputs named by the arguments; boxes are put on the grid and calendar of the fields, or those that are
    /// told beside them. The rank that `says` logs the decisions.
    pub fn open(arguments: &Events, fields: Option<&Archive>, says: bool) -> anyhow::Result<Self> {
        check_confidence(arguments.confidence())?;
        let input = &arguments.masks;
        let Some(path) = boxes_in(input)? else {
            arguments.refuse_misfits("masks")?;
            let bad_files = bad_files(arguments.skip_bad);
            let masks = (arguments.tags.open_with(input, bad_files))
                .map_err(|error| refusals::explained(error, input))?;
            refusals::refuse_calendar(arguments.calendar, masks.calendar(), input)?;
            if says {
                tags::say(&masks);
                arguments.tags.say_unused(&masks);
                if let Some(gaps) = Gaps::of(masks.times()) {
                    tracing::warn!("{gaps}");
                }
            }
            return Ok(Self::Masks(masks));
        };
        arguments.refuse_misfits("boxes")?;
        let is_table = path.file_name().is_some_and(|name| name == "boxes.csv");
        let folder = path.parent().filter(|_| is_table);
        let said = folder.and_then(made_by::beside_boxes);
        let told = said.as_ref().and_then(made_by::calendar_of_boxes);
        if let Some(told) = told {
            refusals::refuse_calendar(arguments.calendar, told, input)?;
        }
        let calendar = (arguments.calendar)
            .or(told)
            .or(fields.map(Archive::calendar));
        let grid = match fields {
            Some(archive) => archive.grid().clone(),
            None => {
                let told = said.as_ref().and_then(made_by::grid_of_boxes);
                Arc::new(told.map_or_else(box_grid, Ok)?)
            }
        };
        let pixels = boxes::pixel_grid(&path, fields.map(|archive| &**archive.grid()))?;
        let series = BoxSeries::open(&path, &pixels, calendar.unwrap_or(Calendar::Standard))?;
        if series.times().is_empty() {
            return Err(Advice::input(
                format!("`{}` has neither boxes nor times", path.display()),
                "a time at which nothing was found counts, too: in a table it is a row with the time alone",
            ));
        }
        let notes = series.notes().iter().filter(|_| says);
        notes.for_each(|note| tracing::warn!("{note}"));
        Ok(Self::Boxes {
            series,
            grid,
            min_confidence: arguments.confidence(),
            said,
        })
    }

    /// The grid.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        match self {
            Self::Masks(masks) => masks.grid(),
            Self::Boxes { grid, .. } => grid,
        }
    }

    /// All times, ascending.
    pub fn times(&self) -> &[Time] {
        match self {
            Self::Masks(masks) => masks.times(),
            Self::Boxes { series, .. } => series.times(),
        }
    }

    /// The calendar of the times.
    pub fn calendar(&self) -> Calendar {
        match self {
            Self::Masks(masks) => masks.calendar(),
            Self::Boxes { series, .. } => series.calendar(),
        }
    }

    /// The program that made the masks, as far as their files say; empty for boxes.
    pub fn source(&self) -> &str {
        match self {
            Self::Masks(masks) => masks.source(),
            Self::Boxes { .. } => "",
        }
    }

    /// The numbers of the rules or the network that made the masks, as far as their files say; empty for boxes.
    pub fn made_by(&self) -> Vec<(String, String)> {
        let named = |(name, value): (String, String)| (format!("masks.{name}"), value);
        match self {
            Self::Masks(masks) => {
                let numbers = made_by::numbers(masks.made_by());
                numbers.into_iter().map(named).collect()
            }
            Self::Boxes { said, .. } => {
                let numbers = said.as_ref().map(made_by::numbers_of_boxes);
                numbers.into_iter().flatten().map(named).collect()
            }
        }
    }

    /// The default selection of mask areas that are events.
    pub fn usual_options(&self) -> ExtractOptions {
        match self {
            Self::Masks(masks) if masks.is_by_rules() => ExtractOptions::of_rules(),
            Self::Masks(_) | Self::Boxes { .. } => ExtractOptions::default(),
        }
    }

    /// The files.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Masks(masks) => masks.paths().collect(),
            Self::Boxes { series, .. } => vec![series.path()],
        }
    }

    /// The classes whose absence from the objects is meaningful.
    pub fn classes(&self) -> Vec<Class> {
        match self {
            Self::Masks(masks) => masks.classes(),
            Self::Boxes { said, .. } => match said {
                Some(said) => made_by::classes_of_boxes(said),
                None => Class::EVENTS.to_vec(),
            },
        }
    }

    /// Number of unusable files.
    pub fn skipped_files(&self) -> usize {
        match self {
            Self::Masks(masks) => masks.skipped().len(),
            Self::Boxes { .. } => 0,
        }
    }

    /// How events are joined to tracks.
    pub fn tracking(&self) -> TrackerOptions {
        match self {
            Self::Masks(_) => TrackerOptions::default(),
            Self::Boxes { .. } => TrackerOptions::for_boxes(),
        }
    }

    /// The plural noun for what a time holds.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Masks(_) => "masks",
            Self::Boxes { .. } => "times with boxes",
        }
    }

    /// Number of bytes to be read.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Masks(masks) => {
                let (rows, columns) = masks.grid().shape();
                (rows * columns * masks.times().len()) as u64
            }
            // Once for the times, once for the boxes.
            Self::Boxes { series, .. } => {
                2 * std::fs::metadata(series.path()).map_or(0, |meta| meta.len())
            }
        }
    }
}

/// The box file that an input is or contains, unless it contains masks.
fn boxes_in(input: &str) -> anyhow::Result<Option<PathBuf>> {
    let offers = offers(input)?;
    if offers.iter().any(|offer| offer.kind == Kind::Masks) {
        return Ok(None);
    }
    let boxes = offers.into_iter().find(|offer| offer.kind == Kind::Boxes);
    Ok(boxes.map(|offer| offer.path))
}
