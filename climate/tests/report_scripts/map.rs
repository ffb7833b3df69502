//! The interactive map.

use crate::engine::Browser;
use crate::pages::{day, found, grid, hour, mask, of_masks};
use ndarray::Array2;
use serde_json::json;
use squall_climate::report::{Frame, ReportBuilder, ReportInput, SourceKind};
use squall_data::Class;

#[test]
fn the_slider_shows_the_pictures_and_boxes_of_its_time() {
    let page = Browser::open(&day());
    // The middle picture is shown first.
    page.shows("time()", json!(["5 Aug 1995, 06:00", "2 of 4", "1"]));
    page.shows("[by('time').max, by('time').disabled]", json!([3, false]));
    page.shows("masks(2)", json!([[400, 100, 430, 120]]));
    page.shows("boxes(1)", json!([[200, 140, 220, 160]]));
    page.does("choose('time', 2)");
    page.shows("time()", json!(["5 Aug 1995, 12:00", "3 of 4", "2"]));
    page.shows("[...masks(1), ...masks(2)]", json!([]));
    page.shows("boxes(1)", json!([[208, 138, 228, 158]]));
    page.shows(
        "text('counts')",
        json!("5 Aug 1995, 12:00. Heuristic: 1 cyclone, 1 river."),
    );
    page.does("choose('time', 3)");
    page.shows("time()", json!(["5 Aug 1995, 18:00", "4 of 4", "3"]));
    page.shows(
        "text('counts')",
        json!("5 Aug 1995, 18:00. No picture was kept of this time: events alone."),
    );
    page.shows("boxes(1)", json!([[216, 136, 236, 156]]));
    page.shows(
        "by('time').getAttribute('aria-valuetext')",
        json!("5 Aug 1995, 18:00"),
    );
}

#[test]
fn what_is_not_looked_for_is_not_said_to_be_absent() {
    let grid = grid(2.5);
    let mut input = ReportInput::new("Rivers", grid.clone());
    input.sources.push(found());
    let unsought = (SourceKind::Heuristic, Class::TropicalCyclone);
    input.not_looked_for.push(unsought);
    let html = of_masks(input, &Array2::zeros(grid.shape()));
    let note = "Not looked for: tropical cyclones by Heuristic.";
    assert!(html.contains(note), "{note}");
    let page = Browser::open(&html);
    page.does("choose('time', 2)");
    page.shows(
        "text('counts')",
        json!("5 Aug 1995, 12:00. Heuristic: cyclones not looked for, 1 river."),
    );
}

#[test]
fn a_box_over_the_seam_is_drawn_at_both_edges_of_the_map() {
    let page = Browser::open(&day());
    page.does("choose('time', 0)");
    page.shows("boxes(2)", json!([[0, 80, 20, 100], [700, 80, 720, 100]]));
    // It is in one piece if the map's seam is elsewhere.
    page.does("choose('centre', 300)");
    page.shows("boxes(2)", json!([[460, 80, 500, 100]]));
}

/// The outline of a mask starts at the west of its first row, on either side of the picture's seam, and continues
/// beyond the edge of the picture.
#[test]
fn a_mask_over_the_seam_is_drawn_at_both_edges_of_the_map() {
    let page = Browser::open(&day());
    page.does("choose('time', 0)");
    page.shows("masks(1)", json!([[0, 130, 20, 160], [700, 130, 720, 160]]));
    // Here half a column is beyond the seam, and only the first row is west of it.
    let grid = grid(0.0);
    let mut cyclone = mask(&grid, 1, &[12.5, 17.5], &[350.0, 355.0, 0.0, 5.0]);
    cyclone += &mask(&grid, 1, &[22.5], &[350.0, 355.0]);
    let input = ReportInput::new("A mask", grid);
    let page = Browser::open(&of_masks(input, &cyclone));
    page.does("choose('time', 0)");
    page.shows("masks(1)", json!([[0, 130, 15, 160], [695, 130, 720, 160]]));
}

#[test]
fn a_track_over_the_seam_goes_on_at_the_other_edge() {
    let page = Browser::open(&day());
    page.does("squall.showOnMap(0, 0)");
    page.shows("time()", json!(["5 Aug 1995, 00:00", "1 of 4", "0"]));
    page.shows(
        "tracks(1).filter(([, north, , south]) => north !== 130 || south !== 160)",
        json!([[0, 144, 8, 148], [716, 146, 720, 148]]),
    );
}

