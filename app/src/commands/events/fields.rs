//! Fields that events are described by.

use super::Objects;
use crate::input;
use crate::missing::Missing;
use crate::skipped::Skipped;
use ndarray::Array2;
use squall_climate::detect::{DetectFields, FieldRequest, TransportSource};
use squall_climate::stream::hours_of;
use squall_data::{Archive, Class, DataError, Snapshot, Time, Variable};

/// Fields that events are described by, as far as the input has them.
pub const DESCRIBING: [Variable; 7] = [
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
    /// The times that events and fields have in common, if not all times of events have fields.
    common: Option<Vec<Time>>,
    /// Number of times of events without fields.
    pub absent: usize,
    missing: Missing,
    unread: Skipped,
    /// The source of vapour transport, the same at all times: ranking rivers by two different quantities would be
    /// meaningless.
    transport: TransportSource,
}

/// The fields at one time.
pub struct Known {
    pub snapshot: Snapshot,
    /// Magnitude of the vapour transport; `None` if only its stand-in is available.
    pub transport: Option<Array2<f32>>,
}

impl Fields {
    /// Rejects fields on another grid or calendar, or without any of the times. The rank that `says` logs what is
    /// missing. With `skip_bad`, the events of a time with unreadable fields are described without them.
    pub fn new(
        archive: Archive,
        objects: &Objects,
        name: &str,
        skip_bad: bool,
        says: bool,
    ) -> anyhow::Result<Self> {
        let times = objects.times();
        let has_fields = |time: &Time| archive.find(*time).is_some();
        let common: Vec<Time> = times.iter().copied().filter(has_fields).collect();
        let absent = times.len() - common.len();
        check_fit(&archive, objects, name, &common)?;
        let has = |variable: &Variable| archive.available().contains(variable);
        let variables: Vec<Variable> = DESCRIBING.into_iter().filter(has).collect();
        let transport = TransportSource::of_series(&archive);
        if says {
            if let Some(first) = times.iter().find(|time| !has_fields(time)) {
                tracing::warn!(
                    "there are no fields at {absent} of {} times, the first {first}: their columns stay blank there, and paths and speeds of cyclones are from one of the other times to the next",
                    times.len()
                );
            }
            if objects.classes().contains(&Class::AtmosphericRiver) {
                // Where in its box a river lies is unknown.
                let are_ranked = matches!(objects, Objects::Masks(_));
                say_ranks(&archive, ranked_by(transport, &variables), are_ranked);
            }
            for absence in absences(&variables, transport != TransportSource::Proxy) {
                tracing::warn!("{absence}");
            }
        }
        Ok(Self {
            archive,
            variables,
            // One alone has no step of its own.
            common: (absent > 0 && common.len() > 1).then_some(common),
            absent,
            missing: Missing::default(),
            unread: Skipped::new(skip_bad, "is described without fields"),
            transport,
        })
    }

    /// The quantity that rivers are ranked by; `None` if not even the stand-in for vapour transport is available.
    pub fn ranked_by(&self) -> Option<TransportSource> {
        ranked_by(self.transport, &self.variables)
    }

    /// Number of planes read per time, and how many of them are kept until its events are found.
    pub fn planes(&self) -> [u64; 2] {
        let channels = self.variables.len() as u64;
        match self.transport {
            // Both components of the transport, and its magnitude.
            TransportSource::File => [channels + 3; 2],
            // Humidity and both wind components at each level.
            TransportSource::Levels => {
                let levels = ["Q", "U", "V"].map(|name| {
                    let found = self.archive.field_on_levels(0, name);
                    found.map_or(0, |field| field.levels_pa.len() as u64)
                });
                [channels + levels.iter().sum::<u64>(), channels + 3]
            }
            TransportSource::Proxy => [channels; 2],
        }
    }

    /// Where `max_wind_m_s` is measured; `None` without wind.
    pub fn wind(&self) -> Option<&'static str> {
        match wind_of(&self.variables)? {
            (Variable::Ubot, _) => Some("lowest model level, or 10 m where the files have that"),
            _ => Some("850 hPa"),
        }
    }

    /// Hours represented by the fields of a time, if they differ from those of the events.
    pub fn hours(&self, time: Time) -> Option<f64> {
        let common = self.common.as_ref()?;
        let place = common.binary_search_by_key(&0, |at| at.seconds_since(time));
        Some(hours_of(common, place.ok()?))
    }

    /// Whether there are fields at a time.
    pub fn has(&self, time: Time) -> bool {
        self.archive.find(time).is_some()
    }

    /// The fields at a time, if they exist and are readable.
    pub fn at(&self, time: Time) -> anyhow::Result<Option<Known>> {
        let Some(index) = self.archive.find(time) else {
            return Ok(None);
        };
        let request = FieldRequest {
            channels: self.variables.clone(),
            transport: self.transport != TransportSource::Proxy,
            upper_thickness: None,
        };
        let read = DetectFields::read(&self.archive, index, &request);
        let read = read.and_then(|read| self.check_transport(read));
        let Some(mut read) = self.unread.or_none(time, read)? else {
            return Ok(None);
        };
        // The same instant, although the fields may use the other Gregorian calendar.
        read.snapshot.time = time;
        self.missing.note(&read.snapshot);
        Ok(Some(Known {
            snapshot: read.snapshot,
            transport: read.transport.map(|transport| transport.magnitude),
        }))
    }

    /// Rejects a time whose transport source differs from the others': its rivers would be ranked by the stand-in.
    fn check_transport(&self, read: DetectFields) -> Result<DetectFields, DataError> {
        let found = (read.transport.as_ref()).map_or(TransportSource::Proxy, |found| found.source);
        if found == self.transport {
            return Ok(read);
        }
        let reason = format!("it does not give {}", self.transport.describe());
        Err(DataError::unreadable(&read.snapshot.source.0, reason))
    }

    /// How much of them was missing.
    pub fn missing(&self) -> &Missing {
        &self.missing
    }
}

