//! Tracks against tracks: best tracks or those of another tracker.

use super::Score;
use crate::failure::Advice;
use serde::Serialize;
use squall_climate::compare::Coverage;
use squall_climate::table::read_tracks;
use squall_climate::track::readers::{ReadOptions, TrackFormat, TrackTable, format_of, read};
use squall_data::{Calendar, Class, Time};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::world_scores::{Criterion, legend};
use squall_validation::{WorldRules, WorldScores, score_against_world};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// Scores of the classes tracked by both sides.
#[derive(Debug, Serialize)]
pub struct TrackScores {
    /// The two files, as people read them.
    #[serde(skip)]
    pub files: [String; 2],
    /// Their formats.
    pub formats: [&'static str; 2],
    /// One entry per class.
    pub tracks: Vec<WorldScores>,
    /// Classes tracked by only one side.
    pub one_sided: Vec<OneSided>,
}

/// A class that is not scored because one side has no track of it: it missed all, or did not search for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OneSided {
    /// Which class.
    pub class: Class,
    /// Predicted tracks.
    pub predicted_tracks: usize,
    /// True tracks.
    pub true_tracks: usize,
}

impl OneSided {
    /// `None` for a class that both sides have, or neither.
    fn if_one_sided(class: Class, predicted: &TrackTable, truth: &TrackTable) -> Option<Self> {
        let [predicted_tracks, true_tracks] = [predicted, truth].map(|table| {
            let tracks = table.tracks.iter();
            tracks.filter(|track| track.class == class).count()
        });
        ((predicted_tracks == 0) != (true_tracks == 0)).then_some(Self {
            class,
            predicted_tracks,
            true_tracks,
        })
    }
}

impl fmt::Display for OneSided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tracks: not scored, {} are predicted and {} true",
            self.class.name(),
            self.predicted_tracks,
            self.true_tracks
        )
    }
}

impl fmt::Display for TrackScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [predicted, truth] = &self.files;
        let [found, real] = self.formats;
        write!(f, "`{predicted}` ({found}) against `{truth}` ({real})")?;
        (self.one_sided.iter()).try_for_each(|class| write!(f, "\n{class}"))?;
        self.tracks.iter().try_for_each(|s| write!(f, "\n\n{s}"))?;
        write!(f, "\n\n{}", legend(&self.tracks).join("\n"))
    }
}

/// Scores a file of tracks against another.
pub fn score(arguments: &Score, predicted: &Path, truth: &Path) -> anyhow::Result<TrackScores> {
    let table = |path: &Path, other: &Path, wind_column: Option<String>| {
        // Only our own tables tell their calendar by the masks beside them: files beside another tool's may be
        // unrelated.
        let ours = format_of(path)? == Some(TrackFormat::SquallEvents);
        let both = [path, other];
        let options = ReadOptions {
            calendar: arguments.calendar_of(if ours { both.as_slice() } else { &[] }),
            columns: arguments.columns.clone(),
            wind_column,
        };
        let mut table = read(path, &options)?;
        if ours {
            table.covers = covered(path).or(table.covers);
            call_as_in_source(&mut table, path, options.calendar);
        }
        for fact in &table.facts {
            tracing::info!("{}: {fact}", path.display());
        }
        for note in &table.notes {
            tracing::warn!("{}: {note}", path.display());
        }
        anyhow::Ok(table)
    };
    let wind_column = arguments.wind_column.clone();
    let files = [predicted, truth].map(|path| path.display().to_string());
    let (predicted, truth) = (
        table(predicted, truth, None)?,
        table(truth, predicted, wind_column)?,
    );
    let has = |table: &TrackTable, class| table.tracks.iter().any(|track| track.class == class);
    let criterion = |class| match (arguments.by_mean_distance, class) {
        (true, _) => Criterion::MEAN_DISTANCE,
        (false, Class::AtmosphericRiver) => Criterion::NEAR_RIVER,
        (false, _) => Criterion::NEAR,
    };
    let scores = Class::TRACKED
        .into_iter()
        .filter(|&class| has(&predicted, class) && has(&truth, class))
        .map(|class| {
            let rules = WorldRules {
                class,
                criterion: criterion(class),
                // Wind thresholds apply to storms, not to rivers.
                min_reference_wind_m_s: (arguments.min_wind)
                    .filter(|_| class != Class::AtmosphericRiver),
                ..WorldRules::default()
            };
            score_against_world(&truth, &predicted, &rules, &Bootstrap::default())
        })
        .collect::<Result<Vec<_>, _>>()?;
    if scores.is_empty() {
        return Err(nothing_in_common(arguments, &predicted, &truth));
    }
    Ok(TrackScores {
        files,
        formats: [predicted.format.name(), truth.format.name()],
        tracks: scores,
        one_sided: (Class::TRACKED.into_iter())
            .filter_map(|class| OneSided::if_one_sided(class, &predicted, &truth))
            .collect(),
    })
}