#[test]
fn a_click_opens_the_life_of_what_is_there() {
    let page = Browser::open(&day());
    page.does("choose('time', 0)");
    let name = "by('life').open && text('life-name')";
    for (lon, lat, found) in [
        (357.0, 16.5, json!("Tropical cyclone 1")),
        (139.0, 15.0, json!("Tropical cyclone 3")),
        // Both parts of the box.
        (355.0, 48.0, json!("Extratropical cyclone 4")),
        (8.0, 42.0, json!("Extratropical cyclone 4")),
        (60.0, -30.0, json!(false)),
    ] {
        page.does(&format!("click('life-close'); press({lon}, {lat})"));
        page.shows(name, found);
    }
    // A drag does not count as a click.
    page.does("at('pointerdown', 170, 0); at('pointermove', 139, 15); at('click', 139, 15)");
    page.shows(name, json!(false));
    // The object under the pointer is named before it is chosen.
    page.shows(
        "tip(139, 15)",
        json!("Tropical cyclone 3 · 15.0°N 139.0°E · TMQ 35.0 kg m⁻²"),
    );
}

#[test]
fn layers_that_are_off_are_neither_drawn_nor_chosen() {
    let page = Browser::open(&day());
    page.does("choose('time', 0)");
    page.does("tick('layer-boxes-1', false); tick('layer-0', false); press(355, 48)");
    page.shows("[...boxes(2), ...masks(1)]", json!([]));
    page.shows("by('life').open", json!(false));
    page.does("tick('layer-0', true)");
    page.shows("masks(1).length > 0", json!(true));
    page.shows("boxes(2)", json!([]));
}

#[test]
fn missing_values_stay_dark_and_the_ends_of_the_colours_are_those_of_the_scale() {
    let page = Browser::open(&day());
    page.shows("shade(102.5, 7.5)", json!([0, 0, 0, 0]));
    page.shows("tip(90, -30)", json!("30.0°S 90.0°E · TMQ 35.0 kg m⁻²"));
    page.does("choose('time', 2); tick('layer-boxes-1', false)");
    page.shows("tip(102.5, 7.5)", json!("7.5°N 102.5°E · TMQ no data"));
    page.shows("tip(112.5, 7.5)", json!("7.5°N 112.5°E · TMQ 0.0 kg m⁻²"));
    page.shows(
        "tip(122.5, 7.5)",
        json!("7.5°N 122.5°E · TMQ ≥ 70.0 kg m⁻²"),
    );
    for scale in ["slate", "viridis", "cividis"] {
        page.does(&format!("choose('colours', '{scale}')"));
        page.shows(
            &format!("[shade(112.5, 7.5), shade(122.5, 7.5)].map((s) => s.slice(0, 3) + '') + '' === [shadeOf('{scale}', 1), shadeOf('{scale}', 255)] + ''"),
            json!(true),
        );
        page.shows(
            &format!(
                "by('field-bar').style.background.endsWith(`rgb(${{shadeOf('{scale}', 255)}}))`)"
            ),
            json!(true),
        );
    }
}

#[test]
fn keys_step_through_the_times_and_zoom() {
    let page = Browser::open(&day());
    for (name, place) in [
        ("ArrowRight", "3 of 4"),
        ("ArrowRight", "4 of 4"),
        ("ArrowRight", "1 of 4"),
        ("ArrowLeft", "4 of 4"),
        ("ArrowLeft", "3 of 4"),
        ("Home", "1 of 4"),
        ("End", "4 of 4"),
    ] {
        page.does(&format!("key('{name}')"));
        page.shows("text('position')", json!(place));
    }
    page.shows("key('ArrowRight').prevented", json!(true));
    // The browser's own shortcuts are not intercepted.
    page.shows("key('0', { ctrlKey: true }).prevented", json!(false));
    // The centre of the map stays fixed while its surroundings move.
    page.does("key('+'); key('+')");
    page.shows("tip(180, 0)", json!("0.0°N 180.0°W · TMQ 35.0 kg m⁻²"));
    page.shows("tip(308, 0)", json!("0.0°N 130.0°W · TMQ 35.0 kg m⁻²"));
    page.does("key('ArrowRight', { shiftKey: true })");
    page.shows("tip(180, 0)", json!("0.0°N 151.9°W · TMQ 35.0 kg m⁻²"));
    page.does("key('0')");
    page.shows("tip(308, 0)", json!("0.0°N 52.0°W · TMQ 35.0 kg m⁻²"));
}

