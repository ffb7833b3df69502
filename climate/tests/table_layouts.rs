//! Tables as Parquet and GeoJSON: files written by other programs, and damaged files.

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use proptest::prelude::*;
use squall_climate::table::read_events;
use squall_climate::track::readers::{self, ReadOptions};
use squall_data::Calendar;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// A file as a data-frame library writes it: Snappy, nanosecond timestamps, identities as floats with NaN, and an
/// unknown list column that is skipped.
fn data_frame(path: &Path) {
    let field = |name: &str, physical, logical| {
        let built = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build();
        Arc::new(built.unwrap())
    };
    let timestamp = LogicalType::timestamp(false, TimeUnit::NANOS);
    let lists = Type::primitive_type_builder("notes", Physical::INT64)
        .with_repetition(Repetition::REPEATED)
        .build()
        .unwrap();
    let fields = vec![
        field("lat_deg", Physical::DOUBLE, None),
        Arc::new(lists),
        field("time", Physical::INT64, Some(timestamp)),
        field("lon_deg", Physical::DOUBLE, None),
        field("class", Physical::BYTE_ARRAY, Some(LogicalType::String)),
        field("track_id", Physical::DOUBLE, None),
    ];
    let schema = Type::group_type_builder("schema").with_fields(fields);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut writer = SerializedFileWriter::new(
        File::create(path).unwrap(),
        Arc::new(schema.build().unwrap()),
        Arc::new(properties.build()),
    )
    .unwrap();
    let mut group = writer.next_row_group().unwrap();
    let numbers = [vec![15.5, -20.0], vec![300.0, -10.0], vec![7.0, f64::NAN]];
    // 24 August 2005, 06:00 with the rounding of times in days, and 12:00.
    let times = [1_124_863_199_999_999_999i64, 1_124_884_800_000_000_000];
    for number in 0..6 {
        let mut column = group.next_column().unwrap().unwrap();
        match number {
            0 | 3 | 5 => column.typed::<DoubleType>().write_batch(
                &numbers[[0, 0, 0, 1, 1, 2][number]],
                None,
                None,
            ),
            1 => {
                let (definition, repetition) = ([1, 0], [0, 0]);
                column
                    .typed::<Int64Type>()
                    .write_batch(&[1], Some(&definition), Some(&repetition))
            }
            2 => column.typed::<Int64Type>().write_batch(&times, None, None),
            _ => {
                let classes = ["tropical_cyclone", "atmospheric_river"].map(Into::into);
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&classes, None, None)
            }
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_data_frame_is_read_whatever_types_it_chose() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frame.parquet");
    data_frame(&path);
    let events = read_events(&path, Calendar::Standard).unwrap();
    let found: Vec<_> = events
        .iter()
        .map(|e| {
            (
                e.class.name(),
                e.time.to_string(),
                e.lon_deg,
                e.lat_deg,
                e.track_id,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (
                "tropical_cyclone",
                "2005-08-24T06:00:00".into(),
                300.0,
                15.5,
                Some(7)
            ),
            (
                "atmospheric_river",
                "2005-08-24T12:00:00".into(),
                350.0,
                -20.0,
                None
            ),
        ]
    );
    // Read as tracks, the event without one is left out with a note.
    let tracks = readers::read(&path, &ReadOptions::default()).unwrap();
    assert_eq!((tracks.tracks.len(), tracks.notes.len()), (1, 1));
}

#[test]
fn features_of_others_lie_where_their_points_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("storms.geojson");
    let read = |text: &str| {
        fs::write(&path, text).unwrap();
        read_events(&path, Calendar::Standard).map_err(|error| error.to_string())
    };
    let feature = |properties: &str| {
        format!(
            r#"{{"type": "Feature", "properties": {properties},
                "geometry": {{"type": "Point", "coordinates": [-60.25, 15]}}, "id": 3}}"#
        )
    };
    let storm = r#"{"class": "tropical_cyclone", "time": "2005-08-24", "name": "Katrina", "max_wind_m_s": 41, "track_id": 7.0}"#;
    let text = format!(
        r#"{{"name": "storms", "features": [{}], "type": "FeatureCollection"}}"#,
        feature(storm)
    );
    let found = read(&text).unwrap();
    let (storm, wind) = (&found[0], found[0].max_wind_m_s);
    assert_eq!(
        (storm.lon_deg, storm.lat_deg, wind),
        (299.75, 15.0, Some(41.0))
    );
    assert_eq!(storm.track_id, Some(7));
    // Compared as text because unknown shapes are NaN.
    let again = read(&format!("\u{feff}{text}")).unwrap();
    assert_eq!(format!("{again:?}"), format!("{found:?}"));
    // Merged layers have null in the columns of other layers.
    let blank =
        r#"{"class": "tropical_cyclone", "time": "2005-08-24", "lon_deg": null, "lat_deg": null}"#;
    let found = read(&format!(r#"{{"features": [{}]}}"#, feature(blank))).unwrap();
    assert_eq!((found[0].lon_deg, found[0].lat_deg), (299.75, 15.0));
    // Each error names the file and what was expected.
    let collection = |calendar: &str, properties: &str| {
        format!(r#"{{{calendar} "features": [{}]}}"#, feature(properties))
    };
    let leap = r#"{"class": "tropical_cyclone", "time": "2004-02-29"}"#;
    for (text, parts) in [
        (
            collection(r#""calendar": "noleap","#, leap),
            ["feature 1", "2004-02-29"],
        ),
        (
            collection(r#""calendar": "mayan","#, leap),
            ["storms.geojson", "`mayan`"],
        ),
        (
            collection("", r#"{"class": "tornado", "time": "2005-08-24"}"#),
            ["`tornado`", "tropical_cyclone"],
        ),
        (
            collection("", "null"),
            ["`class`", "found lon_deg, lat_deg"],
        ),
        (
            r#"{"features": [{"properties": {"class": "tropical_cyclone", "start_time": "x"}}]}"#
                .into(),
            ["`time`", "found class, start_time"],
        ),
        (
            r#"{"type": "Topology"}"#.into(),
            ["FeatureCollection", "features"],
        ),
        (text[..text.len() - 40].into(), ["storms.geojson", "EOF"]),
        (format!("{text} {{"), ["storms.geojson", "trailing"]),
        (
            r#"{"features": [3]}"#.into(),
            ["storms.geojson", "invalid type"],
        ),
    ] {
        let message = read(&text).unwrap_err();
        for part in parts {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
    assert_eq!(read(r#"{"features": []}"#), Ok(Vec::new()));
}

#[test]
fn a_file_is_closed_where_its_rows_are_not_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.geojson");
    let feature = r#"{"properties": {"class": "tropical_cyclone", "time": "2005-08-24", "lon_deg": 1, "lat_deg": 2}}"#;
    let many = vec![feature; 5000].join(",");
    fs::write(&path, format!(r#"{{"features": [{many}]}}"#)).unwrap();
    let mut reader = squall_climate::table::EventReader::open(&path, Calendar::Standard).unwrap();
    assert!(reader.next().unwrap().is_ok());
    drop(reader);
    #[cfg(target_os = "linux")]
    {
        let is_reading = || {
            let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let mut files = open.filter_map(|entry| fs::read_link(entry.path()).ok());
            files.any(|file| file == path)
        };
        let start = std::time::Instant::now();
        while is_reading() {
            assert!(start.elapsed().as_secs() < 60, "somebody reads on");
            std::thread::yield_now();
        }
    }
    assert_eq!(read_events(&path, Calendar::Standard).unwrap().len(), 5000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn damaged_parquet_is_an_error_or_a_table(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4), cut in 0usize..200) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frame.parquet");
        data_frame(&path);
        let mut bytes = fs::read(&path).unwrap();
        for (at, value) in changes {
            let at = 4 + usize::from(at) % (bytes.len() - 4);
            bytes[at] = value;
        }
        if cut < 20 {
            bytes.truncate(bytes.len() - cut);
        }
        fs::write(&path, bytes).unwrap();
        // Must neither panic nor loop forever.
        let _ = read_events(&path, Calendar::Standard);
    }
}
