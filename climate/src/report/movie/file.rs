//! Writes a movie as an animated PNG, or as a folder of numbered pictures.

use super::palette::palette;
use crate::error::{ClimateError, Result};
use crate::map::image::indexed_png;
use ndarray::Array2;
use squall_data::DataError;
use squall_data::atomic::{self, Pending};
use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// The output of a movie. An animated PNG gets its name once it is complete.
#[derive(Debug)]
pub enum MovieFile {
    /// One file that browsers play.
    Animated(Box<Animated>),
    /// `frame-00001.png` and so on.
    Numbered {
        /// The folder.
        folder: PathBuf,
        /// Number of pictures written so far.
        written: usize,
    },
}

/// An animated PNG under construction.
pub struct Animated {
    writer: png::Writer<BufWriter<File>>,
    pending: Pending,
    path: PathBuf,
    expected: usize,
    written: usize,
}

impl fmt::Debug for Animated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Animated")
            .field("path", &self.path)
            .field("expected", &self.expected)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

fn numbered(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("frame-{number:05}.png"))
}

fn failed(path: &Path) -> impl Fn(png::EncodingError) -> ClimateError + '_ {
    move |error| {
        ClimateError::Data(DataError::Io {
            action: "write",
            path: path.into(),
            source: std::io::Error::other(error.to_string()),
        })
    }
}

impl MovieFile {
    /// Creates a movie of `pictures` pictures, all of size `dim` (rows, columns): an animated PNG if the name ends in
    /// `.png` or `.apng`, else a folder of numbered pictures.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if `pictures` is 0; [`ClimateError::Data`] if the file cannot be created.
    pub fn create(
        path: impl Into<PathBuf>,
        pictures: usize,
        dim: (usize, usize),
        pictures_per_second: u16,
    ) -> Result<Self> {
        let path = path.into();
        if pictures == 0 {
            return Err(ClimateError::Invalid(format!(
                "movie `{}`: expected one picture or more, found none",
                path.display()
            )));
        }
        let end = path.extension().unwrap_or_default().to_ascii_lowercase();
        if end != "png" && end != "apng" {
            return Ok(Self::Numbered {
                folder: path,
                written: 0,
            });
        }
        let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let pending = Pending::new(&path)?;
        let file = pending.create()?;
        let mut encoder = png::Encoder::new(BufWriter::new(file), size(dim.1), size(dim.0));
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(palette().concat());
        encoder.set_compression(png::Compression::Balanced);
        encoder.set_filter(png::Filter::NoFilter);
        encoder
            .set_animated(size(pictures), 0)
            .and_then(|()| encoder.set_frame_delay(1, pictures_per_second.max(1)))
            .map_err(failed(&path))?;
        let writer = encoder.write_header().map_err(failed(&path))?;
        Ok(Self::Animated(Box::new(Animated {
            writer,
            pending,
            path,
            expected: pictures,
            written: 0,
        })))
    }

    /// Adds a picture of palette indices.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails; [`ClimateError::Invalid`] for more pictures than announced.
    pub fn add(&mut self, picture: &Array2<u8>) -> Result<()> {
        match self {
            Self::Animated(animated) => {
                if animated.written == animated.expected {
                    return Err(ClimateError::Invalid(format!(
                        "movie `{}`: expected {} pictures, found one more",
                        animated.path.display(),
                        animated.expected
                    )));
                }
                let bytes: Vec<u8> = picture.iter().copied().collect();
                let written = animated.writer.write_image_data(&bytes);
                written.map_err(failed(&animated.path))?;
                animated.written += 1;
            }
            Self::Numbered { folder, written } => {
                let opaque: Vec<[u8; 4]> = palette()
                    .iter()
                    .map(|[r, g, b]| [*r, *g, *b, 255])
                    .collect();
                let png = indexed_png(picture, &opaque)?;
                atomic::write(numbered(folder, *written + 1), &png)?;
                *written += 1;
            }
        }
        Ok(())
    }

    /// Completes the movie and returns its number of pictures. Removes surplus numbered pictures of an earlier, longer
    /// movie.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if pictures are missing; [`ClimateError::Data`] if the file cannot be completed, or an
    /// old picture cannot be removed.
    pub fn finish(self) -> Result<usize> {
        match self {
            Self::Animated(animated) => {
                let Animated {
                    writer,
                    pending,
                    path,
                    expected,
                    written,
                } = *animated;
                if written < expected {
                    return Err(ClimateError::Invalid(format!(
                        "movie `{}`: expected {expected} pictures, found {written}",
                        path.display()
                    )));
                }
                writer.finish().map_err(failed(&path))?;
                pending.commit()?;
                Ok(written)
            }
            Self::Numbered { folder, written } => {
                // Otherwise an earlier, longer movie would continue after this one.
                for number in written + 1.. {
                    let path = numbered(&folder, number);
                    if !path.is_file() {
                        break;
                    }
                    std::fs::remove_file(&path).map_err(DataError::io("remove", &path))?;
                }
                Ok(written)
            }
        }
    }
}
