//! Two sides with and without tables of their events.

use super::*;
use ndarray::Array2;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::{Calendar, ClassMask, LatLonGrid};

/// Masks of four times with or without a cyclone and a river, and a table of them: class and track of each.
fn write(folder: &Path, table: &str, rows: &[(Class, &str)]) -> String {
    std::fs::create_dir(folder).unwrap();
    let grid = LatLonGrid::global(36, 72).unwrap();
    let mut codes = Array2::zeros(grid.shape());
    let mut text = String::from("class,time,lon_deg,lat_deg,area_km2,track_id\n");
    let start = Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap();
    let times: Vec<Time> = (0..4).map(|k| start.add_seconds(6 * 3600 * k)).collect();
    for &(class, track) in rows {
        let (row, longitude) = match class {
            Class::TropicalCyclone => (21, 10),
            _ => (27, 40),
        };
        for cell in 0..9 {
            codes[[row + cell / 3, longitude + cell % 3]] = class.code();
        }
        for time in &times {
            let (lon, lat) = (5 * longitude + 7, 5 * row - 83);
            text += &format!("{},{time},{lon},{lat},600000,{track}\n", class.name());
        }
    }
    let options = MaskFileOptions::default();
    let mut file = MaskWriter::create(&folder.join("masks.nc"), &grid, start, &options).unwrap();
    for time in times {
        let mask = ClassMask {
            time,
            codes: codes.clone(),
        };
        file.write(&mask, None).unwrap();
    }
    file.finish().unwrap();
    std::fs::write(folder.join(table), text).unwrap();
    folder.to_string_lossy().into_owned()
}

#[test]
fn masks_of_other_times_say_what_each_side_has() {
    let folder = tempfile::tempdir().unwrap();
    let august = write(&folder.path().join("august"), "no.csv", &[]);
    let july = folder.path().join("july.nc");
    let grid = LatLonGrid::global(36, 72).unwrap();
    let time = Time::new(Calendar::NoLeap, 2000, 7, 1, 0, 0, 0).unwrap();
    let options = MaskFileOptions::default();
    let mut file = MaskWriter::create(&july, &grid, time, &options).unwrap();
    let codes = Array2::zeros(grid.shape());
    file.write(&ClassMask { time, codes }, None).unwrap();
    file.finish().unwrap();
    let score = Score::of_masks(july.display().to_string(), august, None);
    let said = score.score().map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("july.nc` has 2000-07-01T00:00:00,"), "{said}");
    let span = "has 2000-08-01T00:00:00 to 2000-08-01T18:00:00";
    assert!(said.ends_with(span), "{said}");
}

#[test]
fn events_without_an_area_count_where_one_side_alone_has_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let rows = [
        (Class::TropicalCyclone, "1"),
        (Class::AtmosphericRiver, "2"),
    ];
    let masks = write(&at("masks"), "no.csv", &rows);
    let listed = write(&at("listed"), "events.csv", &rows);
    let table = at("listed").join("events.csv");
    let text = std::fs::read_to_string(&table).unwrap();
    let hits = |areas: &str| -> Vec<(u64, u64, u64)> {
        std::fs::write(&table, text.replace(",600000,", areas)).unwrap();
        let score = Score::of_masks(listed.clone(), masks.clone(), None);
        let events = score.score().unwrap().events.classes;
        let counts = events.iter().map(|e| (e.hits, e.misses, e.false_alarms));
        counts.collect()
    };
    assert_eq!(hits(",,"), [(4, 0, 0); 2]);
    // Too small to be made of masks.
    assert_eq!(hits(",9,"), [(0, 4, 0); 2]);
}

/// Before, small labels counted as missed although both sides had the same masks.
#[test]
fn labels_too_small_to_be_events_are_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let rows = [
        (Class::TropicalCyclone, "1"),
        (Class::AtmosphericRiver, "2"),
    ];
    let labels = write(&at("labels"), "objects.csv", &rows);
    let table = at("labels").join("objects.csv");
    let text = std::fs::read_to_string(&table).unwrap();
    let start = "atmospheric_river,2000-08-01T00:00:00";
    std::fs::write(&table, format!("{text}{start},300,50,9000,\n")).unwrap();
    let events = at("events.csv");
    std::fs::write(&events, &text).unwrap();
    let rivers = |events: Option<&Path>| {
        let events = events.map(|path| path.display().to_string());
        let score = Score::of_masks(labels.clone(), labels.clone(), events);
        let rivers = score.score().unwrap().events.classes[1];
        (rivers.hits, rivers.misses, rivers.false_alarms)
    };
    assert_eq!(rivers(Some(&events)), (4, 0, 0));
    // Where both sides list small ones they count.
    assert_eq!(rivers(None), (5, 0, 0));
    assert_eq!(rivers(Some(&table)), (5, 0, 0));
}

