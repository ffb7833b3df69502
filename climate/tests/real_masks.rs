//! Rivers of TECA-BARD on MERRA-2 (real masks of another detector): objects, shapes, tracks, tables and statistics.

use ndarray::Array2;
use squall_climate::events::{EventFields, ExtractOptions, extract, regions};
use squall_climate::statistics::Statistics;
use squall_climate::stream::{EventStream, Moment, RunFolder, hours_of};
use squall_climate::track::{Fate, Origin, Tracker, TrackerOptions};
use squall_climate::{Event, Track, table};
use squall_data::mask_file::MaskArchive;
use squall_data::{Class, ClassMask, LatLonGrid, testdata};

/// The mask from 180 degrees east to one column short of the circle, on a grid that does not wrap.
fn cut_at_180(mask: &ClassMask, grid: &LatLonGrid) -> (Array2<u8>, LatLonGrid) {
    let (rows, columns) = grid.shape();
    let half = columns / 2;
    let lon = (0..columns - 1).map(|i| grid.lon_deg()[(i + half) % columns]);
    let cut = LatLonGrid::from_axes(grid.lat_deg().to_vec(), lon.collect())
        .unwrap()
        .0;
    assert!(!cut.is_periodic());
    let codes = Array2::from_shape_fn((rows, columns - 1), |(j, i)| {
        mask.codes[[j, (i + half) % columns]]
    });
    (codes, cut)
}

#[test]
fn real_rivers_have_the_published_size_and_are_followed() {
    let Some(path) = testdata::real("ar-masks-merra2-teca-bard/ar_tag_merra2_1991.nc") else {
        return;
    };
    let archive = MaskArchive::open(path.to_str().unwrap()).unwrap();
    let grid = archive.grid().clone();
    let areas = grid.row_areas_km2();
    let globe: f64 = areas.iter().sum::<f64>() * grid.shape().1 as f64;
    let options = ExtractOptions::default();
    let mut tracker = Tracker::new(&grid, TrackerOptions::default().keep_all()).unwrap();
    let mut statistics = Statistics::new(&grid);
    let (mut events, mut tracks): (Vec<Event>, Vec<Track>) = (Vec::new(), Vec::new());
    let (mut pieces, mut covered) = (0, 0.0);
    for index in 0..archive.times().len() {
        let mask = archive.read(index).unwrap();
        let all = regions(mask.codes.view(), &grid).unwrap();
        let total: f64 = all.iter().map(|r| r.area_km2(&areas)).sum();
        let cells: usize = all.iter().map(|r| r.cells()).sum();
        assert_eq!(cells as u64, mask.pixel_counts()[2]);
        // The source counts 5 to 16 pieces on its own axis, which is cut at 180 degrees east.
        let (cut_mask, cut_grid) = cut_at_180(&mask, &grid);
        let cut = regions(cut_mask.view(), &cut_grid).unwrap().len();
        assert!((5..=16).contains(&cut), "{cut} pieces");
        assert!(
            all.len() <= cut && all.len() + 4 >= cut,
            "{} of {cut}",
            all.len()
        );
        pieces += all.len();
        covered += total / globe;
        let mut found = extract(&mask, &grid, &EventFields::default(), &options).unwrap();
        let step = tracker.push(mask.time, &mut found).unwrap();
        tracks.extend(step.finished);
        let found: Vec<Event> = found.into_iter().map(|d| d.event).collect();
        statistics
            .add_time(mask.time, Some(&mask), 3.0, &found)
            .unwrap();
        events.extend(found);
    }
    tracks.extend(tracker.finish().finished);
    tracks.iter().for_each(|track| statistics.add_track(track));

    let times = archive.times().len() as f64;
    // Counted apart by a flood fill over the text of the file (ncdump): 128 pieces; the source's "about 10" for each
    // time (206) are pieces that touch by edges only, with the map cut at 180 degrees.
    assert_eq!(pieces, 128);
    assert!(
        (0.025..0.045).contains(&(covered / times)),
        "{}",
        covered / times
    );
    for event in &events {
        assert_eq!(event.class, Class::AtmosphericRiver);
        assert!(event.lat_deg.abs() > 9.5 && event.lat_deg.abs() < 80.0);
        assert!(
            event.length_km > 700.0 && event.length_km < 15_000.0,
            "{event:?}"
        );
    }
    let long = events
        .iter()
        .filter(|e| e.length_km > 2.0 * e.width_km)
        .count();
    assert!(
        long as f64 > 0.7 * events.len() as f64,
        "{long} of {} are elongated",
        events.len()
    );

    // 3-hourly rivers live for many steps; episodes that lie days apart are not joined.
    let longest = tracks.iter().map(|t| t.points).max().unwrap();
    assert!(longest >= 4, "{longest}");
    assert_eq!(tracks.iter().map(|t| t.points).sum::<usize>(), events.len());
    for track in &tracks {
        let hours = track.duration_hours();
        assert!(hours <= 24.0 * (track.points as f64 - 1.0), "{track:?}");
        assert!(track.origin != Origin::Split || track.related_track.is_some());
        assert!(track.fate != Fate::Merge || track.related_track.is_some());
    }

    // Every file that a run leaves.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracks.csv");
    table::write_tracks(&path, &tracks).unwrap();
    let back = table::read_tracks(&path, archive.calendar()).unwrap();
    assert!(
        back.iter()
            .map(|t| (t.track_id, t.end, t.fate))
            .eq(tracks.iter().map(|t| (t.track_id, t.end, t.fate)))
    );
    statistics.write_csv(folder.path()).unwrap();
    let yearly = std::fs::read_to_string(folder.path().join("yearly.csv")).unwrap();
    let objects: usize = yearly
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(5).unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(objects, events.len());
    let path = folder.path().join("statistics.nc");
    statistics
        .write_netcdf(&path, &grid, archive.calendar())
        .unwrap();
    let file = netcdf::open(&path).unwrap();
    let frequency = file.variable("frequency").unwrap();
    let rivers: Vec<f64> = frequency.get_values((1, .., ..)).unwrap();
    let columns = grid.shape().1;
    let mean: f64 = rivers
        .iter()
        .enumerate()
        .map(|(k, v)| v * areas[k / columns])
        .sum::<f64>()
        / globe;
    assert!((mean - covered / times).abs() < 1e-9);
    let began: Vec<f64> = file.variable("tracks").unwrap().get_values(..).unwrap();
    assert_eq!(began.iter().sum::<f64>(), tracks.len() as f64);
    for name in ["precipitation", "all_precipitation"] {
        let km3: Vec<f64> = file.variable(name).unwrap().get_values(..).unwrap();
        assert!(km3.iter().all(|v| v.is_nan()), "{name} of masks alone");
    }
    let restored: Statistics =
        serde_json::from_str(&serde_json::to_string(&statistics).unwrap()).unwrap();
    assert_eq!(restored, statistics);
}

