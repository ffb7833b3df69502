//! Distinguishes wind components from speeds: CAM's `U10` is the 10 m speed, elsewhere it is the zonal component.
//!
//! CF's `standard_name` decides if present, then the variable's own name, and last `long_name`: a "wind speed" is a
//! component only if a word or a pair of words gives its direction, as in "zonal wind speed" and "east wind speed". A
//! direction not adjacent to the wind belongs to a place, as in "North Pacific wind speed".

use super::nc;

/// Prefixes of words for a direction or a place.
const COMPASS: [&str; 4] = ["east", "west", "north", "south"];

/// Adjacent pairs of opposite directions that denote a component.
const OPPOSITES: [[&str; 2]; 4] = [["e", "w"], ["n", "s"], ["east", "west"], ["north", "south"]];

/// Whether a variable is the magnitude of the wind.
pub(super) fn is_speed(variable: &netcdf::Variable<'_>) -> bool {
    let text = |name: &str| nc::text(variable, name).unwrap_or_default();
    says_speed(&text("standard_name"), &variable.name(), &text("long_name"))
}

/// Whether the names of a variable denote a wind speed rather than a component.
fn says_speed(standard_name: &str, name: &str, long_name: &str) -> bool {
    let [standard, name, long] = [standard_name, name, long_name].map(str::to_ascii_lowercase);
    if standard.contains("speed") {
        return !has_direction(&standard);
    }
    // CF has separate names for components.
    let is_component = standard.ends_with("_wind")
        || has_direction(&name)
        || has_direction(&long)
        || has_axis_beside(&long);
    !is_component && long.contains("wind") && long.contains("speed")
}

/// Whether a name, in lower case, gives the direction of a wind component.
fn has_direction(name: &str) -> bool {
    let words = words_of(name);
    let is_opposite = |a: &str, b: &str| OPPOSITES.contains(&[a, b]) || OPPOSITES.contains(&[b, a]);
    words.iter().any(|word| is_direction(word))
        || (words.windows(2)).any(|pair| is_opposite(pair[0], pair[1]) || are_one(pair[0], pair[1]))
        || (words.windows(3)).any(|three| three[1] == "to" && is_opposite(three[0], three[2]))
}

/// Whether a long name, in lower case, gives the component before or after the speed: "U, 10m wind speed", "wind speed
/// (lat)", "wind speed, north".
fn has_axis_beside(long_name: &str) -> bool {
    let is_letter = |word: &str| behind_axis(word) == Some("");
    let words = words_of(long_name);
    let mut ends = words.first().into_iter().chain(words.last());
    ends.any(|word| is_letter(word))
        || matches!(words[..], [.., before, last] if is_wind(before) && (is_coordinate(last) || COMPASS.contains(&last)))
}

fn words_of(name: &str) -> Vec<&str> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect()
}

fn is_wind(word: &str) -> bool {
    let beginnings = ["wind", "speed", "veloc"];
    beginnings.iter().any(|start| word.starts_with(start))
}

fn is_coordinate(word: &str) -> bool {
    ["lat", "lon"].contains(&word)
}

/// Whether a single word gives a direction: `zonal`, `eastwards`, `southerly`, `component`, `uwind`.
fn is_direction(word: &str) -> bool {
    let begins = |with: &[&str]| with.iter().any(|start| word.starts_with(start));
    let ends = |with: &[&str]| with.iter().any(|end| word.ends_with(end));
    begins(&["component", "zonal", "merid"])
        || begins(&COMPASS) && ends(&["ward", "wards", "erly"])
        || begins(&["lati", "longi", "longt"]) && ends(&["inal"])
        || behind_axis(word).is_some_and(|rest| rest.starts_with("wind"))
}

