//! What one variable of a file can serve as.

use super::alias::{self, Family, Match};
use super::coordinates::LevelAxis;
use super::decode::Decoder;
use super::scan::{FileShape, Layout, Levels, Refusal, Role, Source};
use super::{nc, units, wind};
use crate::Variable;
use std::borrow::Cow;

/// A variable that is a field on the grid.
pub(super) struct Candidate<'f> {
    variable: &'f netcdf::Variable<'f>,
    name: String,
    unit: Option<String>,
    roles: Vec<Role>,
    axis: Option<&'f LevelAxis>,
    is_forecast: bool,
    is_static: bool,
    is_speed: bool,
    /// What says that it is of another time than the file.
    other_time: Option<&'f str>,
}

/// Factor and offset to a unit, or what was expected and what was found.
type Conversion = Result<(f64, f64), (String, String)>;

impl<'f> Candidate<'f> {
    /// The variable as a field of the dimensions of latitude, longitude and time; `None` if it has others that mean
    /// something.
    pub(super) fn of(
        variable: &'f netcdf::Variable<'f>,
        dimensions: (&str, &str, Option<&str>),
        shape: &'f FileShape,
    ) -> Option<Self> {
        let (roles, axis) = roles(variable, dimensions, &shape.levels)?;
        let has_time = roles.contains(&Role::Time);
        let is_along = |name: &str| variable.dimensions().iter().any(|d| d.name() == name);
        let mut others = shape.other_times.iter();
        let other = others.find(|one| (one.is_lead || !has_time) && is_along(&one.dimension));
        Some(Self {
            variable,
            name: variable.name(),
            unit: nc::text(variable, "units"),
            roles,
            axis,
            is_forecast: shape.is_forecast,
            is_static: shape.has_many_times && !has_time,
            is_speed: wind::is_speed(variable),
            other_time: other.map(|one| one.found.as_str()),
        })
    }

    /// Adds to a layout all that the variable can serve as, or why it cannot.
    pub(super) fn add_to(&self, layout: &mut Layout) {
        if let Some(found) = self.other_time {
            self.refuse(found, layout);
            return;
        }
        self.add_level(layout);
        self.add_dewpoint(layout);
        self.add_transport(layout);
        for (channel, kind) in alias::matches(&self.name) {
            self.add_channel(channel, kind, layout);
        }
    }

    /// Notes why the variable, which is of another time, serves nothing.
    fn refuse(&self, found: &str, layout: &mut Layout) {
        let expected = "a field at the times of its file";
        for (channel, _) in alias::matches(&self.name) {
            layout.refused.push(Refusal {
                channel,
                name: self.name.clone(),
                expected: expected.into(),
                found: found.into(),
            });
        }
        if alias::transport(&self.name).is_some() || alias::is_dewpoint(&self.name) {
            layout.problems.push(format!(
                "`{}` is not read: expected {expected}, found {found}",
                self.name
            ));
        }
    }

    fn add_level(&self, layout: &mut Layout) {
        let Some(axis) = self.axis.filter(|axis| !axis.hybrid) else {
            return;
        };
        let family = alias::family(&self.name);
        if self.is_speed && matches!(family, Some(Family::Zonal | Family::Meridional)) {
            return;
        }
        let conversion = family.map_or(Ok((1.0, 0.0)), |family| self.conversion(family.unit()));
        if let Ok(conversion) = conversion {
            layout.levels.push(Levels {
                pressure_pa: axis.pressure_pa.clone(),
                family,
                source: self.source(conversion, None, None),
            });
        }
    }

    fn add_dewpoint(&self, layout: &mut Layout) {
        if self.axis.is_none() && layout.dewpoint.is_none() && alias::is_dewpoint(&self.name) {
            let conversion = self.conversion("K").ok();
            layout.dewpoint = conversion.map(|conversion| self.source(conversion, None, None));
        }
    }

    fn add_transport(&self, layout: &mut Layout) {
        if self.axis.is_some() {
            return;
        }
        let Some(part) = alias::transport(&self.name) else {
            return;
        };
        match self.conversion("kg m-1 s-1") {
            Ok(conversion) => {
                let source = self.source(conversion, None, None);
                layout.transport.push((part, source));
            }
            Err((expected, found)) => layout.problems.push(format!(
                "`{}` cannot serve as vapour transport: expected {expected}, found {found}",
                self.name
            )),
        }
    }