#[test]
fn playing_passes_from_picture_to_picture_until_it_is_stopped() {
    let page = Browser::open(&day());
    page.does("key('Home'); key(' ')");
    page.shows("by('play').getAttribute('aria-label')", json!("Pause"));
    for place in ["2 of 4", "3 of 4", "1 of 4"] {
        page.shows("text('position')", json!(place));
        page.does("pass()");
    }
    page.does("click('play')");
    page.does("pass(); pass()");
    page.shows("text('position')", json!("2 of 4"));
    page.shows("by('play').getAttribute('aria-label')", json!("Play"));
}

#[test]
fn two_sources_are_compared_cell_by_cell() {
    let grid = grid(2.5);
    let first = mask(&grid, 1, &[12.5], &[102.5, 107.5]);
    let mut second = mask(&grid, 1, &[12.5], &[107.5, 112.5]);
    second[grid.nearest(12.5, 102.5)] = 2;
    let mut builder = ReportBuilder::new(ReportInput::new("Two", grid.clone())).unwrap();
    let mut frame = Frame::new(hour(0));
    frame.masks.push((SourceKind::Heuristic, first.view()));
    frame.masks.push((SourceKind::Truth, second.view()));
    builder.add_frame(&frame).unwrap();
    let page = Browser::open(&builder.html().unwrap());
    page.shows("by('difference-legend').hidden", json!(true));
    page.does("choose('mode', '0-1')");
    page.shows(
        "[by('difference-legend').hidden, by('layer-0').disabled, text('first-name'), text('second-name')]",
        json!([false, true, "only Heuristic", "only Truth"]),
    );
    // Both with different classes, both, only the second, neither.
    page.shows(
        "[102.5, 107.5, 112.5, 117.5].map((lon) => shade(lon, 12.5))",
        json!([
            [200, 120, 255, 235],
            [244, 246, 248, 190],
            [45, 212, 176, 235],
            [0, 0, 0, 0]
        ]),
    );
}

#[test]
fn every_figure_has_buttons_that_save_it() {
    let page = Browser::open(&day());
    let figures = "page.querySelectorAll('figure').filter((f) => f.querySelector('svg'))";
    page.shows(&format!("{figures}.length > 5"), json!(true));
    page.shows(
        &format!("{figures}.every((f) => f.querySelectorAll('button').map((b) => b.textContent).join() === 'SVG,PNG')"),
        json!(true),
    );
    page.shows(
        &format!("{figures}[0].querySelector('button').getAttribute('aria-label')"),
        json!("Save as SVG: Tropical cyclones, Heuristic"),
    );
    page.shows(
        "by('canvas').parentElement.querySelectorAll('button').map((b) => b.getAttribute('aria-label')).slice(-1)",
        json!(["Save the map as PNG"]),
    );
    // Charts added later can be saved, too.
    page.does("rows()[0].querySelector('button').fire('click')");
    page.shows(
        "charts().every((f) => f.querySelectorAll('button').length === 2)",
        json!(true),
    );
}

#[test]
fn a_page_of_one_time_or_without_events_works() {
    let grid = grid(2.5);
    let mut builder = ReportBuilder::new(ReportInput::new("One", grid.clone())).unwrap();
    let mut frame = Frame::new(hour(6));
    let nothing = Array2::zeros(grid.shape());
    frame.masks.push((SourceKind::Heuristic, nothing.view()));
    builder.add_frame(&frame).unwrap();
    let page = Browser::open(&builder.html().unwrap());
    page.shows("time()", json!(["5 Aug 1995, 06:00", "1 of 1", "0"]));
    page.shows(
        "['play', 'back', 'next', 'time'].every((id) => by(id).disabled)",
        json!(true),
    );
    for name in ["ArrowRight", "PageUp", "End", " ", "Escape"] {
        page.does(&format!("key('{name}')"));
        page.shows("text('position')", json!("1 of 1"));
    }
    page.does("press(100, 10)");
    page.shows("tip(100, 10)", json!("10.0°N 100.0°E"));
}
