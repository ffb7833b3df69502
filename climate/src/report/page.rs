//! The whole page: head, sections in order, data and scripts.

use crate::error::Result;
use crate::map::Coastline;
use crate::report::agreement::MaskCounter;
use crate::report::browser::Browser;
use crate::report::builder::ReportOptions;
use crate::report::frames::{EncodedFrame, FrameEncoder};
use crate::report::html::{escape, script_json};
use crate::report::payload::payload;
use crate::report::period::Period;
use crate::report::{ReportInput, SourceKind, changes, overview, sections};
use squall_data::Time;
use std::borrow::Cow;
use std::fmt::Write as _;

const STYLE: &str = include_str!("assets/style.css");
/// The script for saving figures, on every page that has some.
const SAVE: &str = include_str!("assets/save.js");
/// Shared by all scripts, so it comes first.
const COMMON: &str = include_str!("assets/common.js");
const MAP: &str = include_str!("assets/map.js");
const STORE: &str = include_str!("assets/store.js");
const LIFE: &str = include_str!("assets/life.js");
const EVENTS: &str = include_str!("assets/events.js");
/// Blocks all requests: only inline styles, scripts and images are allowed.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The input of the sections.
pub(crate) struct Page<'a> {
    pub(crate) input: &'a ReportInput,
    /// The event browser, if there are any events.
    pub(crate) browser: Option<&'a Browser>,
    pub(crate) options: &'a ReportOptions,
    pub(crate) encoder: &'a FrameEncoder,
    pub(crate) counter: &'a MaskCounter,
    /// The analysed period, if any.
    pub(crate) period: Option<Period>,
    /// In time order.
    pub(crate) frames: &'a [&'a EncodedFrame],
    /// Every n-th of the offered times is on the map.
    pub(crate) every: usize,
    /// Number of times offered for the map.
    pub(crate) offered: usize,
}

impl Page<'_> {
    /// The legend label of a source.
    pub(crate) fn label(&self, kind: SourceKind) -> String {
        self.input.label(kind).to_string()
    }

    /// The label inside a sentence: `Heuristic` becomes `the heuristic`, `DeepLabV3+` stays unchanged.
    pub(crate) fn in_sentence(&self, kind: SourceKind) -> String {
        let label = self.label(kind);
        if label == kind.name() {
            format!("the {}", label.to_lowercase())
        } else {
            label
        }
    }

    /// Number of analysed times.
    pub(crate) fn times(&self) -> usize {
        let counted = self.counter.times() as usize;
        self.input.times.unwrap_or(counted.max(self.offered))
    }
}

/// A section of the page: its entry in the navigation and its content.
pub(crate) struct Section {
    pub(crate) id: Cow<'static, str>,
    pub(crate) nav: Cow<'static, str>,
    pub(crate) heading: Cow<'static, str>,
    /// One sentence under the heading, plain text.
    pub(crate) lead: String,
    pub(crate) html: String,
}

/// The parts of a page.
pub(crate) struct Shell<'a> {
    pub(crate) title: &'a str,
    pub(crate) generator: &'a str,
    /// Additions to the common style sheet.
    pub(crate) style: &'a str,
    /// The top of the page, HTML.
    pub(crate) header: String,
    pub(crate) sections: &'a [Section],
    /// Whether the page has maps.
    pub(crate) has_maps: bool,
    /// Data and scripts, HTML.
    pub(crate) tail: String,
}

