//! Determines what a variable of a file provides (channels, levels, dew point, vapour transport), or why it is
//! unusable.

use super::alias::{self, Family, Match};
use super::coordinates::LevelAxis;
use super::decode::Decoder;
use super::problem::Problem;
use super::scan::{FieldSource, FileShape, Layout, Levels, Refusal, Role};
use super::units::{self, Conversion};
use super::{nc, wind};
use crate::Variable;
use std::borrow::Cow;

/// A variable that is a field on the grid.
pub(super) struct Candidate<'f> {
    variable: &'f netcdf::Variable<'f>,
    name: String,
    unit: Option<String>,
    roles: Vec<Role>,
    axis: Option<&'f LevelAxis>,
    /// The single level given by a scalar coordinate.
    picked: Option<&'f LevelAxis>,
    is_forecast: bool,
    is_static: bool,
    is_speed: bool,
    /// Why its time differs from the rest of its file, if it does.
    other_time: Option<&'f str>,
}

/// Why a variable is unsuitable.
struct Misfit {
    expected: String,
    found: String,
}

impl Misfit {
    fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// How a variable provides a channel.
struct Provided {
    /// Index of the level, if the variable has levels.
    level: Option<usize>,
    /// How it differs from the channel, if it is a stand-in.
    proxy: Option<&'static str>,
    /// The conversion to the channel's unit, or why there is none.
    conversion: Result<Conversion, Misfit>,
}

impl<'f> Candidate<'f> {
    /// Returns the variable as a field on the grid of its file; `None` if it is not one, or has further dimensions
    /// longer than 1 (ensemble members, for instance).
    pub(super) fn from_variable(
        variable: &'f netcdf::Variable<'f>,
        shape: &'f FileShape,
    ) -> Option<Self> {
        let (roles, axis) = roles(variable, shape)?;
        let has_time = roles.contains(&Role::Time);
        let coordinates = nc::text(variable, "coordinates").unwrap_or_default();
        let is_named = |name: &str| coordinates.split_whitespace().any(|one| one == name);
        let mut picked = shape.picked_levels.iter();
        let picked = picked.find(|(name, _)| is_named(name));
        let is_along = |name: &str| variable.dimensions().iter().any(|d| d.name() == name);
        let mut others = shape.other_times.iter();
        let other = others.find(|one| (one.is_lead || !has_time) && is_along(&one.dimension));
        Some(Self {
            variable,
            name: variable.name(),
            unit: nc::text(variable, "units"),
            roles,
            axis,
            picked: picked.map(|(_, level)| level),
            is_forecast: shape.is_forecast,
            is_static: shape.has_many_times && !has_time,
            is_speed: wind::is_speed(variable),
            other_time: other.map(|one| one.found.as_str()),
        })
    }

    /// Adds what the variable provides, or why it is unusable, to a layout.
    pub(super) fn add_to(&self, layout: &mut Layout) {
        if let Some(found) = self.other_time {
            self.refuse_other_time(found, layout);
            return;
        }
        self.add_level(layout);
        self.add_picked(layout);
        self.add_dewpoint(layout);
        self.add_transport(layout);
        for (channel, kind) in alias::matches(&self.name) {
            self.add_channel(channel, kind, layout);
        }
    }

    /// Records that the variable is not read because its time differs from the rest of its file.
    fn refuse_other_time(&self, found: &str, layout: &mut Layout) {
        let expected = "a field at the times of its file";
        for (channel, _) in alias::matches(&self.name) {
            self.refuse(channel, Misfit::new(expected, found), layout);
        }
        if alias::transport(&self.name).is_some() || alias::is_dewpoint(&self.name) {
            layout.problems.push(Problem::general(format!(
                "`{}` is not read: expected {expected}, found {found}",
                self.name
            )));
        }
    }

    fn add_level(&self, layout: &mut Layout) {
        let Some(axis) = self.axis else {
            return;
        };
        let family = alias::family(&self.name);
        if axis.hybrid {
            if family.is_some() {
                layout.on_model_levels.push(self.name.clone());
            }
            return;
        }
        if self.is_no_component(family) {
            return;
        }
        let conversion = match family {
            Some(family) => self.conversion(family.unit()),
            None => Ok(Conversion::IDENTITY),
        };
        match (conversion, family) {
            (Ok(conversion), _) => {
                if let Some(family) = family {
                    self.report_guesses(family.unit(), layout);
                }
                let levels = Levels {
                    pressure_pa: axis.pressure_pa.clone(),
                    family,
                    source: self.source(conversion, None, None),
                };
                if family == Some(Family::Humidity) && !levels.are_column() {
                    let expected =
                        "three levels or more, from 850 hPa or below to 500 hPa or above";
                    let hpa = levels.pressure_pa.iter().map(|pa| (pa / 100.0).to_string());
                    let found = format!("{} hPa", hpa.collect::<Vec<_>>().join(", "));
                    self.refuse(Variable::Tmq, Misfit::new(expected, found), layout);
                }
                layout.levels.push(levels);
            }
            // Column water would have been integrated from it. `add_channel` reports the problems of other families.
            (Err(misfit), Some(Family::Humidity)) => self.refuse(Variable::Tmq, misfit, layout),
            (Err(_), _) => {}
        }
    }

