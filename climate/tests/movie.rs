//! Movies have one picture per time, with masks, boxes and trails in the right places.

mod made_up;

use made_up::World;
use ndarray::Array2;
use squall_climate::report::{
    BoxSource, Frame, Movie, MovieOptions, ReportInput, Source, SourceKind,
};
use squall_data::boxes::{self, BoxClass};
use squall_data::{Calendar, Class, LatLonGrid, Time};
use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

const CYCLONE: [u8; 3] = [0xf2, 0x3d, 0x93];
const EXTRATROPICAL: [u8; 3] = [0x5c, 0xc8, 0xff];
const WHITE: [u8; 3] = [255; 3];

/// The pictures of a file as rows of colours, and their duration in hundredths of a second.
fn pictures(path: &Path) -> (Vec<Array2<[u8; 3]>>, Option<u32>) {
    let mut decoder = png::Decoder::new(BufReader::new(fs::File::open(path).unwrap()));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().unwrap();
    let count = reader
        .info()
        .animation_control()
        .map_or(1, |a| a.num_frames);
    let mut delay = None;
    let mut all = Vec::new();
    for _ in 0..count {
        let mut buffer = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut buffer).unwrap();
        delay = reader
            .info()
            .frame_control()
            .map(|f| 100 * u32::from(f.delay_num) / u32::from(f.delay_den));
        let (width, height) = (info.width as usize, info.height as usize);
        all.push(Array2::from_shape_fn((height, width), |(r, c)| {
            let at = 4 * (r * width + c);
            [buffer[at], buffer[at + 1], buffer[at + 2]]
        }));
    }
    (all, delay)
}

fn count(picture: &Array2<[u8; 3]>, colour: [u8; 3]) -> usize {
    picture.iter().filter(|pixel| **pixel == colour).count()
}

fn options() -> MovieOptions {
    MovieOptions {
        width: 240,
        pictures_per_second: 5,
        ..MovieOptions::default()
    }
}

#[test]
fn a_storm_is_painted_where_it_is_and_moves() {
    let grid = Arc::new(LatLonGrid::global(60, 120).unwrap());
    let mut input = ReportInput::new("", grid.clone());
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("boxes.csv");
    let rows = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n\
                extratropical_cyclone,2000-01-01T00:00:00,355,-60,15,-45,0.5,\n";
    fs::write(&table, rows).unwrap();
    let found = boxes::read(&table, &grid, Calendar::NoLeap).unwrap();
    assert_eq!(
        found.frames()[0].boxes[0].geo.class,
        BoxClass::ExtratropicalCyclone
    );
    input
        .boxes
        .push(BoxSource::new(SourceKind::Heuristic, "lows", found));
    let movie = Movie::new(&input, options());
    let path = folder.path().join("run.png");
    let mut file = movie.file(&path, 2).unwrap();
    let field = Array2::from_elem(grid.shape(), 35.0f32);
    for (hour, lon) in [(0, 90.0), (6, 200.0)] {
        let mut mask = Array2::zeros(grid.shape());
        let (j, i) = grid.nearest(15.0, lon);
        mask.slice_mut(ndarray::s![j - 2..j + 3, i - 2..i + 3])
            .fill(Class::TropicalCyclone.code());
        let mut frame = Frame::new(Time::new(Calendar::NoLeap, 2000, 1, 1, hour, 0, 0).unwrap());
        frame.field = Some(field.view());
        frame.masks.push((SourceKind::Heuristic, mask.view()));
        file.add(&movie.paint(&frame).unwrap()).unwrap();
    }
    assert!(!path.exists(), "half a movie has no name");
    assert_eq!(file.finish().unwrap(), 2);
    let (found, delay) = pictures(&path);
    assert_eq!((found.len(), delay), (2, Some(20)));
    // The map is centred on 180°E: 90°E is a quarter from the left, 200°E at 200 of 360.
    for (picture, column) in found.iter().zip([60.0, 240.0 * 200.0 / 360.0]) {
        let places: Vec<(usize, usize)> = picture
            .indexed_iter()
            .filter(|(_, pixel)| **pixel == CYCLONE)
            .map(|(at, _)| at)
            .collect();
        let mean = |of: &dyn Fn(&(usize, usize)) -> usize| {
            places.iter().map(|at| of(at) as f64).sum::<f64>() / places.len() as f64
        };
        assert!(places.len() > 20, "{}", places.len());
        assert!(
            (mean(&|at| at.1) - column).abs() < 3.0,
            "{} for {column}",
            mean(&|at| at.1)
        );
        assert!(
            (mean(&|at| at.0) - 50.0).abs() < 3.0,
            "15°N is row 50 of 120"
        );
    }
    // The box crosses 0°E, the seam of this map: it is drawn on both sides, but only at its own time.
    let edges = |picture: &Array2<[u8; 3]>, columns: std::ops::Range<usize>| {
        let inside = picture
            .indexed_iter()
            .filter(|((_, c), _)| columns.contains(c));
        inside.filter(|(_, pixel)| **pixel == EXTRATROPICAL).count()
    };
    assert!(edges(&found[0], 0..12) > 20 && edges(&found[0], 234..240) > 10);
    assert_eq!(
        edges(&found[0], 20..230) + count(&found[1], EXTRATROPICAL),
        0
    );
}

