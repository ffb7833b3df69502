//! The rules as applied: thresholds in use on a grid, and the members of an ensemble, for attributes of masks and the
//! log.

use super::masks::Masks;
use super::rules::Rules;
use crate::made_by::{self, AT_QUARTER_DEGREE, ENSEMBLE, THRESHOLDS_APPLIED};
use serde::Serialize;
use serde_json::{Map, Value};
use squall_climate::detect::bard::BardThresholds;
use squall_climate::detect::lows::LowsDetector;
use squall_climate::detect::{Detector, DetectorThresholds, WarmCore};
use squall_data::{LatLonGrid, wire};

/// Key of the grid spacing, in km, that thresholds were adapted to.
const ADAPTED_TO: &str = "adapted_to_spacing_km";

/// Adds the thresholds that a detector applies to the attributes of its masks, given the requested ones; also logs
/// them.
pub fn with_applied<'a>(
    masks: Masks<'a>,
    detector: &Detector,
    rules: &Rules,
    grid: &LatLonGrid,
) -> anyhow::Result<Masks<'a>> {
    let masks = match detector {
        Detector::Bard(_) => {
            let ensemble = members(&rules.thresholds.bard)?;
            tracing::info!("bard: {ensemble}");
            if let Some(caution) = made_by::caution_of_percentiles(grid) {
                tracing::warn!("{caution}");
            }
            masks.saying(ENSEMBLE, &ensemble)
        }
        _ => masks,
    };
    let numbers = match detector {
        Detector::Lows(detector) => of_lows(detector, rules.warm_core)?,
        _ => numbers(detector, &rules.thresholds, grid)?,
    };
    let masks = masks.saying(THRESHOLDS_APPLIED, &numbers);
    say(&masks, &numbers);
    Ok(masks)
}

/// The thresholds in use, as JSON.
fn numbers(
    detector: &Detector,
    asked: &DetectorThresholds,
    grid: &LatLonGrid,
) -> anyhow::Result<String> {
    match detector {
        Detector::Deepcam(labeller) => {
            let used = labeller.thresholds();
            on_grid(&asked.deepcam, &used, used.adapt_to_grid, grid)
        }
        Detector::Tempest(detector) => {
            let used = detector.thresholds();
            on_grid(&asked.tempest, used, used.adapt_to_grid, grid)
        }
        Detector::Percentile(_) => Ok(serde_json::to_string(&asked.percentile)?),
        Detector::Bard(_) => of_ensemble(&asked.bard),
        Detector::Lows(detector) => of_lows(detector, None),
    }
}

/// The numbers of lows, and those by which their warm cores are told, if they are.
fn of_lows(detector: &LowsDetector, warm_core: Option<WarmCore>) -> anyhow::Result<String> {
    let mut told = serde_json::to_value(detector.thresholds())?;
    let (by_channels, by_heights) = (detector.core_thresholds(), detector.upper_core_thresholds());
    let core = warm_core.map(|core| match core {
        WarmCore::Substitute => serde_json::json!({
            "max_core_radius_deg": by_channels.max_core_radius_deg,
            "warm_core_fall_k": by_channels.warm_core_fall_k,
            "warm_core_radius_deg": by_channels.warm_core_radius_deg,
            "thickness_fall_m": by_channels.thickness_fall_m,
            "thickness_radius_deg": by_channels.thickness_radius_deg,
        }),
        WarmCore::Z300 | WarmCore::Z250 => serde_json::json!({
            "upper_thickness_fall_m": by_heights.upper_thickness_fall_m,
            "core_radius_deg": by_heights.core_radius_deg,
            "core_search_deg": by_heights.core_search_deg,
        }),
    });
    if let (Value::Object(table), Some(core)) = (&mut told, core) {
        table.insert("core".into(), core);
    }
    Ok(told.to_string())
}

/// Thresholds as they are `used` on a grid, as JSON. Those that were adapted to it also say what they are at a quarter of a
/// degree, for which they are published or were given, and the factor between both.
pub fn on_grid<T: Serialize>(
    asked: &T,
    used: &T,
    is_adapted: bool,
    grid: &LatLonGrid,
) -> anyhow::Result<String> {
    let mut told = beside(&serde_json::to_value(asked)?, serde_json::to_value(used)?);
    if let (Value::Object(table), true) = (&mut told, is_adapted) {
        let spacing_km = (10.0 * grid.spacing_km()).round() / 10.0;
        table.insert(ADAPTED_TO.into(), spacing_km.into());
    }
    Ok(told.to_string())
}

/// The value in use, together with the requested one if they differ.
fn beside(asked: &Value, used: Value) -> Value {
    match (asked, used) {
        (Value::Object(asked), Value::Object(used)) => {
            let parts = used.into_iter().map(|(key, used)| {
                let told = match asked.get(&key) {
                    Some(asked) => beside(asked, used),
                    None => used,
                };
                (key, told)
            });
            Value::Object(parts.collect())
        }
        (asked, used) if *asked == used => used,
        (asked, used) => {
            let factor = match (asked.as_f64(), used.as_f64()) {
                (Some(asked), Some(used)) if asked != 0.0 => Some(used / asked),
                _ => None,
            };
            let mut told = Map::new();
            told.insert(made_by::APPLIED.into(), used);
            told.insert(AT_QUARTER_DEGREE.into(), asked.clone());
            if let Some(factor) = factor {
                told.insert(made_by::FACTOR.into(), factor.into());
            }
            Value::Object(told)
        }
    }
}

