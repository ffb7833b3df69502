//! The event browser: the page contains exactly what was found, boxes are events, and a century fits.

mod made_up;
mod unpack;

use made_up::{Dice, World};
use ndarray::Array2;
use squall_climate::events::{EventFields, from_boxes};
use squall_climate::report::{
    BoxSource, Frame, ReportBuilder, ReportInput, ReportOptions, Source, SourceKind,
};
use squall_climate::track::{Fate, Landfall, Origin};
use squall_climate::{Event, track};
use squall_data::boxes::BoxFrames;
use squall_data::{Calendar, Class, LatLonGrid, Time, boxes};
use std::collections::BTreeMap;
use std::sync::Arc;
use unpack::{element, known, unfold, unpack};

fn world_page(kinds: &[SourceKind], options: ReportOptions) -> (String, Vec<Source>) {
    let world = World::new(24, 48, 40);
    let mut input = ReportInput::new("A small world", world.grid.clone());
    for kind in kinds {
        let (events, tracks) = world.found_by(*kind);
        input.sources.push(Source::new(*kind, events, tracks));
    }
    let sources = input.sources.clone();
    let builder = ReportBuilder::with_options(input, options).unwrap();
    (builder.html().unwrap(), sources)
}

#[test]
fn every_track_of_every_source_is_on_the_page_as_it_was_found() {
    let (html, sources) = world_page(
        &[SourceKind::Heuristic, SourceKind::Network],
        ReportOptions::default(),
    );
    let page = unpack(&html);
    let all: usize = sources.iter().map(|s| s.tracks.len()).sum();
    assert_eq!(
        (page.len(), page.head["rows"].as_u64()),
        (all, Some(all as u64))
    );
    assert_eq!(page.head["finders"][1]["label"], "Network");
    assert_eq!(page.head["clock"]["unit"], 3 * 3600);
    assert!(!html.contains("points of lives are left out"));
    let rows: BTreeMap<(u64, u64, i64), usize> = (page.summed("id").into_iter().enumerate())
        .map(|(row, id)| {
            (
                (page.rows["finder"][row], page.rows["kind"][row], id - 1),
                row,
            )
        })
        .collect();
    let start = World::new(24, 48, 40).start;
    for (finder, source) in sources.iter().enumerate() {
        for track in &source.tracks {
            // Boxes use code 1 for tropical cyclones and 3 for rivers.
            let class = if track.class == Class::TropicalCyclone {
                1
            } else {
                3
            };
            let row = rows[&(finder as u64, class, track.track_id as i64)];
            let unit = |time: Time| time.seconds_since(start) / (3 * 3600);
            assert_eq!(page.summed("start")[row], unit(track.start));
            assert_eq!(
                page.rows["duration"][row] as i64,
                unit(track.end) - unit(track.start)
            );
            let near = |column: &str, step: f64, value: Option<f64>| {
                let found = known(page.rows[column][row], step);
                assert_eq!(found.is_some(), value.is_some(), "column {column}");
                let apart = found.unwrap_or(0.0) - value.unwrap_or(0.0);
                assert!(apart.abs() <= 0.5001 * step, "column {column}: {apart}");
            };
            near("wind", 0.1, track.max_wind_m_s);
            near("pressure", 0.1, track.min_psl_pa.map(|p| p / 100.0));
            near("water", 0.1, track.max_tmq_kg_m2);
            near("area", 1000.0, Some(track.max_area_km2));
            near("path", 10.0, Some(track.distance_km));
            let own = source
                .events
                .iter()
                .filter(|e| e.track_id == Some(track.track_id));
            let points = page.points_of(row);
            assert_eq!(points.len(), own.clone().count());
            for (point, event) in points.iter().zip(own) {
                assert_eq!(point[0], unit(event.time));
                assert!((point[1] as f64 / 10.0 - event.lat_deg).abs() <= 0.0501);
                let turned = point[2] as f64 / 10.0 - event.lon_deg;
                let apart = (turned + 180.0).rem_euclid(360.0) - 180.0;
                assert!(apart.abs() <= 0.0501, "longitude {apart}");
                let area = ((point[5] - 1) as f64 / 64.0).exp() / event.area_km2;
                assert!((area - 1.0).abs() < 0.009, "area {area}");
                let first = event.max_wind_m_s.or(event.max_tmq_kg_m2).unwrap();
                let found = known(point[3] as u64, 0.5).unwrap();
                assert!((found - first).abs() <= 0.2501, "{found} for {first}");
                // Pressure of cyclones in hPa, and length of rivers in km.
                let (second, step) = match event.min_psl_pa {
                    Some(pa) => (pa / 100.0, 0.5),
                    None => (event.length_km, 20.0),
                };
                let found = known(point[4] as u64, step).unwrap();
                let apart = (found - second).abs();
                assert!(apart <= 0.5001 * step, "{found} for {second}");
            }
            let jumps = points.windows(2).map(|p| (p[1][2] - p[0][2]).abs());
            assert!(
                jumps.max().unwrap_or(0) < 900,
                "a longitude jumps over the seam"
            );
        }
    }
}

