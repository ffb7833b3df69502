//! The names of channels in archives. To support a new dialect of files, add its names here.
//!
//! A name belongs in `CHANNEL_NAMES` if the variable is the channel itself, in `PROXIES` if it is a close relative that
//! may stand in for the channel, and in `LEVELS` if the channel is one level of it. All names are in lower case. The
//! unit need not be the channel's: `units.rs` has the conversions.

use crate::Variable;
use crate::Variable::*;
use serde::{Deserialize, Serialize};

/// Names of variables that are exactly a channel. CAM's own name comes first, then those of ERA5 (short and CDS names),
/// MERRA-2, CMIP and GFS; wgrib2's names in NOMADS style (`UGRD_850mb`) come last.
const CHANNEL_NAMES: [(Variable, &[&str]); 16] = [
    (
        Tmq,
        &[
            "tmq",
            "tcwv",
            "total_column_water_vapour",
            "tqv",
            "prw",
            "pwat",
            "pwtr",
            "pw",
            "total_column_water_vapor",
            "precipitable_water",
            "pwatclm",
            "pwat_entireatmosphere",
            "pwat_entireatmosphere_consideredasasinglelayer_",
        ],
    ),
    (U850, &["u850", "ua850", "u_850", "ugrd_850mb"]),
    (V850, &["v850", "va850", "v_850", "vgrd_850mb"]),
    (Ubot, &["ubot", "ulml"]),
    (Vbot, &["vbot", "vlml"]),
    (
        Qrefht,
        &[
            "qrefht",
            "qv2m",
            "huss",
            "q2m",
            "spfh2m",
            "spfh_2m",
            "spfh_2maboveground",
        ],
    ),
    (
        Ps,
        &[
            "ps",
            "sp",
            "surface_pressure",
            "pressfc",
            "psfc",
            "pres",
            "pres_surface",
        ],
    ),
    (
        Psl,
        &[
            "psl",
            "msl",
            "mean_sea_level_pressure",
            "slp",
            "prmsl",
            "mslet",
            "prmslmsl",
            "msletmsl",
            "mean_sea_level",
            "prmsl_meansealevel",
            "mslet_meansealevel",
        ],
    ),
    (T200, &["t200", "ta200", "t_200", "tmp_200mb"]),
    (T500, &["t500", "ta500", "t_500", "tmp_500mb"]),
    (
        Prect,
        &[
            "prect",
            "pr",
            "prectot",
            "prectotcorr",
            "mtpr",
            "mean_total_precipitation_rate",
            "tprate",
            "prate",
            "avg_tprate",
            "pratesfc",
            "prate_surface",
            "precipitation",
        ],
    ),
    (
        Ts,
        &[
            "ts",
            "skt",
            "skin_temperature",
            "tskin",
            "tmpsfc",
            "tsk",
            "tmp_surface",
        ],
    ),
    (
        Trefht,
        &[
            "trefht",
            "t2m",
            "2t",
            "tas",
            "2m_temperature",
            "tmp2m",
            "tmp_2m",
            "tmp_2maboveground",
            "var_2t",
        ],
    ),
    (Z1000, &["z1000", "h1000", "zg1000", "z_1000", "hgt_1000mb"]),
    (Z200, &["z200", "h200", "zg200", "z_200", "hgt_200mb"]),
    (Zbot, &["zbot", "hlml"]),
];

/// Close relatives that substitute for a missing channel, each with a description for reports.
const PROXIES: [(Variable, &[&str], &str); 3] = [
    (
        Ubot,
        &[
            "u10",
            "10u",
            "u10m",
            "uas",
            "u10n",
            "10m_u_component_of_wind",
            "ugrd10m",
            "ugrd_10m",
            "ugrd_10maboveground",
            "var_10u",
        ],
        "10 m wind instead of the lowest model level",
    ),
    (
        Vbot,
        &[
            "v10",
            "10v",
            "v10m",
            "vas",
            "v10n",
            "10m_v_component_of_wind",
            "vgrd10m",
            "vgrd_10m",
            "vgrd_10maboveground",
            "var_10v",
        ],
        "10 m wind instead of the lowest model level",
    ),
    (
        Qrefht,
        &["q2"],
        "WRF's mixing ratio, up to 3 % more than specific humidity",
    ),
];

/// Fields on pressure levels, and the channels that are one of their levels (hPa).
type LevelRow = (Family, &'static [&'static str], &'static [(Variable, f64)]);
const LEVELS: [LevelRow; 5] = [
    (
        Family::Zonal,
        &[
            "u",
            "ua",
            "uwnd",
            "ugrd",
            "ugrdprs",
            "u_component_of_wind",
            "eastward_wind",
        ],
        &[(U850, 850.0)],
    ),
    (
        Family::Meridional,
        &[
            "v",
            "va",
            "vwnd",
            "vgrd",
            "vgrdprs",
            "v_component_of_wind",
            "northward_wind",
        ],
        &[(V850, 850.0)],
    ),
    (
        Family::Humidity,
        &[
            "q",
            "hus",
            "qv",
            "specific_humidity",
            "shum",
            "spfh",
            "spfhprs",
        ],
        &[],
    ),
    (
        Family::Temperature,
        &[
            "t",
            "ta",
            "air",
            "temperature",
            "air_temperature",
            "tmp",
            "tmpprs",
        ],
        &[(T200, 200.0), (T500, 500.0)],
    ),
    (
        Family::Height,
        &[
            "z",
            "z3",
            "zg",
            "h",
            "gh",
            "hgt",
            "hgtprs",
            "geopotential",
            "geopotential_height",
        ],
        &[(Z200, 200.0), (Z1000, 1000.0)],
    ),
];

