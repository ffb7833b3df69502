//! The browser of events in the report: a table with filters, and for each event a view of its life. Its data are one
//! compressed block of bytes in the page.
//!
//! A life is a track with its points, or an untracked object.

mod chain;
mod clock;
mod life;
mod pack;
mod thin;

use crate::error::Result;
use crate::map::colour::{CYCLONE_COLOUR, RIVER_COLOUR, hex};
use crate::map::image::base64;
use crate::report::html::escape;
use crate::report::page::{Page, Section};
use crate::report::track_map::CATEGORY_COLOURS;
use crate::report::{BoxSource, ReportInput, Source, SourceKind};
use crate::statistics::{Basin, Category};
use clock::Clock;
use life::Life;
use serde_json::{Value, json};
use squall_data::Time;
use squall_data::boxes::BoxClass;
use thin::{Thinned, thin};

/// Names and colours of the classes of boxes and masks, in the order of [`BoxClass`].
pub(crate) const KINDS: [(BoxClass, &str, [u8; 3]); 4] = [
    (
        BoxClass::TropicalDepression,
        "tropical depression",
        [0xc9, 0xa2, 0xff],
    ),
    (
        BoxClass::TropicalCyclone,
        "tropical cyclone",
        CYCLONE_COLOUR,
    ),
    (
        BoxClass::ExtratropicalCyclone,
        "extratropical cyclone",
        [0x5c, 0xc8, 0xff],
    ),
    (
        BoxClass::AtmosphericRiver,
        "atmospheric river",
        RIVER_COLOUR,
    ),
];

/// All data of the browser, thinned to fit into the page.
pub(crate) struct Browser {
    clock: Clock,
    thinned: Thinned,
    /// Classes that occur.
    classes: Vec<BoxClass>,
    /// The finders: sources of events, then sources of boxes.
    finders: Vec<Value>,
}

impl Browser {
    /// The browser for all sources and boxes, within `max_bytes` of the page; `None` if there are no events.
    ///
    /// # Errors
    /// As [`thin`].
    pub(crate) fn build(
        input: &ReportInput,
        frames: &[Time],
        max_bytes: usize,
    ) -> Result<Option<Self>> {
        let mut lives: Vec<Life> = Vec::new();
        let mut finders = Vec::new();
        // Points of untracked boxes have a confidence, all others the properties of their event.
        let finder = |kind: SourceKind, label: &str, boxes: bool, confidence: bool| json!({ "kind": kind.css(), "label": label, "boxes": boxes, "confidence": confidence });
        for source in &input.sources {
            let boxes = input.boxes.iter();
            let drawn = boxes.filter(|b| b.followed_by == Some(source.kind)).count() > 0;
            lives.extend(life::lives_of_source(source, finders.len(), drawn));
            finders.push(finder(source.kind, &source.label, drawn, false));
        }
        for source in unfollowed(input) {
            lives.extend(life::lives_of_boxes(source, finders.len()));
            finders.push(finder(source.kind, &source.label, true, true));
        }
        let times = || {
            let ends = lives.iter().flat_map(|life| [life.start, life.end]);
            let points = lives.iter().flat_map(|life| &life.points).map(|p| p.time);
            ends.chain(points).chain(frames.iter().copied())
        };
        let Some(clock) = Clock::spanning(times()).filter(|_| !lives.is_empty()) else {
            return Ok(None);
        };
        lives.sort_by_key(|life| (clock.units(life.start), life.finder, life.id));
        // Base64 turns three bytes into four.
        let thinned = thin(&lives, &clock, frames, max_bytes / 4 * 3)?;
        let classes = BoxClass::ALL.into_iter();
        let classes = classes.filter(|class| lives.iter().any(|life| life.class == *class));
        Ok(Some(Self {
            classes: classes.collect(),
            clock,
            thinned,
            finders,
        }))
    }

    /// The data for the page's script.
    pub(crate) fn json(&self, frames: &[Time]) -> Value {
        let kinds: Vec<Value> = KINDS
            .iter()
            .map(|(class, name, colour)| {
                let places = match Basin::is_of((*class).into()) {
                    true => "basins",
                    false => "sectors",
                };
                json!({ "class": class.name(), "name": name, "colour": hex(*colour), "places": places })
            })
            .collect();
        let frames: Vec<i64> = frames.iter().map(|t| self.clock.units(*t)).collect();
        json!({
            "clock": self.clock.json(),
            "frames": frames,
            "rows": self.thinned.rows,
            "points": self.thinned.points,
            "rowColumns": pack::ROW_COLUMNS.map(|(name, _)| name),
            "pointColumns": pack::POINT_COLUMNS,
            "areaSteps": pack::AREA_STEPS,
            "kinds": kinds,
            "basins": Basin::NAMES,
            "sectors": Basin::SECTORS,
            "categories": {
                "colours": CATEGORY_COLOURS,
                "limits": Category::lowest_winds_m_s(),
            },
            "finders": self.finders,
            "bytes": base64(&self.thinned.bytes),
        })
    }