#[test]
fn all_years_have_some_six_objects_and_three_to_four_percent() {
    let Some(folder) = testdata::real("ar-masks-merra2-teca-bard") else {
        return;
    };
    let archive = MaskArchive::open(folder.to_str().unwrap()).unwrap();
    let grid = archive.grid().clone();
    let areas = grid.row_areas_km2();
    let globe: f64 = areas.iter().sum::<f64>() * grid.shape().1 as f64;
    let (mut pieces, mut covered, mut times) = (0, 0.0, 0.0);
    for index in (0..archive.times().len()).step_by(9) {
        let mask = archive.read(index).unwrap();
        let found = regions(mask.codes.view(), &grid).unwrap();
        pieces += found.len();
        covered += found.iter().map(|r| r.area_km2(&areas)).sum::<f64>() / globe;
        times += 1.0;
    }
    let (pieces, covered) = (pieces as f64 / times, covered / times);
    // Three years counted apart by a flood fill: 5.6 to 6.1 pieces.
    assert!((5.0..6.5).contains(&pieces), "{pieces}");
    assert!((0.03..0.041).contains(&covered), "{covered}");
}

#[test]
fn all_407_masks_are_streamed_to_rivers_of_sane_size_and_life() {
    let Some(folder) = testdata::real("ar-masks-merra2-teca-bard") else {
        return;
    };
    let archive = MaskArchive::open(folder.to_str().unwrap()).unwrap();
    let (grid, times) = (archive.grid().clone(), archive.times());
    assert_eq!(times.len(), 407);
    let globe = 4.0 * std::f64::consts::PI * squall_data::grid::EARTH_RADIUS_KM.powi(2);
    let options = TrackerOptions::default();
    let stream = EventStream::new(&grid, options).unwrap();
    let out = tempfile::tempdir().unwrap();
    let (mut run, mut stream, _) =
        RunFolder::open(out.path(), "rivers", stream, |_, _| true).unwrap();
    let (mut objects, mut episodes, mut waiting) = (0, 1, 0);
    for index in 0..times.len() {
        let mask = archive.read(index).unwrap();
        let fields = EventFields::default();
        let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        objects += found.len();
        let before = index
            .checked_sub(1)
            .map(|k| times[index].seconds_since(times[k]) / 3600);
        episodes += usize::from(before.is_some_and(|hours| hours > 24));
        let hours = hours_of(times, index);
        let moment = Moment {
            time: mask.time,
            mask: Some(&mask),
            hours,
            fields_hours: hours,
            fields: &fields,
        };
        run.write(&stream.add(&moment, found).unwrap()).unwrap();
        waiting = waiting.max(stream.waiting_rows());
    }
    let counts = run.finish(stream).unwrap().counts;
    assert_eq!(
        (counts.times, counts.rivers, counts.cyclones),
        (407, objects, 0)
    );
    let read = |name: &str| out.path().join(name);
    let events = table::read_events(read("events.csv"), archive.calendar()).unwrap();
    let tracks = table::read_tracks(read("tracks.csv"), archive.calendar()).unwrap();
    assert_eq!((events.len(), tracks.len()), (objects, counts.river_tracks));
    // The source: 3 to 4 % of the globe, here without the pieces below 300,000 km²; 5 to 16 pieces with those that the
    // edge of the map and corners cut; all poleward of 9.5 degrees.
    let share = events.iter().map(|e| e.area_km2).sum::<f64>() / globe / 407.0;
    let each = objects as f64 / 407.0;
    assert!((0.025..0.041).contains(&share), "{share}");
    assert!((4.0..8.0).contains(&each), "{each}");
    assert!(
        events
            .iter()
            .all(|e| e.lat_deg.abs() > 9.5 && e.area_km2 > 3e5)
    );
    assert!(events.iter().all(|e| e.details.touches_edge == Some(false)));
    // Rivers are followed within episodes and never over a hole of more than a day.
    let points: usize = tracks.iter().map(|t| t.points).sum();
    let listed = events.iter().filter(|e| e.track_id.is_some()).count();
    assert_eq!(points, listed);
    let mut lives: Vec<f64> = tracks.iter().map(Track::duration_hours).collect();
    lives.sort_by(f64::total_cmp);
    let median = lives[lives.len() / 2];
    assert!(lives[lives.len() - 1] < 24.0 * 15.0, "{lives:?}");
    let of_origin = |origin| tracks.iter().filter(|t| t.origin == origin).count();
    let (begun, cut) = (of_origin(Origin::Genesis), of_origin(Origin::StartOfData));
    assert!(
        cut as f64 > 3.0 * episodes as f64,
        "{cut} rivers at the start of {episodes} episodes"
    );
    // What is cut by neither end lives as long as the shortest listed.
    for track in &tracks {
        let whole = track.origin != Origin::StartOfData && track.fate != Fate::EndOfData;
        assert!(!whole || track.duration_hours() >= 18.0, "{track:?}");
        assert_eq!(
            track.details.parent_track.is_some(),
            track.origin == Origin::Split
        );
        assert_eq!(
            track.details.merged_into.is_some(),
            track.fate == Fate::Merge
        );
    }
    // No river that lasts half a day goes faster than 30 m/s, as fast as the extratropical cyclones that draw rivers; of
    // shorter ones, most of one or two steps of 3 hours, some do, because centroids jitter.
    let (mut measured, mut fast) = (0, 0);
    for track in &tracks {
        let Some(mean) = track.mean_speed_m_s() else {
            continue;
        };
        measured += 1;
        fast += usize::from(mean > 30.0);
        assert!(track.duration_hours() < 12.0 || mean < 30.0, "{track:?}");
        assert!(track.details.max_speed_m_s < Some(50.0), "{track:?}");
    }
    assert!(fast * 20 < measured, "{fast} of {measured} are too fast");
    // Counted apart by a second program (Python, on the same masks), but for the rows that waited; a change of the tracker
    // shows here.
    let told = format!(
        "{objects} objects, {} tracks, {begun} by genesis, {cut} there at a start, {episodes} episodes, median {median} h, \
         longest {} h, at most {waiting} rows waited, share {share:.4}",
        tracks.len(),
        lives[lives.len() - 1]
    );
    assert_eq!(
        told,
        "2246 objects, 645 tracks, 30 by genesis, 500 there at a start, 91 episodes, median 3 h, longest 45 h, at most 40 \
         rows waited, share 0.0403"
    );
}
