//! One self-contained HTML file of a run: maps, plots, tables and their provenance.
//!
//! Create a [`ReportBuilder`] from a [`ReportInput`], add frames (each is compressed immediately, so that a long run
//! needs little memory), and [`ReportBuilder::write`] the page. Everything but the grid is optional: sections without
//! data say so.
//!
//! # Example
//! ```
//! use squall_climate::report::{Frame, ReportBuilder, ReportInput, SourceKind};
//! use squall_data::{Calendar, LatLonGrid, Time};
//! use std::sync::Arc;
//!
//! let grid = Arc::new(LatLonGrid::global(24, 48)?);
//! let mut builder = ReportBuilder::new(ReportInput::new("One quiet day", grid.clone()))?;
//! let mask = ndarray::Array2::zeros(grid.shape());
//! for hour in [0, 6, 12, 18] {
//!     let time = Time::new(Calendar::NoLeap, 1995, 8, 5, hour, 0, 0)?;
//!     let mut frame = Frame::new(time);
//!     frame.masks.push((SourceKind::Heuristic, mask.view()));
//!     builder.add_frame(&frame)?;
//! }
//! let page = builder.html()?;
//! assert!(page.contains("All 4 times"));
//! # Ok::<(), squall_climate::ClimateError>(())
//! ```
//!
//! # Not done
//! Maps are equirectangular only. Basins are boxes (see `statistics/basin.rs`), not bounded by coastlines.

mod agreement;
mod browser;
mod builder;
pub mod changes;
mod figures;
mod frames;
mod histograms;
mod html;
mod maps;
mod movie;
mod numbers;
mod overview;
mod page;
mod parts;
mod payload;
mod period;
mod sections;
mod sources;
mod summary;
mod svg;
mod tables;
mod ticks;
mod track_map;
mod training;
pub mod trends;
mod viewer;

pub use agreement::{Agreement, PairAgreement};
pub use builder::{ReportBuilder, ReportOptions};
pub use frames::{Frame, select_frames};
pub use movie::{Movie, MovieFile, MovieOptions};
pub use sources::{BoxSource, Source, SourceKind, SourceWind};

use crate::compare::Comparison;
use ndarray::Array2;
use squall_data::{Class, LatLonGrid, Time, Variable};
use std::sync::Arc;

/// One row of the table of scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Heading of its group, for instance "Network against truth, events".
    pub group: String,
    /// Name of the measure.
    pub name: String,
    /// The formatted value with its unit.
    pub value: String,
    /// The value as a share from 0 to 1 to draw as a bar, if it is one.
    pub fraction: Option<f64>,
    /// The meaning, in a sentence.
    pub meaning: String,
}

impl Score {
    /// A score between 0 and 1; a non-finite value is shown as not defined.
    pub fn fraction(
        group: impl Into<String>,
        name: impl Into<String>,
        value: f64,
        meaning: impl Into<String>,
    ) -> Self {
        let defined = value.is_finite();
        Self {
            group: group.into(),
            name: name.into(),
            value: if defined {
                format!("{value:.3}")
            } else {
                "not defined".into()
            },
            fraction: defined.then(|| value.clamp(0.0, 1.0)),
            meaning: meaning.into(),
        }
    }

    /// A score with a unit.
    pub fn number(
        group: impl Into<String>,
        name: impl Into<String>,
        value: f64,
        unit: &str,
        meaning: impl Into<String>,
    ) -> Self {
        let text = if value.is_finite() {
            format!("{} {unit}", numbers::significant(value, 3))
        } else {
            "not defined".into()
        };
        Self {
            group: group.into(),
            name: name.into(),
            value: text.trim_end().to_string(),
            fraction: None,
            meaning: meaning.into(),
        }
    }
}

/// The training curves of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingCurve {
    /// Label of the run in the legend.
    pub label: String,
    /// Steps and training losses, in the order of steps.
    pub loss: Vec<(f64, f64)>,
    /// Name of `score`, for instance `mean IoU` or `mAP`.
    pub score_name: String,
    /// Steps and scores of each validation, 0 to 1.
    pub score: Vec<(f64, f64)>,
}

/// The share of times in which each cell belongs to a class, by one source.
#[derive(Debug, Clone)]
pub struct FrequencyMap {
    /// The source of the masks.
    pub source: SourceKind,
    /// The class counted.
    pub class: Class,
    /// Share of the times, 0 to 1, `(lat, lon)` on the grid of the report.
    pub share: Array2<f32>,
}

/// A field shown under the masks.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldInfo {
    /// Short name, for instance `TMQ`.
    pub name: String,
    /// Description.
    pub long_name: String,
    /// Formatted unit, for instance `kg m⁻²`.
    pub unit: String,
    /// Values of the first and last colour.
    pub range: (f32, f32),
}

impl FieldInfo {
    /// Precipitable water, 0 to 70 kg m⁻².
    pub fn precipitable_water() -> Self {
        Self {
            name: Variable::Tmq.name().into(),
            long_name: "precipitable water".into(),
            unit: "kg m⁻²".into(),
            range: (0.0, 70.0),
        }
    }