/// Best tracks and tables of other tools lack areas: an unknown area is not one of a square kilometre.
#[test]
fn what_has_no_area_has_none_on_the_page() {
    let world = World::new(24, 48, 40);
    let (mut events, mut tracks) = world.found_by(SourceKind::Heuristic);
    events.iter_mut().for_each(|e| e.area_km2 = f64::NAN);
    tracks.iter_mut().for_each(|t| t.max_area_km2 = f64::NAN);
    let mut input = ReportInput::new("Best tracks", world.grid.clone());
    let source = Source::new(SourceKind::Heuristic, events, tracks);
    input.sources.push(source);
    let html = ReportBuilder::new(input).unwrap().html().unwrap();
    let page = unpack(&html);
    assert!(page.len() > 0);
    for row in 0..page.len() {
        assert_eq!(known(page.rows["area"][row], 1000.0), None);
        let points = page.points_of(row);
        assert!(points.iter().all(|point| point[5] == 0), "{points:?}");
    }
}

#[test]
fn a_category_and_a_basin_are_those_of_the_tables() {
    let (html, sources) = world_page(&[SourceKind::Truth], ReportOptions::default());
    let page = unpack(&html);
    let basins = page.head["basins"].as_array().unwrap().clone();
    let strongest = (0..page.len())
        .max_by_key(|&row| page.rows["wind"][row])
        .unwrap();
    let track = (sources[0].tracks.iter())
        .max_by(|a, b| {
            a.max_wind_m_s
                .unwrap_or(0.0)
                .total_cmp(&b.max_wind_m_s.unwrap_or(0.0))
        })
        .unwrap();
    let wind = track.max_wind_m_s.unwrap();
    let category = [17.5, 33.0, 43.0, 50.0, 58.0, 70.0]
        .iter()
        .filter(|low| wind >= **low)
        .count();
    assert_eq!(
        known(page.rows["category"][strongest], 1.0),
        Some(category as f64)
    );
    let basin = basins[page.rows["basin"][strongest] as usize]
        .as_str()
        .unwrap();
    let mut named = html
        .split("<caption>Strongest tropical cyclones")
        .nth(1)
        .unwrap()
        .split("<tr>");
    assert!(
        named.nth(2).unwrap().contains(basin),
        "{basin} is not in the first row"
    );
}

/// Parses the boxes of a table.
fn boxes_of(rows: &str) -> BoxFrames {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boxes.csv");
    let header = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n";
    std::fs::write(&path, format!("{header}{rows}")).unwrap();
    let grid = LatLonGrid::global(8, 16).unwrap();
    boxes::read(&path, &grid, Calendar::NoLeap).unwrap()
}

