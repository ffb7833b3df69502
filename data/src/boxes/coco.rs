//! Boxes in the format of COCO: images, annotations with `[x, y, width, height]` in pixels, categories.
//!
//! One image is one time of the grid. x increases eastward from the first column; y increases downward from the
//! northern edge, as in a picture. A box across the seam extends past the right edge: x + width then exceeds the image
//! width. Category ids are the class codes plus one, because detectors of this tradition reserve 0 for background; the
//! reader goes by names and ignores ids. Files written by this module hold the latitudes and longitudes of the grid in
//! `info.grid`. `date_captured` holds the time, `score` the confidence and `track_id` the track, if any.

use super::fault::BoxFault;
use super::file::{DeclaredGrid, of_axes};
use super::{BoxClass, BoxFrames, BoxSink, GeoBox, PixelBox, SinkSummary, TrackedBox};
use crate::archive::file_date;
use crate::atomic::TextFile;
use crate::error::{DataError, Result};
use crate::grid::wrapped;
use crate::{Calendar, LatLonGrid, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes a COCO file.
#[derive(Debug)]
pub struct CocoWriter {
    grid: Arc<LatLonGrid>,
    file: TextFile,
    done: SinkSummary,
    /// The text of the list of images, which follows the annotations.
    images: String,
}

impl CocoWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// [`DataError::Io`] if it cannot be created.
    pub fn create(path: impl Into<PathBuf>, grid: Arc<LatLonGrid>) -> Result<Self> {
        let path = path.into();
        let file = TextFile::create(&path)?;
        let mut writer = Self {
            grid,
            file,
            done: SinkSummary::begun(path),
            images: String::new(),
        };
        let info = json!({
            "description": format!("boxes around storms on a grid of {}", writer.grid.describe()),
            "version": "1.0",
            "grid": {"lat_deg": writer.grid.lat_deg(), "lon_deg": writer.grid.lon_deg()},
        });
        writer
            .file
            .write(&format!("{{\"info\":{info},\n\"annotations\":["))?;
        Ok(writer)
    }
}

impl BoxSink for CocoWriter {
    fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<()> {
        let (rows, columns) = self.grid.shape();
        self.done.times += 1;
        for found in boxes {
            let pixels = found.geo.to_pixels(&self.grid)?;
            let (width, height) = (pixels.x_max - pixels.x_min, pixels.y_max - pixels.y_min);
            let mut annotation = json!({
                "id": self.done.boxes + 1,
                "image_id": self.done.times,
                "category_id": u32::from(pixels.class.code()) + 1,
                "bbox": [pixels.x_min, rows as f64 - pixels.y_max, width, height],
                "area": width * height,
                "iscrowd": 0,
            });
            if let Some(score) = pixels.confidence {
                annotation["score"] = json!(score);
            }
            if let Some(track_id) = found.track_id {
                annotation["track_id"] = json!(track_id);
            }
            self.file
                .write(if self.done.boxes > 0 { ",\n" } else { "\n" })?;
            self.file.write(&annotation.to_string())?;
            self.done.boxes += 1;
        }
        let image = json!({
            "id": self.done.times,
            "width": columns,
            "height": rows,
            "file_name": time.to_string(),
            "date_captured": time.to_string(),
        });
        self.images += if self.done.times > 1 { ",\n" } else { "\n" };
        self.images += &image.to_string();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SinkSummary> {
        let category = |class: BoxClass| {
            json!({
                "id": u32::from(class.code()) + 1,
                "name": class.name(),
                "supercategory": "extreme_weather",
            })
        };
        let categories = json!(BoxClass::ALL.map(category));
        let images = std::mem::take(&mut self.images);
        self.file.write(&format!(
            "\n],\n\"images\":[{images}\n],\n\"categories\":{categories}}}\n"
        ))?;
        self.file.finish()?;
        Ok(self.done)
    }
}

#[derive(Deserialize)]
struct Coco {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct Image {
    id: u64,
    width: usize,
    height: usize,
    /// A date as text; CVAT writes the number 0 if there is none.
    date_captured: Option<Value>,
    file_name: Option<String>,
}

#[derive(Deserialize)]
struct Annotation {
    image_id: u64,
    category_id: i64,
    bbox: Vec<f64>,
    score: Option<f32>,
    track_id: Option<u64>,
}

#[derive(Deserialize)]
struct Category {
    id: i64,
    name: String,
}

/// The parts of a file that describe its grid; everything else is ignored.
#[derive(Deserialize)]
struct Head {
    info: Option<Info>,
    #[serde(default)]
    images: Vec<Size>,
}

#[derive(Deserialize)]
struct Info {
    grid: Option<Axes>,
}

#[derive(Deserialize)]
struct Axes {
    lat_deg: Vec<f64>,
    lon_deg: Vec<f64>,
}

#[derive(Deserialize)]
struct Size {
    width: usize,
    height: usize,
}

/// A file's grid: from `info.grid`, or else the size of its first image.
pub(super) fn declared_grid(path: &Path) -> Result<DeclaredGrid> {
    let head: Head = parsed(path)?;
    if let Some(axes) = head.info.and_then(|info| info.grid) {
        return of_axes(path, axes.lat_deg, axes.lon_deg);
    }
    let first = head.images.first();
    Ok(first.map_or(DeclaredGrid::Nothing, |image| {
        DeclaredGrid::Size(image.height, image.width)
    }))
}

fn parsed<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        DataError::unreadable(
            path,
            format!("no COCO file of images, annotations and categories: {error}"),
        )
    })
}