/// The quantity that rivers are ranked by, given the source of transport; `None` if the stand-in is needed but lacks a
/// channel.
fn ranked_by(transport: TransportSource, variables: &[Variable]) -> Option<TransportSource> {
    let stand_in = [Variable::Tmq, Variable::U850, Variable::V850];
    let is_known = transport != TransportSource::Proxy
        || stand_in.iter().all(|channel| variables.contains(channel));
    is_known.then_some(transport)
}

/// Logs the quantity that rivers are ranked by if they `are_ranked`, and warns of its limitations.
fn say_ranks(archive: &Archive, ranked_by: Option<TransportSource>, are_ranked: bool) {
    if let Some(known @ (TransportSource::File | TransportSource::Levels)) = ranked_by {
        if are_ranked {
            tracing::info!("rivers are ranked by {}", known.describe());
        }
        if known == TransportSource::Levels && !archive.available().contains(&Variable::Ps) {
            tracing::warn!(
                "no PS in the fields: vapour transport is summed over all levels that have values, also below the ground"
            );
        }
        return;
    }
    let count = archive.times().len();
    let offers =
        |&index: &usize| TransportSource::offered(archive, index) != TransportSource::Proxy;
    match (0..count).filter(offers).count() {
        0 => {}
        all if all == count => tracing::warn!(
            "vapour transport is not of one kind, or not of the same levels, at all times: max_ivt_kg_m_s stays blank"
        ),
        some => tracing::warn!(
            "{some} of {count} times have vapour transport, or humidity and wind on levels, the others have not: max_ivt_kg_m_s stays blank"
        ),
    }
    if ranked_by.is_some() && are_ranked {
        tracing::info!(
            "rivers are ranked by a proxy, {}: one place in four gets another rank than by the integral (docs/events.md, \"Scale of rivers\")",
            TransportSource::Proxy.describe()
        );
    }
}

/// Rejects fields on another grid or calendar than the events, or without any of their times; `common` are the times of
/// both.
fn check_fit(
    archive: &Archive,
    objects: &Objects,
    name: &str,
    common: &[Time],
) -> Result<(), DataError> {
    input::same_grid("grid of the fields", name, archive.grid(), objects.grid())?;
    let times = objects.times();
    let differs = |what, expected: String, found: String| {
        Err(DataError::mismatch(what, name, expected, found))
    };
    if !input::are_of_one_calendar(times, archive.times()) {
        let (expected, found) = (objects.calendar(), archive.calendar());
        return differs(
            "calendar of the fields",
            expected.to_string(),
            found.to_string(),
        );
    }
    if common.is_empty() {
        let expected = format!("some of the events' times ({})", span(times));
        return differs("times of the fields", expected, span(archive.times()));
    }
    Ok(())
}

/// Describes the number of times and their range.
fn span(times: &[Time]) -> String {
    match times {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => format!("{} from {first} to {last}", times.len()),
    }
}

/// Messages about times without fields at the end of a run: of all `times`, `unread` had unreadable fields and `absent`
/// have none. More is said if tracks are selected by their wind.
pub fn without_fields(
    [unread, absent]: [usize; 2],
    times: usize,
    are_chosen_by_wind: bool,
) -> Vec<String> {
    let mut said = Vec::new();
    if unread > 0 {
        said.push(format!(
            "the fields of {unread} of {times} times could not be read: their columns stay blank there, and categories, cyclone energy and rain leave these times out"
        ));
    }
    let without = unread + absent;
    if are_chosen_by_wind && without > 0 {
        said.push(format!(
            "no wind is known at {without} of {times} times: tracks may be missing that reached the least peak wind (--min-wind, or min_peak_wind_m_s of --tracking) then"
        ));
    }
    said
}

