//! The requested methods and what they need: thresholds, channels, passes over the fields.

use super::climate::Given;
use super::needed::needed;
use super::{Label, warm_core, warn_of_steps};
use crate::input;
use crate::plan::{Plan, counted};
use squall_climate::ClimateError;
use squall_climate::detect::bard::read_members;
use squall_climate::detect::percentile::{Moisture, MoistureRecord};
use squall_climate::detect::{
    Detector, DetectorThresholds, FieldRequest, Method, TransportSource, WarmCore,
};
use squall_climate::label::Pass;
use squall_data::{Archive, Class, DataError, Variable};
use std::collections::BTreeSet;

/// Where a file of thresholds for other methods than deepcam alone has its keys.
pub const TABLES: &str = "they are under the method, as [deepcam.cyclone], [tempest.node], [percentile], [bard] and [lows]";

/// Methods in their order, configured for a grid.
pub struct Rules {
    /// Without duplicates.
    pub methods: Vec<Method>,
    /// The thresholds of all methods.
    pub thresholds: DetectorThresholds,
    /// The climatology of the percentile method, unless it makes its own.
    pub climate: Option<Given>,
    /// The channels to read.
    pub channels: Vec<Variable>,
    /// How warm cores are detected, if a method needs it; the same for the whole series.
    pub warm_core: Option<WarmCore>,
    /// One detector per method.
    pub detectors: Vec<Detector>,
}

impl Rules {
    /// The rules for a command on these fields.
    ///
    /// # Errors
    /// Invalid thresholds, and fields without the channels or times that a method needs.
    pub fn of(command: &Label, archive: &Archive) -> anyhow::Result<Self> {
        let mut methods = command.method.clone();
        methods.sort_unstable();
        methods.dedup();
        let mut thresholds = thresholds(command)?;
        let climate = Given::open(command)?;
        if let Some(climate) = &climate {
            climate.rule(command, &mut thresholds.percentile)?;
            climate.check(archive)?;
        }
        let warm_core = warm_core_for(&methods, archive);
        let channels = channels(&methods, &thresholds, archive, warm_core, command.skip_bad)?;
        if let (Some(core), false) = (warm_core, command.skip_bad) {
            let mut times = 0..archive.times().len();
            times.try_for_each(|index| warm_core::check(archive, index, core))?;
        }
        let detectors = methods
            .iter()
            .map(|method| {
                let detector = Detector::new(*method, &thresholds, archive.grid())?;
                let detector = detector.of_times(archive.times());
                Ok(match &climate {
                    Some(given) => detector.of_climate(&given.climatology),
                    None => detector,
                })
            })
            .collect::<Result<Vec<Detector>, ClimateError>>()?;
        detectors
            .iter()
            .try_for_each(|detector| detector.check_times(archive.times()))?;
        Ok(Self {
            methods,
            thresholds,
            climate,
            channels,
            warm_core,
            detectors,
        })
    }

    /// Checks, without reading, that the files of a time have all mandatory channels.
    ///
    /// # Errors
    /// The error for a missing channel.
    pub fn check_has(&self, archive: &Archive, index: usize) -> Result<(), DataError> {
        archive.check_has(index, &self.channels)?;
        match self.warm_core {
            Some(core) => warm_core::check(archive, index, core),
            None => Ok(()),
        }
    }

    /// The source of vapour transport by which rivers are detected, if any; logs it.
    pub fn transport_source(
        &self,
        archive: &Archive,
        skip_bad: bool,
    ) -> anyhow::Result<Option<TransportSource>> {
        let moves = |method: &Method| match method {
            Method::Percentile => !by_water(&self.thresholds),
            other => other.uses_transport(),
        };
        if !self.methods.iter().any(moves) {
            return Ok(None);
        }
        let source = usual_source(archive, skip_bad)?;
        if let Some(climate) = &self.climate {
            climate.check_transport(source)?;
        }
        let is_file = source == TransportSource::File;
        let differs = |index: &usize| archive.has_transport(*index) != is_file;
        if let (Some(index), false) = ((0..archive.times().len()).find(differs), skip_bad) {
            return Err(ClimateError::TransportDiffers {
                path: archive.source_of(index).0.into(),
                time: archive.times()[index],
                expected: source.describe(),
                found: TransportSource::at(archive, index)?.describe(),
            }
            .into());
        }
        tracing::info!("rivers are found by {}", source.describe());
        Ok(Some(source))
    }

