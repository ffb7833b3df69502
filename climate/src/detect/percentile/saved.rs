//! The thresholds of one climate, saved for other runs, so that rivers of two climates can be compared by the same
//! thresholds.
//!
//! # Source
//! Payne et al. 2020 (Nat. Rev. Earth Environ. 1, 143-157) and O'Brien et al. 2022 (J. Geophys. Res. Atmos. 127,
//! e2021JD036013) on how changes of rivers depend on whether thresholds are those of the present or of each climate.

use super::climatology::MonthlyThresholds;
use super::month_of;
use super::record::MoistureRecord;
use super::thresholds::{Moisture, PercentileThresholds};
use crate::compare::words_of_months;
use crate::detect::transport::TransportSource;
use crate::error::{ClimateError, Result};
use squall_data::{LatLonGrid, Time, wire};
use std::path::Path;
use std::sync::Arc;

/// The data from which a climatology was computed, as text for files and users.
#[derive(Debug, Clone, PartialEq)]
pub struct ClimateOrigin {
    /// The files.
    pub input: String,
    /// The first and the last time.
    pub span: [String; 2],
    /// The calendar, by its CF name.
    pub calendar: String,
    /// Source of the transport, by [`TransportSource::describe`]; `None` for column water.
    pub transport: Option<String>,
    /// How moisture was computed; `None` if not recorded.
    pub moisture: Option<MoistureRecord>,
}

/// Thresholds of moisture in rivers of one climate, with the metadata to check whether they apply to another run.
///
/// They apply on their own grid only. A run with its own climatology, saved and read back, therefore gives the same
/// masks bit for bit.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedClimatology {
    thresholds: Arc<MonthlyThresholds>,
    /// Only its [`parameters`] are the climatology's; other fields are unused.
    rules: PercentileThresholds,
    grid: Arc<LatLonGrid>,
    origin: ClimateOrigin,
    hash: String,
}

impl SavedClimatology {
    /// Creates the climatology from thresholds that these rules gave on this grid.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if the thresholds cannot be serialised, which would be a bug.
    pub fn new(
        thresholds: Arc<MonthlyThresholds>,
        rules: &PercentileThresholds,
        grid: Arc<LatLonGrid>,
        origin: ClimateOrigin,
    ) -> Result<Self> {
        let planes: Vec<(u8, Vec<f32>)> = thresholds
            .months()
            .map(|(month, plane)| (month, plane.iter().copied().collect()))
            .collect();
        let hash = wire::hash(&(parameters(rules), thresholds.block, planes))?;
        let mut its = PercentileThresholds::default();
        copy_parameters(rules, &mut its);
        Ok(Self {
            thresholds,
            rules: its,
            grid,
            origin,
            hash,
        })
    }

    /// The thresholds of moisture.
    pub fn thresholds(&self) -> &Arc<MonthlyThresholds> {
        &self.thresholds
    }

    /// The rules from which it was computed.
    pub(super) fn rules(&self) -> &PercentileThresholds {
        &self.rules
    }

    /// The grid.
    pub(super) fn grid(&self) -> &LatLonGrid {
        &self.grid
    }

    /// The data from which it was computed.
    pub(super) fn origin(&self) -> &ClimateOrigin {
        &self.origin
    }

    /// A one-line description with a hash of the thresholds that identifies it.
    pub fn describe(&self) -> String {
        let ClimateOrigin {
            input,
            span: [first, last],
            calendar,
            ..
        } = &self.origin;
        let times: u64 = self.thresholds.times.iter().copied().map(u64::from).sum();
        format!(
            "{}: {times} times from {first} to {last} ({calendar}) of {input}",
            self.hash
        )
    }

    /// The first parameter that the user has set (`is_set`) to another value than the climatology's: its key, the
    /// climatology's value and the user's.
    pub fn contradiction(
        &self,
        own: &PercentileThresholds,
        is_set: impl Fn(&str) -> bool,
    ) -> Option<(&'static str, String, String)> {
        let its = parameters(&self.rules).into_iter();
        let differing = its.zip(parameters_for(own, self.rules.moisture));
        differing
            .map(|((key, its), (_, own))| (key, its, own))
            .find(|(key, its, own)| its != own && is_set(key))
    }

    /// Copies its parameters into `rules`: moisture, percentile, floor, months around each month, and block size.
    pub fn rule(&self, rules: &mut PercentileThresholds) {
        copy_parameters(&self.rules, rules);
    }

    /// Rejects fields on another grid, or in months without thresholds; `path` is the climatology's file.
    ///
    /// # Errors
    /// [`ClimateError::Climatology`].
    pub fn check(&self, path: &Path, grid: &LatLonGrid, times: &[Time]) -> Result<()> {
        if !self.grid.same_as(grid) {
            let expected = format!("{}, as the fields have", grid.describe());
            return Err(refused(path, "grid", expected, self.grid.describe()));
        }
        let has: Vec<i64> = (self.thresholds.months().map(|(month, _)| i64::from(month))).collect();
        let mut lacking: Vec<i64> = (times.iter().map(|time| i64::from(month_of(*time))))
            .filter(|month| !has.contains(month))
            .collect();
        lacking.sort_unstable();
        lacking.dedup();
        if lacking.is_empty() {
            return Ok(());
        }
        let expected = format!("{}, as the fields have", words_of_months(&lacking));
        Err(refused(path, "months", expected, words_of_months(&has)))
    }