/// Calls tracks of ours what they are called in the file that they came from, where the table beside their events says
/// it: their numbers mean nothing outside of that table.
fn call_as_in_source(table: &mut TrackTable, events: &Path, calendar: Calendar) {
    let beside = events.with_file_name("tracks.csv");
    if !beside.is_file() {
        return;
    }
    let tracks = match read_tracks(&beside, calendar) {
        Ok(tracks) => tracks.into_iter(),
        Err(error) => {
            tracing::warn!("tracks are called by their numbers: {error}");
            return;
        }
    };
    let called: HashMap<String, (Time, Time, String)> = tracks
        .filter_map(|track| {
            let source_id = track.details.identity.source_id?;
            let number = track.track_id.to_string();
            Some((number, (track.start, track.end, source_id)))
        })
        .collect();
    for track in &mut table.tracks {
        // The table beside may be of other events.
        let ends = track.points.first().zip(track.points.last());
        if let (Some((first, last)), Some((start, end, source_id))) =
            (ends, called.get(&track.name))
            && (first.time, last.time) == (*start, *end)
        {
            track.name.clone_from(source_id);
        }
    }
}

/// Explains why no class is scored: a side without tracks, such as labels of a single time, or different classes.
fn nothing_in_common(
    arguments: &Score,
    predicted: &TrackTable,
    truth: &TrackTable,
) -> anyhow::Error {
    let sides = [
        (&arguments.prediction, predicted),
        (&arguments.truth, truth),
    ];
    if let Some((name, _)) = sides.iter().find(|(_, table)| table.tracks.is_empty()) {
        return Advice::input(
            format!("`{name}` has no tracks"),
            "`squall events` follows the events of masks and boxes, also those of a single time: give the folder that it writes",
        );
    }
    let classes = sides.map(|(name, table)| {
        let has = |class: &Class| table.tracks.iter().any(|track| track.class == *class);
        let found: Vec<&str> = (Class::TRACKED.into_iter().filter(|class| has(class)))
            .map(|class| class.name())
            .collect();
        format!("`{name}` has tracks of {}", found.join(" and "))
    });
    Advice::input(
        format!("no class is tracked by both: {}", classes.join(", ")),
        "tracks of other tools are cyclones, unless the name of the file has that of another class, such as `atmospheric_river`",
    )
}