impl Shell<'_> {
    /// The complete page.
    pub(crate) fn html(&self) -> String {
        let title = escape(self.title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"{}\">\n<title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to content</a>\n",
            escape(self.generator),
            self.style
        );
        if self.has_maps {
            // One coastline, shared by all static maps and the script.
            let coast = Coastline::natural_earth();
            let _ = writeln!(
                out,
                "<svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs><path id=\"land\" fill-rule=\"evenodd\" d=\"{}\"/><path id=\"shores\" d=\"{}\"/></defs></svg>",
                coast.svg_area(),
                coast.svg_shores()
            );
        }
        out.push_str(&self.header);
        out.push_str("<nav aria-label=\"Sections\"><div>");
        for section in self.sections {
            let _ = write!(
                out,
                "<a href=\"#{}\">{}</a>",
                section.id,
                escape(&section.nav)
            );
        }
        out.push_str("</div></nav>\n<main id=\"main\">\n");
        for section in self.sections {
            let lead = if section.lead.is_empty() {
                String::new()
            } else {
                format!("<p class=\"lead\">{}</p>\n", escape(&section.lead))
            };
            let _ = write!(
                out,
                "<section id=\"{}\" aria-labelledby=\"{0}-h\">\n<h2 id=\"{0}-h\">{}</h2>\n{lead}{}</section>\n",
                section.id,
                escape(&section.heading),
                section.html
            );
        }
        let credits = match self.has_maps {
            true => " Coastlines: Natural Earth, public domain.",
            false => "",
        };
        let _ = writeln!(
            out,
            "</main>\n<footer><p>Written by {}.{credits} This file needs no network: everything it shows is inside it.</p></footer>",
            escape(self.generator)
        );
        out.push_str(&self.tail);
        if ["<figure", "<canvas"].iter().any(|has| out.contains(*has)) {
            let _ = writeln!(out, "<script>\n{SAVE}</script>");
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

/// The complete page of a report.
pub(crate) fn page(page: &Page<'_>) -> Result<String> {
    let mut tail = String::new();
    let mut element = |id: &str, data: &serde_json::Value| {
        let data = script_json(data);
        let _ = writeln!(
            tail,
            "<script type=\"application/json\" id=\"{id}\">{data}</script>"
        );
    };
    let mut scripts = Vec::new();
    if let Some(browser) = page.browser {
        let times: Vec<Time> = page.frames.iter().map(|f| f.time).collect();
        element("event-data", &browser.json(&times));
        scripts.extend([STORE, LIFE, EVENTS]);
    }
    if !page.frames.is_empty() {
        let centre_deg = page.options.centre_deg;
        element(
            "data",
            &payload(page.input, page.encoder, page.frames, centre_deg),
        );
        scripts.push(MAP);
    }
    if !scripts.is_empty() {
        let _ = writeln!(tail, "<script>\n{COMMON}{}</script>", scripts.concat());
    }
    let shell = Shell {
        title: &page.input.title,
        generator: &page.input.generator,
        style: if page.input.comparisons.is_empty() {
            ""
        } else {
            changes::STYLE
        },
        header: overview::header(page),
        sections: &sections::all(page)?,
        has_maps: true,
        tail,
    };
    Ok(shell.html())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Rgb, colour::contrast};

    /// The value of a colour variable of the style sheet, in the light (0) or dark (1) scheme.
    fn variable(name: &str, scheme: usize) -> Rgb {
        let value = STYLE
            .split(&format!("--{name}: #"))
            .nth(scheme + 1)
            .unwrap_or_else(|| panic!("--{name} is not defined in scheme {scheme}"));
        let code = u32::from_str_radix(&value[..6], 16).expect("six digits");
        [(code >> 16) as u8, (code >> 8) as u8, code as u8]
    }

    #[test]
    fn what_is_folded_on_the_screen_is_printed() {
        let print = STYLE.split("@media print {").nth(1).unwrap();
        let shown = "details::details-content { content-visibility: visible;";
        assert!(print.contains(shown), "{print}");
        // A table longer than a page must not be kept in one piece.
        let pieces = print.split("break-inside: avoid").next().unwrap();
        let kept = pieces.lines().last().unwrap();
        assert!(!kept.contains("table"), "{kept}");
    }

    #[test]
    fn paper_is_no_telephone_and_cuts_no_column_off() {
        // A4 between its margins is 717 pixels wide; on the screen, the rows of events scroll.
        assert!(STYLE.contains("@media screen and (max-width: 720px) {"));
        assert!(!STYLE.contains("@media (max-width: 720px)"));
        let print = STYLE.split("@media print {").nth(1).unwrap();
        assert!(print.contains(".rows { overflow: visible; }"), "{print}");
    }

    #[test]
    fn text_and_marks_have_enough_contrast_in_both_schemes() {
        // WCAG 2.2: 4.5 for text (1.4.3), 3 for marks of figures (1.4.11).
        for scheme in 0..2 {
            for ground in ["paper", "card"] {
                for (front, least) in [
                    ("ink", 7.0),
                    ("soft", 4.5),
                    ("accent", 4.5),
                    ("cyclone", 3.0),
                    ("river", 3.0),
                    ("heuristic", 3.0),
                    ("other", 3.0),
                    ("other2", 3.0),
                    ("other3", 3.0),
                    ("other4", 3.0),
                    ("other5", 3.0),
                    ("network", 3.0),
                    ("truth", 3.0),
                ] {
                    let found = contrast(variable(front, scheme), variable(ground, scheme));
                    assert!(
                        found >= least,
                        "{front} on {ground} in scheme {scheme}: {found:.2}"
                    );
                }
            }
            assert!(contrast(variable("ink", scheme), variable("caution", scheme)) > 7.0);
        }
    }
}
