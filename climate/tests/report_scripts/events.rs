//! The table of events, and the life of a single event.

use crate::engine::Browser;
use crate::pages::{day, found, grid};
use serde_json::json;
use squall_climate::report::{ReportBuilder, ReportInput};

#[test]
fn filters_leave_what_they_name() {
    let page = Browser::open(&day());
    page.shows("text('found')", json!("5 events"));
    page.shows("text('page-at')", json!("1 to 5 of 5"));
    let [first, third, low, river, boxed] = [
        "Tropical cyclone 1",
        "Tropical cyclone 3",
        "Extratropical cyclone 4",
        "Atmospheric river 2",
        "Tropical cyclone 5",
    ];
    for (filter, value, left) in [
        ("class", "3", vec![river]),
        ("class", "1", vec![first, third, boxed]),
        ("finder", "1", vec![low, boxed]),
        ("season", "2", vec![first, third, low, river, boxed]),
        ("season", "0", vec![]),
        // Events of unknown strength do not count as strong.
        ("category", "2", vec![first]),
        ("from", "1996", vec![]),
        ("to", "1995", vec![first, third, low, river, boxed]),
        ("id", "3", vec![third]),
    ] {
        page.does(&format!("choose('filter-{filter}', '{value}')"));
        page.shows("names()", json!(left));
        let all = if left.len() == 5 { "" } else { " of 5" };
        page.shows(
            "text('found')",
            json!(format!("{}{all} events", left.len())),
        );
        page.does(&format!("choose('filter-{filter}', '')"));
    }
    page.does("choose('filter-class', '3'); choose('filter-finder', '1')");
    page.shows("names()", json!([]));
    page.shows("text('page-at')", json!("nothing fits the filters"));
    page.shows("by('page-next').disabled", json!(true));
}

#[test]
fn a_heading_sorts_and_what_is_not_known_comes_last() {
    let page = Browser::open(&day());
    page.does("sorter('Confidence').fire('click')");
    page.shows(
        "rows().map((row) => cell(row, 'Confidence'))",
        json!(["90", "70", "–", "–", "–"]),
    );
    page.does("sorter('Confidence').fire('click')");
    page.shows(
        "rows().map((row) => cell(row, 'Confidence'))",
        json!(["70", "90", "–", "–", "–"]),
    );
    page.shows(
        "sorter('Confidence').parentElement.getAttribute('aria-sort')",
        json!("ascending"),
    );
}

#[test]
fn rows_have_the_numbers_of_the_other_tables() {
    let page = Browser::open(&day());
    for heading in ["Wind", "Lifetime", "Path"] {
        page.shows(
            &format!("[0, 1].every((k) => cell(rows()[k], '{heading}') === cell(still('Strongest tropical')[k], '{heading}'))"),
            json!(true),
        );
    }
    page.shows(
        "['Began', 'Basin', 'Strength', 'Wind', 'Pressure', 'Water', 'Area', 'Path'].map((h) => cell(rows()[0], h))",
        json!([
            "5 Aug 1995, 00:00",
            "North Atlantic",
            "category 1",
            "35.3",
            "970.2",
            "–",
            "300",
            "10\u{202f}900"
        ]),
    );
    // Rivers have no cyclone basin.
    page.shows(
        "cell(rows()[names().indexOf('Atmospheric river 2')], 'Basin')",
        json!("180–109°W north"),
    );
    // The second event has no known properties.
    page.shows(
        "['Strength', 'Wind', 'Pressure', 'Water', 'Area'].map((h) => cell(rows()[1], h))",
        json!(["–", "–", "–", "–", "–"]),
    );
    page.shows(
        "[6, 24, 60, 2568].map((hours) => squall.days(hours))",
        json!(["0.25", "1.0", "2.5", "107"]),
    );
    page.shows(
        "[6, 47, 60, 2568].map((hours) => squall.duration(hours))",
        json!(["6 h", "47 h", "2.5 days", "107 days"]),
    );
    page.shows(
        "[0, 0.01234, 0.5, 9.996, 999.6, 12345.6, -2, NaN].map((v) => squall.number(v))",
        json!([
            "0",
            "0.0123",
            "0.500",
            "10.00",
            "1000",
            "12\u{202f}300",
            "−2.00",
            "–"
        ]),
    );
}