    /// Adds a field at the single level given by a scalar coordinate.
    fn add_picked(&self, layout: &mut Layout) {
        let (None, Some(picked), Some(family)) =
            (self.axis, self.picked, alias::family(&self.name))
        else {
            return;
        };
        if self.is_no_component(Some(family)) {
            return;
        }
        // `add_channel` reports problems with the unit.
        if let Ok(conversion) = self.conversion(family.unit()) {
            self.report_guesses(family.unit(), layout);
            layout.picked.push(Levels {
                pressure_pa: picked.pressure_pa.clone(),
                family: Some(family),
                source: self.source(conversion, None, None),
            });
        }
    }

    /// Whether it is a wind speed named like a component.
    fn is_no_component(&self, family: Option<Family>) -> bool {
        self.is_speed && matches!(family, Some(Family::Zonal | Family::Meridional))
    }

    fn add_dewpoint(&self, layout: &mut Layout) {
        if self.axis.is_some() || layout.dewpoint.is_some() || !alias::is_dewpoint(&self.name) {
            return;
        }
        match self.conversion("K") {
            Ok(conversion) => {
                self.report_guesses("K", layout);
                layout.dewpoint = Some(self.source(conversion, None, None));
            }
            Err(misfit) => self.refuse(Variable::Qrefht, misfit, layout),
        }
    }

    fn add_transport(&self, layout: &mut Layout) {
        if self.axis.is_some() {
            return;
        }
        let Some(part) = alias::transport(&self.name) else {
            return;
        };
        let unit = "kg m-1 s-1";
        match self.conversion(unit) {
            Ok(conversion) => {
                self.report_guesses(unit, layout);
                let source = self.source(conversion, None, None);
                layout.transport.push((part, source));
            }
            Err(Misfit { expected, found }) => layout.problems.push(Problem::general(format!(
                "`{}` cannot serve as vapour transport: expected {expected}, found {found}",
                self.name
            ))),
        }
    }

    fn add_channel(&self, channel: Variable, kind: Match, layout: &mut Layout) {
        let Some(mut provided) = self.as_channel(channel, kind) else {
            return;
        };
        if self.is_speed && is_component(channel) {
            provided.conversion = Err(Misfit::new("a component of the wind", "its speed"));
        }
        let conversion = match provided.conversion {
            Ok(conversion) => conversion,
            Err(misfit) => {
                self.refuse(channel, misfit, layout);
                return;
            }
        };
        self.report_guesses(
            match kind {
                Match::HourlyTotal => "m",
                _ => channel.entry().unit,
            },
            layout,
        );
        let source = self.source(conversion, provided.level, provided.proxy);
        let known = layout
            .channels
            .iter_mut()
            .find(|(known, _)| *known == channel);
        match known {
            Some((_, known)) if source.rank() < known.rank() => *known = source,
            Some(_) => {}
            None => layout.channels.push((channel, source)),
        }
    }

    /// Records why the variable cannot provide a channel.
    fn refuse(&self, channel: Variable, misfit: Misfit, layout: &mut Layout) {
        let Misfit { expected, found } = misfit;
        layout.refused.push(Refusal {
            channel,
            name: self.name.clone(),
            expected,
            found,
        });
    }

    /// Reports what is assumed about the variable, once for all channels that it provides; `unit` is the assumed unit
    /// if the file gives none.
    fn report_guesses(&self, unit: &str, layout: &mut Layout) {
        if self.unit.is_none() {
            layout.add_problem(format!("`{}` names no unit: {unit} is assumed", self.name));
        }
        if self.is_static {
            layout.add_problem(format!(
                "`{}` has no dimension of time: it is read as the same at all times",
                self.name
            ));
        }
    }

    /// How the variable provides a channel; `None` if its levels do not match `kind`.
    fn as_channel(&self, channel: Variable, kind: Match) -> Option<Provided> {
        let single = self.axis.is_some_and(|axis| axis.pressure_pa.len() == 1);
        let whole = Provided {
            level: single.then_some(0),
            proxy: None,
            conversion: self.conversion(channel.entry().unit),
        };
        Some(match (kind, self.axis) {
            // Some tools give every field a level axis, with a single level for surface fields.
            (Match::Same, Some(axis)) if single => Provided {
                conversion: self.at_its_level(channel, axis),
                ..whole
            },
            (Match::Same, None) => whole,
            (Match::Proxy(difference), axis) if single || axis.is_none() => Provided {
                proxy: Some(difference),
                ..whole
            },
            (Match::HourlyTotal, axis) if single || axis.is_none() => Provided {
                proxy: Some(alias::HOURLY_TOTAL),
                conversion: self.hourly_rate(),
                ..whole
            },
            (Match::Level(hpa), Some(axis)) if !axis.hybrid => Provided {
                level: Some(axis.at_hpa(hpa)?),
                ..whole
            },
            (Match::Level(hpa), None) => {
                self.picked?.at_hpa(hpa)?;
                whole
            }
            (Match::Lowest, Some(axis)) if axis.hybrid => Provided {
                level: axis.lowest(),
                ..whole
            },
            _ => return None,
        })
    }

