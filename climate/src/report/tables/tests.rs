//! The tables for a few objects.

use super::*;
use crate::report::PairAgreement;
use crate::track::{Track, testdata};
use squall_data::{Calendar, LatLonGrid, Time};
use std::sync::Arc;

fn at(day: i64) -> Time {
    Time::new(Calendar::NoLeap, 2001, 8, day, 0, 0, 0).unwrap()
}

/// The cells of each row below the headings.
fn cells(html: &str) -> Vec<Vec<&str>> {
    let rows = html.split("<tr>").skip(2);
    let cells = rows.map(|row| row.split("data-label=\"").skip(1));
    cells.map(|row| row.filter_map(cell).collect()).collect()
}

/// The content of a cell, up to its end tag.
fn cell(text: &str) -> Option<&str> {
    let (_, text) = text.split_once("\">")?;
    text.split("</t").next()
}

fn cyclone(track_id: u64, max_wind_m_s: Option<f64>, min_psl_pa: f64) -> Track {
    Track {
        track_id,
        max_wind_m_s,
        min_psl_pa: Some(min_psl_pa),
        ..testdata::cyclone(at(1))
    }
}

fn truth(events: Vec<Event>, tracks: Vec<Track>) -> Source {
    Source::new(SourceKind::Truth, events, tracks)
}

#[test]
fn the_strongest_cyclones_come_first_by_wind_then_by_pressure() {
    let tracks = vec![
        cyclone(1, Some(40.0), 96_000.0),
        cyclone(2, Some(60.0), 95_000.0),
        cyclone(3, Some(40.0), 94_000.0),
        cyclone(4, None, 93_000.0),
    ];
    let html = strongest_cyclones(&truth(Vec::new(), tracks), 3).unwrap();
    let rows = cells(&html);
    let told: Vec<[&str; 4]> = (rows.iter())
        .map(|row| [row[0], row[3], row[4], row[5]])
        .collect();
    // 60 m/s are 117 kt, 40 m/s 78 kt.
    assert_eq!(
        told,
        [
            ["2", "60.0", "4", "950"],
            ["3", "40.0", "1", "940"],
            ["1", "40.0", "1", "960"],
        ]
    );
    assert_eq!(rows[0][6..], ["2.0", "800"]);
    let unknown = vec![cyclone(7, None, 99_000.0), cyclone(8, None, 97_000.0)];
    let html = strongest_cyclones(&truth(Vec::new(), unknown), 3).unwrap();
    let ids: Vec<&str> = cells(&html).iter().map(|row| row[0]).collect();
    assert_eq!(ids, ["8", "7"]);
}

/// A point of a river.
fn river(track_id: u64, day: i64, length_km: f64) -> Event {
    Event {
        class: Class::AtmosphericRiver,
        time: at(day),
        track_id: Some(track_id),
        lon_deg: 200.0 + day as f64,
        lat_deg: 40.0,
        area_km2: 1e6,
        west_deg: 190.0,
        south_deg: 30.0,
        east_deg: 220.0,
        north_deg: 50.0,
        length_km,
        width_km: length_km / 10.0,
        orientation_deg: 0.0,
        min_psl_pa: None,
        max_wind_m_s: None,
        max_tmq_kg_m2: None,
        mean_prect_m_s: None,
        mean_probability: None,
        details: Default::default(),
    }
}

#[test]
fn the_longest_rivers_come_first_and_are_told_when_they_are_longest() {
    let tracks = [1, 2].map(|track_id| Track {
        class: Class::AtmosphericRiver,
        ..cyclone(track_id, None, 0.0)
    });
    let points = vec![
        river(1, 1, 3000.0),
        river(1, 2, 4000.0),
        river(1, 3, 2000.0),
        river(2, 1, 5000.0),
    ];
    let html = longest_rivers(&truth(points, tracks.to_vec()), 5).unwrap();
    let told: Vec<[&str; 4]> = (cells(&html).iter())
        .map(|row| [row[0], row[1], row[3], row[4]])
        .collect();
    assert_eq!(
        told,
        [
            ["2", "1 Aug 2001, 00:00", "5000", "500"],
            ["1", "2 Aug 2001, 00:00", "4000", "400"],
        ]
    );
}

