//! `squall score`: predictions against labels, by pixel, by event, by box and by track.

mod boxes;
pub mod kind;
mod left_out;
mod masks;
mod tracks;

pub use boxes::Scores as BoxScores;
pub use boxes::{about_times, box_grid, judge, share_times};
pub use masks::{Scores, table_path};

use crate::arguments::{calendar, wind};
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
/// The inputs determine the scores. Masks are scored by pixel, event and track (IoU, POD, FAR). Boxes (boxes.csv,
/// ExtremeWeather .h5, COCO .json; on the grid named in the file, else CAM5's 0.25-degree grid) are scored by average
/// precision, and by event and track at one confidence, all over the same times. Tracks (events.csv, TempestExtremes,
/// TECA, TRACK, IBTrACS, HURDAT2, ATCF and others) are scored by hit rate, false alarms and distance. If both sides
/// hold masks and boxes, both are scored. A class that one side's masks cannot hold, such as cyclones in
/// `ar_binary_tag`, is left out.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall score --prediction masks --truth labels --events events/events.csv\n  squall score --prediction events --truth labels-events\n  squall score --prediction events --truth ibtracs.csv --min-wind 17"
)]
pub struct Score {
    /// Prediction: masks (their folder may also hold events.csv or objects.csv), boxes.csv, or tracks.
    #[arg(long, value_name = "PATH")]
    pub prediction: String,
    /// Truth: masks such as ARTMIP's, boxes.csv, or tracks such as IBTrACS or HURDAT2.
    #[arg(long, value_name = "PATH")]
    pub truth: String,
    #[command(flatten)]
    pub tags: Tags,
    /// Table of predicted events, instead of the one in the folder of the prediction.
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    /// Calendar of dates in tables, which do not name it [default: that of statistics.nc or masks beside them, else
    /// standard].
    #[arg(long, value_name = "NAME", value_parser = calendar)]
    pub calendar: Option<Calendar>,
    /// Boxes: minimum confidence of an event; boxes without a confidence count as certain [default: 0.5].
    #[arg(long, value_name = "SHARE")]
    pub min_confidence: Option<f32>,
    /// Tracks: score only true storms whose wind reaches this, m/s; 17 is a tropical storm. Predicted tracks that match
    /// a weaker storm are left out, too.
    #[arg(long, value_name = "M_S", value_parser = wind)]
    pub min_wind: Option<f64>,
    /// Tracks: match predicted tracks to storms by mean distance (Hodges et al. 2017) instead of nearest points.
    #[arg(long)]
    pub by_mean_distance: bool,
    /// Tracks: columns of StitchNodes text, as in its --in_fmt; for TRACK text, the names of its added fields in order,
    /// such as mslp,wind10.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// IBTrACS truth: wind column for all storms, such as usa_wind (1-minute means), wmo_wind or tokyo_wind [default:
    /// for each storm WMO_WIND or USA_WIND, whichever has more values].
    #[arg(long, value_name = "NAME")]
    pub wind_column: Option<String>,
    /// Print JSON instead of text; it also lists the true cyclones, found and missed.
    #[arg(long)]
    pub json: bool,
}