#[test]
fn boxes_are_events_of_the_table_and_a_layer_of_the_map() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let mut input = ReportInput::new("Boxes", grid.clone());
    let frames = boxes_of(
        "tropical_depression,1995-08-05T00:00:00,350,10,4,20,0.5,\n\
         extratropical_cyclone,1995-08-05T00:00:00,10,40,30,50,0.9,4\n\
         extratropical_cyclone,1995-08-05T06:00:00,16,42,36,52,0.8,4\n",
    );
    input
        .boxes
        .push(BoxSource::new(SourceKind::Network, "de<tector", frames));
    let mut builder = ReportBuilder::new(input).unwrap();
    let mask = Array2::zeros(grid.shape());
    for hour in [0, 6] {
        let mut frame = Frame::new(Time::new(Calendar::NoLeap, 1995, 8, 5, hour, 0, 0).unwrap());
        frame.masks.push((SourceKind::Network, mask.view()));
        builder.add_frame(&frame).unwrap();
    }
    let html = builder.html().unwrap();
    assert!(html.contains("id=\"layer-boxes-0\" checked") && html.contains("Boxes: de&lt;tector"));
    assert!(
        html.contains("</i>tropical depression</li>"),
        "a key for what masks do not have"
    );
    let page = unpack(&html);
    assert_eq!(page.len(), 2);
    assert_eq!(page.head["finders"][0]["boxes"], true);
    assert_eq!(page.head["frames"], serde_json::json!([0, 1]));
    let low = (0..2).find(|&row| page.rows["kind"][row] == 2).unwrap();
    assert_eq!(
        (
            page.rows["duration"][low],
            known(page.rows["confidence"][low], 1.0)
        ),
        (1, Some(90.0))
    );
    let points = page.points_of(low);
    // Centres at 45°N 20°E and 47°N 26°E, twenty degrees wide and ten high.
    assert_eq!((points[0][1], points[0][2]), (450, 200));
    assert_eq!((points[1][1], points[1][2]), (470, 260));
    assert_eq!((points[1][6], points[1][7]), (201, 101));
    let depression = page.points_of(1 - low);
    assert_eq!(
        (depression[0][2], page.summed("id")[1 - low]),
        (3570, 0),
        "no number, and at 357°E"
    );
}

