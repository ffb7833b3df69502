//! The page is complete, self-contained and well-formed, and states what is missing.

mod made_up;

use made_up::World;
use ndarray::Array2;
use squall_climate::report::{
    FieldInfo, Frame, FrequencyMap, Provenance, ReportBuilder, ReportInput, ReportOptions, Score,
    Source, SourceKind, SourceWind, select_frames,
};
use squall_climate::track::Fate;
use squall_data::{Calendar, Class, LatLonGrid, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A report on `times` of a small synthetic world with sources of these `kinds`.
fn report(times: usize, kinds: &[SourceKind], options: ReportOptions) -> ReportBuilder {
    let world = World::new(48, 96, times);
    let mut input = ReportInput::new("A <small> world & its storms", world.grid.clone());
    input.description = "First \"paragraph\".\n\nSecond </script> paragraph.".into();
    for kind in kinds {
        let (events, tracks) = world.found_by(*kind);
        input
            .sources
            .push(Source::new(*kind, events, tracks).labelled(format!("{}</script>", kind.name())));
    }
    input.scores = vec![Score::fraction("Group", "IoU", 0.5, "Half of it.")];
    input.provenance = vec![Provenance::new("Fields", "<made up>")];
    input.recipe = Some("threshold = 1 # < 2".into());
    input.commands = vec!["squall report 'a b' > c".into()];
    let mut builder = ReportBuilder::with_options(input, options).unwrap();
    for index in 0..times {
        let weather = world.weather(index);
        let masks: Vec<_> = kinds
            .iter()
            .map(|k| (*k, world.seen_by(&weather.truth, *k)))
            .collect();
        builder
            .add_frame(&Frame {
                field: Some(weather.tmq.view()),
                sea_level_pressure_pa: Some(weather.psl.view()),
                wind_m_s: Some((weather.u.view(), weather.v.view())),
                masks: masks.iter().map(|(k, m)| (*k, m.view())).collect(),
                ..Frame::new(weather.time)
            })
            .unwrap();
    }
    builder
}

/// The text of the JSON element.
fn data(html: &str) -> serde_json::Value {
    let start = html.find("id=\"data\">").expect("the data element") + 10;
    let end = start + html[start..].find("</script>").expect("its end");
    serde_json::from_str(&html[start..end]).expect("valid JSON")
}

/// Tags in order as (name, attributes), without the content of scripts and styles; panics at an unquoted `<`.
fn tags(html: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let mut quote = false;
        let end = rest
            .char_indices()
            .find(|(_, c)| {
                quote ^= *c == '"';
                *c == '>' && !quote
            })
            .unwrap_or_else(|| panic!("an open tag: {}", &rest[..40.min(rest.len())]))
            .0;
        let (name, attributes) = rest[..end]
            .split_once(char::is_whitespace)
            .unwrap_or((&rest[..end], ""));
        out.push((name.to_string(), attributes.to_string()));
        rest = &rest[end + 1..];
        if name == "script" || name == "style" {
            let close = rest
                .find(&format!("</{name}>"))
                .expect("a closed script or style");
            rest = &rest[close..];
        }
    }
    out
}

fn check_page(html: &str) {
    // Tags must close in reverse order of opening.
    let mut open = Vec::new();
    let mut ids = BTreeSet::new();
    for (name, attributes) in tags(html) {
        if name == "!DOCTYPE"
            || name == "meta"
            || name == "input"
            || attributes.ends_with('/')
            || name.ends_with('/')
        {
        } else if let Some(closing) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closing), "after {attributes}");
        } else {
            open.push(name.clone());
        }
        if let Some(id) = attributes
            .split(" id=\"")
            .nth(1)
            .or_else(|| attributes.strip_prefix("id=\""))
        {
            let id = id.split('"').next().unwrap();
            assert!(ids.insert(id.to_string()), "two elements with id {id}");
        }
        for word in ["src=\"", "href=\"", "url("] {
            for target in attributes.split(word).skip(1) {
                assert!(
                    target.starts_with('#') || target.starts_with("data:"),
                    "{name} refers to {:.60}",
                    target
                );
            }
        }
        assert!(!attributes.contains("onclick") && !attributes.contains("javascript:"));
        if !attributes.contains("data:image") {
            let bad = attributes.contains("NaN") || attributes.contains("inf\"");
            assert!(!bad, "{name} {attributes} has no number");
        }
        if name == "svg" && !attributes.contains("aria-hidden") {
            assert!(
                attributes.contains("aria-label=\"") && attributes.contains("role=\"img\""),
                "{attributes}"
            );
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    for target in html.split("href=\"#").skip(1) {
        let id = target.split('"').next().unwrap();
        assert!(ids.contains(id), "#{id} leads nowhere");
    }
    // No network access: no address, no import, no eval.
    for forbidden in [
        "http://",
        "https://",
        "@import",
        "url(",
        "eval(",
        "new Function",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!html.contains(forbidden), "the page contains {forbidden}");
    }
    assert!(html.contains("default-src 'none'"));
}

