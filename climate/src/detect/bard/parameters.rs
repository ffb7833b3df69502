//! The members of the ensemble.

use crate::error::{ClimateError, Result};
use crate::table::lines::{Table, plain_name};
use rand::Rng;
use serde::{Deserialize, Serialize};
use squall_data::grid::EARTH_RADIUS_KM;
use squall_data::random::stream;
use std::path::Path;

/// The parameters of one member.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BardMember {
    /// Latitude at which the filter against the tropics passes half, degrees.
    pub half_width_deg: f64,
    /// Percentile of the filtered field of one time that rivers exceed, 0 to 100.
    pub percentile: f64,
    /// Minimum area, km².
    pub min_area_km2: f64,
}

/// Allowed values of each parameter. In another unit, such as a percentile as a fraction, a parameter would silently
/// give no rivers, or nothing but rivers.
const HALF_WIDTH: &str = "degrees of latitude above 0 and up to 90";
const PERCENT: &str = "a percentile in percent, up to 100 (93, not 0.93; 0 alone means every cell)";
const AREA: &str = "km² from 0 to the area of the Earth (510 million)";

impl BardMember {
    fn has_half_width(&self) -> bool {
        self.half_width_deg > 0.0 && self.half_width_deg <= 90.0
    }

    fn has_percentile(&self) -> bool {
        self.percentile == 0.0 || self.percentile > 1.0 && self.percentile <= 100.0
    }

    fn has_area(&self) -> bool {
        let earth_km2 = 4.0 * std::f64::consts::PI * EARTH_RADIUS_KM.powi(2);
        (0.0..=earth_km2).contains(&self.min_area_km2)
    }
}

/// Quantiles of the parameters of TECA-BARD.
///
/// # Source
/// Ten-percent steps (0, 10 ... 100 %) of each of the three columns of TECA's table of 1,024 rows
/// (`alg/teca_bayesian_ar_detect_parameters.cxx`; O'Brien et al. 2020, GMD 13, 6131-6148), and their rank correlations.
/// The table itself is a sample of a posterior distribution; pass it as a file to use the same members.
const HALF_WIDTH_DEG: [f64; 11] = [
    5.25, 10.74, 14.28, 16.22, 18.06, 19.34, 20.34, 21.78, 22.80, 23.92, 24.99,
];
const PERCENTILE: [f64; 11] = [
    80.03, 88.43, 90.25, 91.04, 91.94, 94.12, 94.82, 95.12, 95.36, 95.90, 98.96,
];
const MIN_AREA_KM2: [f64; 11] = [
    352_636.0,
    702_903.0,
    768_889.0,
    1_242_902.0,
    1_358_516.0,
    1_539_304.0,
    1_801_370.0,
    2_470_719.0,
    3_350_527.0,
    3_817_509.0,
    4_996_048.0,
];
/// Spearman's rank correlation of percentile and width, percentile and area, width and area.
const RANK_CORRELATION: [f64; 3] = [0.098, -0.805, -0.413];