#[test]
fn boxes_that_were_followed_have_winds_and_unsure_ones_are_not_shown() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let mut input = ReportInput::new("Followed boxes", grid.clone());
    let frames = boxes_of(
        "extratropical_cyclone,1995-08-05T00:00:00,350,40,10,50,0.9,\n\
         extratropical_cyclone,1995-08-05T06:00:00,354,40,14,50,0.8,\n\
         tropical_cyclone,1995-08-05T06:00:00,100,10,110,20,0.3,\n",
    );
    // The events that `squall events` makes from them: their centre is the pressure minimum, not the middle of the box.
    let mut events: Vec<Event> = Vec::new();
    for frame in &frames.frames()[..2] {
        let fields = EventFields::default();
        let found = from_boxes(frame.time, &frame.boxes[..1], &grid, &fields).unwrap();
        events.extend(found.into_iter().map(|one| Event {
            track_id: Some(5),
            lat_deg: 47.0,
            max_wind_m_s: Some(22.5),
            ..one.event
        }));
    }
    let tracks = track::from_events(&events);
    // Another low was only seen once and has no track: its box is still drawn.
    events.push(Event {
        track_id: None,
        west_deg: 60.0,
        east_deg: 80.0,
        ..events[0].clone()
    });
    input
        .sources
        .push(Source::new(SourceKind::Network, events, tracks));
    let boxes = BoxSource::new(SourceKind::Network, "detector", frames).at_least(0.5);
    assert_eq!(boxes.left_out, Some((0.5, 1)));
    input.boxes.push(boxes.followed_by(SourceKind::Network));
    // Untracked sources of boxes are finders after the sources of events.
    let others = boxes_of("tropical_cyclone,1995-08-05T06:00:00,100,10,110,20,,\n");
    input
        .boxes
        .push(BoxSource::new(SourceKind::Truth, "truth", others));
    let mut builder = ReportBuilder::new(input).unwrap();
    let time = Time::new(Calendar::NoLeap, 1995, 8, 5, 0, 0, 0).unwrap();
    builder.add_frame(&Frame::new(time)).unwrap();
    let html = builder.html().unwrap();
    for part in [
        "id=\"layer-boxes-0\"",
        "id=\"layer-boxes-1\"",
        "detector</strong> has 2 boxes at 2 times: 2 extratropical cyclones. 1 box of less than 50\u{a0}% confidence is left out.",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let page = unpack(&html);
    assert_eq!(page.len(), 3, "the unsure box is no event");
    let finders = &page.head["finders"];
    assert_eq!(
        (&finders[0]["boxes"], &finders[0]["confidence"]),
        (&true.into(), &false.into())
    );
    assert_eq!(
        (&finders[1]["boxes"], &finders[1]["confidence"]),
        (&true.into(), &true.into())
    );
    let ids = page.summed("id");
    let of = |finder: u64, id: i64| {
        let mut rows = (0..3).filter(|&row| page.rows["finder"][row] == finder);
        rows.find(|&row| ids[row] == id).unwrap()
    };
    assert_eq!(
        page.points_of(of(0, 0))[0][2],
        700,
        "the middle of 60 and 80°E"
    );
    let row = of(0, 6);
    assert_eq!(page.rows["kind"][row], 2, "an extratropical cyclone");
    assert_eq!(known(page.rows["confidence"][row], 1.0), Some(90.0));
    assert_eq!(known(page.rows["category"][row], 1.0), None, "no category");
    let points = page.points_of(row);
    // The middle of the box, its wind in units of 0.5 m/s, its sides.
    assert_eq!((points[0][1], points[1][2]), (450, 40));
    assert_eq!(known(points[0][3] as u64, 0.5), Some(22.5));
    assert_eq!((points[0][6], points[0][7]), (201, 101));
}

/// A century of six-hourly storms: about 90 cyclones and 900 rivers per year.
fn century(years: i64) -> Vec<Event> {
    let start = Time::new(Calendar::NoLeap, 1901, 1, 1, 0, 0, 0).unwrap();
    let mut dice = Dice(5);
    let mut events = Vec::new();
    for id in 0..990 * years as u64 {
        let class = if id % 11 == 0 {
            Class::TropicalCyclone
        } else {
            Class::AtmosphericRiver
        };
        let cyclone = class == Class::TropicalCyclone;
        let begin = dice.between(0.0, years as f64 * 1460.0 - 60.0) as i64;
        let points = if cyclone {
            dice.between(10.0, 50.0)
        } else {
            dice.between(4.0, 20.0)
        } as i64;
        let (mut lat, mut lon) = (dice.between(-40.0, 40.0), dice.between(0.0, 360.0));
        let strength = dice.between(15.0, 75.0);
        for k in 0..points {
            lat += dice.between(-0.4, 1.2);
            lon += dice.between(-3.0, 1.5);
            let bell = (std::f64::consts::PI * (k + 1) as f64 / (points + 1) as f64).sin();
            let wind = strength * bell + dice.between(0.0, 3.0);
            events.push(Event {
                class,
                time: start.add_seconds((begin + k) * 6 * 3600),
                track_id: Some(id),
                lon_deg: lon.rem_euclid(360.0),
                lat_deg: lat,
                area_km2: dice.between(0.8, 1.2) * if cyclone { 3e5 } else { 1.4e6 },
                west_deg: 0.0,
                south_deg: 0.0,
                east_deg: 0.0,
                north_deg: 0.0,
                length_km: dice.between(2000.0, 5000.0),
                width_km: 400.0,
                orientation_deg: 0.0,
                min_psl_pa: cyclone.then_some(101_000.0 - 120.0 * wind),
                max_wind_m_s: cyclone.then_some(wind),
                max_tmq_kg_m2: Some(dice.between(30.0, 60.0)),
                mean_prect_m_s: None,
                mean_probability: None,
                details: Default::default(),
            });
        }
    }
    events
}