/// The time range of an event table, if the statistics next to it say so: it may end long after its last track.
fn covered(table: &Path) -> Option<(Time, Time)> {
    let folder = table.parent().unwrap_or(Path::new(""));
    if !folder.join("statistics.nc").is_file() {
        return None;
    }
    let coverage = Coverage::read(folder, None).inspect_err(|error| {
        tracing::warn!("the time from the first row to the last counts: {error}")
    });
    coverage.ok()?.span()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::classify;
    use squall_data::archive::on_library_thread;

    #[test]
    fn the_calendar_is_that_of_what_lies_beside_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("events.csv");
        let rows: String = (28..=30)
            .map(|day| format!("tropical_cyclone,2000-02-{day}T00:00:00,150.0,15.0,1\n"))
            .collect();
        std::fs::write(
            &table,
            format!("class,time,lon_deg,lat_deg,track_id\n{rows}"),
        )
        .unwrap();
        let name = table.display().to_string();
        let mut arguments = Score::of_masks(name.clone(), name, None);
        let error = score(&arguments, &table, &table).unwrap_err();
        assert!(error.to_string().contains("calendar standard"), "{error}");
        let hint = classify(&error).1.unwrap();
        assert!(hint.contains("--calendar"), "{hint}");
        let statistics = || -> Result<(), netcdf::Error> {
            let mut file = netcdf::create(folder.path().join("statistics.nc"))?;
            file.add_attribute("calendar_of_the_data", "360_day")?;
            Ok(())
        };
        on_library_thread(statistics).unwrap();
        let found = score(&arguments, &table, &table).unwrap();
        assert_eq!(found.tracks.len(), 1);
        // What is asked for comes first.
        arguments.calendar = Some(Calendar::NoLeap);
        let error = score(&arguments, &table, &table).unwrap_err();
        assert!(error.to_string().contains("calendar noleap"), "{error}");
    }

    /// Its storms had been missed in silence where another class was scored.
    #[test]
    fn a_class_that_one_side_alone_tracks_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, classes: &[&str]| {
            let path = folder.path().join(name);
            let rows: String = (classes.iter().enumerate())
                .map(|(id, class)| format!("{class},2000-02-01T00:00:00,150.0,15.0,{id}\n"))
                .collect();
            let header = "class,time,lon_deg,lat_deg,track_id";
            std::fs::write(&path, format!("{header}\n{rows}")).unwrap();
            path
        };
        let [river, cyclone] = ["atmospheric_river", "tropical_cyclone"];
        let predicted = write("predicted.csv", &[river]);
        let truth = write("truth.csv", &[river, cyclone, cyclone]);
        let sides = [&predicted, &truth].map(|path| path.display().to_string());
        let [prediction, reference] = sides;
        let arguments = Score::of_masks(prediction, reference, None);
        let found = score(&arguments, &predicted, &truth).unwrap();
        assert_eq!(found.tracks.len(), 1);
        let told = "\ntropical_cyclone tracks: not scored, 0 are predicted and 2 true\n";
        assert!(found.to_string().contains(told), "{found}");
        let found = score(&arguments, &truth, &truth).unwrap();
        assert!(found.one_sided.is_empty() && found.tracks.len() == 2);
    }

    /// The head named neither side, one class followed the other without a break, and the rest stood below each.
    #[test]
    fn scores_name_the_files_and_keep_classes_apart() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("events.csv");
        let rows = [("tropical_cyclone", 1), ("atmospheric_river", 2)]
            .map(|(class, track)| format!("{class},2000-02-01T00:00:00,150.0,15.0,{track}\n"));
        let header = "class,time,lon_deg,lat_deg,track_id";
        std::fs::write(&table, format!("{header}\n{}", rows.concat())).unwrap();
        let name = table.display().to_string();
        let arguments = Score::of_masks(name.clone(), name.clone(), None);
        let text = score(&arguments, &table, &table).unwrap().to_string();
        let head = format!("`{name}` (Squall events) against `{name}` (Squall events)\n\n");
        assert!(text.starts_with(&head), "{text}");
        assert!(text.contains("\n\natmospheric_river tracks from"), "{text}");
        for once in ["\n\nchance: ", "\nrows: ", "\ntracks beside masks"] {
            assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
        }
    }

    /// A storm before the first cyclone of a prediction, but after its first river, had been left out.
    #[test]
    fn rows_of_no_track_and_of_other_classes_tell_when_somebody_looked() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, rows: &[&str]| {
            let path = folder.path().join(name);
            let header = "class,time,lon_deg,lat_deg,track_id";
            std::fs::write(&path, format!("{header}\n{}\n", rows.join("\n"))).unwrap();
            path
        };
        let storm = "tropical_cyclone,2000-02-05T00:00:00,150.0,15.0,2";
        let missed = "tropical_cyclone,2000-02-02T00:00:00,200.0,15.0,1";
        let truth = write("truth.csv", &[missed, storm]);
        for river in [
            "atmospheric_river,2000-02-01T00:00:00,10.0,45.0,",
            "atmospheric_river,2000-02-01T00:00:00,10.0,45.0,1",
        ] {
            let predicted = write("predicted.csv", &[river, storm]);
            let sides = [&predicted, &truth].map(|path| path.display().to_string());
            let [prediction, reference] = sides;
            let arguments = Score::of_masks(prediction, reference, None);
            let found = score(&arguments, &predicted, &truth).unwrap();
            let total = &found.tracks[0].total;
            assert_eq!((total.reference_tracks, total.hits), (2, 1), "{found}");
        }
    }

    /// A storm is one of 28 m/s by the means of one minute and not by those of ten.
    #[test]
    fn storms_of_the_truth_have_the_winds_that_are_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let (best, events) = (
            folder.path().join("best.csv"),
            folder.path().join("events.csv"),
        );
        let head = "SID,ISO_TIME,LAT,LON,WMO_WIND,USA_WIND";
        let storms = [("weak", 15.0, 50, 60), ("strong", 25.0, 70, 80)];
        let rows = storms.map(|(id, lat, wmo, usa)| {
            format!("{id},2000-08-01 00:00:00,{lat},150.0,{wmo},{usa}\n")
        });
        std::fs::write(&best, format!("{head}\n{}", rows.concat())).unwrap();
        let rows = storms.map(|(id, lat, ..)| {
            let id = u8::from(id == "strong");
            format!("tropical_cyclone,2000-08-01T00:00:00,150.0,{lat},{id}\n")
        });
        let head = "class,time,lon_deg,lat_deg,track_id";
        std::fs::write(&events, format!("{head}\n{}", rows.concat())).unwrap();
        let names = [&events, &best].map(|path| path.display().to_string());
        let [prediction, truth] = names;
        let mut arguments = Score::of_masks(prediction, truth, None);
        arguments.min_wind = Some(28.0);
        for (column, storms) in [("usa_wind", 2), ("wmo_wind", 1)] {
            arguments.wind_column = Some(column.into());
            let found = score(&arguments, &events, &best).unwrap();
            assert_eq!(found.tracks[0].total.reference_tracks, storms, "{column}");
        }
        let error = score(&arguments, &best, &events).unwrap_err();
        assert!(error.to_string().contains("Squall events"), "{error}");
        assert!(classify(&error).1.unwrap().contains("--wind-column"));
    }

    /// No test had --by-mean-distance: tracks would have been matched by their nearest points all the same.
    #[test]
    fn tracks_are_matched_as_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, class: &str, offsets: [f64; 3]| {
            let path = folder.path().join(name);
            let rows = offsets.iter().enumerate().map(|(day, offset)| {
                let lon = 150.0 + offset;
                format!("{class},2000-02-0{}T00:00:00,{lon},15.0,1\n", day + 1)
            });
            let rows: String = rows.collect();
            let header = "class,time,lon_deg,lat_deg,track_id";
            std::fs::write(&path, format!("{header}\n{rows}")).unwrap();
            path
        };
        let [cyclone, river] = ["tropical_cyclone", "atmospheric_river"];
        // A degree is 107 km here. Near: once within 300 km, rivers within 1000 km; by the mean: within 556 km.
        for (class, offsets, near, by_mean) in [
            (cyclone, [0.0, 30.0, 30.0], 1, 0),
            (cyclone, [4.0, 4.0, 4.0], 0, 1),
            (river, [4.0, 4.0, 4.0], 1, 1),
            (river, [8.0, 8.0, 8.0], 1, 0),
            (river, [12.0, 12.0, 12.0], 0, 0),
        ] {
            let truth = write("truth.csv", class, [0.0; 3]);
            let predicted = write("predicted.csv", class, offsets);
            let names = [&predicted, &truth].map(|path| path.display().to_string());
            let [prediction, reference] = names;
            let mut arguments = Score::of_masks(prediction, reference, None);
            for (by_mean_distance, expected) in [(false, near), (true, by_mean)] {
                arguments.by_mean_distance = by_mean_distance;
                let found = score(&arguments, &predicted, &truth).unwrap();
                let hits = found.tracks[0].total.hits;
                assert_eq!(hits, expected, "{class} {offsets:?} {by_mean_distance}");
            }
        }
    }

    #[test]
    fn sides_without_a_class_in_common_say_what_each_has() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, class: &str, track: &str| {
            let path = folder.path().join(name);
            let rows = format!("{class},2000-02-01T00:00:00,150.0,15.0,{track}\n");
            std::fs::write(
                &path,
                format!("class,time,lon_deg,lat_deg,track_id\n{rows}"),
            )
            .unwrap();
            path
        };
        let cyclones = write("cyclones.csv", "tropical_cyclone", "1");
        let rivers = write("rivers.csv", "atmospheric_river", "1");
        let single = write("single.csv", "tropical_cyclone", "");
        for (predicted, words, hint) in [
            (&rivers, "tracks of atmospheric_river", "name of the file"),
            (&single, "single.csv` has no tracks", "`squall events`"),
        ] {
            let names = [predicted, &cyclones].map(|path| path.display().to_string());
            let [prediction, truth] = names;
            let arguments = Score::of_masks(prediction, truth, None);
            let error = score(&arguments, predicted, &cyclones).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert!(classify(&error).1.unwrap().contains(hint), "{error}");
        }
    }
}
