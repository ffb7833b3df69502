//! Fields that events are described by.

use super::Objects;
use squall_climate::stream::hours_of;
use squall_data::{Archive, DataError, Snapshot, Time, Variable};

/// Fields that events are described by, as far as the input has them.
const DESCRIBING: [Variable; 7] = [
    Variable::Tmq,
    Variable::Ubot,
    Variable::Vbot,
    Variable::U850,
    Variable::V850,
    Variable::Psl,
    Variable::Prect,
];

/// Fields at the times of events.
pub struct Fields {
    pub archive: Archive,
    pub variables: Vec<Variable>,
    /// The times of events at which there are fields, where these are not all, and the usual step between them, hours.
    common: Option<(Vec<Time>, f64)>,
}

impl Fields {
    /// Refuses fields of another grid or calendar, or of none of the times; warns of what is lacking.
    pub fn new(archive: Archive, objects: &Objects, name: &str) -> anyhow::Result<Self> {
        let differs = |what, expected: String, found: String| DataError::Mismatch {
            what,
            path: name.into(),
            expected,
            found,
        };
        if archive.grid().hash() != objects.grid().hash() {
            let (expected, found) = (objects.grid().describe(), archive.grid().describe());
            return Err(differs("grid of the fields", expected, found).into());
        }
        if archive.calendar() != objects.calendar() {
            let (expected, found) = (
                objects.calendar().to_string(),
                archive.calendar().to_string(),
            );
            return Err(differs("calendar of the fields", expected, found).into());
        }
        let times = objects.times();
        let lacking = times.iter().filter(|time| archive.find(**time).is_none());
        let first = lacking.clone().next();
        let missing = lacking.count();
        if missing == times.len() {
            let span = |times: &[Time]| match times {
                [first, .., last] => format!("{} from {first} to {last}", times.len()),
                _ => times.iter().map(Time::to_string).collect(),
            };
            let expected = format!("some of the events' times ({})", span(times));
            return Err(differs("times of the fields", expected, span(archive.times())).into());
        }
        if let Some(first) = first {
            tracing::warn!(
                "there are no fields at {missing} of {} times, the first {first}: their columns stay blank there",
                times.len()
            );
        }
        let (variables, absent): (Vec<Variable>, Vec<Variable>) = DESCRIBING
            .into_iter()
            .partition(|variable| archive.available().contains(variable));
        if !absent.is_empty() {
            let names: Vec<&str> = absent.iter().map(|v| v.name()).collect();
            tracing::warn!(
                "no {} in the fields: their columns stay blank",
                names.join(", ")
            );
        }
        let has_fields = |time: &Time| archive.find(*time).is_some();
        let common = (missing > 0).then(|| times.iter().copied().filter(has_fields).collect());
        let common = common.and_then(|common: Vec<Time>| {
            let usual = usual_step_hours(&common)?;
            Some((common, usual))
        });
        Ok(Self {
            archive,
            variables,
            common,
        })
    }

    /// Hours that the fields of a time stand for, where these are not those of the events; no more than their usual
    /// step, which one time between two holes has not.
    pub fn hours(&self, time: Time) -> Option<f64> {
        let (common, usual) = self.common.as_ref()?;
        let place = common.binary_search_by_key(&0, |at| at.seconds_since(time));
        Some(hours_of(common, place.ok()?).min(*usual))
    }

    /// The fields at a time, if there are any.
    pub fn at(&self, time: Time) -> anyhow::Result<Option<Snapshot>> {
        let Some(index) = self.archive.find(time) else {
            return Ok(None);
        };
        let snapshot = self.archive.read(index, &self.variables)?;
        snapshot.check_means()?;
        Ok(Some(snapshot))
    }
}

/// The median step of an axis, hours; none of a single time.
fn usual_step_hours(times: &[Time]) -> Option<f64> {
    let steps = times.windows(2).map(|pair| pair[1].seconds_since(pair[0]));
    let mut steps: Vec<i64> = steps.collect();
    steps.sort_unstable();
    let middle = steps.get(steps.len() / 2)?;
    Some(*middle as f64 / 3600.0)
}