/// The thresholds of the ensemble without its members, which [`members`] describes.
fn of_ensemble(bard: &BardThresholds) -> anyhow::Result<String> {
    let mut told = serde_json::to_value(bard)?;
    if let Value::Object(table) = &mut told {
        table.remove("members");
        if !bard.members.is_empty() {
            // No members were drawn.
            table.remove("member_count");
            table.remove("seed");
        }
    }
    Ok(told.to_string())
}

/// Describes the number of members and their origin.
fn members(bard: &BardThresholds) -> anyhow::Result<String> {
    Ok(match bard.members.len() {
        0 => format!(
            "{} members, drawn by seed {} from distributions fitted to TECA's table of 1,024, not that table itself",
            bard.member_count, bard.seed
        ),
        given => format!(
            "{given} members of a table that was given, with the hash {}",
            wire::hash(&bard.members)?
        ),
    })
}

/// Logs how thresholds were adapted to a grid, if any were.
pub fn say(masks: &Masks<'_>, numbers: &str) {
    let adapted = made_by::adapted_numbers(numbers);
    if let Some((name, value)) = adapted.first() {
        let method = masks.method();
        let how_many = match adapted.len() {
            1 => "1 threshold is".to_string(),
            more => format!("{more} thresholds are"),
        };
        tracing::info!(
            "{method}: {how_many} adapted to the grid, such as {name} = {value}; masks have all in `{THRESHOLDS_APPLIED}`"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_climate::detect::Method;
    use squall_climate::detect::bard::BardMember;
    use std::sync::Arc;

    fn applied_numbers(
        method: Method,
        asked: &DetectorThresholds,
        (rows, columns): (usize, usize),
    ) -> Value {
        let grid = Arc::new(LatLonGrid::global(rows, columns).unwrap());
        let detector = Detector::new(method, asked, &grid).unwrap();
        let told = numbers(&detector, asked, &grid).unwrap();
        serde_json::from_str(&told).unwrap()
    }

    /// Masks of a coarse and of a fine grid had said the same: vorticity above 1.6e-4 per second, which is 0.12343 times
    /// as much at 2.5 degrees (climate/src/label/thresholds/tests.rs).
    #[test]
    fn numbers_are_those_that_were_applied_on_the_grid() {
        let asked = DetectorThresholds::default();
        let coarse = applied_numbers(Method::Deepcam, &asked, (73, 144));
        let vorticity = &coarse["cyclone"]["min_vorticity_per_s"];
        assert_eq!(vorticity[AT_QUARTER_DEGREE], 1.6e-4);
        for (key, expected) in [(made_by::APPLIED, 1.97491e-5), (made_by::FACTOR, 0.123_432)] {
            let found = vorticity[key].as_f64().unwrap();
            assert!((found / expected - 1.0).abs() < 1e-5, "{key}: {found}");
        }
        // There is no factor from nothing; 2.5 - 0.25 degrees.
        let margin = &coarse["river"]["box_margin_deg"];
        assert_eq!(margin[made_by::APPLIED], 2.25);
        assert_eq!(margin.get(made_by::FACTOR), None);
        assert_eq!(coarse["cyclone"]["mask_percentile"], 93.0);
        // 2.5 degrees of 111.195 km.
        assert_eq!(coarse[ADAPTED_TO], 278.0);
        // Finer than a quarter of a degree: 0.2 of them.
        let fine = applied_numbers(Method::Deepcam, &asked, (901, 1800));
        assert_eq!(fine["cyclone"]["min_vorticity_per_s"], 1.6e-4);
        assert_eq!(fine[ADAPTED_TO], 22.2);
        let mut as_published = asked.clone();
        as_published.deepcam.adapt_to_grid = false;
        let published = applied_numbers(Method::Deepcam, &as_published, (73, 144));
        assert_eq!(
            published,
            serde_json::to_value(&as_published.deepcam).unwrap()
        );
        // Two and a half cells of 2.5 degrees.
        let tempest = applied_numbers(Method::Tempest, &asked, (73, 144));
        let radius = &tempest["node"]["contour_radius_deg"];
        assert_eq!(radius[made_by::APPLIED], 6.25);
        assert_eq!(radius[AT_QUARTER_DEGREE], 5.5);
        assert_eq!(tempest["node"]["contour_rise_pa"], 200.0);
    }

    #[test]
    fn an_ensemble_tells_its_members_and_whence_they_are() {
        let mut asked = DetectorThresholds::default();
        let drawn = members(&asked.bard).unwrap();
        assert!(drawn.starts_with("128 members, drawn by seed 0"), "{drawn}");
        let numbers = applied_numbers(Method::Bard, &asked, (73, 144));
        assert_eq!(numbers["member_count"], 128);
        assert_eq!(numbers.get("members"), None);
        let member = |percentile| BardMember {
            half_width_deg: 12.0,
            percentile,
            min_area_km2: 5e5,
        };
        let mut given = |percentiles: [f64; 2]| {
            asked.bard.members = percentiles.map(member).to_vec();
            members(&asked.bard).unwrap()
        };
        let (one, other) = (given([90.0, 95.0]), given([91.0, 95.0]));
        assert!(
            one.starts_with("2 members of a table that was given"),
            "{one}"
        );
        assert_ne!(one, other);
        let numbers = applied_numbers(Method::Bard, &asked, (73, 144));
        assert_eq!(numbers.get("member_count"), None);
        assert_eq!(numbers["tag_share"], 2.0 / 3.0);
    }
}