    /// How the percentile method's moisture is computed at all times, if needed; warns where that of a climatology may
    /// differ.
    pub fn moisture(&self, archive: &Archive) -> anyhow::Result<Option<MoistureRecord>> {
        if !self.methods.contains(&Method::Percentile) {
            return Ok(None);
        }
        let moisture = self.thresholds.percentile.moisture;
        let found = MoistureRecord::of_series(archive, moisture, &self.channels)?;
        if let (Some(climate), Some(own)) = (&self.climate, &found) {
            climate.check_moisture(own)?;
        }
        Ok(found)
    }

    /// The thresholds of one method, for the attributes of its files.
    pub fn numbers(&self, method: Method) -> anyhow::Result<String> {
        let thresholds = &self.thresholds;
        Ok(match method {
            Method::Deepcam => serde_json::to_string(&thresholds.deepcam)?,
            Method::Tempest => serde_json::to_string(&thresholds.tempest)?,
            Method::Percentile => serde_json::to_string(&thresholds.percentile)?,
            Method::Bard => serde_json::to_string(&thresholds.bard)?,
            Method::Lows => serde_json::to_string(&thresholds.lows)?,
        })
    }

    /// The passes in which each time is read.
    pub fn passes(&self) -> &'static [Pass] {
        if self.detectors.iter().any(Detector::needs_first_pass) {
            &[Pass::First, Pass::Second]
        } else {
            &[Pass::Second]
        }
    }

    /// The methods that take part in a pass.
    pub fn methods_in(&self, pass: Pass) -> Vec<Method> {
        let detectors = self.detectors.iter();
        let looking = detectors.filter(|d| pass == Pass::Second || d.needs_first_pass());
        looking.map(Detector::method).collect()
    }

    /// What to read of a time in a pass.
    pub fn fields_to_read(&self, pass: Pass) -> FieldRequest {
        let request = FieldRequest::by(&self.methods_in(pass), pass, &self.channels);
        // Column water needs the direction of transport for drawing its rivers, not for counting.
        let is_counted = pass == Pass::First && by_water(&self.thresholds);
        FieldRequest {
            transport: request.transport && !is_counted,
            upper_thickness: (request.upper_thickness)
                .and(self.warm_core.and_then(WarmCore::levels_hpa)),
            ..request
        }
    }

    /// Logs what will be read and written, and what cannot be detected.
    pub fn announce(&self, archive: &Archive) {
        let detectors = self.detectors.iter();
        let blind = detectors.filter(|detector| detector.is_without_tracks(archive.times()));
        let lost: BTreeSet<Class> = blind
            .filter_map(|detector| detector.method().tracked_class())
            .collect();
        let follows = self.methods.iter().any(|method| method.follows_cyclones());
        warn_of_steps(archive.times(), &Vec::from_iter(lost), follows);
        let times = archive.times().len();
        let (rows, columns) = archive.grid().shape();
        let plane = (rows * columns * 4) as u64;
        let names: Vec<&str> = self.methods.iter().map(|m| m.name()).collect();
        let climatology = self.detectors.iter().map(Detector::climatology_bytes);
        let planes = self.passes().iter().map(|pass| self.fields_to_read(*pass));
        let planes = planes.map(|request| request.channels.len() as u64);
        let channels = self.channels.len() as u64;
        Plan {
            work: format!(
                "label {} of {} by {}",
                counted(times, "time"),
                archive.grid().describe(),
                names.join(", ")
            ),
            read: planes.sum::<u64>() * plane * times as u64,
            write: plane / 40 * (times * self.methods.len()) as u64,
            memory: 80_000_000
                + climatology.sum::<u64>()
                + 6 * rayon::current_num_threads() as u64 * plane * (channels + 4),
            seconds: None,
        }
        .announce();
    }
}