/// Tracks of one source next to objects of another need a caveat.
#[test]
fn tracks_and_objects_are_not_counted_alike() {
    let world = World::new(48, 96, 40);
    let page = |followed: bool| {
        let mut input = ReportInput::new("Two sources", world.grid.clone());
        for kind in [SourceKind::Heuristic, SourceKind::Network] {
            let (events, mut tracks) = world.found_by(kind);
            if kind == SourceKind::Network && !followed {
                tracks.clear();
            }
            input.sources.push(Source::new(kind, events, tracks));
        }
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    let told = "are tracks of the heuristic but objects at single times of the network";
    assert!(page(false).contains(told));
    assert!(!page(true).contains("but objects at single times"));
}

#[test]
fn a_full_report_is_well_formed_and_complete() {
    let builder = report(40, &SourceKind::ALL, ReportOptions::default());
    let html = builder.html().unwrap();
    check_page(&html);
    for id in [
        "summary",
        "map",
        "events",
        "where",
        "when",
        "distributions",
        "tracks",
        "extremes",
        "agreement",
        "scores",
        "method",
    ] {
        assert!(
            html.contains(&format!("<section id=\"{id}\"")),
            "section {id}"
        );
    }
    assert!(html.contains("A &lt;small&gt; world &amp; its storms"));
    assert!(html.contains("threshold = 1 # &lt; 2"));
    assert!(html.contains("All 40 times that were given for the map."));
    // Three-hourly: the last time represents as much as the others.
    assert!(html.contains("The data cover 5.0 days"));
    let data = data(&html);
    assert_eq!(data["frames"].as_array().unwrap().len(), 40);
    assert_eq!(data["sources"].as_array().unwrap().len(), 4);
    assert_eq!(data["sources"][0]["label"], "Heuristic</script>");
    assert_eq!(data["shape"], serde_json::json!([48, 96]));
    assert!(data["frames"][3]["n"][0][1].as_u64().unwrap() > 0);
    // The second source's masks contain the heuristic's: their IoU is the ratio of the areas.
    let agreement = builder.agreement();
    assert_eq!(agreement.len(), 6);
    let rivers = agreement[0].total[1];
    let ratio = rivers.both_km2 / (rivers.both_km2 + rivers.only_second_km2);
    assert!((rivers.iou().unwrap() - ratio).abs() < 0.02 && ratio < 0.9);
}

#[test]
fn a_page_takes_any_number_of_sources() {
    let kinds = [
        SourceKind::Heuristic,
        SourceKind::Other(0),
        SourceKind::Other(1),
        SourceKind::Other(2),
        SourceKind::Network,
        SourceKind::Truth,
    ];
    let builder = report(40, &kinds, ReportOptions::default());
    let html = builder.html().unwrap();
    check_page(&html);
    let data = data(&html);
    let sources = data["sources"].as_array().unwrap();
    let shown: Vec<&str> = sources.iter().filter_map(|s| s["kind"].as_str()).collect();
    assert_eq!(
        shown,
        ["heuristic", "other", "other2", "other3", "network", "truth"]
    );
    let masks = data["frames"][3]["m"].as_array().unwrap();
    assert!(masks.len() == 6 && masks.iter().all(|mask| mask.is_string()));
    // All pairs are in the table; charts compare the first source with each other one.
    assert_eq!(builder.agreement().len(), 15);
    assert_eq!(html.matches(" over time</figcaption>").count(), 5);
}

/// The numbers at the top equal those of the tables.
#[test]
fn the_summary_tells_the_strongest_and_the_longest() {
    let world = World::new(48, 96, 40);
    let (events, tracks) = world.found_by(SourceKind::Truth);
    let winds = tracks.iter().filter_map(|t| t.max_wind_m_s);
    let wind = winds.fold(0.0, f64::max);
    let rivers = events.iter().filter(|e| e.class == Class::AtmosphericRiver);
    let length = rivers.map(|e| e.length_km).fold(0.0, f64::max);
    let counts = [Class::TropicalCyclone, Class::AtmosphericRiver]
        .map(|class| tracks.iter().filter(|t| t.class == class).count());
    let mut input = ReportInput::new("Summary", world.grid.clone());
    let source = Source::new(SourceKind::Truth, events, tracks);
    input.sources.push(source);
    let html = ReportBuilder::new(input).unwrap().html().unwrap();
    // Three digits of tens of m/s and of thousands of km.
    assert!((10.0..100.0).contains(&wind) && (1000.0..10_000.0).contains(&length));
    let [cyclones, rivers] = counts;
    for part in [
        format!("reached {wind:.1}\u{a0}m\u{a0}s⁻¹ ("),
        format!(
            "Its longest river stretched over {}\u{a0}km on ",
            10.0 * (length / 10.0).round()
        ),
        format!("<b>{cyclones}</b><span>tropical cyclone tracks, Truth</span>"),
        format!("<b>{rivers}</b><span>atmospheric river tracks, Truth</span>"),
        format!("<b>{wind:.1} m s⁻¹</b><span>strongest cyclone wind</span>"),
    ] {
        assert!(html.contains(&part), "{part}");
    }
}

/// Sections, headings and captions in order, and the controls with an id.
fn outline(html: &str) -> String {
    // Without the scripts, which contain markup of their own.
    let html = html.split("<script>").next().unwrap_or("");
    let mut out = String::new();
    let text = |after: &str| after[..after.find("</").unwrap_or(0)].to_string();
    for piece in html.split('<').skip(1) {
        let Some((tag, after)) = piece.split_once('>') else {
            continue;
        };
        let name = tag.split_whitespace().next().unwrap_or("");
        let id = tag
            .split("id=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let line = match (name, id) {
            ("section", Some(id)) => format!("section {id}"),
            ("h2" | "h3" | "figcaption" | "caption", _) => {
                format!("  {name}: {}", text(&format!("{after}</")))
            }
            ("input" | "button" | "select" | "canvas" | "dialog", Some(id)) => {
                format!("    {name} #{id}")
            }
            ("script", Some(id)) => format!("data {id}"),
            _ => continue,
        };
        out += &line;
        out.push('\n');
    }
    out
}

#[test]
fn the_structure_of_a_full_page() {
    let builder = report(
        24,
        &[SourceKind::Heuristic, SourceKind::Network],
        ReportOptions::default(),
    );
    insta::assert_snapshot!(outline(&builder.html().unwrap()));
}

#[test]
fn frames_are_thinned_and_the_page_says_so() {
    let options = ReportOptions {
        max_frames: 4,
        ..ReportOptions::default()
    };
    let html = report(30, &[SourceKind::Network], options).html().unwrap();
    let frames = data(&html)["frames"].as_array().unwrap().clone();
    assert!((3..=4).contains(&frames.len()), "{} frames", frames.len());
    // All in one month: "5 Aug 1995, 00:00".
    let hour = |frame: &serde_json::Value| {
        let told = frame["t"].as_str().unwrap();
        let (day, clock) = (told.split(' ').next(), told.rsplit(' ').next());
        let (hour, _) = clock.unwrap().split_once(':').unwrap();
        24.0 * day.unwrap().parse::<f64>().unwrap() + hour.parse::<f64>().unwrap()
    };
    let hours: Vec<f64> = frames.iter().map(hour).collect();
    let steps: Vec<f64> = hours.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(steps.iter().all(|s| *s == steps[0]), "{hours:?}");
    let every = (steps[0] / 3.0) as usize;
    assert!(
        html.contains(&format!("{} of 30 times: every {every}th", frames.len())),
        "every {every}"
    );
    let small = ReportOptions {
        max_picture_bytes: 20_000,
        ..ReportOptions::default()
    };
    let thin = report(30, &[SourceKind::Network], small).html().unwrap();
    assert!(data(&thin)["frames"].as_array().unwrap().len() < 15);
}

/// A page of quiet six-hourly times without events, from the start of a noleap year.
fn quiet(start: Time, times: i64, max_frames: usize) -> String {
    let grid = Arc::new(LatLonGrid::global(4, 8).unwrap());
    let mask = Array2::zeros(grid.shape());
    let options = ReportOptions {
        max_frames,
        ..ReportOptions::default()
    };
    let input = ReportInput::new("Quiet", grid);
    let mut builder = ReportBuilder::with_options(input, options).unwrap();
    for index in 0..times {
        let mut frame = Frame::new(start.add_seconds(6 * 3600 * index));
        frame.masks.push((SourceKind::Heuristic, mask.view()));
        builder.add_frame(&frame).unwrap();
    }
    builder.html().unwrap()
}

#[test]
fn the_period_is_that_of_the_analysed_times_and_not_of_the_pictures() {
    let day = |month| Time::new(Calendar::NoLeap, 2000, month, 1, 0, 0, 0).unwrap();
    let few = quiet(day(7), 160, 3);
    assert!(few.contains("<li>1 Jul 2000 to 9 Aug 2000 (40 days)</li>"));
    assert!(few.contains("<li>160 analysed times</li>"));
    assert!(few.contains("The data cover 40 days."));
    let years = quiet(day(1), 6 * 365 * 4, 20);
    assert!(years.contains("<li>1 Jan 2000 to 31 Dec 2005 (6 years)</li>"));
    assert!(years.contains("The data cover 6 years."));
}

#[test]
fn categories_name_the_wind_that_they_rest_on() {
    let world = World::new(48, 96, 8);
    let page = |winds: &[(SourceKind, SourceWind)]| {
        let mut input = ReportInput::new("Winds", world.grid.clone());
        for (kind, wind) in winds {
            let (events, tracks) = world.found_by(*kind);
            input
                .sources
                .push(Source::new(*kind, events, tracks).with_wind(*wind));
        }
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    let (labels, truth) = (
        (SourceKind::Heuristic, SourceWind::Fields),
        (SourceKind::Truth, SourceWind::Vortex),
    );
    let of_fields = "use the Saffir–Simpson bounds on the wind of the fields at output times";
    let of_vortices = "use the Saffir–Simpson bounds on the vortices&#39; own wind";
    let html = page(&[labels]);
    assert!(html.contains(&format!("Categories {of_fields}")) && !html.contains(of_vortices));
    let html = page(&[truth]);
    assert!(html.contains(&format!("Categories {of_vortices}")) && !html.contains(of_fields));
    let html = page(&[labels, truth]);
    assert!(html.contains(&format!("Categories of the heuristic {of_fields}")));
    assert!(html.contains(&format!("Categories of the truth {of_vortices}")));
    // Neither rivers nor the lows of `label --method lows` have one.
    let (mut events, mut tracks) = world.found_by(SourceKind::Heuristic);
    events.retain(|event| event.class == Class::AtmosphericRiver);
    tracks.retain(|track| track.class == Class::AtmosphericRiver);
    events[0].max_wind_m_s = Some(30.0);
    let mut input = ReportInput::new("Rivers", world.grid.clone());
    let source = Source::new(SourceKind::Heuristic, events, tracks);
    input.sources.push(source);
    let html = ReportBuilder::new(input).unwrap().html().unwrap();
    assert!(!html.contains("Saffir–Simpson"));
}

/// Ranks by the proxy of vapour transport used to be shown like any other rank.
#[test]
fn ranks_by_a_proxy_are_called_so() {
    let world = World::new(48, 96, 8);
    let page = |transport: Option<f64>| {
        let (mut events, tracks) = world.found_by(SourceKind::Heuristic);
        for event in (events.iter_mut()).filter(|e| e.class == Class::AtmosphericRiver) {
            let details = &mut event.details;
            (details.river_scale, details.max_ivt_proxy_kg_m_s) = (Some(4), Some(1310.0));
            details.max_ivt_kg_m_s = transport;
        }
        let mut input = ReportInput::new("Ranks", world.grid.clone());
        let source = Source::new(SourceKind::Heuristic, events, tracks);
        input.sources.push(source);
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    let said = [
        "Ranks of rivers (the scale of Ralph et al. 2019) of the heuristic are approximate",
        "Ranks of rivers are by a proxy of vapour transport",
    ];
    let has = |html: &str| said.map(|sentence| html.contains(sentence));
    assert_eq!(has(&page(None)), [true; 2]);
    assert_eq!(has(&page(Some(856.0))), [false; 2]);
}

/// The number of river tracks used to be presented as a number of rivers.
#[test]
fn rivers_in_pieces_are_called_so() {
    let world = World::new(48, 96, 8);
    let page = |fate: Option<Fate>| {
        let (events, mut tracks) = world.found_by(SourceKind::Heuristic);
        for track in (tracks.iter_mut()).filter(|t| t.class == Class::AtmosphericRiver) {
            track.fate = fate.unwrap_or(track.fate);
        }
        let mut input = ReportInput::new("Pieces", world.grid.clone());
        let source = Source::new(SourceKind::Heuristic, events, tracks);
        input.sources.push(source);
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    let said = "pieces between mergers: 100 % of the tracks of the heuristic split from another";
    assert!(page(Some(Fate::Merge)).contains(said));
    assert!(!page(None).contains("pieces between mergers"));
}

/// Best tracks of early years and boxes often lack winds: their storms must not all count as tropical storms.
#[test]
fn storms_of_unknown_wind_have_a_colour_of_their_own() {
    let world = World::new(48, 96, 40);
    let page = |known: bool| {
        let (mut events, mut tracks) = world.found_by(SourceKind::Truth);
        if !known {
            events.iter_mut().for_each(|e| e.max_wind_m_s = None);
            tracks.iter_mut().for_each(|t| t.max_wind_m_s = None);
        }
        let mut input = ReportInput::new("Winds", world.grid.clone());
        let source = Source::new(SourceKind::Truth, events, tracks);
        input.sources.push(source);
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    let drawn = |html: &str, colour: &str| {
        html.contains(&format!(
            "<path class=\"track cyclone\" stroke=\"{colour}\""
        ))
    };
    let is_said = |html: &str| html.contains("</i>wind not known</li>");
    let (unknown, storm) = ("#ffffff", "#8ecae6");
    let html = page(false);
    assert!(is_said(&html) && drawn(&html, unknown) && !drawn(&html, storm));
    let html = page(true);
    assert!(!is_said(&html) && !drawn(&html, unknown));
}

/// Regression: nothing said that `squall events` was missing.
#[test]
fn storms_that_nobody_followed_are_told() {
    let world = World::new(48, 96, 8);
    let page = |is_followed: bool| {
        let (events, mut tracks) = world.found_by(SourceKind::Heuristic);
        if !is_followed {
            tracks.clear();
        }
        let mut input = ReportInput::new("Objects", world.grid.clone());
        let source = Source::new(SourceKind::Heuristic, events, tracks);
        input.sources.push(source);
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    let said = "Events of the heuristic are objects at single times";
    assert!(page(false).contains(said));
    assert!(!page(true).contains(said));
}

#[test]
fn the_mean_number_of_events_is_of_the_times_of_their_source() {
    let world = World::new(48, 96, 40);
    let page = |times: Option<usize>| {
        let (events, tracks) = world.found_by(SourceKind::Truth);
        let mut input = ReportInput::new("Times", world.grid.clone());
        input.times = Some(10);
        let source = Source::new(SourceKind::Truth, events, tracks);
        input.sources.push(match times {
            Some(times) => source.of_times(times),
            None => source,
        });
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    let mean = |html: &str| -> f64 {
        let end = html.find(" present at an average time").unwrap();
        let start = html[..end].rfind('(').unwrap() + 1;
        html[start..end].parse().unwrap()
    };
    let (all, own) = (mean(&page(None)), mean(&page(Some(40))));
    // Both have two digits.
    assert!((all / own / 4.0 - 1.0).abs() < 0.11, "{all} {own}");
    assert!(!page(Some(1)).contains("present at an average time"));
}

#[test]
fn months_count_tracks_also_of_a_class_that_a_tracked_source_did_not_find() {
    let world = World::new(48, 96, 40);
    let page = |cyclones: bool| {
        let (mut events, mut tracks) = world.found_by(SourceKind::Heuristic);
        events.retain(|e| cyclones || e.class == Class::AtmosphericRiver);
        tracks.retain(|t| cyclones || t.class == Class::AtmosphericRiver);
        let mut input = ReportInput::new("Rivers", world.grid.clone());
        let source = Source::new(SourceKind::Heuristic, events, tracks);
        input.sources.push(source);
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    for cyclones in [true, false] {
        let html = page(cyclones);
        assert_eq!(html.matches(">tracks begun</text>").count(), 2);
        assert!(!html.contains(">objects</text>"));
    }
}

#[test]
fn empty_inputs_say_what_is_missing() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let html = ReportBuilder::new(ReportInput::new("Nothing", grid.clone()))
        .unwrap()
        .html()
        .unwrap();
    check_page(&html);
    assert!(
        html.contains("No fields or masks were given")
            && html.contains("No table of events was given")
    );
    assert!(!html.contains("id=\"data\""));

    // One time without any field, one source without events.
    let mut input = ReportInput::new("One time", grid.clone());
    input
        .sources
        .push(Source::new(SourceKind::Heuristic, Vec::new(), Vec::new()));
    let mut builder = ReportBuilder::new(input).unwrap();
    let time = Time::new(Calendar::Day360, 30, 2, 30, 6, 0, 0).unwrap();
    let mask = Array2::zeros((24, 48));
    let mut frame = Frame::new(time);
    frame.masks.push((SourceKind::Heuristic, mask.view()));
    builder.add_frame(&frame).unwrap();
    let html = builder.html().unwrap();
    check_page(&html);
    assert!(html.contains("found no tropical cyclone objects"));
    assert!(html.contains("One time only"));
    assert!(html.contains("No field was given"));
    assert!(html.contains("No events were found by any source"));
    assert!(html.contains("30 Feb 0030, 06:00"));
}

/// Regression: how channels were read stood before what matters to numbers.
#[test]
fn cautions_come_before_remarks() {
    let world = World::new(48, 96, 8);
    let (events, tracks) = world.found_by(SourceKind::Heuristic);
    let mut input = ReportInput::new("Order", world.grid.clone());
    let source = Source::new(SourceKind::Heuristic, events, tracks);
    input.sources.push(source);
    input.warnings.push("A grave caution.".into());
    input.remarks.push("A remark.".into());
    let html = ReportBuilder::new(input).unwrap().html().unwrap();
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place("A grave caution.") < place("The data cover"));
    assert!(place("The data cover") < place("A remark."));
}

/// Regression: "Heuristic found 14 tropical cyclones" was said on a page that named no rules.
#[test]
fn the_head_says_what_made_each_source() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let mut input = ReportInput::new("Sources", grid);
    let source = Source::new(SourceKind::Heuristic, Vec::new(), Vec::new());
    input.sources.push(source);
    let made_by = "the DeepCAM rules, in labels";
    input.made_by.push((SourceKind::Heuristic, made_by.into()));
    let html = ReportBuilder::new(input).unwrap().html().unwrap();
    let (head, _) = html.split_once("</header>").unwrap();
    assert!(head.contains("<li>Heuristic: the DeepCAM rules, in labels</li>"));
}

/// Regression: masks of a network without tables, as of a test split, were scored against those of rules without it.
#[test]
fn that_there_is_no_truth_is_said_also_of_masks_without_tables() {
    let is_said = |masks: &[SourceKind]| {
        let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
        let mut input = ReportInput::new("Masks", grid);
        let rules = Source::new(SourceKind::Heuristic, Vec::new(), Vec::new());
        input.sources.push(rules);
        let labels = masks.iter().map(|kind| (*kind, kind.name().to_string()));
        input.labels.extend(labels);
        let html = ReportBuilder::new(input).unwrap().html().unwrap();
        html.contains("There is no truth to compare with")
    };
    assert!(!is_said(&[]));
    assert!(is_said(&[SourceKind::Network]));
    assert!(!is_said(&[SourceKind::Network, SourceKind::Truth]));
}

#[test]
fn one_time_of_one_source_has_objects_but_no_tracks() {
    let html = report(1, &[SourceKind::Heuristic], ReportOptions::default())
        .html()
        .unwrap();
    check_page(&html);
    assert!(html.contains("atmospheric river objects"));
    assert!(
        !html.contains("Lifetime</figcaption>"),
        "no lifetimes are known"
    );
    assert!(!html.contains("id=\"agreement\""));
    assert!(!html.contains("id=\"mode\""), "nothing to compare with");
}

#[test]
fn lifetimes_of_what_was_seen_at_one_time_are_not_drawn() {
    let world = World::new(48, 96, 8);
    let page = |is_short: bool| {
        let (events, mut tracks) = world.found_by(SourceKind::Heuristic);
        if is_short {
            tracks.iter_mut().for_each(|track| track.end = track.start);
        }
        let mut input = ReportInput::new("Short", world.grid.clone());
        input
            .sources
            .push(Source::new(SourceKind::Heuristic, events, tracks));
        ReportBuilder::new(input).unwrap().html().unwrap()
    };
    assert!(page(false).contains("Lifetime</figcaption>"));
    let short = page(true);
    assert!(!short.contains("Lifetime</figcaption>") && short.contains("Size</figcaption>"));
}

#[test]
fn a_regional_grid_across_the_seam_is_shown_in_its_own_window() {
    let lon: Vec<f64> = (0..40).map(|i| (340.0 + f64::from(i)) % 360.0).collect();
    let lat: Vec<f64> = (20..50).map(f64::from).collect();
    let grid = Arc::new(LatLonGrid::from_axes(lat, lon).unwrap().0);
    let mut input = ReportInput::new("Region", grid.clone());
    input.field = FieldInfo::vapour_transport();
    input.frequencies.push(FrequencyMap {
        source: SourceKind::Truth,
        class: Class::AtmosphericRiver,
        share: Array2::from_shape_fn(grid.shape(), |(j, _)| j as f32 / 300.0),
    });
    let mut builder = ReportBuilder::new(input).unwrap();
    let field = Array2::from_elem(grid.shape(), f32::NAN);
    let mut frame = Frame::new(Time::new(Calendar::Standard, 2001, 1, 1, 0, 0, 0).unwrap());
    frame.field = Some(field.view());
    builder.add_frame(&frame).unwrap();
    let html = builder.html().unwrap();
    check_page(&html);
    let window = data(&html)["window"].clone();
    assert_eq!(window["global"], false);
    assert_eq!(window["west"], 339.5);
    assert_eq!(window["span"], 40.0);
    assert!(!html.contains("id=\"centre\""));
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let mut input = ReportInput::new("Bad", grid.clone());
    input.frequencies.push(FrequencyMap {
        source: SourceKind::Truth,
        class: Class::TropicalCyclone,
        share: Array2::zeros((24, 47)),
    });
    let error = ReportBuilder::new(input).unwrap_err().to_string();
    assert!(
        error.contains("(24, 48)") && error.contains("(24, 47)"),
        "{error}"
    );
    let mut input = ReportInput::new("Bad", grid.clone());
    input.field.range = (3.0, 3.0);
    assert!(ReportBuilder::new(input).is_err());
    let mut input = ReportInput::new("Bad", grid);
    input.sources = vec![Source::new(SourceKind::Truth, vec![], vec![]); 2];
    assert!(ReportBuilder::new(input).is_err());
}

#[test]
fn the_file_is_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/report.html");
    let builder = report(3, &[SourceKind::Heuristic], ReportOptions::default());
    let bytes = builder.write(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1
    );
    assert_eq!(select_frames(480, 160).len(), 160);
}
