//! The sources of a report's content: rules, networks, the truth.

use crate::{Event, Track};
use squall_data::boxes::{BoxFrames, TrackedBox};

/// The origin of masks, events or boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// Thresholds on the fields.
    Heuristic,
    /// Further sources: other thresholds, tools or networks, numbered from 0.
    Other(usize),
    /// A trained network.
    Network,
    /// The actual content of a synthetic run, or expert labels.
    Truth,
}

/// The CSS classes of [`SourceKind::Other`], each with its own colour and stroke; they repeat for larger numbers.
const OTHERS: [&str; 5] = ["other", "other2", "other3", "other4", "other5"];

impl SourceKind {
    /// One of each kind, in the order of legends.
    pub const ALL: [Self; 4] = [Self::Heuristic, Self::Other(0), Self::Network, Self::Truth];

    /// The name in legends, for sources without a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heuristic => "Heuristic",
            Self::Other(_) => "Other",
            Self::Network => "Network",
            Self::Truth => "Truth",
        }
    }

    /// The CSS class of this source's marks.
    pub(crate) fn css(self) -> &'static str {
        match self {
            Self::Heuristic => "heuristic",
            Self::Other(number) => OTHERS[number % OTHERS.len()],
            Self::Network => "network",
            Self::Truth => "truth",
        }
    }
}

/// The events and tracks that one source found.
#[derive(Debug, Clone)]
pub struct Source {
    /// The kind of source.
    pub kind: SourceKind,
    /// The label in legends, for instance "DeepCAM recipe" or "DeepLabV3+".
    pub label: String,
    /// One per object and time.
    pub events: Vec<Event>,
    /// One per object tracked through time; may be empty.
    pub tracks: Vec<Track>,
    /// The kind of wind in `max_wind_m_s`.
    pub wind: SourceWind,
    /// Number of analysed times; `None` uses that of the page.
    pub times: Option<usize>,
}

/// The kind of wind of a source's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceWind {
    /// The wind of the fields: at the lowest level, or whatever the data have instead.
    #[default]
    Fields,
    /// The wind of a synthetic vortex itself, above the boundary layer.
    Vortex,
}

impl Source {
    /// A source labelled with the name of its kind.
    pub fn new(kind: SourceKind, events: Vec<Event>, tracks: Vec<Track>) -> Self {
        Self {
            kind,
            label: kind.name().to_string(),
            events,
            tracks,
            wind: SourceWind::default(),
            times: None,
        }
    }

    /// Whether its rivers are ranked by the proxy of vapour transport.
    pub(crate) fn ranks_by_proxy(&self) -> bool {
        let mut details = self.events.iter().map(|event| &event.details);
        details.any(|of| {
            let ranked = of.river_scale.is_some();
            ranked && of.max_ivt_proxy_kg_m_s.is_some() && of.max_ivt_kg_m_s.is_none()
        })
    }

    /// Sets the number of analysed times, which may differ from that of the page.
    #[must_use]
    pub fn of_times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Sets the kind of wind.
    #[must_use]
    pub fn with_wind(mut self, wind: SourceWind) -> Self {
        self.wind = wind;
        self
    }

    /// Sets the label.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
}

/// The boxes that one source found.
#[derive(Debug, Clone)]
pub struct BoxSource {
    /// The kind of source.
    pub kind: SourceKind,
    /// The label in legends.
    pub label: String,
    /// Boxes by time, after filtering by confidence.
    pub frames: BoxFrames,
    /// The minimum confidence of boxes, and the number of boxes below it.
    pub left_out: Option<(f32, usize)>,
    /// The kind of the [`Source`] that `squall events` made from these boxes. Its tracks are shown instead of tracks
    /// joined from the boxes.
    pub followed_by: Option<SourceKind>,
}

impl BoxSource {
    /// Boxes and their label.
    pub fn new(kind: SourceKind, label: impl Into<String>, frames: BoxFrames) -> Self {
        Self {
            kind,
            label: label.into(),
            frames,
            left_out: None,
            followed_by: None,
        }
    }

    /// Drops boxes below a confidence; keeps those without one.
    #[must_use]
    pub fn at_least(mut self, min_confidence: f32) -> Self {
        let sure = |found: &TrackedBox| found.geo.is_sure(min_confidence);
        let removed = self.frames.retain(sure);
        self.left_out = Some((min_confidence, removed));
        self
    }

    /// Declares that the source of this kind has the boxes' events and tracks.
    #[must_use]
    pub fn followed_by(mut self, kind: SourceKind) -> Self {
        self.followed_by = Some(kind);
        self
    }
}