/// The source of vapour transport: that of the first time with what most times have or, if times may be skipped, of the
/// first readable one.
fn usual_source(archive: &Archive, skip_bad: bool) -> Result<TransportSource, DataError> {
    let has_transport = tells_by_transport(archive);
    let is_usual = |index: &usize| archive.has_transport(*index) == has_transport;
    let mut usual = (0..archive.times().len()).filter(is_usual);
    let mut index = usual.next().unwrap_or(0);
    loop {
        match TransportSource::at(archive, index) {
            Err(error) if skip_bad && error.is_of_content() => {
                index = usual.next().ok_or(error)?;
            }
            found => return found,
        }
    }
}

/// Whether percentiles are those of column water rather than of transport.
fn by_water(thresholds: &DetectorThresholds) -> bool {
    thresholds.percentile.moisture == Moisture::ColumnWater
}

/// The thresholds of all methods, from the command.
fn thresholds(command: &Label) -> anyhow::Result<DetectorThresholds> {
    // Its file has the same keys whether or not its masks are compared.
    let is_deepcam_alone = command.method.iter().all(|m| *m == Method::Deepcam);
    let read = if is_deepcam_alone {
        None
    } else {
        command.read_thresholds::<DetectorThresholds>(TABLES)?
    };
    let mut thresholds = match read {
        Some(thresholds) => thresholds,
        None => {
            let mut thresholds = DetectorThresholds {
                deepcam: command.deepcam_thresholds()?,
                ..DetectorThresholds::default()
            };
            thresholds.tempest.adapt_to_grid = !command.no_grid_scaling;
            thresholds
        }
    };
    if let Some(path) = &command.bard_members {
        thresholds.bard.members = read_members(path)?;
    }
    Ok(thresholds)
}

/// Whether rivers are detected by stored transport: if at least half of the times have it.
fn tells_by_transport(archive: &Archive) -> bool {
    let times = archive.times().len();
    let with_transport = (0..times).filter(|index| archive.has_transport(*index));
    2 * with_transport.count() >= times
}

/// Whether all times with the `needed` channels also have another one: other times are skipped anyway.
fn is_where_all_are(archive: &Archive, needed: &[Variable], other: Variable) -> bool {
    let available = archive.available();
    if available.contains(&other) || needed.iter().all(|v| available.contains(v)) {
        return available.contains(&other);
    }
    let is_whole = |index: &usize| needed.iter().all(|v| archive.offers(*index, *v));
    let mut whole = (0..archive.times().len()).filter(is_whole).peekable();
    whole.peek().is_some() && whole.all(|index| archive.offers(index, other))
}

/// By what warm cores are told: `tempest` cannot do without, `lows` does where not all times have it.
fn warm_core_for(methods: &[Method], archive: &Archive) -> Option<WarmCore> {
    if methods.contains(&Method::Tempest) {
        return Some(warm_core::most_frequent(archive));
    }
    if !methods.contains(&Method::Lows) {
        return None;
    }
    // Times that lack what `deepcam` needs are left out by both.
    let strictest = if methods.contains(&Method::Deepcam) {
        Method::Deepcam
    } else {
        Method::Lows
    };
    warm_core::everywhere(archive, strictest.channels())
}

/// The channels that a method with its usual thresholds needs, and that not all times have.
pub fn lacks(method: Method, archive: &Archive) -> Vec<Variable> {
    let has_transport = tells_by_transport(archive);
    let by_water = by_water(&DetectorThresholds::default());
    let core = warm_core_for(&[method], archive);
    let by_heights = core.is_some_and(|core| core.levels_hpa().is_some());
    let mut lacking = needed(method, by_water, has_transport, by_heights);
    lacking.retain(|v| !archive.available().contains(v));
    lacking
}

