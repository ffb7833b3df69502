//! A movie of the map: masks, boxes and trails over the field, over time.
//!
//! [`Movie`] paints pictures of [`Frame`]s; [`MovieFile`] writes them as one animated PNG or as numbered files. All
//! pictures share one palette of 256 colours.
//!
//! # Example
//! ```
//! use squall_climate::report::{Frame, Movie, MovieOptions, ReportInput};
//! use squall_data::{Calendar, LatLonGrid, Time};
//! use std::sync::Arc;
//!
//! let grid = Arc::new(LatLonGrid::global(24, 48)?);
//! let input = ReportInput::new("One quiet day", grid);
//! let movie = Movie::new(&input, MovieOptions { width: 96, ..MovieOptions::default() });
//! let time = Time::new(Calendar::NoLeap, 1995, 8, 5, 6, 0, 0)?;
//! assert_eq!(movie.paint(&Frame::new(time))?.dim(), (48, 96));
//! # Ok::<(), squall_climate::ClimateError>(())
//! ```

mod file;
mod font;
mod legend;
mod paint;
mod palette;

pub use file::MovieFile;

use crate::error::Result;
use crate::report::browser::KINDS;
use crate::report::numbers::moment;
use crate::report::payload::TRAIL_HOURS;
use crate::report::summary::{is_tracked, objects};
use crate::report::{BoxSource, FieldInfo, Frame, ReportInput, SourceKind};
use legend::{Line, Mark};
use ndarray::Array2;
use paint::{Painter, Stroke};
use palette::Solid;
use squall_data::{BoxClass, Class, LatLonGrid, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of sources in a line of the legend; long names would not fit otherwise.
const SOURCES_OF_A_LINE: usize = 4;
/// Strokes of outlines of [`SourceKind::Other`], as on the page.
const OTHER_STROKES: [Stroke; 5] = [
    Stroke::DashedAndDotted,
    Stroke::LongDashed,
    Stroke::DashedAndTwiceDotted,
    Stroke::ShortDashed,
    Stroke::LongAndShort,
];

/// The appearance of a movie.
#[derive(Debug, Clone, PartialEq)]
pub struct MovieOptions {
    /// Width of the pictures in pixels.
    pub width: usize,
    /// Central longitude of global maps.
    pub centre_deg: f64,
    /// Frame rate.
    pub pictures_per_second: u16,
}

impl Default for MovieOptions {
    fn default() -> Self {
        Self {
            width: 960,
            centre_deg: 180.0,
            pictures_per_second: 8,
        }
    }
}

/// One track: its class and its points as (longitude, latitude).
#[derive(Debug)]
struct Path {
    class: Class,
    points: Vec<(Time, (f64, f64))>,
}

/// Paints the pictures of a movie.
#[derive(Debug)]
pub struct Movie {
    grid: Arc<LatLonGrid>,
    painter: Painter,
    field: FieldInfo,
    title: String,
    /// Labels of sources of masks, if other than the name of their kind.
    labels: BTreeMap<SourceKind, String>,
    boxes: Vec<BoxSource>,
    /// The classes that occur in boxes.
    kinds: BTreeSet<BoxClass>,
    paths: Vec<Path>,
    options: MovieOptions,
}

impl Movie {
    /// A movie of a report's content: its boxes, and the trails of its first source with tracks.
    pub fn new(input: &ReportInput, options: MovieOptions) -> Self {
        let options = MovieOptions {
            width: options.width.clamp(64, 8192),
            ..options
        };
        let tracked = input.sources.iter().find(|s| !s.tracks.is_empty());
        let paths = tracked.into_iter().flat_map(|source| {
            let classes = Class::TRACKED
                .into_iter()
                .filter(|c| is_tracked(source, *c));
            classes.flat_map(|class| objects(source, class))
        });
        let labels = input
            .labels
            .iter()
            .map(|(kind, label)| (*kind, label.clone()));
        // Sources of events have their own labels, which come last and override the others.
        let own = input.sources.iter().map(|s| (s.kind, s.label.clone()));
        Self {
            grid: input.grid.clone(),
            painter: Painter::new(&input.grid, options.width, options.centre_deg),
            field: input.field.clone(),
            title: input.title.clone(),
            labels: labels.chain(own).collect(),
            boxes: input.boxes.clone(),
            kinds: (input.boxes.iter().flat_map(|source| source.frames.frames()))
                .flat_map(|frame| frame.boxes.iter().map(|found| found.geo.class))
                .collect(),
            paths: paths
                .map(|object| Path {
                    class: object.class,
                    points: (object.points.iter())
                        .map(|e| (e.time, (e.lon_deg, e.lat_deg)))
                        .collect(),
                })
                .collect(),
            options,
        }
    }

    /// Creates the output of this movie with `pictures` pictures.
    ///
    /// # Errors
    /// As [`MovieFile::create`].
    pub fn file(&self, path: impl Into<std::path::PathBuf>, pictures: usize) -> Result<MovieFile> {
        let dim = self.painter.dim();
        MovieFile::create(path, pictures, dim, self.options.pictures_per_second)
    }

    /// The picture of one time, as palette indices; row 0 is the top.
    ///
    /// # Errors
    /// [`crate::ClimateError::Mismatch`] for an array on another grid or an unknown class.
    pub fn paint(&self, frame: &Frame<'_>) -> Result<Array2<u8>> {
        frame.check(&self.grid)?;
        let field = frame.field.map(|field| (field, self.field.range));
        let first = frame.masks.first().map(|(_, mask)| *mask);
        let mut picture = self.painter.ground(field, first);
        for ((_, mask), stroke) in frame.masks.iter().zip(strokes(frame)) {
            self.painter.outlines(&mut picture, *mask, stroke);
        }
        for source in &self.boxes {
            for found in source.frames.at(frame.time).unwrap_or_default() {
                let geo = &found.geo;
                let sides = (geo.west_deg, geo.south_deg, geo.width_deg(), geo.north_deg);
                let kind = geo.class.code();
                let stroke = stroke(source.kind);
                self.painter.rectangle(&mut picture, sides, kind, stroke);
            }
        }
        self.trails(&mut picture, frame.time);
        self.words(&mut picture, frame.time);
        self.legend(&mut picture, frame);
        Ok(picture)
    }

    /// Draws the last days of every active track.
    fn trails(&self, picture: &mut Array2<u8>, now: Time) {
        for path in &self.paths {
            let alive = path.points.first().is_some_and(|p| p.0 <= now)
                && path.points.last().is_some_and(|p| p.0 >= now);
            if !alive {
                continue;
            }
            let recent = |time: Time| {
                let back = now.seconds_since(time);
                (0..=TRAIL_HOURS * 3600).contains(&back)
            };
            let shown = path.points.iter().filter(|(time, _)| recent(*time));
            let places: Vec<(f64, f64)> = shown.map(|(_, place)| *place).collect();
            let colour = match path.class {
                Class::TropicalCyclone => Solid::White,
                _ => Solid::Pale,
            };
            self.painter.line(picture, &places, colour, Stroke::Full);
        }
    }

    fn words(&self, picture: &mut Array2<u8>, now: Time) {
        let size = (self.options.width / 480).max(1);
        let (rows, _) = self.painter.dim();
        let line = (font::HEIGHT + 4) * size;
        let below = rows.saturating_sub(line + 4 * size);
        self.painter
            .text(picture, &moment(now), (4 * size, 4 * size), size);
        if !self.title.is_empty() {
            self.painter
                .text(picture, &self.title, (below, 4 * size), size);
        }
    }

    /// Draws the legend. At the upper right are the classes and, if there are several, the sources; at the lower right
    /// is the colour scale.
    fn legend(&self, picture: &mut Array2<u8>, frame: &Frame<'_>) {
        let size = (self.options.width / 480).max(1);
        let (edge, line) = (4 * size, (font::HEIGHT + 4) * size);
        let masked = [BoxClass::TropicalCyclone, BoxClass::AtmosphericRiver];
        let is_shown = |class: &BoxClass| {
            let boxed = self.kinds.contains(class);
            boxed || !frame.masks.is_empty() && masked.contains(class)
        };
        let mut classes = Line::default();
        for (class, name, _) in KINDS.iter().filter(|(class, ..)| is_shown(class)) {
            classes.add(Mark::Square(Solid::Kind(class.code())), *name);
        }
        if !self.paths.is_empty() {
            let days = TRAIL_HOURS / 24;
            let trail = Mark::Line(Solid::White, Stroke::Full);
            classes.add(trail, format!("track, {days} days"));
        }
        classes.paint(&self.painter, picture, edge, edge, size);
        let label = |kind: &SourceKind| self.labels.get(kind).map_or(kind.name(), String::as_str);
        let labels = frame.masks.iter().map(|(kind, _)| label(kind));
        let masks = labels.zip(strokes(frame));
        let boxes = (self.boxes.iter()).map(|b| (b.label.as_str(), stroke(b.kind)));
        let lines: Vec<(&str, Stroke)> = masks.chain(boxes).collect();
        let shown = if lines.len() > 1 { &lines[..] } else { &[] };
        for (row, some) in (1..).zip(shown.chunks(SOURCES_OF_A_LINE)) {
            let mut sources = Line::default();
            for (label, stroke) in some {
                sources.add(Mark::Line(Solid::White, *stroke), *label);
            }
            sources.paint(&self.painter, picture, edge + row * line, edge, size);
        }
        if frame.field.is_some() {
            let below = picture.nrows().saturating_sub(line + edge);
            let values = Line::colour_scale(&self.field);
            values.paint(&self.painter, picture, below, edge, size);
        }
    }
}

/// The strokes of a frame's masks. The first one, which is tinted, is solid, unless there is a mask of the rules, which
/// is.
fn strokes<'f>(frame: &'f Frame<'_>) -> impl Iterator<Item = Stroke> + 'f {
    let by_rules = |(kind, _): &(SourceKind, _)| *kind == SourceKind::Heuristic;
    let rules = frame.masks.iter().any(by_rules);
    let kinds = frame.masks.iter().map(|(kind, _)| *kind).enumerate();
    kinds.map(move |(index, kind)| match index {
        0 if !rules => Stroke::Full,
        _ => stroke(kind),
    })
}

/// The stroke of a source's outlines, as on the page.
fn stroke(kind: SourceKind) -> Stroke {
    match kind {
        SourceKind::Heuristic => Stroke::Full,
        SourceKind::Other(number) => OTHER_STROKES[number % OTHER_STROKES.len()],
        SourceKind::Network => Stroke::Dashed,
        SourceKind::Truth => Stroke::Dotted,
    }
}