#[test]
fn trails_follow_the_tracks_and_numbered_pictures_are_the_same() {
    let world = World::new(48, 96, 24);
    let mut input = ReportInput::new("Storms", world.grid.clone());
    let (events, tracks) = world.found_by(SourceKind::Truth);
    let cyclones = events
        .iter()
        .filter(|e| e.class == Class::TropicalCyclone)
        .count();
    assert!(cyclones > 20);
    let bare = Movie::new(&input, options());
    input
        .sources
        .push(Source::new(SourceKind::Truth, events, tracks));
    let movie = Movie::new(&input, options());
    let time = world.time(20);
    let [with, without] = [&movie, &bare].map(|m| m.paint(&Frame::new(time)).unwrap());
    let changed = with.iter().zip(&without).filter(|(a, b)| a != b).count();
    assert!(changed > 100, "{changed} pixels of trails");

    let folder = tempfile::tempdir().unwrap();
    let (animated, numbered) = (folder.path().join("a.apng"), folder.path().join("frames"));
    let mut files = [&animated, &numbered].map(|path| movie.file(path, 3).unwrap());
    for index in [0, 10, 20] {
        let picture = movie.paint(&Frame::new(world.time(index))).unwrap();
        files
            .iter_mut()
            .for_each(|file| file.add(&picture).unwrap());
    }
    for file in files {
        assert_eq!(file.finish().unwrap(), 3);
    }
    let (moving, _) = pictures(&animated);
    for (index, expected) in moving.iter().enumerate() {
        let still = pictures(&numbered.join(format!("frame-{:05}.png", index + 1))).0;
        assert_eq!(&still[0], expected);
        // The time and the title are in the corners.
        let corner = expected.slice(ndarray::s![0..20, 0..120]);
        assert!(corner.iter().filter(|pixel| **pixel == WHITE).count() > 60);
    }
    assert_ne!(moving[0], moving[2]);
    assert_eq!(fs::read_dir(&numbered).unwrap().count(), 3);
    // A shorter movie replaces a longer one.
    let mut file = movie.file(&numbered, 1).unwrap();
    file.add(&movie.paint(&Frame::new(time)).unwrap()).unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read_dir(&numbered).unwrap().count(), 1);
}

#[test]
fn a_movie_with_too_many_or_too_few_pictures_is_refused() {
    let grid = Arc::new(LatLonGrid::global(12, 24).unwrap());
    let movie = Movie::new(&ReportInput::new("", grid), options());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    let frame = Frame::new(Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap());
    let picture = movie.paint(&frame).unwrap();
    let mut file = movie.file(&path, 1).unwrap();
    file.add(&picture).unwrap();
    assert!(
        file.add(&picture)
            .unwrap_err()
            .to_string()
            .contains("one more")
    );
    let mut file = movie.file(&path, 2).unwrap();
    file.add(&picture).unwrap();
    let error = file.finish().unwrap_err().to_string();
    assert!(error.contains("expected 2 pictures, found 1"), "{error}");
    assert!(!path.exists());
    for path in [&path, &folder.path().join("numbered")] {
        let error = movie.file(path, 0).unwrap_err().to_string();
        assert!(error.contains("expected one picture or more"), "{error}");
    }
}

#[test]
fn a_wide_picture_says_what_its_colours_and_lines_are() {
    let grid = Arc::new(LatLonGrid::global(60, 120).unwrap());
    let input = ReportInput::new("", grid.clone());
    let wide = MovieOptions {
        width: 960,
        ..MovieOptions::default()
    };
    let movie = Movie::new(&input, wide);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.png");
    let field = Array2::from_elem(grid.shape(), 0.0f32);
    let quiet = Array2::zeros(grid.shape());
    let mut file = movie.file(&path, 3).unwrap();
    for sources in 0..3u16 {
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, i64::from(sources), 0, 0).unwrap();
        let mut frame = Frame::new(time);
        frame.field = (sources == 0).then(|| field.view());
        let kinds = [SourceKind::Heuristic, SourceKind::Network];
        let masks = kinds.into_iter().take(usize::from(sources));
        frame.masks.extend(masks.map(|kind| (kind, quiet.view())));
        file.add(&movie.paint(&frame).unwrap()).unwrap();
    }
    file.finish().unwrap();
    let (found, _) = pictures(&path);
    // Without a mask no class is listed; two sources each have an entry.
    let squares: Vec<usize> = found.iter().map(|p| count(p, CYCLONE)).collect();
    assert_eq!(squares, [0, 14 * 14, 14 * 14], "seven dots of two pixels");
    assert!(count(&found[2], WHITE) > count(&found[1], WHITE));
    // The colour scale is at the lower right even though the field is dark.
    let bright = |picture: &Array2<[u8; 3]>| {
        let places = picture
            .indexed_iter()
            .filter(|(_, p)| p[0] > 0xd0 && p[2] < 0xf4);
        let lower = places.filter(|((r, c), _)| *r > 440 && *c > 600);
        lower.count()
    };
    assert!(bright(&found[0]) > 100, "{}", bright(&found[0]));
    assert_eq!(bright(&found[1]), 0);
}

/// Otherwise a detector's boxes next to a network's masks would appear as another network.
#[test]
fn boxes_are_called_by_a_name_of_their_own() {
    let grid = Arc::new(LatLonGrid::global(60, 120).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("boxes.csv");
    let rows = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n\
                tropical_cyclone,2000-01-01T00:00:00,100,10,110,20,,\n";
    fs::write(&table, rows).unwrap();
    let frames = boxes::read(&table, &grid, Calendar::NoLeap).unwrap();
    let painted = |label: &str| {
        let mut input = ReportInput::new("", grid.clone());
        let source = BoxSource::new(SourceKind::Truth, label, frames.clone());
        input.boxes.push(source);
        let wide = MovieOptions {
            width: 960,
            ..MovieOptions::default()
        };
        let mask = Array2::zeros(grid.shape());
        let mut frame = Frame::new(Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap());
        frame.masks.push((SourceKind::Heuristic, mask.view()));
        Movie::new(&input, wide).paint(&frame).unwrap()
    };
    assert_eq!(painted("experts"), painted("experts"));
    assert_ne!(painted("experts"), painted("annotators"));
}