#[test]
fn the_life_of_an_event_says_what_is_known_at_each_time() {
    let page = Browser::open(&day());
    page.does("rows()[0].querySelector('button').fire('click')");
    page.shows(
        "[by('life').open, text('life-name')]",
        json!([true, "Tropical cyclone 1"]),
    );
    // It opens at the time of the strongest wind, when the pressure is unknown.
    page.shows(
        "[by('life-time').value, by('life-time').max]",
        json!(["1", 2]),
    );
    page.shows(
        "text('life-now')",
        json!("5 Aug 1995, 06:00 · 17.0°N 1.0°E · 35.3 m s⁻¹ · 0.30 million km² · 16 m s⁻¹ along the path"),
    );
    page.does("choose('life-time', 2)");
    page.shows(
        "text('life-now').startsWith('5 Aug 1995, 12:00 · 18.0°N 4.0°E · 30.0 m s⁻¹ · 970.2 hPa · ')",
        json!(true),
    );
    page.shows("charts().length", json!(4));
    // Three wind values are connected; two pressure values with a gap in between are separate dots.
    page.shows(
        "[line('Wind'), line('Pressure')].map((d) => d.replace(/[^ML]/g, ''))",
        json!(["MLL", "MM"]),
    );
    page.shows(
        "charts().map((c) => c.querySelectorAll('circle').length)",
        json!([0, 2, 0, 0]),
    );
    page.shows(
        "charts().slice(0, 2).map((c) => c.querySelector('svg').getAttribute('aria-label'))",
        json!([
            "Wind: from 20.0 to 35.3 m s⁻¹",
            "Pressure: from 970.2 to 1004 hPa"
        ]),
    );
    page.does("click('life-next')");
    page.shows(
        "[text('life-name'), text('life-now')]",
        json!(["Tropical cyclone 3", "5 Aug 1995, 00:00 · 15.0°N 140.0°E"]),
    );
    // Two times give one speed.
    page.shows(
        "charts().map((c) => c.querySelectorAll('circle').length)",
        json!([1]),
    );
}

#[test]
fn the_life_goes_through_the_list_and_to_the_map() {
    let page = Browser::open(&day());
    page.does("choose('filter-finder', '1'); rows()[1].fire('click')");
    page.shows("text('life-name')", json!("Tropical cyclone 5"));
    page.shows(
        "[by('life-back').disabled, by('life-next').disabled]",
        json!([false, true]),
    );
    page.does("by('life').fire('keydown', { key: 'PageUp' })");
    page.shows("text('life-name')", json!("Extratropical cyclone 4"));
    page.does("by('life').fire('keydown', { key: 'PageUp' })");
    page.shows("text('life-name')", json!("Extratropical cyclone 4"));
    page.does("tick('layer-boxes-1', false); choose('life-time', 2); click('life-show')");
    page.shows(
        "[by('life').open, ...time()]",
        json!([false, "5 Aug 1995, 12:00", "3 of 4", "2"]),
    );
    page.shows("by('layer-boxes-1').checked", json!(true));
    page.shows("boxes(2)", json!([[4, 76, 44, 96]]));
}

#[test]
fn events_without_a_map_are_listed() {
    let mut input = ReportInput::new("Events alone", grid(2.5));
    input.sources.push(found());
    let page = Browser::open(&ReportBuilder::new(input).unwrap().html().unwrap());
    page.shows("text('found')", json!("3 events"));
    page.does("rows()[0].fire('click')");
    page.shows(
        "[by('life').open, by('life-show').hidden]",
        json!([true, true]),
    );
}

#[test]
fn an_old_browser_is_told_from_no_events() {
    let before = "delete globalThis.DecompressionStream";
    let page = Browser::open_after(before, &day());
    page.shows(
        "text('found').startsWith('This browser cannot unpack the events')",
        json!(true),
    );
    // The map continues with its own pictures.
    page.shows("time()", json!(["5 Aug 1995, 06:00", "2 of 3", "1"]));
}

#[test]
fn damaged_events_are_told_from_no_events() {
    let page = Browser::open(&day().replace("\"rows\":5", "\"rows\":4"));
    page.shows(
        "text('found').startsWith('The events of this page are damaged')",
        json!(true),
    );
    page.shows("time()", json!(["5 Aug 1995, 06:00", "2 of 3", "1"]));
}