#[test]
fn relatives_and_landfall_of_a_track_are_on_the_page() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let mut events = century(1);
    events.retain(|event| event.track_id == Some(0));
    events.iter_mut().for_each(|event| event.track_id = Some(7));
    let mut tracks = track::from_events(&events);
    (tracks[0].origin, tracks[0].fate) = (Origin::Split, Fate::Merge);
    let details = &mut tracks[0].details;
    (details.parent_track, details.merged_into) = (Some(3), Some(9));
    details.landfalls = Some(2);
    details.landfall = Some(Landfall {
        time: events[2].time,
        lon_deg: 268.3,
        lat_deg: -29.5,
        max_wind_m_s: Some(45.2),
        min_psl_pa: Some(95_540.0),
        ivt_kg_m_s: None,
        ivt_proxy_kg_m_s: None,
        river_scale: None,
    });
    let length = events.iter().map(|e| e.length_km).fold(0.0, f64::max);
    let mut input = ReportInput::new("A storm", grid);
    let source = Source::new(SourceKind::Heuristic, events, tracks);
    input.sources.push(source);
    let html = ReportBuilder::new(input).unwrap().html().unwrap();
    let page = unpack(&html);
    assert_eq!(page.len(), 1);
    // Two six-hour steps after the start, south of the equator, in hPa.
    for (column, step, expected) in [
        ("length", 10.0, length),
        ("landfalls", 1.0, 2.0),
        ("landAt", 1.0, 2.0),
        ("landLat", 0.1, 90.0 - 29.5),
        ("landLon", 0.1, 268.3),
        ("landWind", 0.1, 45.2),
        ("landPressure", 0.1, 955.4),
    ] {
        let found = known(page.rows[column][0], step).unwrap();
        let apart = (found - expected).abs();
        assert!(apart <= 0.5001 * step, "column {column}: {found}");
    }
    // The second of three origins and of three fates; related tracks are stored as differences of their numbers.
    assert_eq!((page.rows["origin"][0], page.rows["fate"][0]), (2, 2));
    let before = ["parent", "merged"].map(|column| unfold(page.rows[column][0]));
    assert_eq!(before, [7 - 3, 7 - 9]);
}

#[test]
fn a_century_of_events_is_a_page_of_less_than_15_megabytes() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let events = century(100);
    let tracks = track::from_events(&events);
    let (all_tracks, all_points) = (tracks.len(), events.len());
    assert_eq!(all_tracks, 99_000);
    let mut input = ReportInput::new("A century", grid.clone());
    input
        .sources
        .push(Source::new(SourceKind::Heuristic, events, tracks));
    let options = ReportOptions::default();
    let most_events = options.max_event_bytes;
    let most_pictures = options.max_picture_bytes.div_ceil(3) * 4;
    let mut builder = ReportBuilder::with_options(input, options).unwrap();
    let mut dice = Dice(2);
    for year in 1901..=2000 {
        for month in [1, 4, 7, 10] {
            let field =
                Array2::from_shape_simple_fn(grid.shape(), || dice.between(0.0, 70.0) as f32);
            let mask = Array2::from_shape_simple_fn(grid.shape(), || (dice.roll() * 1.1) as u8);
            let mut frame =
                Frame::new(Time::new(Calendar::NoLeap, year, month, 3, 6, 0, 0).unwrap());
            frame.field = Some(field.view());
            frame.masks.push((SourceKind::Heuristic, mask.view()));
            builder.add_frame(&frame).unwrap();
        }
    }
    let html = builder.html().unwrap();
    let head = element(&html, "event-data");
    let bytes = head["bytes"].as_str().unwrap().len();
    assert!(
        bytes <= most_events && bytes > most_events / 3,
        "{bytes} bytes of events"
    );
    // Pictures of a fine grid may be larger than these, up to their limit.
    let pictures = element(&html, "data")["frames"].to_string().len();
    assert!(pictures > 100_000, "{pictures}");
    let worst = html.len() - pictures.min(most_pictures) + most_pictures;
    assert!(worst < 15_000_000, "{worst} bytes; {} as it is", html.len());
    assert!(html.len() < worst);
    // Every event is in the table; lives are thinned as the page states.
    let page = unpack(&html);
    assert_eq!(page.len(), all_tracks);
    let points = head["points"].as_u64().unwrap() as usize;
    let cyclone_points: u64 = (0..page.len())
        .filter(|&row| page.rows["kind"][row] == 1)
        .map(|row| page.rows["count"][row])
        .sum();
    let said = html.contains("To keep the file small, points of lives are left out");
    assert_eq!(said, points < all_points);
    assert!(
        points >= 3 * all_tracks && cyclone_points > 9_000 * 3,
        "{points} of {all_points} points"
    );
    let seen: u64 = page.rows["seen"].iter().sum();
    assert_eq!(seen as usize, all_points);
}