/// Scores of masks and of boxes, if both sides have both.
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
    /// Arguments for scoring masks against masks, with defaults for everything else.
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
            wind_column: None,
            json: false,
        }
    }

    /// Rejects options that have no effect on what is scored.
    fn refuse_misfits(&self, scored: &[Kind]) -> anyhow::Result<()> {
        let misfits = [
            ("--events", self.events.is_some(), Kind::Masks),
            ("--tag-class", self.tags.tag_class.is_some(), Kind::Masks),
            (
                "--min-confidence",
                self.min_confidence.is_some(),
                Kind::Boxes,
            ),
            ("--min-wind", self.min_wind.is_some(), Kind::Tracks),
            ("--by-mean-distance", self.by_mean_distance, Kind::Tracks),
            ("--columns", !self.columns.is_empty(), Kind::Tracks),
            ("--wind-column", self.wind_column.is_some(), Kind::Tracks),
        ];
        let misfit = |(_, given, fits): &(&str, bool, Kind)| *given && !scored.contains(fits);
        let Some((option, _, fits)) = misfits.into_iter().find(misfit) else {
            return Ok(());
        };
        let names: Vec<&str> = scored.iter().map(|kind| kind.name()).collect();
        let (fits, names) = (fits.name(), names.join(" and "));
        Err(Advice::usage(
            format!("{option} is for {fits}, and it is {names} that both sides hold"),
            format!("leave it out, or give {fits} alone on both sides"),
        ))
    }

    /// The calendar of dates in tables: as requested, or else from the files next to the first table that has any.
    fn calendar_of(&self, tables: &[&Path]) -> Calendar {
        let beside = || {
            let mut folders = tables.iter().filter_map(|table| table.parent());
            folders.find_map(table::calendar_beside)
        };
        self.calendar.or_else(beside).unwrap_or_default()
    }

    /// Prints the scores.
    pub fn run(self) -> anyhow::Result<()> {
        let predicted = kind::scorable(&self.prediction)?;
        let truth = kind::scorable(&self.truth)?;
        let of = |offers: &[kind::Offer], kind: Kind| {
            let offer = offers.iter().find(|offer| offer.kind == kind);
            offer.map(|offer| offer.path.clone())
        };
        let shared = |kind| Some((of(&predicted, kind)?, of(&truth, kind)?));
        let (masks, boxes) = (shared(Kind::Masks), shared(Kind::Boxes));
        let tracks = shared(Kind::Tracks).filter(|_| masks.is_none() && boxes.is_none());
        let scored = [
            (Kind::Masks, masks.is_some()),
            (Kind::Boxes, boxes.is_some()),
            (Kind::Tracks, tracks.is_some()),
        ];
        let scored = scored.into_iter().filter(|(_, is_scored)| *is_scored);
        let scored: Vec<Kind> = scored.map(|(kind, _)| kind).collect();
        if !scored.is_empty() {
            self.refuse_misfits(&scored)?;
        }
        let boxes = boxes.map(|(predicted, truth)| boxes::score(&self, &predicted, &truth));
        match (masks, boxes, tracks) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parsed;

    fn call(more: &[&str]) -> anyhow::Result<Score> {
        parsed(["--prediction", "a", "--truth", "b"].iter().chain(more))
    }

    /// A table of events had been passed over in silence where tracks were scored, also one that is not there.
    #[test]
    fn options_without_effect_on_what_is_scored_are_refused() {
        for (option, fits) in [
            (&["--events", "events.csv"][..], Kind::Masks),
            (&["--tag-class", "tropical_cyclone"], Kind::Masks),
            (&["--min-confidence", "0.7"], Kind::Boxes),
            (&["--min-wind", "17"], Kind::Tracks),
            (&["--by-mean-distance"], Kind::Tracks),
            (&["--columns", "lon,lat"], Kind::Tracks),
        ] {
            let score = call(option).unwrap();
            for scored in [Kind::Masks, Kind::Boxes, Kind::Tracks] {
                let refused = score.refuse_misfits(&[scored]);
                assert_eq!(refused.is_ok(), scored == fits, "{option:?} {scored:?}");
            }
            let refused = score.refuse_misfits(&[Kind::Masks, Kind::Boxes]);
            assert_eq!(refused.is_ok(), fits != Kind::Tracks, "{option:?}");
        }
        let said = call(&["--min-wind", "17"]).unwrap();
        let said = said.refuse_misfits(&[Kind::Masks, Kind::Boxes]);
        let said = said.unwrap_err().to_string();
        let expected = "--min-wind is for tracks, and it is masks and boxes that both sides hold";
        assert_eq!(said, expected);
    }

    /// No storm reaches a wind that is no number: all had been left out.
    #[test]
    fn a_least_wind_is_a_speed() {
        assert_eq!(call(&["--min-wind=17"]).unwrap().min_wind, Some(17.0));
        for wind in ["nan", "inf", "-5"] {
            assert!(call(&[&format!("--min-wind={wind}")]).is_err(), "{wind}");
        }
    }
}