/// The channels to read: what the methods cannot do without, and what else serves them.
fn channels(
    methods: &[Method],
    thresholds: &DetectorThresholds,
    archive: &Archive,
    warm_core: Option<WarmCore>,
    skip_bad: bool,
) -> anyhow::Result<Vec<Variable>> {
    let by_water = by_water(thresholds);
    let has_transport = tells_by_transport(archive);
    let by_heights = warm_core.is_some_and(|core| core.levels_hpa().is_some());
    let (mut wanted, mut useful): (Vec<Variable>, Vec<Variable>) = (Vec::new(), Vec::new());
    for method in methods {
        let needed = needed(*method, by_water, has_transport, by_heights);
        let purpose = format!("labelling by {method}");
        input::require(archive, &needed, &purpose, skip_bad)?;
        let all = method.channels().iter().chain(method.useful_channels());
        // Those of some times alone, or beside heights, tell no core of a low.
        let serve = *method != Method::Lows || warm_core == Some(WarmCore::Substitute);
        useful.extend(all.copied().filter(|v| serve && !needed.contains(v)));
        wanted.extend(needed);
    }
    useful.retain(|v| is_where_all_are(archive, &wanted, *v));
    wanted.append(&mut useful);
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parsed;
    use squall_data::LatLonGrid;
    use std::sync::Arc;

    /// Beside other methods deepcam has its presets, tempest its scaling, and bard the members of a file.
    #[test]
    fn options_of_one_method_reach_it_beside_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let members = folder.path().join("members.csv");
        let table = "hwhm_latitude,min_water_vapor,min_component_area\n12,95,30000\n";
        std::fs::write(&members, table).expect("written");
        let of = |more: &[&str]| {
            let always = ["run", "--out", "labels", "--method", "deepcam,tempest,bard"];
            let command: Label = parsed(always.iter().chain(more)).expect("a command");
            thresholds(&command).expect("thresholds")
        };
        let usual = of(&[]);
        assert!(usual.tempest.adapt_to_grid && usual.bard.members.is_empty());
        let path = members.to_str().expect("UTF-8");
        let found = of(&["--rivers", "relaxed", "--bard-members", path]);
        assert_eq!(found.deepcam.river.min_damped_tmq_kg_m2, 21.0);
        assert!(found.tempest.adapt_to_grid);
        let members = found.bard.members.iter();
        let members = members.map(|m| (m.half_width_deg, m.percentile, m.min_area_km2));
        assert_eq!(members.collect::<Vec<_>>(), [(12.0, 95.0, 30_000.0)]);
        let found = of(&["--no-grid-scaling"]);
        assert!(!found.tempest.adapt_to_grid && !found.deepcam.adapt_to_grid);
    }

    /// It was read, or summed over all levels, for nothing.
    #[test]
    fn transport_is_not_read_to_count_column_water() {
        let grid = Arc::new(LatLonGrid::global(8, 16).expect("a grid"));
        let rules = |moisture| {
            let mut thresholds = DetectorThresholds::default();
            thresholds.percentile.moisture = moisture;
            let detector = Detector::new(Method::Percentile, &thresholds, &grid);
            Rules {
                methods: vec![Method::Percentile],
                detectors: vec![detector.expect("a detector")],
                thresholds,
                climate: None,
                channels: vec![Variable::Tmq],
                warm_core: None,
            }
        };
        for (moisture, expected) in [
            (Moisture::Transport, [true, true]),
            (Moisture::ColumnWater, [false, true]),
        ] {
            let rules = rules(moisture);
            let transport =
                [Pass::First, Pass::Second].map(|pass| rules.fields_to_read(pass).transport);
            assert_eq!(transport, expected, "{moisture:?}");
        }
    }
}