    /// Rejects fields whose transport comes from another source, because thresholds only apply to the source they were
    /// computed from.
    ///
    /// # Errors
    /// [`ClimateError::Climatology`].
    pub fn check_transport(&self, path: &Path, source: TransportSource) -> Result<()> {
        match &self.origin.transport {
            Some(found) if found != source.describe() => {
                let expected = format!("{}, as the fields have", source.describe());
                Err(refused(path, "the moisture that moves", expected, found))
            }
            _ => Ok(()),
        }
    }

    /// Rejects fields whose moisture is computed in another way or over other levels. Returns a warning if this cannot
    /// be checked, or if the variables have other names.
    ///
    /// # Errors
    /// [`ClimateError::Climatology`].
    pub fn check_moisture(&self, path: &Path, own: &MoistureRecord) -> Result<Option<String>> {
        let path_text = path.display();
        let Some(its) = &self.origin.moisture else {
            return Ok(Some(format!(
                "the climatology `{path_text}` does not say from which variables and levels its moisture was computed: \
                 whether that is as here ({}, from {}) cannot be checked; label its run anew to have it noted",
                own.computation, own.variables
            )));
        };
        if let Some((what, expected, found)) = own.difference(its) {
            let expected = format!("{expected}, as the fields have");
            return Err(refused(path, what, expected, found));
        }
        let has_other_names = own.variables != its.variables;
        Ok(has_other_names.then(|| {
            format!(
                "moisture is computed from {} here, from {} in the climatology `{path_text}`: percentiles of one hold for \
                 the other only if both are the same quantities",
                own.variables, its.variables
            )
        }))
    }
}

/// The error for a climatology that cannot be used.
pub(super) fn refused(
    path: &Path,
    what: impl Into<String>,
    expected: impl Into<String>,
    found: impl ToString,
) -> ClimateError {
    ClimateError::Climatology {
        path: path.into(),
        what: what.into(),
        expected: expected.into(),
        found: found.to_string(),
    }
}

/// Copies the [`parameters`] from `from` to `to`.
fn copy_parameters(from: &PercentileThresholds, to: &mut PercentileThresholds) {
    to.moisture = from.moisture;
    to.percentile = from.percentile;
    *to.floor_mut() = from.floor();
    to.window_months = from.window_months;
    to.climatology_spacing_deg = from.climatology_spacing_deg;
}