/// Before, one of two labels that touch counted as missed although both sides had the same masks.
#[test]
fn labels_that_touch_are_one_event_as_in_masks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cyclone = [(Class::TropicalCyclone, "1")];
    let labels = write(&at("labels"), "objects.csv", &cyclone);
    let masks = write(&at("masks"), "no.csv", &cyclone);
    let events = write(&at("events"), "events.csv", &cyclone);
    let text = std::fs::read_to_string(at("events").join("events.csv")).unwrap();
    // Two lows lie far apart in the one area; its event is at one of them.
    let (north, south) = (",62,27,300000,1", ",52,18,300000,2");
    let of_area = ",57,22,600000,1";
    let mut both = String::new();
    for line in text.lines() {
        both += &format!("{}\n", line.replace(of_area, north));
        if line.contains(of_area) {
            both += &format!("{}\n", line.replace(of_area, south));
        }
    }
    std::fs::write(at("labels").join("objects.csv"), &both).unwrap();
    let counts = |prediction: &str, truth: &str| {
        let score = Score::of_masks(prediction.into(), truth.into(), None);
        let cyclones = score.score().unwrap().events.classes[0];
        (cyclones.hits, cyclones.misses, cyclones.false_alarms)
    };
    for centre in [",62,27,600000,1", ",52,18,600000,1"] {
        let table = text.replace(of_area, centre);
        std::fs::write(at("events").join("events.csv"), table).unwrap();
        assert_eq!(counts(&events, &labels), (4, 0, 0), "{centre}");
        assert_eq!(counts(&labels, &events), (4, 0, 0), "{centre}");
    }
    assert_eq!(counts(&masks, &labels), (4, 0, 0));
    assert_eq!(counts(&labels, &masks), (4, 0, 0));
    // Where both sides list them they are two.
    assert_eq!(counts(&labels, &labels), (8, 0, 0));
}

#[test]
fn rivers_of_labels_have_no_tracks_to_be_scored_against() {
    use Class::{AtmosphericRiver, TropicalCyclone};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let both = |river| [(TropicalCyclone, "1"), (AtmosphericRiver, river)];
    let labels = write(&at("labels"), "objects.csv", &both(""));
    let events = write(&at("events"), "events.csv", &both("2"));
    let storms = write(&at("storms"), "events.csv", &both("2")[..1]);
    let masks = write(&at("masks"), "no.csv", &both(""));
    let score = |prediction: &str, truth: &str| {
        let score = Score::of_masks(prediction.into(), truth.into(), None);
        score.score().unwrap().tracks
    };
    let hints = ["give the two folders", "--events DIR/events.csv"];
    for ((prediction, truth), hint) in [(&events, &labels), (&labels, &events)]
        .into_iter()
        .zip(hints)
    {
        let tracks = score(prediction, truth).unwrap();
        let scored: Vec<_> = tracks.classes.iter().map(|s| (s.class, s.hits)).collect();
        assert_eq!(scored, [(TropicalCyclone, 1)], "{tracks}");
        assert_eq!(tracks.unfollowed[0].class, AtmosphericRiver);
        let said = to_follow(&tracks.unfollowed).unwrap();
        assert!(said.contains(hint));
        // Tables without masks are judged by another rule, which both say.
        assert_eq!(said.contains("rule of best tracks"), hint == hints[0]);
        assert!(tracks.to_string().contains("judged by another rule"));
        // Their few times tell no chance level, and that is said.
        assert!(tracks.chance.missing.is_some() && tracks.classes[0].skill.is_none());
    }
    // A truth without any river is scored: it does not count as one without tracks.
    let tracks = score(&events, &storms).unwrap();
    let rivers = tracks.classes[1];
    assert_eq!((rivers.true_tracks, rivers.far), (0, Some(1.0)), "{tracks}");
    // A side without a table has no tracks.
    assert_eq!(score(&events, &masks).unwrap().unfollowed.len(), 2);
    assert_eq!(score(&masks, &masks), None);
}