    fn add_channel(&self, channel: Variable, kind: Match, layout: &mut Layout) {
        let target = channel.entry().unit;
        let Some((level, proxy, conversion)) = self.as_channel(channel, kind) else {
            return;
        };
        let conversion = if self.is_speed && is_component(channel) {
            Err(("a component of the wind".into(), "its speed".into()))
        } else {
            conversion
        };
        let conversion = match conversion {
            Ok(conversion) => conversion,
            Err((expected, found)) => {
                layout.refused.push(Refusal {
                    channel,
                    name: self.name.clone(),
                    expected,
                    found,
                });
                return;
            }
        };
        if self.unit.is_none() {
            layout.problems.push(format!(
                "`{}` names no unit: {target} is assumed",
                self.name
            ));
        }
        if self.is_static {
            layout.problems.push(format!(
                "`{}` has no dimension of time: it is read as the same at all times",
                self.name
            ));
        }
        let source = self.source(conversion, level, proxy);
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

    /// The level, the stand-in's difference and the conversion by which the variable serves a channel; `None` if its
    /// levels are not those of `kind`.
    fn as_channel(
        &self,
        channel: Variable,
        kind: Match,
    ) -> Option<(Option<usize>, Option<&'static str>, Conversion)> {
        let target = channel.entry().unit;
        let single = self.axis.is_some_and(|axis| axis.pressure_pa.len() == 1);
        let level = single.then_some(0);
        Some(match (kind, self.axis) {
            // Some tools give every field an axis of levels, and one level to those that have none.
            (Match::Same, Some(axis)) if single => (level, None, self.at_its_level(channel, axis)),
            (Match::Same, None) => (None, None, self.conversion(target)),
            (Match::Proxy(difference), axis) if single || axis.is_none() => {
                (level, Some(difference), self.conversion(target))
            }
            (Match::HourlyTotal, axis) if single || axis.is_none() => {
                (level, Some(alias::HOURLY_TOTAL), self.hourly_rate())
            }
            (Match::Level(hpa), Some(axis)) if !axis.hybrid => {
                (Some(axis.at_hpa(hpa)?), None, self.conversion(target))
            }
            (Match::Lowest, Some(axis)) if axis.hybrid => {
                (axis.lowest(), None, self.conversion(target))
            }
            _ => return None,
        })
    }

    /// [`Self::conversion`] of the only level of an axis, where a channel of a pressure is at that pressure.
    fn at_its_level(&self, channel: Variable, axis: &LevelAxis) -> Conversion {
        match alias::level_of(channel) {
            Some(hpa) if !axis.hybrid && axis.at_hpa(hpa).is_none() => Err((
                format!("a level at {hpa} hPa"),
                format!("one at {} hPa", axis.pressure_pa[0] / 100.0),
            )),
            _ => self.conversion(channel.entry().unit),
        }
    }

    /// From the variable's unit, which is `target` where it names none.
    fn conversion(&self, target: &str) -> Conversion {
        let unit = self.unit.as_deref().unwrap_or(target);
        units::conversion(target, unit).ok_or_else(|| {
            (
                format!("a unit that converts to {target}"),
                format!("`{unit}`"),
            )
        })
    }

    /// From a depth of water that fell in an hour to m s-1.
    fn hourly_rate(&self) -> Conversion {
        if self.is_forecast {
            let expected = "a rate, or a sum over the hour before".to_string();
            return Err((
                expected,
                "what may be a sum since the forecast began".into(),
            ));
        }
        let depth = units::water_depth(self.unit.as_deref().unwrap_or("m"));
        let rate = depth.map(|factor| (factor / 3600.0, 0.0));
        rate.ok_or_else(|| {
            let found = format!("`{}`", self.unit.as_deref().unwrap_or_default());
            ("a depth of water".to_string(), found)
        })
    }

    fn source(
        &self,
        conversion: (f64, f64),
        level: Option<usize>,
        proxy: Option<&'static str>,
    ) -> Source {
        Source {
            name: self.name.clone(),
            level,
            proxy: proxy.map(Cow::Borrowed),
            roles: self.roles.clone(),
            decoder: Decoder::new(self.variable, conversion),
        }
    }
}

/// Whether a channel is one of the two components of a wind.
fn is_component(channel: Variable) -> bool {
    use Variable::{U850, Ubot, V850, Vbot};
    matches!(channel, U850 | V850 | Ubot | Vbot)
}

/// The roles of a variable's dimensions (and its level axis), if it is a field on the grid.
fn roles<'l>(
    variable: &netcdf::Variable<'_>,
    (lat, lon, time): (&str, &str, Option<&str>),
    levels: &'l [LevelAxis],
) -> Option<(Vec<Role>, Option<&'l LevelAxis>)> {
    let mut level_axis = None;
    let mut found = Vec::new();
    for dimension in variable.dimensions() {
        let name = dimension.name();
        let level = levels.iter().find(|level| level.dimension == name);
        found.push(match () {
            () if name == lat => Role::Lat,
            () if name == lon => Role::Lon,
            () if Some(name.as_str()) == time => Role::Time,
            () if level.is_some() && level_axis.is_none() => {
                level_axis = level;
                Role::Level
            }
            () if dimension.len() == 1 => Role::Single,
            () => return None,
        });
    }
    (found.contains(&Role::Lat) && found.contains(&Role::Lon)).then_some((found, level_axis))
}

/// Notes of a variable that is no field on the grid which channels it cannot serve although it bears their names.
pub(super) fn refuse(
    variable: &netcdf::Variable<'_>,
    (lat, lon): (&str, &str),
    layout: &mut Layout,
) {
    let name = variable.name();
    let shape: Vec<String> = variable.dimensions().iter().map(|d| d.name()).collect();
    let is_on_grid = [lat, lon]
        .iter()
        .all(|axis| shape.iter().any(|name| name == axis));
    for (channel, kind) in alias::matches(&name) {
        if kind == Match::Same || is_on_grid {
            layout.refused.push(Refusal {
                channel,
                name: name.clone(),
                expected: "a field of time, latitude and longitude".into(),
                found: format!("dimensions ({})", shape.join(", ")),
            });
        }
    }
}