/// Reads a COCO file whose images are times of a grid. An image without a date takes the date in its file name. A box
/// that extends past its image is clipped; on a global grid it continues across the seam instead.
///
/// # Errors
/// [`DataError::BadBox`] naming image or annotation, fault, what was expected and what was found, also for a box
/// entirely outside its image, for duplicate ids of images or categories, and for two images of one time;
/// [`DataError::Mismatch`] for an image that does not have the grid's size; [`DataError::Unreadable`] if it is not a
/// COCO file; [`DataError::Io`].
pub fn read_coco(path: &Path, grid: &LatLonGrid, calendar: Calendar) -> Result<BoxFrames> {
    let coco: Coco = parsed(path)?;
    let times = times_of(path, &coco.images, grid, calendar)?;
    let mut rows: Vec<_> = times.values().map(|&time| (time, None)).collect();
    let mut names = HashMap::with_capacity(coco.categories.len());
    for Category { id, name } in &coco.categories {
        let other = names.insert(*id, name.as_str());
        if let Some(other) = other.filter(|other| other != name) {
            return Err(BoxFault::SameId.at(
                path,
                format!("category {id}"),
                "an id of its own for each name",
                format!("`{other}` and `{name}`"),
            ));
        }
    }
    for (number, annotation) in (1usize..).zip(&coco.annotations) {
        let place = || format!("annotation {number}");
        let Some(&time) = times.get(&annotation.image_id) else {
            let found = format!("image_id {}", annotation.image_id);
            return Err(BoxFault::NoImage.at(
                path,
                place(),
                "the id of an image of the file",
                found,
            ));
        };
        let name = names.get(&annotation.category_id);
        let class = name.and_then(|name| BoxClass::from_name(name));
        let class = class.ok_or_else(|| {
            let expected = BoxClass::ALL.map(BoxClass::name).join(", ");
            let found = match name {
                Some(name) => format!("category `{name}`"),
                None => format!("category_id {}, which has no name", annotation.category_id),
            };
            BoxFault::UnknownClass.at(path, place(), expected, found)
        })?;
        let is_share = |score: &f32| (0.0..=1.0).contains(score);
        if let Some(score) = annotation.score.filter(|score| !is_share(score)) {
            let (expected, found) = ("a score from 0 to 1", score.to_string());
            return Err(BoxFault::NoConfidence.at(path, place(), expected, found));
        }
        let geo = part_in_image(annotation, class, grid).map_err(|(fault, expected)| {
            fault.at(path, place(), expected, format!("{:?}", annotation.bbox))
        })?;
        let track_id = annotation.track_id;
        rows.push((time, Some(TrackedBox { geo, track_id })));
    }
    Ok(BoxFrames::collect(rows))
}