/// Draws `count` members with the distribution of TECA's table, from the random stream `"bard"` of the seed.
///
/// Each column has the table's distribution (linear between its ten-percent steps); a Gaussian copula gives the table's
/// rank correlations.
pub fn sample_members(count: usize, seed: u64) -> Vec<BardMember> {
    let mut random = stream(seed, "bard", &[]);
    // Pearson's correlation of normal variables with the given rank correlation.
    let [qw, qa, wa] = RANK_CORRELATION.map(|r| 2.0 * (std::f64::consts::PI * r / 6.0).sin());
    let w2 = (1.0 - qw * qw).sqrt();
    let a2 = (wa - qw * qa) / w2;
    let a3 = (1.0 - qa * qa - a2 * a2).max(0.0).sqrt();
    let mut member = || {
        let [x, y, z] = [(); 3].map(|()| {
            // Box and Muller; 1 − u is never 0.
            let (u, v): (f64, f64) = (random.random(), random.random());
            (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        });
        BardMember {
            percentile: quantile(&PERCENTILE, normal_share(x)),
            half_width_deg: quantile(&HALF_WIDTH_DEG, normal_share(qw * x + w2 * y)),
            min_area_km2: quantile(&MIN_AREA_KM2, normal_share(qa * x + a2 * y + a3 * z)),
        }
    };
    (0..count).map(|_| member()).collect()
}

fn quantile(steps: &[f64; 11], share: f64) -> f64 {
    let place = 10.0 * share;
    let k = (place as usize).min(9);
    steps[k] + (place - k as f64) * (steps[k + 1] - steps[k])
}

/// The normal cumulative distribution function, to 1e-7. Source: Abramowitz and Stegun 26.2.17.
fn normal_share(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt() * series;
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// Reads the members of a table with columns `hwhm_latitude`, `min_water_vapor` and `min_component_area` (TECA's names;
/// degrees, percentile, km²). Also reads the format of TECA's own tables: leading comments, and types in column names.
///
/// # Errors
/// [`ClimateError::Table`] or [`ClimateError::TableCell`] with the location; also if the table has no rows.
pub fn read_members(path: impl AsRef<Path>) -> Result<Vec<BardMember>> {
    let path = path.as_ref();
    let bad = |reason: String| ClimateError::Table {
        path: path.into(),
        reason,
    };
    let mut table = Table::open(path, &[])?;
    let column = |wanted: &str| {
        let mut names = table.names().iter();
        let found = names.find(|name| plain_name(name) == wanted).cloned();
        found.ok_or_else(|| {
            let found = table.names().join(", ");
            bad(format!("expected a column `{wanted}`, found {found}"))
        })
    };
    let half_width = column("hwhm_latitude")?;
    let percentile = column("min_water_vapor")?;
    let min_area = column("min_component_area")?;
    let mut members = Vec::new();
    while let Some(line) = table.next()? {
        let number = |column: &str| {
            let known = line.number(column)?;
            known.ok_or_else(|| line.bad(column, "a number"))
        };
        let member = BardMember {
            half_width_deg: number(&half_width)?,
            percentile: number(&percentile)?,
            min_area_km2: number(&min_area)?,
        };
        for (is_sane, column, expected) in [
            (member.has_half_width(), &half_width, HALF_WIDTH),
            (member.has_percentile(), &percentile, PERCENT),
            (member.has_area(), &min_area, AREA),
        ] {
            if !is_sane {
                return Err(line.bad(column, expected));
            }
        }
        members.push(member);
    }
    if members.is_empty() {
        return Err(bad("expected rows of members, found none".into()));
    }
    Ok(members)
}

/// # Errors
/// [`ClimateError::Invalid`] if the number of members is 0 or overflows the counts.
pub(super) fn check_count(members: usize) -> Result<()> {
    if (1..=usize::from(u16::MAX) / 2).contains(&members) {
        return Ok(());
    }
    Err(ClimateError::Invalid(format!(
        "bard: expected 1 to 32,767 members, found {members}"
    )))
}

/// # Errors
/// [`ClimateError::Invalid`] if there is no member or a parameter is out of range.
pub(super) fn check(members: &[BardMember]) -> Result<()> {
    check_count(members.len())?;
    for (k, m) in members.iter().enumerate() {
        for (is_sane, name, expected, found) in [
            (
                m.has_half_width(),
                "half_width_deg",
                HALF_WIDTH,
                m.half_width_deg,
            ),
            (m.has_percentile(), "percentile", PERCENT, m.percentile),
            (m.has_area(), "min_area_km2", AREA, m.min_area_km2),
        ] {
            if !is_sane {
                return Err(ClimateError::Invalid(format!(
                    "bard: member {k}: {name}: expected {expected}, found {found}"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_tables_distribution_and_correlations() {
        let members = sample_members(20_000, 1);
        let column = |pick: fn(&BardMember) -> f64| members.iter().map(pick).collect::<Vec<_>>();
        let columns = [
            (column(|m| m.half_width_deg), HALF_WIDTH_DEG),
            (column(|m| m.percentile), PERCENTILE),
            (column(|m| m.min_area_km2), MIN_AREA_KM2),
        ];
        for (values, steps) in &columns {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let scale = steps[10] - steps[0];
            for k in 1..10 {
                let error = sorted[2000 * k] - steps[k];
                assert!(error.abs() < 0.02 * scale, "step {k}: {error}");
            }
            assert!(sorted[0] >= steps[0] && sorted[19_999] <= steps[10]);
        }
        let ranks = |values: &[f64]| {
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
            let mut ranks = vec![0.0; values.len()];
            order
                .iter()
                .enumerate()
                .for_each(|(k, &i)| ranks[i] = k as f64);
            ranks
        };
        let rank = |k: usize| ranks(&columns[k].0);
        let mean = 9_999.5;
        let correlation = |a: &[f64], b: &[f64]| {
            let product = |a: &[f64], b: &[f64]| -> f64 {
                a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
            };
            product(a, b) / product(a, a)
        };
        let (w, q, a) = (rank(0), rank(1), rank(2));
        for (found, expected) in [
            (correlation(&q, &w), 0.098),
            (correlation(&q, &a), -0.805),
            (correlation(&w, &a), -0.413),
        ] {
            assert!((found - expected).abs() < 0.03, "{found} for {expected}");
        }
        assert_eq!(sample_members(5, 7), sample_members(9, 7)[..5]);
        assert_ne!(sample_members(5, 7), sample_members(5, 8));
    }

    #[test]
    fn tables_are_read_by_column_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let good = "min_component_area,hwhm_latitude,min_water_vapor\n4e5, 12.5 ,94\n1e6,20,90\n";
        std::fs::write(&path, good).unwrap();
        let members = read_members(&path).unwrap();
        let first = BardMember {
            half_width_deg: 12.5,
            percentile: 94.0,
            min_area_km2: 4e5,
        };
        assert_eq!((members.len(), members[0]), (2, first));
        std::fs::write(&path, good.replace("94", "wet")).unwrap();
        let error = read_members(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 2, column `min_water_vapor`"),
            "{error}"
        );
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        let error = read_members(&path).unwrap_err().to_string();
        assert!(error.contains("`hwhm_latitude`, found a, b"), "{error}");
        // Invalid members used to be replaced by drawn ones.
        let (header, _) = good.split_once('\n').unwrap();
        std::fs::write(&path, header).unwrap();
        let error = read_members(&path).unwrap_err().to_string();
        assert!(error.contains("found none"), "{error}");
        let bad = BardMember {
            percentile: 101.0,
            ..first
        };
        assert!(check(&[first]).is_ok() && check(&[bad]).is_err() && check(&[]).is_err());
    }

    /// A percentile of 0.93 and an area of 1e12 km² used to be accepted: no time had a river, without any explanation.
    #[test]
    fn members_in_other_units_are_refused_by_line_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let good = ["12.5", "94", "4e5"];
        let read = |third: [&str; 3]| {
            let header = "hwhm_latitude,min_water_vapor,min_component_area";
            let rows = [header.to_string(), good.join(","), third.join(",")];
            std::fs::write(&path, rows.join("\n") + "\n").unwrap();
            read_members(&path)
        };
        let names = ["hwhm_latitude", "min_water_vapor", "min_component_area"];
        let expected = [HALF_WIDTH, PERCENT, AREA];
        for (column, found) in [
            (0, "0"),
            (0, "-12.5"),
            (0, "90.5"),
            (1, "0.93"),
            (1, "1"),
            (1, "-5"),
            (1, "100.5"),
            (2, "1e12"),
            (2, "-4e5"),
        ] {
            let mut row = good;
            row[column] = found;
            let error = read(row).unwrap_err().to_string();
            for told in [
                format!("line 3, column `{}`", names[column]),
                expected[column].to_string(),
                found.to_string(),
            ] {
                assert!(error.contains(&told), "{told}: {error}");
            }
            // A file of thresholds is rejected likewise; the error gives the member's index.
            let [half_width_deg, percentile, min_area_km2] =
                row.map(|cell| cell.parse::<f64>().unwrap());
            let member = BardMember {
                half_width_deg,
                percentile,
                min_area_km2,
            };
            let error = check(&[member]).unwrap_err().to_string();
            let told = format!(
                "member 0: {}",
                ["half_width", "percentile", "min_area"][column]
            );
            assert!(error.contains(&told), "{told}: {error}");
        }
        for good in [["90", "100", "5.1e8"], ["0.5", "1.5", "0"]] {
            assert_eq!(read(good).unwrap().len(), 2);
        }
        // The whole sample is well within the allowed range.
        assert!(check(&sample_members(1024, 3)).is_ok());
    }

    /// The format in which `teca_table_writer` writes the output of `teca_bayesian_ar_detect_parameters`.
    #[test]
    fn the_table_that_teca_writes_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parameters.csv");
        let text = "# teca_table v1 \n# TECA 5.0.0\n\
                    \"min_component_area(12)\", \"min_water_vapor(12)\", \"hwhm_latitude(12)\"\n\
                    3.526360000000000000e+05, 9.412000000000000000e+01, 1.934000000000000000e+01\n";
        std::fs::write(&path, text).unwrap();
        let expected = BardMember {
            half_width_deg: 19.34,
            percentile: 94.12,
            min_area_km2: 352_636.0,
        };
        assert_eq!(read_members(&path).unwrap(), [expected]);
        // Line numbers include the comments.
        std::fs::write(&path, text.replace("9.412", "wet")).unwrap();
        let error = read_members(&path).unwrap_err().to_string();
        assert!(error.contains("line 4"), "{error}");
    }
}