/// Precipitation accumulated over the preceding hour (ERA5).
const HOURLY_TOTALS: [&str; 2] = ["tp", "total_precipitation"];
pub(super) const HOURLY_TOTAL: &str = "a sum over the hour before, divided by 3600 s (right if each value is the sum of one hour, also where only every \
     6th hour was downloaded; wrong for sums of 3, 6 or 24 hours)";

/// Dew point near the surface: with surface pressure it gives QREFHT.
const DEWPOINTS: [&str; 8] = [
    "d2m",
    "2d",
    "2m_dewpoint_temperature",
    "t2mdew",
    "dpt2m",
    "dpt_2maboveground",
    "dewpoint_2m",
    "var_2d",
];

/// The pressure of a channel, hPa; `None` if it is on no pressure level.
pub(super) fn level_of(channel: Variable) -> Option<f64> {
    let mut levels = LEVELS.iter().flat_map(|(_, _, channels)| *channels);
    levels
        .find(|(known, _)| *known == channel)
        .map(|(_, hpa)| *hpa)
}

/// The field on pressure levels that contains a channel; `None` if the channel is on no pressure level.
pub(super) fn family_of(channel: Variable) -> Option<Family> {
    let is_of = |(_, _, channels): &&LevelRow| channels.iter().any(|(known, _)| *known == channel);
    LEVELS.iter().find(is_of).map(|(family, ..)| *family)
}

/// Whether a variable of this name is a dew point near the surface.
pub(super) fn is_dewpoint(name: &str) -> bool {
    DEWPOINTS.contains(&name.to_ascii_lowercase().as_str())
}

/// The content of a field of vertically integrated vapour transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Transport {
    Eastward,
    Northward,
    Magnitude,
}

/// Names of vertically integrated vapour transport, lower case: ERA5 (short and CDS names), CAM, MERRA-2, ARTMIP.
const TRANSPORTS: [(Transport, &[&str]); 3] = [
    (
        Transport::Eastward,
        &[
            "viwve",
            "tuq",
            "uivt",
            "ivtu",
            "ivtx",
            "ivt_u",
            "uflxqv",
            "vertical_integral_of_eastward_water_vapour_flux",
            "eastward_atmosphere_water_vapor_transport_across_unit_distance",
        ],
    ),
    (
        Transport::Northward,
        &[
            "viwvn",
            "tvq",
            "vivt",
            "ivtv",
            "ivty",
            "ivt_v",
            "vflxqv",
            "vertical_integral_of_northward_water_vapour_flux",
            "northward_atmosphere_water_vapor_transport_across_unit_distance",
        ],
    ),
    (Transport::Magnitude, &["ivt", "ivtmag", "ivt_mag"]),
];

/// The part of the vapour transport that a variable of this name holds.
pub(super) fn transport(name: &str) -> Option<Transport> {
    let name = name.to_ascii_lowercase();
    let found = TRANSPORTS
        .iter()
        .find(|(_, names)| names.contains(&name.as_str()));
    found.map(|(part, _)| *part)
}

/// The quantity of a field on pressure levels, whatever its name in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Family {
    Zonal,
    Meridional,
    Temperature,
    Height,
    Humidity,
}

impl Family {
    /// The unit after reading.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Zonal | Self::Meridional => "m s-1",
            Self::Temperature => "K",
            Self::Height => "m",
            Self::Humidity => "kg kg-1",
        }
    }
}

/// The quantity that a field of this name holds on pressure levels; `None` for names of anything else.
pub(crate) fn family(name: &str) -> Option<Family> {
    let name = name.to_ascii_lowercase();
    let found = LEVELS
        .iter()
        .find(|(_, names, _)| names.contains(&name.as_str()));
    found.map(|(family, _, _)| *family)
}

/// How a variable with a known name provides a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Match {
    /// It is the channel itself.
    Same,
    /// It substitutes for the channel; the text says how it differs.
    Proxy(&'static str),
    /// The channel is one of its levels, at this pressure in hPa.
    Level(f64),
    /// The channel is its lowest level, if it is on model levels.
    Lowest,
    /// It is the channel accumulated over an hour.
    HourlyTotal,
}

/// All channels that a variable of this name can provide, and how.
pub(crate) fn matches(name: &str) -> Vec<(Variable, Match)> {
    let name = name.to_ascii_lowercase();
    let mut found = Vec::new();
    for (variable, names) in CHANNEL_NAMES {
        if names.contains(&name.as_str()) {
            found.push((variable, Match::Same));
        }
    }
    for (variable, names, difference) in PROXIES {
        if names.contains(&name.as_str()) {
            found.push((variable, Match::Proxy(difference)));
        }
    }
    if HOURLY_TOTALS.contains(&name.as_str()) {
        found.push((Prect, Match::HourlyTotal));
    }
    for (family, names, channels) in LEVELS {
        if names.contains(&name.as_str()) {
            found.extend(
                channels
                    .iter()
                    .map(|&(variable, level)| (variable, Match::Level(level))),
            );
            match family {
                Family::Zonal => found.push((Ubot, Match::Lowest)),
                Family::Meridional => found.push((Vbot, Match::Lowest)),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