/// The time of each image by its id.
fn times_of(
    path: &Path,
    images: &[Image],
    grid: &LatLonGrid,
    calendar: Calendar,
) -> Result<HashMap<u64, Time>> {
    let mut times = HashMap::with_capacity(images.len());
    let mut ids = HashMap::with_capacity(images.len());
    for image in images {
        let place = || format!("image {}", image.id);
        let time = image_time(path, image, grid, calendar)?;
        // Occurs in files merged without renumbering: all annotations would go to the last image with the id.
        if let Some(other) = times.insert(image.id, time) {
            let found = format!("{other} and {time}");
            return Err(BoxFault::SameId.at(
                path,
                place(),
                "an id of its own for each image",
                found,
            ));
        }
        // Occurs if a tool dates all images by their export, or if two people labelled the same time: their boxes would
        // be merged.
        if let Some(other) = ids.insert(time, image.id) {
            let found = format!("{time}, as image {other}");
            return Err(BoxFault::SameTime.at(
                path,
                place(),
                "a time of its own for each image",
                found,
            ));
        }
    }
    Ok(times)
}

fn image_time(path: &Path, image: &Image, grid: &LatLonGrid, calendar: Calendar) -> Result<Time> {
    let (rows, columns) = grid.shape();
    if (image.height, image.width) != (rows, columns) {
        return Err(DataError::mismatch(
            "size of an image",
            path,
            format!("{rows} x {columns}"),
            format!("{} x {} in image {}", image.height, image.width, image.id),
        ));
    }
    let dated = image.date_captured.as_ref().and_then(Value::as_str);
    let time = dated.and_then(|text| Time::parse(text, calendar).ok());
    let named = || {
        let name = image.file_name.as_deref()?;
        if let Ok(time) = Time::parse(name, calendar) {
            return Some(time);
        }
        // Only the date in the name matters here: it is parsed again in the requested calendar.
        let time = file_date::from_name(Path::new(name))?;
        Time::parse(&time.to_string(), calendar).ok()
    };
    time.or_else(named).ok_or_else(|| {
        let found = format!("date_captured {dated:?}, file_name {:?}", image.file_name);
        let expected = format!("a date of the calendar {calendar}");
        BoxFault::NoTime.at(path, format!("image {}", image.id), expected, found)
    })
}

/// The part of an annotation's box inside its image, or its fault and what was expected.
fn part_in_image(
    annotation: &Annotation,
    class: BoxClass,
    grid: &LatLonGrid,
) -> std::result::Result<GeoBox, (BoxFault, String)> {
    let (rows, columns) = (grid.shape().0 as f64, grid.shape().1 as f64);
    let [x, y, width, height] = annotation.bbox[..] else {
        return Err((BoxFault::NoNumber, "[x, y, width, height]".into()));
    };
    if ![x, y, width, height].iter().all(|v| v.is_finite()) {
        return Err((BoxFault::NoNumber, "finite numbers".into()));
    }
    if width <= 0.0 || height <= 0.0 {
        return Err((BoxFault::NoExtent, "width and height above 0".into()));
    }
    // A box across the seam begins inside the image and extends past its right edge.
    if x >= columns || x + width <= 0.0 || y >= rows || y + height <= 0.0 {
        let expected = format!("a box within {columns} columns and {rows} rows, be it in part");
        return Err((BoxFault::OffTheGrid, expected));
    }
    let (x_min, x_max) = if grid.is_periodic() {
        let west = wrapped(x, columns);
        (west, west + width.min(columns))
    } else {
        (x.max(0.0), (x + width).min(columns))
    };
    let part = PixelBox {
        class,
        y_min: (rows - y - height).max(0.0),
        x_min,
        y_max: (rows - y).min(rows),
        x_max,
        confidence: annotation.score,
    };
    // Checked again in degrees, where edges that differ in pixels may coincide.
    match part.to_degrees(grid).within(grid) {
        Ok(Some(geo)) => Ok(geo),
        _ => Err((
            BoxFault::NoExtent,
            "a part in the image that has an extent".into(),
        )),
    }
}