/// Whether two consecutive words give a direction: "east wind", "u10 wind", "x direction", "along longitude".
fn are_one(first: &str, second: &str) -> bool {
    let is_height = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let is_axis = |word: &str| behind_axis(word) == Some("");
    let is_of_wind = COMPASS.iter().any(|start| first.starts_with(start))
        || is_coordinate(first)
        || behind_axis(first).is_some_and(|rest| rest.is_empty() || is_height(rest));
    let is_along = is_axis(second) || second.starts_with("lat") || second.starts_with("lon");
    let is_way = ["direction", "dir", "axis"].contains(&second);
    let is_toward = ["toward", "towards"].contains(&first) && COMPASS.contains(&second);
    is_of_wind && (is_wind(second) || is_way) || first == "along" && is_along || is_toward
}

/// The rest of a word that begins with `u`, `v`, `x` or `y`.
fn behind_axis(word: &str) -> Option<&str> {
    word.strip_prefix(['u', 'v', 'x', 'y'])
}

#[cfg(test)]
mod tests {
    use super::says_speed;

    #[test]
    fn components_of_the_wind_say_a_direction() {
        for name in [
            "10m wind speed",
            "10m wind speed (m/s)",
            "Wind speed at 10 m in m s-1",
            "long-term mean wind speed",
            "latest wind speed",
            "Windspeed at 10 metres",
            "speed of the wind",
        ] {
            assert!(says_speed("", "U10", name), "{name}");
        }
        for name in [
            "East-West wind speed",
            "east wind speed",
            "eastwards wind speed",
            "E-W wind speed",
            "W-E wind speed",
            "S-N wind speed",
            "U10 wind speed",
            "u10m wind speed",
            "u-component of wind speed",
            "10m Uwind speed",
            "V windspeed",
            "Meridional Wind Speed",
            "southerly wind speed",
            "wind speed along longitude",
            "wind speed (lat)",
            "windspeed (lat)",
            "windspeed U",
            "wind speed in x direction",
            "Wind speed in the V-direction",
            "wind speed (eastern direction)",
            "wind speed along the y axis",
            "wind speed from west to east",
            "wind speed towards east",
            "10m wind speed (north)",
            "zonal wind",
            "speed",
            "",
        ] {
            assert!(!says_speed("", "U10", name), "{name}");
        }
        assert!(says_speed("wind_speed", "U10", ""));
        assert!(says_speed("wind_speed", "U10", "U10 wind speed"));
        assert!(!says_speed("eastward_wind", "U10", "wind speed"));
        assert!(!says_speed("eastward_wind_speed", "U10", ""));
    }

    /// A direction in the name of a place says nothing about the wind.
    #[test]
    fn a_place_is_no_direction() {
        for name in [
            "North Pacific wind speed",
            "Wind speed, North Sea",
            "wind speed over the western North Atlantic",
            "Northern Hemisphere 10m wind speed",
            "North-east Pacific wind speed",
            "mid-latitude wind speed",
            "wind speed (time, lat, lon)",
            "wind speed (lat, lon)",
            "wind speed on a 0.25 x 0.25 degree grid",
            "wind speed v2",
            "wind speed and direction",
            "wind speed, all directions",
            "wind speed from 30 S to 30 N",
        ] {
            assert!(says_speed("", "U10", name), "{name}");
        }
        for name in [
            "eastern Pacific zonal wind speed",
            "North Pacific eastward wind speed",
            "Northern Hemisphere v wind speed",
            "South Atlantic u-component of wind speed",
            "North Sea east wind speed",
            "wind speed at 10 m (U)",
            "V: 10m wind speed",
        ] {
            assert!(!says_speed("", "U10", name), "{name}");
        }
        // Names that tell come before long ones.
        assert!(!says_speed("", "10m_u_component_of_wind", "10m wind speed"));
        assert!(says_speed("wind_speed", "u_component_of_wind", ""));
        assert!(says_speed("", "U", "10m wind speed"));
        assert!(!says_speed(
            "eastward_wind",
            "U10",
            "North Pacific wind speed"
        ));
    }
}