    /// [`Self::conversion`] of a variable on a single level; fails if the channel is on another level.
    fn at_its_level(&self, channel: Variable, axis: &LevelAxis) -> Result<Conversion, Misfit> {
        match alias::level_of(channel) {
            Some(hpa) if !axis.hybrid && axis.at_hpa(hpa).is_none() => Err(Misfit::new(
                format!("a level at {hpa} hPa"),
                format!("one at {} hPa", axis.pressure_pa[0] / 100.0),
            )),
            _ => self.conversion(channel.entry().unit),
        }
    }

    /// The conversion from the variable's unit to `target`, which is assumed if the file gives no unit.
    fn conversion(&self, target: &str) -> Result<Conversion, Misfit> {
        let unit = self.unit.as_deref().unwrap_or(target);
        units::conversion(target, unit).ok_or_else(|| {
            Misfit::new(
                format!("a unit that converts to {target}"),
                format!("`{unit}`"),
            )
        })
    }

    /// The conversion from a depth of water accumulated over an hour to m s-1.
    fn hourly_rate(&self) -> Result<Conversion, Misfit> {
        if self.is_forecast {
            return Err(Misfit::new(
                "a rate, or a sum over the hour before",
                "what may be a sum since the forecast began",
            ));
        }
        let depth = units::water_depth(self.unit.as_deref().unwrap_or("m"));
        let rate = depth.map(|factor| Conversion::by(factor / 3600.0));
        rate.ok_or_else(|| {
            let found = format!("`{}`", self.unit.as_deref().unwrap_or_default());
            Misfit::new("a depth of water", found)
        })
    }

    fn source(
        &self,
        conversion: Conversion,
        level: Option<usize>,
        proxy: Option<&'static str>,
    ) -> FieldSource {
        FieldSource {
            name: self.name.clone(),
            unit: self.unit.clone(),
            level,
            proxy: proxy.map(Cow::Borrowed),
            roles: self.roles.clone(),
            decoder: Decoder::new(self.variable, conversion),
        }
    }
}

/// Whether a channel is a wind component.
fn is_component(channel: Variable) -> bool {
    use Variable::{U850, Ubot, V850, Vbot};
    matches!(channel, U850 | V850 | Ubot | Vbot)
}

/// The roles of a variable's dimensions (and its level axis), if it is a field on the grid.
fn roles<'s>(
    variable: &netcdf::Variable<'_>,
    shape: &'s FileShape,
) -> Option<(Vec<Role>, Option<&'s LevelAxis>)> {
    let mut level_axis = None;
    let mut found = Vec::new();
    for dimension in variable.dimensions() {
        let name = dimension.name();
        let level = shape.levels.iter().find(|level| level.dimension == name);
        found.push(if name == shape.lat {
            Role::Lat
        } else if name == shape.lon {
            Role::Lon
        } else if shape.time.as_ref() == Some(&name) {
            Role::Time
        } else if level.is_some() && level_axis.is_none() {
            level_axis = level;
            Role::Level
        } else if dimension.len() == 1 {
            Role::Single
        } else {
            return None;
        });
    }
    (found.contains(&Role::Lat) && found.contains(&Role::Lon)).then_some((found, level_axis))
}

/// Records the channels that a variable cannot provide, although its name matches, because it is not a field on the
/// grid.
pub(super) fn refuse_no_field(
    variable: &netcdf::Variable<'_>,
    shape: &FileShape,
    layout: &mut Layout,
) {
    let name = variable.name();
    let dimensions: Vec<String> = variable.dimensions().iter().map(|d| d.name()).collect();
    let is_on_grid = dimensions.contains(&shape.lat) && dimensions.contains(&shape.lon);
    let mut found = format!("dimensions ({})", dimensions.join(", "));
    // Ensemble members, or `expver` of a reanalysis.
    let is_axis = |name: &String| {
        [&shape.lat, &shape.lon].contains(&name)
            || shape.time.as_ref() == Some(name)
            || shape.levels.iter().any(|level| level.dimension == *name)
    };
    let several = (variable.dimensions().iter())
        .find(|dimension| dimension.len() > 1 && !is_axis(&dimension.name()));
    if let (true, Some(dimension)) = (is_on_grid, several) {
        let (name, length) = (dimension.name(), dimension.len());
        let how = match name.as_str() {
            // Each version has other times.
            "expver" => "ds.sel(expver=1).combine_first(ds.sel(expver=5))".to_string(),
            _ => format!("ds.isel({name}=0)"),
        };
        found += &format!(
            "; `{name}` is neither time nor levels of pressure: a file may have one of its {length} entries (xarray: `{how}`)"
        );
    }
    for (channel, kind) in alias::matches(&name) {
        if kind == Match::Same || is_on_grid {
            layout.refused.push(Refusal {
                channel,
                name: name.clone(),
                expected: "a field of time, latitude and longitude".into(),
                found: found.clone(),
            });
        }
    }
}