#[test]
fn a_small_room_takes_points_first_and_then_the_weakest() {
    let grid = Arc::new(LatLonGrid::global(24, 48).unwrap());
    let events = century(2);
    let tracks = track::from_events(&events);
    let page = |most: usize| {
        let mut input = ReportInput::new("Two years", grid.clone());
        let source = Source::new(SourceKind::Heuristic, events.clone(), tracks.clone());
        input.sources.push(source);
        let options = ReportOptions {
            max_event_bytes: most,
            ..ReportOptions::default()
        };
        let html = ReportBuilder::with_options(input, options)
            .unwrap()
            .html()
            .unwrap();
        let bytes = element(&html, "event-data")["bytes"]
            .as_str()
            .unwrap()
            .len();
        assert!(bytes <= most, "{bytes} of {most}");
        (unpack(&html), html)
    };
    let (all, _) = page(10_000_000);
    let (fewer, text) = page(90_000);
    assert_eq!((all.len(), fewer.len()), (1980, 1980));
    let sizes = [&all, &fewer].map(|p| p.head["points"].as_u64().unwrap());
    assert!(
        sizes[1] < sizes[0] / 2 && sizes[0] == events.len() as u64,
        "{sizes:?}"
    );
    assert!(text.contains(" are listed: ") == (fewer.len() < all.len()));
    // Every life keeps its first, last and strongest point.
    for row in (0..all.len()).step_by(37) {
        let (whole, kept) = (all.points_of(row), fewer.points_of(row));
        assert_eq!(
            (whole.first(), whole.last().map(|p| p[0])),
            (kept.first(), kept.last().map(|p| p[0]))
        );
        if all.rows["kind"][row] == 1 {
            let strongest = |points: &[[i64; 8]]| points.iter().map(|p| p[3]).max();
            assert_eq!(strongest(&whole), strongest(&kept));
        }
    }
    let (few, text) = page(30_000);
    assert!(
        few.len() < 1980 && text.contains(" are listed: "),
        "{}",
        few.len()
    );
    let cyclones =
        |p: &unpack::Unpacked| p.rows["kind"].iter().filter(|class| **class == 1).count();
    assert_eq!(cyclones(&few), 180, "rivers go before cyclones");
    let shortest = (0..few.len())
        .filter(|&row| few.rows["kind"][row] == 3)
        .map(|row| few.rows["duration"][row]);
    let lives: Vec<u64> = shortest.collect();
    assert!(
        lives.iter().min() > Some(&6),
        "the shortest lives go first: {:?}",
        lives.iter().min()
    );
}
