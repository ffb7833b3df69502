//! Collects the content of the page, then writes it.

use crate::error::{ClimateError, Result};
use crate::report::ReportInput;
use crate::report::agreement::{Agreement, MaskCounter};
use crate::report::browser::Browser;
use crate::report::frames::{EncodedFrame, Frame, FrameEncoder, frame_step};
use crate::report::page::{Page, page};
use crate::report::period::Period;
use crate::report::summary::by_time;
use squall_data::{Time, atomic};
use std::path::Path;

/// Size limits of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportOptions {
    /// Maximum number of frames on the interactive map; if there are more, every n-th is shown, and the page says so.
    pub max_frames: usize,
    /// Maximum size of all pictures of the interactive map before base64; frames are thinned to meet it.
    pub max_picture_bytes: usize,
    /// Maximum size of the browser's events as encoded on the page. Long runs are thinned in fixed steps, and the page
    /// says so.
    pub max_event_bytes: usize,
    /// Maximum number of rows of a picture of the interactive map.
    pub picture_rows: usize,
    /// Maximum number of columns of a picture of the interactive map.
    pub picture_columns: usize,
    /// Central longitude of global maps.
    pub centre_deg: f64,
    /// Number of rows of the tables of the strongest and longest events.
    pub table_rows: usize,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            max_frames: 240,
            max_picture_bytes: 5_000_000,
            max_event_bytes: 6_000_000,
            picture_rows: 192,
            picture_columns: 288,
            centre_deg: 180.0,
            table_rows: 10,
        }
    }
}

/// A report under construction. Memory holds the compressed frames, about 40 kB each, counts on the grid, and all
/// times.
#[derive(Debug)]
pub struct ReportBuilder {
    input: ReportInput,
    options: ReportOptions,
    encoder: FrameEncoder,
    counter: MaskCounter,
    frames: Vec<EncodedFrame>,
    /// All times, including those without a kept frame.
    seen: Vec<Time>,
    /// Only every `stride`-th offered frame is kept; doubles whenever there are too many.
    stride: usize,
    offered: usize,
}

impl ReportBuilder {
    /// A report with default options.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if a frequency map is not on the report's grid.
    pub fn new(input: ReportInput) -> Result<Self> {
        Self::with_options(input, ReportOptions::default())
    }

    /// A report with the given options.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if a frequency map is not on the report's grid; [`ClimateError::Invalid`] for a field
    /// with an empty range, or for two sources of one kind.
    pub fn with_options(input: ReportInput, options: ReportOptions) -> Result<Self> {
        for map in &input.frequencies {
            if map.share.dim() != input.grid.shape() {
                return Err(ClimateError::Mismatch {
                    what: format!("frequency map of {}", map.class.name()),
                    expected: format!("{:?}", input.grid.shape()),
                    found: format!("{:?}", map.share.dim()),
                });
            }
        }
        let (low, high) = input.field.range;
        if !(low < high && low.is_finite() && high.is_finite()) {
            return Err(ClimateError::Invalid(format!(
                "range of {} in the report: expected low < high, found {low} to {high}",
                input.field.name
            )));
        }
        for (index, source) in input.sources.iter().enumerate() {
            if input.sources[..index].iter().any(|s| s.kind == source.kind) {
                return Err(ClimateError::Invalid(format!(
                    "the report has two sources of kind {:?}",
                    source.kind
                )));
            }
        }
        Ok(Self {
            encoder: FrameEncoder::new(&input.grid, options.picture_rows, options.picture_columns),
            counter: MaskCounter::new(&input.grid, &input.not_looked_for),
            frames: Vec::new(),
            seen: Vec::new(),
            stride: 1,
            offered: 0,
            input,
            options,
        })
    }

    /// Whether the next offered frame will be kept for the map. If not, only its masks are counted, and fields may be
    /// left out.
    pub fn keeps_next_frame(&self) -> bool {
        self.offered.is_multiple_of(self.stride)
    }

    /// Counts the masks of one time, and keeps the frame for the map if it is one of those shown. Offer times in order.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] for an array on another grid or an unknown class.
    pub fn add_frame(&mut self, frame: &Frame<'_>) -> Result<()> {
        frame.check(&self.input.grid)?;
        self.counter.add(frame);
        self.seen.push(frame.time);
        if self.keeps_next_frame() {
            self.frames
                .push(self.encoder.encode(frame, &self.input.field)?);
            // Twice the limit is kept, so that the final selection can still be evenly spaced.
            if self.frames.len() >= 2 * self.options.max_frames.max(1) {
                let mut index = 0;
                self.frames.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
        }
        self.offered += 1;
        Ok(())
    }

    /// Agreement of each pair of sources over all masks so far.
    pub fn agreement(&self) -> &[Agreement] {
        self.counter.pairs()
    }

    /// The page as HTML.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if a picture cannot be encoded.
    pub fn html(&self) -> Result<String> {
        let mut frames: Vec<&EncodedFrame> = self.frames.iter().collect();
        frames.sort_by(|a, b| by_time(a.time, b.time));
        let bytes: usize = frames.iter().map(|f| f.bytes()).sum();
        let by_size = bytes.div_ceil(self.options.max_picture_bytes.max(1)).max(1);
        let step = frame_step(frames.len(), self.options.max_frames).max(by_size);
        let shown: Vec<&EncodedFrame> = frames.into_iter().step_by(step).collect();
        let times: Vec<Time> = shown.iter().map(|f| f.time).collect();
        let browser = Browser::build(&self.input, &times, self.options.max_event_bytes)?;
        page(&Page {
            input: &self.input,
            browser: browser.as_ref(),
            options: &self.options,
            encoder: &self.encoder,
            counter: &self.counter,
            period: Period::covering(&self.input, &self.seen),
            frames: &shown,
            every: step * self.stride,
            offered: self.offered,
        })
    }

    /// Writes the page atomically and returns its size in bytes.
    ///
    /// # Errors
    /// As [`Self::html`]; [`ClimateError::Data`] if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<u64> {
        let html = self.html()?;
        atomic::write(path.as_ref(), html.as_bytes())?;
        Ok(html.len() as u64)
    }
}