/// The parameters that determine the thresholds of a climate, with their keys.
fn parameters(rules: &PercentileThresholds) -> [(&'static str, String); 5] {
    parameters_for(rules, rules.moisture)
}

/// The same parameters with the floor for `moisture`.
fn parameters_for(rules: &PercentileThresholds, moisture: Moisture) -> [(&'static str, String); 5] {
    let of_moisture = PercentileThresholds {
        moisture,
        ..rules.clone()
    };
    [
        ("moisture", rules.moisture.name().into()),
        ("percentile", rules.percentile.to_string()),
        (moisture.floor_key(), of_moisture.floor().to_string()),
        ("window_months", rules.window_months.to_string()),
        (
            "climatology_spacing_deg",
            rules.climatology_spacing_deg.to_string(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::percentile::TransportClimatology;
    use ndarray::Array2;
    use squall_data::Calendar;

    /// Moisture on three levels.
    fn moisture() -> MoistureRecord {
        MoistureRecord {
            computation: "a sum".into(),
            levels_pa: vec![50_000.0, 85_000.0, 100_000.0],
            variables: "hus, ua, va".into(),
            units: "1, m s-1, m s-1".into(),
        }
    }

    /// A climatology of August whose thresholds are all 300.
    fn august(rules: &PercentileThresholds, grid: &Arc<LatLonGrid>) -> SavedClimatology {
        let mut climatology = TransportClimatology::new(rules, grid);
        let plane = Array2::from_elem(grid.shape(), 300.0f32);
        climatology.add(8, plane.view()).unwrap();
        let origin = ClimateOrigin {
            input: "a.nc".into(),
            span: ["2000-08-01T00:00:00", "2000-08-02T00:00:00"].map(String::from),
            calendar: "noleap".into(),
            transport: Some(TransportSource::Proxy.describe().into()),
            moisture: Some(moisture()),
        };
        let thresholds = Arc::new(climatology.thresholds(rules).unwrap());
        SavedClimatology::new(thresholds, rules, grid.clone(), origin).unwrap()
    }

    fn rules() -> PercentileThresholds {
        PercentileThresholds {
            min_times: 1,
            ..PercentileThresholds::default()
        }
    }

    #[test]
    fn fields_that_do_not_fit_are_told_what_does() {
        let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
        let climatology = august(&rules(), &grid);
        let path = Path::new("d/percentile_thresholds.nc");
        let time = |month| Time::new(Calendar::NoLeap, 2000, month, 1, 0, 0, 0).unwrap();
        assert!(climatology.check(path, &grid, &[time(8), time(8)]).is_ok());
        let error = climatology.check(path, &grid, &[time(8), time(10), time(9)]);
        let error = error.unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot use the climatology `d/percentile_thresholds.nc`: months: expected September to October, as the \
             fields have, found August"
        );
        let finer = LatLonGrid::global(37, 72).unwrap();
        let error = climatology.check(path, &finer, &[]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("37 x 72") && error.contains("19 x 36"),
            "{error}"
        );
        assert!(
            climatology
                .check_transport(path, TransportSource::Proxy)
                .is_ok()
        );
        let error = climatology.check_transport(path, TransportSource::File);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("as the files have it") && error.contains("850 hPa"),
            "{error}"
        );
    }

    #[test]
    fn its_numbers_rule_unless_a_user_has_set_others() {
        let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
        let its = PercentileThresholds {
            moisture: Moisture::ColumnWater,
            percentile: 90.0,
            min_column_water_kg_m2: 25.0,
            window_months: 1,
            climatology_spacing_deg: 20.0,
            ..rules()
        };
        let climatology = august(&its, &grid);
        let own = PercentileThresholds {
            min_length_km: 1500.0,
            ..PercentileThresholds::default()
        };
        let said = |own: &PercentileThresholds, set: &[&str]| {
            climatology.contradiction(own, |key| set.contains(&key))
        };
        assert_eq!(said(&own, &[]), None);
        // Other parameters are not the climatology's.
        assert_eq!(said(&own, &["min_length_km", "min_transport_kg_m_s"]), None);
        for (key, its, own_number) in [
            ("moisture", "column_water", "transport"),
            ("percentile", "90", "85"),
            ("min_column_water_kg_m2", "25", "20"),
            ("window_months", "1", "2"),
            ("climatology_spacing_deg", "20", "1"),
        ] {
            let expected = Some((key, its.to_string(), own_number.to_string()));
            assert_eq!(said(&own, &[key]), expected);
        }
        let mut ruled = own.clone();
        climatology.rule(&mut ruled);
        assert_eq!(ruled.min_length_km, 1500.0);
        let all = ["moisture", "percentile", "window_months"];
        assert_eq!(said(&ruled, &all), None);
        assert_eq!(parameters(&ruled), parameters(&its));
    }

    #[test]
    fn moisture_of_other_levels_is_refused_and_other_names_are_told() {
        let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
        let mut climatology = august(&rules(), &grid);
        let path = Path::new("d/percentile_thresholds.nc");
        let own = moisture();
        assert_eq!(climatology.check_moisture(path, &own).unwrap(), None);
        // The same level in another unit of pressure; humidity in another unit, which is converted.
        let mut same = own.clone();
        same.levels_pa[1] = 85_000.01;
        same.units = "g kg-1, m s-1, m s-1".into();
        assert_eq!(climatology.check_moisture(path, &same).unwrap(), None);
        let mut renamed = own.clone();
        renamed.variables = "Q, U, V".into();
        let told = climatology.check_moisture(path, &renamed).unwrap().unwrap();
        assert!(
            told.contains("from Q, U, V here, from hus, ua, va in the climatology"),
            "{told}"
        );
        let refused = |own: &MoistureRecord| {
            let error = climatology.check_moisture(path, own);
            error.unwrap_err().to_string()
        };
        let mut fewer = own.clone();
        fewer.levels_pa.remove(0);
        assert_eq!(
            refused(&fewer),
            "cannot use the climatology `d/percentile_thresholds.nc`: the levels that moisture is summed over: expected 2 \
             (850, 1000 hPa), as the fields have, found 3 (500, 850, 1000 hPa)"
        );
        let mut others = own.clone();
        others.levels_pa[0] = 70_000.0;
        assert!(refused(&others).contains("expected 3 (700, 850, 1000 hPa)"));
        let mut otherwise = own.clone();
        otherwise.computation = "a sum down to the ground".into();
        let error = refused(&otherwise);
        assert!(
            error.contains("expected a sum down to the ground, as the fields have, found a sum"),
            "{error}"
        );
        climatology.origin.moisture = None;
        let told = climatology.check_moisture(path, &own).unwrap().unwrap();
        assert!(told.contains("cannot be checked"), "{told}");
    }

    #[test]
    fn two_climates_have_two_names() {
        let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
        let name = |rules: &PercentileThresholds| august(rules, &grid).describe();
        let first = name(&rules());
        assert_eq!(first, name(&rules()));
        assert!(
            first.ends_with(
                ": 1 times from 2000-08-01T00:00:00 to 2000-08-02T00:00:00 (noleap) of a.nc"
            ),
            "{first}"
        );
        let stricter = PercentileThresholds {
            percentile: 90.0,
            ..rules()
        };
        assert_ne!(first, name(&stricter));
    }
}