/// Regression: without `squall events` seven of ten rows were one river, with a rank for a track and no lifetime.
#[test]
fn a_river_without_a_track_has_one_row_and_a_rank() {
    let untracked = |day, west_deg: f64, length_km| Event {
        track_id: None,
        west_deg,
        east_deg: west_deg + 30.0,
        ..river(0, day, length_km)
    };
    let events = vec![
        untracked(1, 190.0, 3000.0),
        untracked(2, 195.0, 5000.0),
        untracked(3, 200.0, 4000.0),
        // Elsewhere, and a week later.
        untracked(2, 20.0, 2500.0),
        untracked(9, 195.0, 2000.0),
    ];
    let html = longest_rivers(&truth(events, Vec::new()), 5).unwrap();
    let told: Vec<[&str; 2]> = (cells(&html).iter()).map(|row| [row[0], row[3]]).collect();
    assert_eq!(told, [["1.", "5000"], ["2.", "2500"], ["3.", "2000"]]);
    assert!(html.contains(">Rank</th>"), "{html}");
    assert!(
        !html.contains("Track") && !html.contains("Lifetime"),
        "{html}"
    );
}

#[test]
fn objects_are_counted_in_the_basin_of_their_origin() {
    let grid = Arc::new(LatLonGrid::global(4, 8).unwrap());
    let mut input = ReportInput::new("", grid);
    // All end in the West Pacific; one begins in the North Atlantic.
    let mut crossing = cyclone(3, None, 0.0);
    (crossing.genesis_lat_deg, crossing.genesis_lon_deg) = (15.0, 320.0);
    let tracks = vec![cyclone(1, None, 0.0), cyclone(2, None, 0.0), crossing];
    input.sources.push(truth(Vec::new(), tracks));
    let html = basin_tables(&input);
    let (cyclones, rivers) = html.split_once("</table>").unwrap();
    let of = |html, name: &str| {
        let rows = cells(html);
        let row = rows.into_iter().find(|row| row[0] == name).unwrap();
        row[1..].concat()
    };
    assert_eq!(of(cyclones, "West Pacific"), "2");
    assert_eq!(of(cyclones, "North Atlantic"), "1");
    assert_eq!(of(cyclones, "South Indian"), "0");
    assert_eq!(of(cyclones, "All"), "3");
    // Rivers have no cyclone basin.
    assert_eq!(of(rivers, "30–100°E north"), "0");
    assert!(!rivers.contains("North Indian"), "{rivers}");
}

#[test]
fn shares_of_an_agreement_are_of_what_either_marks() {
    let of = |both_km2, only_first_km2, only_second_km2| PairAgreement {
        both_km2,
        only_first_km2,
        only_second_km2,
    };
    let pair = Agreement {
        first: SourceKind::Heuristic,
        second: SourceKind::Truth,
        total: [of(100.0, 60.0, 40.0), of(30.0, 0.0, 70.0)],
        series: Vec::new(),
    };
    let pairs = [pair];
    let name = |kind: SourceKind| kind.name().to_string();
    let html = agreement_table(&pairs, name, |_, _| true);
    let html = html.replace('\u{a0}', " ");
    let names = "Heuristic and Truth";
    let (cyclones, rivers) = ("tropical cyclone", "atmospheric river");
    let [half, third] = ["<strong>0.50</strong>", "<strong>0.30</strong>"];
    assert_eq!(
        cells(&html),
        [
            [names, cyclones, half, "50 %", "30 %", "20 %"],
            [names, rivers, third, "30 %", "0 %", "70 %"],
        ]
    );
    // A class that one of them does not detect has no row.
    let html = agreement_table(&pairs, name, |kind, class| {
        (kind, class) != (SourceKind::Truth, Class::TropicalCyclone)
    });
    let told: Vec<&str> = cells(&html).iter().map(|row| row[1]).collect();
    assert_eq!(told, [rivers]);
}
