//! The sixteen channels of the model: CAM's short name, long name, SI unit and plausible range of each.
//!
//! `archive/alias.rs` has their names in other archives, and `archive/units.rs` the convertible units.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A field of the model, by its CAM5 short name. The first sixteen are the channels, in model order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Variable {
    /// Precipitable water of the whole column, kg m-2.
    Tmq,
    /// Eastward wind at 850 hPa, m s-1.
    U850,
    /// Northward wind at 850 hPa, m s-1.
    V850,
    /// Eastward wind at the lowest model level, m s-1.
    Ubot,
    /// Northward wind at the lowest model level, m s-1.
    Vbot,
    /// Specific humidity at the reference height, kg kg-1.
    Qrefht,
    /// Surface pressure, Pa.
    Ps,
    /// Sea-level pressure, Pa.
    Psl,
    /// Temperature at 200 hPa, K.
    T200,
    /// Temperature at 500 hPa, K.
    T500,
    /// Total precipitation rate, liquid and ice, m s-1.
    Prect,
    /// Radiative temperature of the surface, K.
    Ts,
    /// Temperature at the reference height, K.
    Trefht,
    /// Geopotential height at 1000 hPa, m.
    Z1000,
    /// Geopotential height at 200 hPa, m.
    Z200,
    /// Height of the lowest model level, m.
    Zbot,
}

impl Variable {
    /// The sixteen channels in model order.
    pub const CHANNELS: [Self; 16] = [
        Self::Tmq,
        Self::U850,
        Self::V850,
        Self::Ubot,
        Self::Vbot,
        Self::Qrefht,
        Self::Ps,
        Self::Psl,
        Self::T200,
        Self::T500,
        Self::Prect,
        Self::Ts,
        Self::Trefht,
        Self::Z1000,
        Self::Z200,
        Self::Zbot,
    ];

    /// The CAM5 short name, for instance `TMQ`.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// The variable of a CAM5 short name (exact).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::CHANNELS.into_iter().find(|v| v.name() == name)
    }

    /// Whether mirroring the globe about the equator changes its sign, as for northward winds.
    pub fn is_meridional(self) -> bool {
        matches!(self, Self::V850 | Self::Vbot)
    }

    /// Its row in the variable table: names, unit and plausible range.
    pub fn entry(self) -> &'static VariableEntry {
        &TABLE[self as usize]
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One row of the variable table.
#[derive(Debug, Clone, Copy)]
pub struct VariableEntry {
    /// CAM5 short name.
    pub name: &'static str,
    /// CF-like long name.
    pub long_name: &'static str,
    /// SI unit after the reader.
    pub unit: &'static str,
    /// Values outside are reported as implausible.
    pub plausible: (f32, f32),
}

const fn entry(
    name: &'static str,
    long_name: &'static str,
    unit: &'static str,
    low: f32,
    high: f32,
) -> VariableEntry {
    VariableEntry {
        name,
        long_name,
        unit,
        plausible: (low, high),
    }
}

const TABLE: [VariableEntry; 16] = [
    entry(
        "TMQ",
        "total vertically integrated precipitable water",
        "kg m-2",
        0.0,
        120.0,
    ),
    entry("U850", "zonal wind at 850 hPa", "m s-1", -120.0, 120.0),
    entry("V850", "meridional wind at 850 hPa", "m s-1", -120.0, 120.0),
    entry(
        "UBOT",
        "lowest model level zonal wind",
        "m s-1",
        -120.0,
        120.0,
    ),
    entry(
        "VBOT",
        "lowest model level meridional wind",
        "m s-1",
        -120.0,
        120.0,
    ),
    entry(
        "QREFHT",
        "reference height specific humidity",
        "kg kg-1",
        0.0,
        0.04,
    ),
    entry("PS", "surface pressure", "Pa", 45_000.0, 110_000.0),
    entry("PSL", "sea level pressure", "Pa", 85_000.0, 110_000.0),
    entry("T200", "temperature at 200 hPa", "K", 170.0, 260.0),
    entry("T500", "temperature at 500 hPa", "K", 190.0, 300.0),
    entry(
        "PRECT",
        "total precipitation rate, liquid and ice",
        "m s-1",
        -1e-9,
        2e-4,
    ),
    entry("TS", "radiative surface temperature", "K", 170.0, 350.0),
    entry("TREFHT", "reference height temperature", "K", 170.0, 340.0),
    entry(
        "Z1000",
        "geopotential height at 1000 hPa",
        "m",
        -1500.0,
        1000.0,
    ),
    entry(
        "Z200",
        "geopotential height at 200 hPa",
        "m",
        9000.0,
        13500.0,
    ),
    entry("ZBOT", "lowest model level height", "m", 0.0, 200.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_stand_in_enum_order() {
        for (index, variable) in Variable::CHANNELS.into_iter().enumerate() {
            assert_eq!(variable as usize, index);
            assert_eq!(Variable::from_name(variable.name()), Some(variable));
            assert_eq!(serde_json::to_value(variable).unwrap(), variable.name());
        }
    }
}