    /// Magnitude of the integrated vapour transport, 0 to 1000 kg m⁻¹ s⁻¹.
    pub fn vapour_transport() -> Self {
        Self {
            name: "IVT".into(),
            long_name: "integrated vapour transport".into(),
            unit: "kg m⁻¹ s⁻¹".into(),
            range: (0.0, 1000.0),
        }
    }
}

/// The content of the page except for the frames of its map.
#[derive(Debug, Clone)]
pub struct ReportInput {
    /// Heading and title of the page.
    pub title: String,
    /// Description of the run in a few sentences; blank lines separate paragraphs.
    pub description: String,
    /// The grid of masks, fields and frequency maps.
    pub grid: Arc<LatLonGrid>,
    /// First and last analysed time; `None` takes them from the builder's frames, events and tracks. The page's covered
    /// period extends one step beyond the last.
    pub period: Option<(Time, Time)>,
    /// Number of analysed times; `None` counts the frames.
    pub times: Option<usize>,
    /// The field under the masks.
    pub field: FieldInfo,
    /// Events and tracks. Figures and tables of a single source show the first one.
    pub sources: Vec<Source>,
    /// Legend labels of sources of masks that are not in [`Self::sources`]; the others have their own labels.
    pub labels: Vec<(SourceKind, String)>,
    /// What made sources, and where they are, shown at the top: `the DeepCAM rules, in labels`.
    pub made_by: Vec<(SourceKind, String)>,
    /// Classes that a source does not detect, so that their absence from its masks means nothing.
    pub not_looked_for: Vec<(SourceKind, Class)>,
    /// Boxes, drawn on the map and listed among the events.
    pub boxes: Vec<BoxSource>,
    /// Frequency maps, shown in this order.
    pub frequencies: Vec<FrequencyMap>,
    /// Scores and their meaning, shown in this order.
    pub scores: Vec<Score>,
    /// Changes between runs; each is a section.
    pub comparisons: Vec<Comparison>,
    /// Training runs, in one chart.
    pub training: Vec<TrainingCurve>,
    /// Provenance of the data.
    pub provenance: Vec<Provenance>,
    /// The thresholds or the recipe, as text.
    pub recipe: Option<String>,
    /// Commands that reproduce the page.
    pub commands: Vec<String>,
    /// Caveats for the reader; the page adds those it detects itself, for instance a short sample.
    pub warnings: Vec<String>,
    /// Caveats of less weight, shown after all others: how data were read, what is not scored.
    pub remarks: Vec<String>,
    /// The program that wrote the page, for instance `squall 0.1.0`.
    pub generator: String,
}

/// Where data come from, or the rules by which they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The subject, for instance `calendar`.
    pub name: String,
    /// The text; may be empty if there are numbers.
    pub value: String,
    /// Numbers for reference, one per line; the page folds them away after the text.
    pub numbers: Vec<String>,
}

impl Provenance {
    /// An entry without numbers.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            numbers: Vec::new(),
        }
    }
}

impl ReportInput {
    /// An empty report with a title.
    pub fn new(title: impl Into<String>, grid: Arc<LatLonGrid>) -> Self {
        Self {
            title: title.into(),
            description: String::new(),
            grid,
            period: None,
            times: None,
            field: FieldInfo::precipitable_water(),
            sources: Vec::new(),
            labels: Vec::new(),
            made_by: Vec::new(),
            not_looked_for: Vec::new(),
            boxes: Vec::new(),
            frequencies: Vec::new(),
            scores: Vec::new(),
            comparisons: Vec::new(),
            training: Vec::new(),
            provenance: Vec::new(),
            recipe: None,
            commands: Vec::new(),
            warnings: Vec::new(),
            remarks: Vec::new(),
            generator: concat!("squall ", env!("CARGO_PKG_VERSION")).into(),
        }
    }

    /// Whether a source detects a class.
    pub(crate) fn looked_for(&self, kind: SourceKind, class: Class) -> bool {
        !self.not_looked_for.contains(&(kind, class))
    }

    /// The sources that detect a class.
    pub(crate) fn sources_of(&self, class: Class) -> Vec<&Source> {
        let looked = |source: &&Source| self.looked_for(source.kind, class);
        self.sources.iter().filter(looked).collect()
    }

    /// The legend label of a source: its own, or else the name of its kind.
    pub(crate) fn label(&self, kind: SourceKind) -> &str {
        let own = self.sources.iter().find(|source| source.kind == kind);
        let given = || self.labels.iter().find(|(of, _)| *of == kind);
        own.map(|source| source.label.as_str())
            .or_else(|| given().map(|(_, label)| label.as_str()))
            .unwrap_or(kind.name())
    }
}

/// The word for a class, in the singular.
pub(crate) fn class_word(class: Class) -> &'static str {
    match class {
        Class::Background => "background",
        Class::TropicalCyclone => "tropical cyclone",
        Class::AtmosphericRiver => "atmospheric river",
        Class::ExtratropicalCyclone => "extratropical cyclone",
        Class::TropicalDepression => "tropical depression",
    }
}

/// The CSS class of marks of a class.
pub(crate) fn class_css(class: Class) -> &'static str {
    match class {
        Class::Background => "background",
        Class::TropicalCyclone | Class::ExtratropicalCyclone | Class::TropicalDepression => {
            "cyclone"
        }
        Class::AtmosphericRiver => "river",
    }
}