    /// The section with the table.
    pub(crate) fn section(&self, page: &Page<'_>) -> Section {
        let thinning = self.thinned.words();
        let untracked = |source: &BoxSource| {
            let mut boxes = source.frames.frames().iter().flat_map(|f| &f.boxes);
            boxes.any(|found| found.track_id.is_none())
        };
        let joining = if unfollowed(page.input).any(untracked) {
            format!(
                "Boxes without tracks are joined where they overlap by {} % from one time to the next. ",
                100.0 * chain::MIN_OVERLAP
            )
        } else {
            String::new()
        };
        let ranking = if page.input.sources.iter().any(Source::ranks_by_proxy) {
            "Ranks of rivers are by a proxy of vapour transport, and approximate. "
        } else {
            ""
        };
        Section {
            id: "events".into(),
            nav: "Events".into(),
            heading: "Events, one by one".into(),
            lead: format!(
                "Every event that was found. Choose a row, or a storm on the map, to see its life. {ranking}{joining}{thinning}"
            )
            .trim_end()
            .into(),
            html: self.html(page),
        }
    }

    fn html(&self, page: &Page<'_>) -> String {
        let options = |all: &str, rest: &mut dyn Iterator<Item = (String, String)>| {
            let rest = rest.map(|(value, name)| {
                format!("<option value=\"{value}\">{}</option>", escape(&name))
            });
            format!(
                "<option value=\"\">{all}</option>{}",
                rest.collect::<String>()
            )
        };
        let classes = options(
            "all",
            &mut self.classes.iter().map(|class| {
                let name = KINDS[usize::from(class.code())].1;
                (class.code().to_string(), format!("{name}s"))
            }),
        );
        let labels = (page.input.sources.iter().map(|s| &s.label))
            .chain(unfollowed(page.input).map(|b| &b.label));
        let finders = options(
            "all",
            &mut labels
                .enumerate()
                .map(|(k, label)| (k.to_string(), label.clone())),
        );
        let finder = if self.finders.len() > 1 {
            select("filter-finder", "Found by", &finders)
        } else {
            String::new()
        };
        let basins = options(
            "all",
            &mut (Basin::NAMES.iter().zip(Basin::SECTORS).enumerate())
                .map(|(k, (name, sector))| (k.to_string(), format!("{name} ({sector})"))),
        );
        let seasons = options(
            "all",
            &mut (crate::compare::SEASONS.iter().enumerate())
                .map(|(k, (_, name))| (k.to_string(), name.to_string())),
        );
        let categories = options(
            "all",
            &mut [
                ("1", "storm, or rank 1, and more"),
                ("2", "category 1 or rank 2 and more"),
                ("3", "category 2 or rank 3 and more"),
                ("4", "category 3 or rank 4 and more"),
                ("5", "category 4 or rank 5 and more"),
                ("6", "category 5"),
            ]
            .into_iter()
            .map(|(value, name)| (value.to_string(), name.to_string())),
        );
        let filters = [
            select("filter-class", "Class", &classes),
            finder,
            select("filter-basin", "Basin", &basins),
            select("filter-season", "Season", &seasons),
            select("filter-category", "Strength", &categories),
        ]
        .concat();
        format!(
            r#"<div class="browser" id="browser">
<form class="filters" id="filters" aria-label="Filters">{filters}<label class="select">Years <input type="number" id="filter-from" aria-label="From year" step="1"> to <input type="number" id="filter-to" aria-label="To year" step="1"></label><label class="select">Number <input type="number" id="filter-id" min="0" step="1"></label><label class="select">Order <select id="sort"></select></label><button type="button" id="sort-turn" aria-label="Turn the order round">↓</button><button type="reset" class="wordy">Clear</button></form>
<p class="note" id="found" role="status"></p>
<div class="rows"><table class="cards" id="rows"><caption class="unseen">Events; a heading sorts by its column</caption><thead><tr></tr></thead><tbody></tbody></table></div>
<div class="pager"><button type="button" id="page-back" aria-label="Previous rows">‹</button><output id="page-at"></output><button type="button" id="page-next" aria-label="Next rows">›</button></div>
<noscript><p class="empty">The table of all events needs JavaScript. The tables of extremes do not.</p></noscript>
<dialog id="life" aria-labelledby="life-name"><div class="life-head"><h3 id="life-name"></h3><div><button type="button" id="life-back" aria-label="Event before">‹</button><button type="button" id="life-next" aria-label="Event after">›</button><button type="button" id="life-close" aria-label="Close">✕</button></div></div>
<p class="note" id="life-facts"></p>
<canvas id="life-map" role="img"></canvas>
<div class="transport"><input type="range" id="life-time" min="0" step="1" autofocus aria-label="Time in the event's life"><button type="button" class="wordy" id="life-show">Show on the map</button></div>
<p class="note" id="life-now" role="status"></p>
<div class="grid" id="life-charts"></div></dialog>
</div>
"#
        )
    }
}

/// The sources of boxes without a source of events made from them. Each is a finder of its own, listed after the
/// sources of events.
fn unfollowed(input: &ReportInput) -> impl Iterator<Item = &BoxSource> {
    let followed = |boxes: &BoxSource| of_kind(input, boxes.followed_by).is_some();
    input.boxes.iter().filter(move |boxes| !followed(boxes))
}

fn of_kind(input: &ReportInput, kind: Option<SourceKind>) -> Option<usize> {
    input.sources.iter().position(|s| Some(s.kind) == kind)
}

/// The index of each source of boxes in the list of finders.
pub(crate) fn finders_of_boxes(input: &ReportInput) -> Vec<usize> {
    let mut next = input.sources.len();
    let place = |boxes: &BoxSource| {
        of_kind(input, boxes.followed_by).unwrap_or_else(|| {
            next += 1;
            next - 1
        })
    };
    input.boxes.iter().map(place).collect()
}

fn select(id: &str, label: &str, options: &str) -> String {
    format!("<label class=\"select\">{label} <select id=\"{id}\">{options}</select></label>")
}
