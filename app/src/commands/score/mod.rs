//! `squall score`: predictions against labels, by pixel, by event, by box and by track.

mod boxes;
pub mod kind;
mod left_out;
mod masks;
mod tracks;

pub use boxes::Scores as BoxScores;
pub use boxes::{box_grid, judge, share_times};
pub use masks::{Scores, table_path};

use crate::arguments::calendar;
use crate::failure::Advice;
use crate::output;
use crate::tags::Tags;
use clap::Args;
use kind::Kind;
use serde::Serialize;
use squall_climate::table;
use squall_data::Calendar;
use std::fmt;
use std::path::Path;

/// Score masks, boxes or tracks against labels, truth or best tracks.
///
/// What is compared follows from what the two sides are: masks by pixel, event and track (IoU, POD, FAR); boxes
/// (boxes.csv, ExtremeWeather's .h5, COCO's .json; on the grid that the file says, else CAM5's of 0.25 degrees) by
/// average precision, and by event and track at one confidence, all over the same times; tracks (events.csv,
/// TempestExtremes, TECA, TRACK, IBTrACS, HURDAT2, ATCF and others) by hit rate, false alarms and distance. Where both
/// sides hold masks and boxes, both are scored. A class that the masks of a side cannot hold, such as cyclones of
/// `ar_binary_tag`, is left out.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall score --prediction masks --truth labels --events events/events.csv\n  squall score --prediction events --truth labels-events\n  squall score --prediction events --truth ibtracs.csv --min-wind 17"
)]
pub struct Score {
    /// What is judged: masks (a folder may also hold events.csv or objects.csv), boxes.csv, or a file of tracks.
    #[arg(long, value_name = "PATH")]
    pub prediction: String,
    /// What judges: masks such as ARTMIP's, boxes.csv, or tracks such as IBTrACS or HURDAT2.
    #[arg(long, value_name = "PATH")]
    pub truth: String,
    #[command(flatten)]
    pub tags: Tags,
    /// Another table of predicted events than the one in the folder of the prediction.
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    /// Calendar of the dates in tables, which do not tell it; by default that of statistics.nc or masks beside them,
    /// else standard.
    #[arg(long, value_name = "NAME", value_parser = calendar)]
    pub calendar: Option<Calendar>,
    /// Boxes: from here on a box counts as an event (default 0.5); boxes without a confidence are sure.
    #[arg(long, value_name = "SHARE")]
    pub min_confidence: Option<f32>,
    /// Tracks: only storms of the truth whose wind reaches this, m/s (17 for tropical storms); predicted tracks that
    /// are a weaker one are left out, too.
    #[arg(long, value_name = "M_S")]
    pub min_wind: Option<f64>,
    /// Tracks: a predicted track is a storm by its mean distance (Hodges et al. 2017) and not by its nearest points.
    #[arg(long)]
    pub by_mean_distance: bool,
    /// Tracks: columns of StitchNodes text, as its --in_fmt; of TRACK's text the names of its added fields, such as
    /// mslp,wind10, in their order.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Scores of masks and of boxes, where both sides hold both.
#[derive(Debug, Serialize)]
struct Both {
    #[serde(flatten)]
    masks: Scores,
    boxes: boxes::Scores,
}

impl fmt::Display for Both {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "masks:\n{}\n\nboxes:\n{}", self.masks, self.boxes)
    }
}

impl Score {
    /// Masks against masks, all else by default.
    pub fn of_masks(prediction: String, truth: String, events: Option<String>) -> Self {
        Self {
            prediction,
            truth,
            tags: Tags::default(),
            events,
            calendar: None,
            min_confidence: None,
            min_wind: None,
            by_mean_distance: false,
            columns: Vec::new(),
            json: false,
        }
    }

    /// Refuses options that have no effect on masks and boxes.
    fn refuse_misfits(&self) -> anyhow::Result<()> {
        let of_tracks = [
            (self.min_wind.is_some(), "--min-wind"),
            (self.by_mean_distance, "--by-mean-distance"),
            (!self.columns.is_empty(), "--columns"),
        ];
        match of_tracks.into_iter().find(|(given, _)| *given) {
            Some((_, option)) => Err(Advice::usage(
                format!("{option} is for tracks, and both sides hold masks or boxes"),
                "leave it out, or give tables of tracks such as the events.csv of both sides",
            )),
            None => Ok(()),
        }
    }

    /// The calendar of the dates of tables: as asked for, else what lies beside the first of them that anything does.
    fn calendar_of(&self, tables: &[&Path]) -> Calendar {
        let beside = || {
            let mut folders = tables.iter().filter_map(|table| table.parent());
            folders.find_map(table::calendar_beside)
        };
        self.calendar.or_else(beside).unwrap_or_default()
    }

    /// Prints the scores.
    pub fn run(self) -> anyhow::Result<()> {
        let (predicted, truth) = (kind::offers(&self.prediction)?, kind::offers(&self.truth)?);
        let of = |offers: &[kind::Offer], kind: Kind| {
            let offer = offers.iter().find(|offer| offer.kind == kind);
            offer.map(|offer| offer.path.clone())
        };
        let shared = |kind| Some((of(&predicted, kind)?, of(&truth, kind)?));
        if shared(Kind::Masks).is_some() || shared(Kind::Boxes).is_some() {
            self.refuse_misfits()?;
        }
        let boxes = shared(Kind::Boxes);
        if self.min_confidence.is_some() && boxes.is_none() {
            return Err(Advice::usage(
                "--min-confidence is for boxes, and the sides have none in common",
                "leave it out, or give boxes on both sides",
            ));
        }
        let boxes = boxes.map(|(predicted, truth)| boxes::score(&self, &predicted, &truth));
        match (shared(Kind::Masks), boxes, shared(Kind::Tracks)) {
            (Some(_), Some(boxes), _) => {
                let (masks, boxes) = (self.score()?, boxes?);
                return output::result(&Both { masks, boxes }, self.json);
            }
            (Some(_), None, _) => return output::result(&self.score()?, self.json),
            (None, Some(boxes), _) => return output::result(&boxes?, self.json),
            (None, None, Some((predicted, truth))) => {
                let scores = tracks::score(&self, &predicted, &truth)?;
                return output::result(&scores, self.json);
            }
            (None, None, None) => {}
        }
        let mut all = predicted.iter().chain(&truth);
        if let Some(error) = all.find_map(kind::Offer::refusal) {
            return Err(error);
        }
        let say = |offers: &[kind::Offer]| {
            let names: Vec<&str> = offers.iter().map(|offer| offer.kind.name()).collect();
            names.join(" and ")
        };
        Err(Advice::usage(
            format!(
                "`{}` holds {}, `{}` holds {}: they cannot be compared",
                self.prediction,
                say(&predicted),
                self.truth,
                say(&truth)
            ),
            "`squall events` makes tracks (events.csv) of masks",
        ))
    }
}
