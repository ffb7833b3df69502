//! The sources of what a report shows: rules, a network, the truth.

use crate::{Event, Track};
use squall_data::boxes::{BoxFrames, TrackedBox};

/// Who drew a mask or found an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// Thresholds on the fields.
    Heuristic,
    /// What stands beside them: other thresholds, other tools or networks, numbered from 0.
    Other(usize),
    /// A trained network.
    Network,
    /// What a synthetic run really contains, or an expert's labels.
    Truth,
}

/// The CSS classes of marks of others, each of a colour and a stroke of its own; they repeat beyond so many.
const OTHERS: [&str; 5] = ["other", "other2", "other3", "other4", "other5"];

impl SourceKind {
    /// One of each kind, in the order of legends.
    pub const ALL: [Self; 4] = [Self::Heuristic, Self::Other(0), Self::Network, Self::Truth];

    /// The word in legends, if the source has no label of its own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heuristic => "Heuristic",
            Self::Other(_) => "Other",
            Self::Network => "Network",
            Self::Truth => "Truth",
        }
    }

    /// The CSS class of marks of this source.
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
    /// Who found them.
    pub kind: SourceKind,
    /// What legends call it, for instance "DeepCAM recipe" or "DeepLabV3+".
    pub label: String,
    /// One per object and time.
    pub events: Vec<Event>,
    /// One per object followed through time; may be empty where nothing was tracked.
    pub tracks: Vec<Track>,
    /// Which wind `max_wind_m_s` is.
    pub wind: SourceWind,
    /// Number of analysed times; that of the page if `None`.
    pub times: Option<usize>,
}

/// Which wind the events of a source have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceWind {
    /// That of the fields: of the lowest level, or what the data have instead of it.
    #[default]
    Fields,
    /// A synthetic vortex's own, above the boundary layer.
    Vortex,
}

impl Source {
    /// A source that is called by its kind.
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

    /// Whether its rivers are ranked by the stand-in for vapour transport.
    pub(crate) fn ranks_by_proxy(&self) -> bool {
        let mut details = self.events.iter().map(|event| &event.details);
        details.any(|of| {
            let ranked = of.river_scale.is_some();
            ranked && of.max_ivt_proxy_kg_m_s.is_some() && of.max_ivt_kg_m_s.is_none()
        })
    }

    /// The same source with events of so many analysed times, which need not be those of the page.
    #[must_use]
    pub fn of_times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// The same source with events of another wind than that of the fields.
    #[must_use]
    pub fn with_wind(mut self, wind: SourceWind) -> Self {
        self.wind = wind;
        self
    }

    /// The same source under another name.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
}

/// The boxes that one source found.
#[derive(Debug, Clone)]
pub struct BoxSource {
    /// Who found them.
    pub kind: SourceKind,
    /// What legends call them.
    pub label: String,
    /// Boxes by time: those that are drawn, joined to events and counted.
    pub frames: BoxFrames,
    /// The least confidence of a box that is shown, and how many boxes have less.
    pub left_out: Option<(f32, usize)>,
    /// The kind of the [`Source`] that `squall events` made of these boxes: its tracks are shown, and none are joined
    /// from the boxes.
    pub followed_by: Option<SourceKind>,
}

impl BoxSource {
    /// Boxes and what they are called.
    pub fn new(kind: SourceKind, label: impl Into<String>, frames: BoxFrames) -> Self {
        Self {
            kind,
            label: label.into(),
            frames,
            left_out: None,
            followed_by: None,
        }
    }

    /// Only the boxes that are at least this sure, and those without a confidence.
    #[must_use]
    pub fn at_least(mut self, min_confidence: f32) -> Self {
        let sure = |found: &TrackedBox| found.geo.is_sure(min_confidence);
        let removed = self.frames.retain(sure);
        self.left_out = Some((min_confidence, removed));
        self
    }

    /// The same boxes, whose events and tracks are those of the source of a kind.
    #[must_use]
    pub fn followed_by(mut self, kind: SourceKind) -> Self {
        self.followed_by = Some(kind);
        self
    }
}