/// A message about a run whose fields have no pressure, which would tell the centres of cyclones, or that has no fields
/// at all (`None`).
pub fn without_pressure(has_pressure: Option<bool>, has_cyclones: bool) -> Option<String> {
    let lacking = match has_pressure {
        Some(true) => return None,
        Some(false) => "no PSL in the fields",
        None => "no --fields",
    };
    let mut said = Vec::new();
    if has_cyclones {
        said.push(
            "a cyclone's centre is the middle of its area or box instead of its lowest pressure, so that tracks of cyclones differ in number and lifetime from those with pressure",
        );
    }
    if has_pressure.is_none() {
        said.push("all columns that need fields are blank");
    }
    (!said.is_empty()).then(|| format!("{lacking}: {}", said.join("; ")))
}

/// The wind components used for events.
fn wind_of(variables: &[Variable]) -> Option<(Variable, Variable)> {
    let pairs = [
        (Variable::Ubot, Variable::Vbot),
        (Variable::U850, Variable::V850),
    ];
    let known = |(u, v): &(Variable, Variable)| variables.contains(u) && variables.contains(v);
    pairs.into_iter().find(known)
}

/// Describes missing variables and the consequences, one sentence each.
fn absences(variables: &[Variable], has_transport: bool) -> Vec<String> {
    let lacking = |wanted: &[Variable]| -> Option<String> {
        let absent = wanted.iter().filter(|v| !variables.contains(v));
        let names: Vec<&str> = absent.map(|v| v.name()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    use Variable::{Prect, Psl, Tmq, U850, Ubot, V850, Vbot};
    let mut said = Vec::new();
    if let Some(names) = lacking(&[Psl, Tmq, Prect]) {
        said.push(format!(
            "no {names} in the fields: their columns stay blank"
        ));
    }
    match (lacking(&[Ubot, Vbot]), wind_of(variables)) {
        (Some(names), Some(_)) => said.push(format!(
            "no {names} in the fields: max_wind_m_s is the wind at 850 hPa, which is higher than at the ground, and with it categories and cyclone energy"
        )),
        (Some(names), None) => said.push(format!("no {names} in the fields: max_wind_m_s stays blank")),
        (None, _) => {}
    }
    if let Some(names) = lacking(&[U850, V850]).filter(|_| !has_transport) {
        said.push(format!(
            "no {names} in the fields: vapour transport stays blank"
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_fields_are_told_and_more_where_wind_chooses() {
        assert!(without_fields([0, 0], 24, true).is_empty());
        // Of times that the fields do not have the run says so when it begins.
        assert!(without_fields([0, 3], 24, false).is_empty());
        let said = without_fields([8, 3], 24, false);
        assert!(
            said.len() == 1 && said[0].starts_with("the fields of 8 of 24 times could"),
            "{said:?}"
        );
        let said = without_fields([8, 3], 24, true);
        assert!(
            said.len() == 2 && said[1].starts_with("no wind is known at 11 of 24 times"),
            "{said:?}"
        );
        assert_eq!(without_fields([0, 3], 24, true).len(), 1);
    }

    /// 2031 cyclones were on 87 tracks without fields and on 66 with them, and nobody heard of it.
    #[test]
    fn centres_without_pressure_are_told_where_there_are_cyclones() {
        assert_eq!(without_pressure(Some(true), true), None);
        assert_eq!(without_pressure(Some(false), false), None);
        let said = without_pressure(Some(false), true).expect("a message");
        assert!(
            said.starts_with("no PSL in the fields: a cyclone's centre is the middle")
                && said.contains("differ in number and lifetime")
                && !said.contains("blank"),
            "{said}"
        );
        let said = without_pressure(None, true).expect("a message");
        assert!(
            said.starts_with("no --fields: a cyclone's centre") && said.ends_with("are blank"),
            "{said}"
        );
        let said = without_pressure(None, false).expect("a message");
        assert_eq!(said, "no --fields: all columns that need fields are blank");
    }

    #[test]
    fn what_stands_in_for_the_wind_is_said() {
        use Variable::{Prect, Psl, Tmq, U850, Ubot, V850, Vbot};
        assert!(absences(&DESCRIBING, false).is_empty());
        let said = absences(&[Psl, Tmq, Prect, U850, V850, Ubot], false);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with("no VBOT in") && said[0].contains("at 850 hPa"),
            "{said:?}"
        );
        let said = absences(&[Psl, Ubot, U850], false);
        assert!(
            said[0].starts_with("no TMQ, PRECT in the fields: their"),
            "{said:?}"
        );
        assert!(
            said[1].starts_with("no VBOT in the fields: max_wind_m_s stays"),
            "{said:?}"
        );
        assert!(
            said[2].starts_with("no V850 in the fields: vapour"),
            "{said:?}"
        );
        assert_eq!(absences(&[Psl, Tmq, Prect, Ubot, Vbot], false).len(), 1);
        // The files have the transport itself.
        assert!(absences(&[Psl, Tmq, Prect, Ubot, Vbot], true).is_empty());
    }
}
